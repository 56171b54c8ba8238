"""Bytes of a rank: what is asked, and the answer of one process without device and data."""

from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy

Optimizer = Literal["sgd", "adamw"]
# Whose kernels keep which tensors: no device of the kind is needed.
MemoryDevice = Literal["cpu", "cuda"]
MemoryPrecision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryQuestion:
    """Which network, under which strategies, with how many samples.

    `workload` is one of the published networks, or `script` is `FILE:build`, whose optimizer is its
    own. `batch` counts the samples of a step of one data-parallel group; 0 is the network's own.
    """

    strategies: tuple[ParallelStrategy, ...]
    workload: str = ""
    script: str = ""
    batch: int = 0
    # Of a pipeline: the batch is cut into so many; 0 is twice its stages, or the batch if less.
    micro_batches: int = 0
    optimizer: Optimizer = "sgd"
    precision: MemoryPrecision = "fp32"
    device: MemoryDevice = "cpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class RankMemory:
    """Bytes of tensors of the rank that holds most, at the step's peak and by part there.

    The parts sum up to the peak. Context, buffers of collectives, a kernel's workspace and
    fragmentation are in none of them: see memory_fit.Reserve.
    """

    strategy: ParallelStrategy
    batch: int
    micro_batches: int
    # The stage of a pipeline that holds most, from 0.
    stage: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    # Of the step alone: what kernels and strategies hold for a moment, and buckets of gradients.
    temporary: int
    peak: int
    # How long it took to find out.
    seconds: float

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.strategy.ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryRefusal:
    """A strategy that this network can't be trained with, and why."""

    strategy: ParallelStrategy
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryForecast:
    """What a question came to; `torch` is the version that it was found out with."""

    question: MemoryQuestion
    torch: str
    # Whether this version of torch is one that the forecast was held against real steps with.
    is_tried_torch: bool
    rows: tuple[RankMemory, ...]
    refusals: tuple[MemoryRefusal, ...]
    seconds: float

    def of(self, strategy: ParallelStrategy) -> RankMemory | None:
        """Return a strategy's row; None where it was refused, or not asked for."""
        return next((row for row in self.rows if row.strategy == strategy), None)

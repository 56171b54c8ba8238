"""What a forecast of a step takes, and what it gives: networks, machines, terms. Seconds, bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy

# gloo has rings alone; NCCL takes a ring or trees, whichever is quicker for the size.
Algorithm = Literal["ring", "ring or tree"]
# The order of a pipeline's passes: torch's Schedule1F1B and ScheduleGPipe.
Schedule = Literal["1f1b", "gpipe"]
# torch's DistributedDataParallel: bucket_cap_mb=25.
BUCKET_BYTES = 25 * 2.0**20


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedNetwork:
    """A network as a forecast needs it; counts are of one sample where they say so."""

    # Floating-point operations of one sample's forward and backward pass together.
    flops: float
    # Bytes of the gradients of all parameters, as they are sent.
    gradient_bytes: float
    # Transformer blocks (or other equal layers) that tensor and pipeline strategies divide.
    layers: int = 0
    # Bytes of one sample's activation between two layers, as they are sent.
    activation_bytes: float = 0.0
    # The backward pass runs the forward pass again (activation checkpointing); `flops` has it too.
    recomputed: bool = False

    @property
    def forward(self) -> float:
        """Return the forward pass's share of both: backward is twice forward, or three times."""
        return 1 / 4 if self.recomputed else 1 / 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLink:
    """A way between ranks: seconds of a message are latency_s + bytes * second_per_byte."""

    latency_s: float
    second_per_byte: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A machine: what a rank computes, what ranks of a node and of several nodes send."""

    # Floating-point operations a second that one rank reaches with this network and batch.
    flops_per_s: float
    ranks_per_node: int
    # What a rank sends to another of its node, and what a node's port sends to another node: ranks
    # of a node that send at the same time share the port.
    in_node: RankLink
    between_nodes: RankLink
    # Share of the step that neighbours on the same node cost, with all of them busy.
    neighbours: float = 0.0
    # Share of the communication that can hide behind the backward pass, 0 to 1.
    overlap: float = 1.0
    # Standard deviation of a rank's step, as a share: the slowest of N ranks rules.
    scatter: float = 0.0
    # Whether a send waits until its receive is posted (gloo): a pipeline does not hide it then.
    rendezvous: bool = False
    # Messages from one stage of a pipeline to the next; None: as those of collectives.
    stage_in_node: RankLink | None = None
    stage_between_nodes: RankLink | None = None
    algorithm: Algorithm = "ring"
    # Bytes of gradients that data parallel sends at once.
    bucket_bytes: float = BUCKET_BYTES
    # Seconds of a forward and backward pass beside those of its samples: small batches show it.
    pass_s: float = 0.0
    # Seconds that a step waits for one sample of a rank's batch.
    input_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTerms:
    """A step's seconds by term; their sum is the step."""

    compute_s: float
    idle_neighbours_s: float
    # Stages of a pipeline that have nothing to do.
    bubble_s: float
    exposed_communication_s: float
    waiting_s: float
    input_s: float = 0.0

    @property
    def step_s(self) -> float:
        """Return the seconds of a step."""
        return sum(self.by_name().values())

    def by_name(self) -> Mapping[str, float]:
        """Return the terms by their names, as reports print them."""
        return {
            "compute": self.compute_s,
            "idle neighbours": self.idle_neighbours_s,
            "bubble": self.bubble_s,
            "exposed communication": self.exposed_communication_s,
            "waiting": self.waiting_s,
            "input": self.input_s,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyChoice:
    """A strategy with its number of samples: what a step model is asked for."""

    strategy: ParallelStrategy
    global_batch: int
    micro_batches: int = 1
    schedule: Schedule = "1f1b"

"""Whether a rank fits: its tensors and a declared reserve against a device's memory."""

import re
from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.study.forecast.memory_records import RankMemory
from dlcontainer.errors import UsageError

FitWord = Literal["fits", "does not fit", "not told"]

# Share of the tensors by which the forecast may be wrong (docs/measurements/scaling.md).
ERROR = 0.03
# In the model are tensors alone. What else a process holds of a device: the driver's context,
# buffers of collectives, workspaces of kernel libraries, and gaps between the allocator's blocks.
LEFT_OUT = "context, buffers of collectives, workspaces of kernels, fragmentation"
_SIZE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(GB|GiB|MB|MiB)")
_UNITS = {"GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserve:
    """Memory of a device that no tensor gets: so many bytes, and a share of the tensors."""

    bytes: int
    share: float
    source: str

    def of(self, tensors: int) -> int:
        """Return the bytes beside so many of tensors."""
        return self.bytes + round(self.share * tensors)


# benchmarks/memory_on_gpu.py on one H100 (docs/measurements/scaling.md): 13 of 14 rows lie within.
DECLARED = Reserve(bytes=1 << 30, share=0.25, source="measured on one H100, one rank")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFit:
    """The judgement on one strategy; `needed` are tensors and reserve, `error` of the tensors."""

    word: FitWord
    needed: int
    reserve: int
    error: int
    limit: int

    @property
    def spare(self) -> int:
        """Return the bytes that are left; negative where there are too few."""
        return self.limit - self.needed


def judge(memory: RankMemory, limit: int, reserve: Reserve = DECLARED) -> MemoryFit:
    """Judge a rank against a device's memory: nearer than the error it is not told."""
    kept, error = reserve.of(memory.peak), round(ERROR * memory.peak)
    needed = memory.peak + kept
    word: FitWord = "fits" if needed <= limit else "does not fit"
    if abs(limit - needed) < error:
        word = "not told"
    return MemoryFit(word=word, needed=needed, reserve=kept, error=error, limit=limit)


def read_size(flag: str, text: str) -> int:
    """Read a size such as 40GB (10^9 bytes) or 40GiB; raises UsageError for what is none."""
    match = _SIZE.fullmatch(text)
    size = round(float(match[1]) * _UNITS[match[2]]) if match else 0
    if size <= 0:
        raise UsageError(
            f"{flag} {text}: no size of a device's memory",
            next_step=f"write it with its unit: {flag} 40GB (10^9 bytes), or {flag} 40GiB",
        )
    return size

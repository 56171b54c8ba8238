"""Kernels that every launch runs beside its work: what slows a side for a reason of its own. Pure.

Integers and memory bandwidth are the same code on both sides and nothing of a container's: where
they differ, something else does. Memory from the allocator, a system call and an open may cost more
in a container; they are shown, and refuse where no attested difference can be the reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.analysis.pairing import LaunchPairs
from dlcontainer.bench.samples import owners
from dlcontainer.bench.samples.comparable import FactDifference
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import IMAGE_MOUNT, MEANINGS, ArmPair
from dlcontainer.bench.stats import margins, paired
from dlcontainer.bench.stats.paired import Interval

PREFIX = "calibration_"
# What is declared: `threshold` for the kernels that gate, `own_threshold` for the others; `alpha`
# is the joint rate of false refusals over all kernels of a kind and all looks.
DECLARED: Mapping[str, Json] = {"threshold": 0.02, "own_threshold": 0.1, "alpha": 0.01}
GATING: Mapping[str, str] = {
    "integer": "an integer loop",
    "bandwidth": "copying in memory",
}
# What of a container may make them slower: facts by name.
EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "malloc": frozenset({"allocator", "executable", "libc", "system_library_builds"}),
    "syscall": frozenset(
        {
            *("executable", "libc", "seccomp", "seccomp_filters", "speculation_store_bypass"),
            *("speculation_indirect_branch", "system_library_builds"),
        }
    ),
    "open": frozenset({"namespaces", "seccomp", "seccomp_filters", "sys_prefix_mount"}),
}
_OWN: Mapping[str, str] = {
    "malloc": "taking and giving back memory",
    "syscall": "a system call",
    "open": "opening a file",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelReading:
    """One kernel over the pairs; `explained_by` names attested facts that can be the reason."""

    kernel: str
    task: str
    means: tuple[float, float]
    interval: Interval
    threshold: float
    is_gate: bool
    explained_by: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the sides differ: surely (the interval excludes 1), and beyond the threshold."""
        ratio = self.interval.ratio
        far = not margins.band(self.threshold).holds(ratio, ratio)
        return far and self.interval.excludes_one()

    @property
    def refuses(self) -> bool:
        """Whether the sides can't be compared."""
        return self.differs and (self.is_gate or not self.explained_by)


def read(
    series: Series, sides: ArmPair, differences: Sequence[FactDifference]
) -> tuple[KernelReading, ...]:
    """Return each kernel's ratio between two arms; none in a session that declared no
    calibration.
    """
    settled = series.session.declared.workload.get("calibration")
    if not isinstance(settled, dict):
        return ()
    pairs = _pairs(series, sides)
    readings = []
    for kernel in (*GATING, *_OWN):
        figures = pairs.figures(f"{PREFIX}{kernel}_s")
        if figures is not None:
            reading = compare(kernel, *figures, settled=settled, looks=len(series.looks))
            names = () if reading.is_gate else _explanations(kernel, differences)
            # From inside both may be an engine's overlay, whose layers no process there can see.
            if kernel == "open" and not names and MEANINGS.get(sides) == IMAGE_MOUNT:
                names = (IMAGE_MOUNT,)
            readings.append(replace(reading, explained_by=names))
    return tuple(readings)


def compare(
    kernel: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    settled: Mapping[str, Json],
    looks: int,
) -> KernelReading:
    """Return a kernel's ratio over launches two by two, at the level that was declared."""
    is_gate = kernel in GATING
    # Each look may end a session, and so may each kernel.
    tests = len(GATING if is_gate else _OWN) * max(1, looks)
    logs = [log(candidate / reference) for reference, candidate in zip(ours, theirs, strict=True)]
    return KernelReading(
        kernel=kernel,
        task=GATING.get(kernel) or _OWN[kernel],
        means=(sum(ours) / len(ours), sum(theirs) / len(theirs)),
        interval=paired.mean_interval(logs, 1 - _number(settled, "alpha") / tests),
        threshold=_number(settled, "threshold" if is_gate else "own_threshold"),
        is_gate=is_gate,
    )


def refusals(readings: Sequence[KernelReading], arms: ArmPair) -> tuple[str, ...]:
    """Word what forbids the comparison."""
    return tuple(_refusal(item, arms) for item in readings if item.refuses)


def _refusal(item: KernelReading, arms: ArmPair) -> str:
    first, second = arms.names
    interval = item.interval
    text = (
        f"{item.task} takes {interval.ratio:.3f} times as long in {second} as in {first} "
        f"({100 * interval.level:.3g} % interval {interval.low:.3f} to {interval.high:.3f}; "
        "allowed: "
        f"{100 * item.threshold:.2g} %)"
    )
    if item.is_gate:
        return f"{text}: it is the same code on both sides, and nothing of a container's"
    return f"{text}, and nothing that the sides attest is a reason for it"


def _pairs(series: Series, sides: ArmPair) -> LaunchPairs:
    if series.session.declared.is_triple:
        return pairing.triples(series).pairs(sides)
    return pairing.of(series)["pair"]


def _number(settled: Mapping[str, Json], name: str) -> float:
    value = settled.get(name, DECLARED[name])
    return float(value) if isinstance(value, int | float) else float(str(DECLARED[name]))


def _explanations(kernel: str, differences: Sequence[FactDifference]) -> tuple[str, ...]:
    names = (item.name for item in differences if not item.nodes)
    fitting = (name for name in names if owners.is_in(name, EXPLAINED_BY[kernel]))
    # Dozens of libraries are one reason.
    return tuple(dict.fromkeys(name.partition(".")[0] for name in fitting))

"""May two sides be compared? What they attest of themselves, and what they have computed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.samples.records import Sample, Stack
from dlcontainer.bench.samples.vocabulary import ArmPair, Question

Weight = Literal["work", "bits", "shown"]

# Another workload, precision, number of threads, binding or device is another experiment,
# whatever was asked. A name stands for itself and for all below it (environment.OMP_PLACES).
WORK = frozenset(
    {
        "affinity",
        "batch",
        "binding",
        "cgroup",
        "clocks",
        "data",
        "devices",
        "gpus",
        "environment",
        "interop_threads",
        "kernel",
        "machine",
        "module",
        "numa",
        "precision",
        "probe",
        "seed",
        "steps",
        "threads",
        "workload",
    }
)
# Differs because one side is a container: where its files are, and how they are mounted. What of
# the environment only says where to look is judged by what was then found.
SHOWN = frozenset(
    {
        "clocks_now",
        "environment.LANG",
        "environment.LC_ALL",
        "environment.LD_LIBRARY_PATH",
        "environment.PYTHONNOUSERSITE",
        "environment.PYTHONPATH",
        "executable",
        "gpu_ids",
        "gpus_now",
        "hostname",
        "namespaces",
        "prefix",
        "started",
        "sys_path",
        "sys_prefix",
        "sys_prefix_mount",
        # A distribution rebuilds one version for security, as it does Python itself.
        "system_library_builds",
        "temperature",
        "user_site",
    }
)
# A container may not see the files that state a limit, although it holds for both; and the probe of
# an image that was built earlier says nothing of builds of libraries.
UNREADABLE_IS_NO_DIFFERENCE = ("cgroup", "library_builds", "numpy_blas")
ABSENT = "not stated"


@dataclass(frozen=True, kw_only=True, slots=True)
class FactDifference:
    """One fact in which the sides differ; `refuses` when this question cannot bear it."""

    name: str
    values: tuple[str, str]
    weight: Weight
    refuses: bool
    # The nodes whose values these are, where not the sides but the nodes differ.
    nodes: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LossCheck:
    """The correctness gate: the largest relative difference of the loss curves, or why none."""

    steps: int = 0
    largest: float | None = None
    problem: str = ""


def differences(
    question: Question,
    reference: Stack,
    candidate: Stack,
    declared: frozenset[str] = frozenset(),
) -> list[FactDifference]:
    """Compare what two sides attest, fact by fact, what refuses first.

    A fact that follows from the declaration, by name, is shown. An overhead question asks for the
    same bits: any other fact that is not known to be harmless must match. A deployment question
    only asks for the same work.
    """
    ours, theirs = flat(reference.facts), flat(candidate.facts)
    found = []
    for name in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(name), theirs.get(name)
        if one == other:
            continue
        weight: Weight = "shown" if name in declared else weigh(name)
        if name.startswith(UNREADABLE_IS_NO_DIFFERENCE) and None in (one, other):
            weight = "shown"
        refuses = weight == "work" or (weight == "bits" and question == "overhead")
        values = _shown_pair(one, other)
        found.append(FactDifference(name=name, values=values, weight=weight, refuses=refuses))
    return sorted(found, key=lambda item: (not item.refuses, item.name))


def weigh(name: str) -> Weight:
    """Tell what a difference in a fact means."""
    parts = name.split(".")
    if name in SHOWN or parts[0] in SHOWN:
        return "shown"
    return "work" if WORK.intersection(parts) else "bits"


def flat(facts: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Give nested facts one dotted name each."""
    found: dict[str, object] = {}
    for key, value in facts.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            found.update(flat(value, f"{name}."))
        else:
            found[name] = value
    return found


def shown(value: object) -> str:
    """Show a fact's value on one line."""
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown_pair(one: object, other: object) -> tuple[str, str]:
    # Of two long lists (mapped libraries) only what the other side lacks is worth reading.
    if isinstance(one, list) and isinstance(other, list) and len(one) + len(other) > 8:
        ours = [item for item in one if item not in other]
        theirs = [item for item in other if item not in one]
        if ours or theirs:
            return _only(ours), _only(theirs)
    return shown(one), shown(other)


def _only(items: Sequence[object]) -> str:
    if not items:
        return "nothing that is missing in the other"
    return "only here: " + ", ".join(shown(item) for item in items)


def refusals(
    found: Sequence[FactDifference], arms: ArmPair, missing: Sequence[str]
) -> tuple[str, ...]:
    """Word what forbids the comparison, both values named."""
    absent = [f"{arm} does not say what it is made of" for arm in missing]
    return (
        *absent,
        *(_refusal(item, arms) for item in found if item.refuses),
    )


def _refusal(item: FactDifference, arms: ArmPair) -> str:
    one, other = item.nodes or arms.names
    between = " between nodes" if item.nodes else ""
    return f"{item.name} differs{between}: {one} {item.values[0]}, {other} {item.values[1]}"


class LossCurves:
    """Compares every launch's loss curve with the first one's, step by step; holds that one alone.

    The difference is relative to the larger of the two losses; `tolerance` is its bound.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._reference: Sequence[float] | None = None
        self._first, self._largest = 0, 0.0
        self._failed: LossCheck | None = None

    @property
    def check(self) -> LossCheck:
        """What they show so far."""
        steps = len(self._reference or ())
        return self._failed or LossCheck(steps=steps, largest=self._largest)

    def take(self, sample: Sample) -> None:
        """Compare one more launch; after the first that does not agree none is looked at."""
        if self._failed is None:
            self._failed = self._compared(sample)

    def _compared(self, sample: Sample) -> LossCheck | None:
        curve = _curve(sample)
        if curve is None:
            problem = f"the launch at line {sample.line} ({sample.arm}) has no finite loss curve"
            return LossCheck(problem=problem)
        if self._reference is None:
            self._reference, self._first = curve, sample.line
        reference, first = self._reference, self._first
        if curve == reference:
            return None
        if len(curve) != len(reference):
            problem = (
                f"loss curves of {len(reference)} steps (line {first}) and {len(curve)} steps "
                f"(line {sample.line}, {sample.arm})"
            )
            return LossCheck(problem=problem)
        for step, (one, other) in enumerate(zip(reference, curve, strict=True)):
            apart = abs(one - other) / (max(abs(one), abs(other)) or 1.0)
            self._largest = max(self._largest, apart)
            if apart > self._tolerance:
                problem = (
                    f"the losses differ at step {step}: {one:.6g} (line {first}) and {other:.6g} "
                    f"(line {sample.line}, {sample.arm}), more than {self._tolerance:.2g} apart"
                )
                return LossCheck(steps=len(reference), largest=apart, problem=problem)
        return None


def _curve(sample: Sample) -> list[float] | None:
    values = sample.values.get("loss")
    if not isinstance(values, list) or not values:
        return None
    curve = [float(v) for v in values if type(v) is float or type(v) is int]  # a bool is no loss
    return curve if len(curve) == len(values) else None

"""May two sides be compared? What they attest of themselves, and what they have computed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.samples import owners
from dlcontainer.bench.samples.owners import Owner
from dlcontainer.bench.samples.records import AttestedStack, Sample
from dlcontainer.bench.samples.vocabulary import ON_HOST, ArmPair, Question, counted

# The probe of an image that was built earlier says nothing of builds of libraries, and an engine
# may hide what is the whole kernel's.
UNREADABLE_IS_NO_DIFFERENCE = frozenset({"kernel_memory", "library_builds", "numpy_blas"})
_NO_LIMIT = ("none", "max", "-1")
# Affinity and NUMA are attested of the process itself.
_PROCESSORS = ("cgroup.cpus", "cgroup.memory_nodes")
ABSENT = "not stated"
_Facts = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class FactDifference:
    """One fact in which the sides differ; `refuses` when this question cannot bear it.

    `is_expected`: one side is a container, or the declaration says so.
    """

    name: str
    values: tuple[str, str]
    owner: Owner
    refuses: bool
    is_expected: bool = False
    # The nodes whose values these are, where not the sides but the nodes differ.
    nodes: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LossCheck:
    """The correctness gate: the largest relative difference of the loss curves, or why none."""

    steps: int = 0
    largest: float | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateFacts:
    """Facts of the candidate that its session declared beforehand.

    `names`: what the site's surroundings set, and no other side has. `image`: what the image's own
    record sets.
    """

    names: frozenset[str] = frozenset()
    image: frozenset[str] = frozenset()


NOTHING_DECLARED = CandidateFacts()


def differences(
    question: Question,
    reference: AttestedStack,
    candidate: AttestedStack,
    declared: CandidateFacts = NOTHING_DECLARED,
) -> list[FactDifference]:
    """Compare what two sides attest, fact by fact, what refuses first.

    What surrounds the sides must match whatever was asked. Of image and engine an overhead question
    bears only what is expected of a container, or `declared`; a deployment question all.
    """
    ours, theirs = flat(reference.facts), flat(candidate.facts)
    sides = ArmPair(reference=reference.arm, candidate=candidate.arm)
    differing = []
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) == theirs.get(name):
            continue
        owner, expected = _owned(name, ours, theirs, sides)
        expected = expected or name in declared.names
        if name in declared.image and name not in ours:
            owner = "image"
        refuses = not expected and (owner == "surroundings" or question == "overhead")
        differing.append(
            FactDifference(
                name=name,
                values=_shown_pair(ours.get(name), theirs.get(name)),
                owner=owner,
                refuses=refuses,
                is_expected=expected,
            )
        )
    return sorted(differing, key=lambda item: (not item.refuses, item.name))


def _owned(name: str, ours: _Facts, theirs: _Facts, sides: ArmPair) -> tuple[Owner, bool]:
    """Return whose a difference is, and whether it is expected."""
    is_contained = sides.reference in ON_HOST and sides.candidate not in ON_HOST
    first, second = ours.get(name), theirs.get(name)
    filtered = ours.get("seccomp") == "0" and theirs.get("seccomp") == "2"
    if is_contained and owners.added_by_engine(name, first, second, filtered=filtered):
        return "engine", True
    if is_contained and owners.set_by_engine(name, first, second):
        return "engine", True
    is_packed = sides.reference == "native" != sides.candidate
    if is_packed and owners.is_module_pack(name, first, second):
        return "image", True
    if owners.added_by_engine(name, second, first, filtered=True):
        # What only an engine adds, on the side that has none.
        return "surroundings", False
    # With and without an engine one image has one build of all: another is a library of the host.
    is_one_image = "bare" in sides.names and "native" not in sides.names
    expected = (
        owners.is_in(name, owners.PASSING)
        or (owners.is_in(name, owners.REBUILDS) and not is_one_image)
        or owners.is_of_a_container(name, candidate_only=first is None)
        or (None in (first, second) and _is_unreadable(name, ours, theirs))
    )
    return owners.of(name), expected


def _is_unreadable(name: str, ours: _Facts, theirs: _Facts) -> bool:
    """Return whether one side only can't read what holds for both."""
    if owners.is_in(name, UNREADABLE_IS_NO_DIFFERENCE):
        return True
    if not name.startswith("cgroup."):
        return False
    readable = str(ours.get(name, theirs.get(name)))
    if name in _PROCESSORS or readable.startswith(_NO_LIMIT):
        return True
    # A container may not see the files of a limit; on the same path it is the same limit.
    paths = [
        {name: path for name, path in facts.items() if name.startswith("cgroup_paths.")}
        for facts in (ours, theirs)
    ]
    return bool(paths[0]) and paths[0] == paths[1]


def also_differing(differing: Sequence[FactDifference]) -> tuple[str, ...]:
    """Name what differs with the container, though it refuses nothing."""
    names = [item.name for item in differing if not item.refuses and not item.nodes]
    system = [name for name in names if name.startswith("system_library_builds")]
    texts = []
    if any(name.startswith("executable") for name in names):
        texts.append("the distribution's build of Python")
    if system:
        texts.append(f"the distribution's builds of {counted(len(system), 'library', 'libraries')}")
    if any(item.name in owners.MODULE_PACK and item.is_expected for item in differing):
        texts.append("the image's module pack")
    if any(name.startswith("seccomp") for name in names):
        texts.append("the engine's filter of system calls")
    if any(name.startswith("speculation") for name in names):
        texts.append("the engine's control of speculation")
    return tuple(texts)


def flat(facts: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Return nested facts one dotted name each."""
    flattened: dict[str, object] = {}
    for key, value in facts.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            flattened.update(flat(value, f"{name}."))
        else:
            flattened[name] = value
    return flattened


def shown(value: object) -> str:
    """Show a fact's value on one line."""
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown_pair(first: object, second: object) -> tuple[str, str]:
    # Of two long lists (mapped libraries) only what the other side lacks is worth reading.
    if isinstance(first, list) and isinstance(second, list) and len(first) + len(second) > 8:
        ours = [item for item in first if item not in second]
        theirs = [item for item in second if item not in first]
        if ours or theirs:
            return _only(ours), _only(theirs)
    return shown(first), shown(second)


def _only(items: Sequence[object]) -> str:
    if not items:
        return "nothing that is missing in the other"
    return "only here: " + ", ".join(shown(item) for item in items)


def refusals(
    differing: Sequence[FactDifference], arms: ArmPair, missing: Sequence[str]
) -> tuple[str, ...]:
    """Word what forbids the comparison, both values named."""
    absent = [f"{arm} does not say what it is made of" for arm in missing]
    return (
        *absent,
        *(_refusal(item, arms) for item in differing if item.refuses),
    )


def _refusal(item: FactDifference, arms: ArmPair) -> str:
    first, second = item.nodes or arms.names
    between = " between nodes" if item.nodes else ""
    return f"{item.name} differs{between}: {first} {item.values[0]}, {second} {item.values[1]}"


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
        for step, (reference_loss, candidate_loss) in enumerate(zip(reference, curve, strict=True)):
            apart = abs(reference_loss - candidate_loss) / (
                max(abs(reference_loss), abs(candidate_loss)) or 1.0
            )
            self._largest = max(self._largest, apart)
            if apart > self._tolerance:
                problem = (
                    f"the losses differ at step {step}: {reference_loss:.6g} (line {first}) and "
                    f"{candidate_loss:.6g} "
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

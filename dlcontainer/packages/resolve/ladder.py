"""The parent's pins as constraints of two strengths: all of them, then the hard ones alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve import words
from dlcontainer.packages.resolve.asking import (
    Answer,
    NoSolutionError,
    PackageResolver,
    Question,
)
from dlcontainer.packages.resolve.resolution import ParentPin, PinChange, ResolveRequest
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.packages.resolve.words import Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Climb:
    """What a ladder is climbed with: `caps` bound all but the parent's pins that stay."""

    request: ResolveRequest
    resolver: PackageResolver
    caps: tuple[Requirement, ...]
    places: tuple[Place, ...]
    note: Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class LadderAnswer:
    """An answer, and the soft pins that it changes."""

    answer: Answer
    changes: tuple[PinChange, ...] = ()


def climb(question: Question, ladder: Climb) -> LadderAnswer:
    """Ask with all pins, then with the hard and the verified ones, then with the hard ones alone.

    Raises MisfitError where nothing resolves, or a verified package would change unallowed.
    """
    request = ladder.request
    allowed = {str(canonicalize_name(name)) for name in request.may_change}
    protected = {str(canonicalize_name(name)) for name in request.verified} - allowed
    rungs = _rungs(request.pins, protected)
    complaint = ""
    for number, pins in enumerate(rungs):
        try:
            answer = ladder.resolver.ask(_bounded(question, pins, ladder))
        except NoSolutionError as error:
            _raise_fault(error.text)
            complaint = error.text
            if words.unknown_name(error.text) is not None:
                raise words.unknown(
                    _complaints(error.text, question, ladder),
                    ladder.places,
                    str(request.wishes.path),
                ) from None
            if number == 0 and not _names_soft(error.text, request.pins):
                break
            if number + 1 < len(rungs):
                ladder.note("not all pins of the parent recipe can stay: asking with fewer")
            continue
        changes = _changes(answer, request.pins)
        _require_unverified(changes, protected, request)
        if changes:
            _require_needs(changes, question, ladder)
        return LadderAnswer(answer=answer, changes=changes)
    raise words.refusal(complaint, ladder.places, request.target, str(request.wishes.path))


def _complaints(text: str, question: Question, ladder: Climb) -> list[str]:
    """Ask again without each wish that no index has: a resolver names one at a time."""
    texts, wishes = [], list(question.requirements)
    while (name := words.unknown_name(text)) is not None:
        texts.append(text)
        fewer = [line for line in wishes if canonicalize_name(Requirement(line).name) != name]
        if not fewer or fewer == wishes:
            break
        wishes = fewer
        try:
            ladder.resolver.ask(replace(question, requirements=tuple(wishes)))
        except NoSolutionError as error:
            text = error.text
        else:
            break
    return texts


def _rungs(pins: Sequence[ParentPin], protected: set[str]) -> list[tuple[ParentPin, ...]]:
    hard = tuple(pin for pin in pins if pin.strength == "hard")
    firm = tuple(pin for pin in pins if pin in hard or _name(pin) in protected)
    # Equal ones are asked once.
    return list(dict.fromkeys([tuple(pins), firm, hard]))


def _bounded(question: Question, pins: Sequence[ParentPin], ladder: Climb) -> Question:
    """Add a rung's pins as constraints; the pins that it lets go are preferred to others."""
    staying = {_name(pin) for pin in pins}
    free = [pin for pin in ladder.request.pins if _name(pin) not in staying]
    parents = {_name(pin) for pin in ladder.request.pins}
    unbound = staying if free else parents
    caps = [cap for cap in ladder.caps if canonicalize_name(cap.name) not in unbound]
    constraints = [*(f"{cap.name}{cap.specifier}" for cap in caps), *map(_line, pins)]
    return replace(
        question,
        constraints=(*question.constraints, *constraints),
        preferences=tuple(map(_line, free)),
    )


def _raise_fault(text: str) -> None:
    fault = words.index_fault(text)
    if fault is not None:
        raise fault


def _names_soft(text: str, pins: Iterable[ParentPin]) -> bool:
    """Return whether a complaint can be one about soft pins: it names one of them."""
    return any(pin.strength == "soft" and _name(pin) in text for pin in pins)


def _changes(answer: Answer, pins: Iterable[ParentPin]) -> tuple[PinChange, ...]:
    changes = []
    for pin in pins:
        after = answer.versions.get(_name(pin))
        if after is not None and Version(after) != version_of(pin):
            changes.append(
                PinChange(
                    name=_name(pin), before=str(version_of(pin)), after=after, origin=pin.origin
                )
            )
    return tuple(sorted(changes, key=lambda change: change.name))


def _require_unverified(
    changes: Sequence[PinChange], protected: set[str], request: ResolveRequest
) -> None:
    refused = [change for change in changes if change.name in protected]
    if not refused:
        return
    steps = ", ".join(f"{change.name} {change.before} → {change.after}" for change in refused)
    allowing = " ".join(f"--allow-change {change.name}" for change in refused)
    names = {change.name for change in refused}
    lines = (
        w.origin for w in request.wishes.wishes if canonicalize_name(w.requirement.name) in names
    )
    raise MisfitError(
        f"these wishes need another version of what the parent recipe verifies: {steps}",
        where=next(lines, str(request.wishes.path)),
        why=f"{refused[0].name} is pinned at {refused[0].origin}, and the recipe's own checks "
        "import it",
        next_step=f"change the wishes, or allow it: {allowing}",
    )


def _require_needs(changes: Sequence[PinChange], question: Question, ladder: Climb) -> None:
    """Hold changed pins against the needs of those pins that a made-up wheel stood in for.

    Their public versions have the same needs. Raises MisfitError; what has no public version
    is left to the `pip check` of the build.
    """
    stand_ins = [pin for pin in ladder.request.pins if version_of(pin).local]
    for pin in stand_ins:
        public = f"{pin.requirement.name}=={version_of(pin).public}"
        bounds = tuple(f"{change.name}=={change.after}" for change in changes)
        try:
            ladder.resolver.ask(
                Question(
                    requirements=(public,), constraints=bounds, prereleases=question.prereleases
                )
            )
        except NoSolutionError as error:
            culprits = [change for change in changes if change.name in error.text]
            if not culprits:
                continue
            steps = ", ".join(f"{change.name} {change.after}" for change in culprits)
            raise MisfitError(
                f"these wishes need {steps}, which {pin.requirement} does not take",
                where=str(ladder.request.wishes.path),
                why="\n    ".join(words.annotate(words.because(error.text), ladder.places)[0]),
                next_step=f"change the wishes, or {words.another(pin.requirement.name)}",
            ) from None


def _name(pin: ParentPin) -> str:
    return canonicalize_name(pin.requirement.name)


def _line(pin: ParentPin) -> str:
    return f"{pin.requirement.name}=={version_of(pin)}"

"""Newer pins in a recipe's own text: versions alone change, comments and all else stay."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from dlcontainer.authoring.pin_ages import VariantAge
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.planning import pins as planned_pins
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import bump_journal

# A version that stands elsewhere: `torch=={{ versions.torch }}`.
_ELSEWHERE = re.compile(r"\{\{\s*versions\.([\w-]+)\s*\}\}")
# An item of a list, a line of its own: another may stand below it.
_ITEM = re.compile(r"\s*- (?=[\"']?[\w.-]+(?:\[[^\]]*\])?==)")


# Pins to add below a line, by file and line.
_Additions = dict[tuple[str, int], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedVariant:
    """A variant's plan, for a site as it is typed, and the age of its pins."""

    plan: Plan
    site: str
    age: VariantAge


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionPlace:
    """A version in a line of a file, behind its name there; `line` counts from 1."""

    file: str
    line: int
    name: str
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BumpPlan:
    """What may be written: place -> new version, package -> new version of each variant.

    `additions` are pins below the line of the one that needs them: file and line -> pins.
    `unwritten` says of what is not, why; `stale` which facts are of the version before.
    """

    bumps: Mapping[VersionPlace, str]
    versions: Sequence[Mapping[str, str]]
    unwritten: tuple[str, ...]
    stale: tuple[str, ...] = ()
    additions: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)


def plan_bumps(variants: Sequence[PlannedVariant], texts: Mapping[str, str]) -> BumpPlan:
    """Choose the bumps of a recipe's variants; what they share must come to one version.

    `texts` has the recipe's own files, by the name that places give them: no other is written.
    """
    unwritten: dict[str, None] = {}
    proposals: dict[VersionPlace, set[str]] = {}
    of_package: dict[str, set[VersionPlace]] = {}
    additions = _additions(variants, texts)
    newer = [_newer(*pair, unwritten) for pair in zip(variants, additions, strict=True)]
    for variant, versions in zip(variants, newer, strict=True):
        for package, place in _places(variant.plan, texts):
            proposals.setdefault(place, set()).add(versions.get(package, place.version))
            of_package.setdefault(package, set()).add(place)
    stay = {place for place, versions in proposals.items() if len(versions) > 1}
    for place in sorted(stay, key=lambda place: (place.file, place.line)):
        unwritten[f"{place.file}:{place.line}: {place.name} comes to two versions: not written"] = (
            None
        )
    stay = _with_partners(stay, of_package.values())
    bumps = {
        place: version
        for place, versions in proposals.items()
        if place not in stay and (version := min(versions)) != place.version
    }
    written = {
        package for package, places in of_package.items() if any(place in bumps for place in places)
    }
    moved = [
        {package: version for package, version in versions.items() if package in written}
        for versions in newer
    ]
    added = [
        more or {} if versions else {} for more, versions in zip(additions, moved, strict=True)
    ]
    return BumpPlan(
        bumps=bumps,
        versions=[{**pins, **_versions(more)} for pins, more in zip(moved, added, strict=True)],
        unwritten=tuple(unwritten),
        stale=tuple(filter(None, map(_stale, variants, moved))),
        additions={place: pins for more in added for place, pins in more.items()},
    )


def _stale(variant: PlannedVariant, versions: Mapping[str, str]) -> str | None:
    """Say that a variant's stack was read of the framework that moves; None where none does."""
    recipe = variant.plan.recipe
    moved = [name for name in map(canonicalize_name, recipe.versions) if name in versions]
    if not moved or not recipe.stack.gpu_targets:
        return None
    title = variant.age.variant or variant.age.site
    return f"{title}: stack (gpu_targets) is of the {', '.join(moved)} before: read the new wheels"


def _versions(additions: _Additions) -> dict[str, str]:
    pins = [pin.partition("==") for pins in additions.values() for pin in pins]
    return {name: version for name, _, version in pins}


def _additions(
    variants: Sequence[PlannedVariant], texts: Mapping[str, str]
) -> list[_Additions | None]:
    """Place what each variant's fitting versions need below the pins that need it.

    None for a variant of which that can't be: no line of a list has the pin, or another variant
    with that line does not need the same.
    """
    listed = [_lists(variant.plan, texts) for variant in variants]
    placed = [_placed(*pair, texts) for pair in zip(variants, listed, strict=True)]
    below: dict[tuple[str, int], set[tuple[str, ...]]] = {}
    for lines, additions in zip(listed, placed, strict=True):
        for place in lines.values():
            below.setdefault(place, set()).add((additions or {}).get(place, ()))
    return [
        None
        if additions is None or any(len(below[place]) > 1 for place in additions)
        else additions
        for additions in placed
    ]


def _lists(plan: Plan, texts: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return the file and line of each pin of a list, by its package."""
    lines: dict[str, tuple[str, int]] = {}
    for pin in planned_pins.of_plan(plan):
        file, _, number = pin.origin.rpartition(":")
        if file in texts:
            lines[canonicalize_name(_package(pin.package))] = (file, int(number))
    return lines


def _placed(
    variant: PlannedVariant, lines: Mapping[str, tuple[str, int]], texts: Mapping[str, str]
) -> _Additions | None:
    additions: _Additions = {}
    for pin in variant.age.needed:
        by = variant.age.needed_by.get(pin.partition("==")[0])
        place = lines.get(by) if by else None
        if place is None or not _ITEM.match(_line(*place, texts)):
            return None
        additions[place] = (*additions.get(place, ()), pin)
    return additions


def _newer(
    variant: PlannedVariant, additions: _Additions | None, unwritten: dict[str, None]
) -> dict[str, str]:
    """Return the fitting versions of a variant's pins that are newer."""
    newer = {pin.name: str(pin.fitting) for pin in variant.age.pins if pin.state == "newer"}
    if newer and additions is None:
        title = variant.age.variant or variant.age.site
        unwritten[
            f"{title}: not written; pin {', '.join(variant.age.needed)} there first, and try again"
        ] = None
        return {}
    return newer


def _with_partners(
    stay: set[VersionPlace], packages: Collection[set[VersionPlace]]
) -> set[VersionPlace]:
    """Add the other places of packages of which one place stays as it is."""
    more = stay.union(*(places for places in packages if places & stay))
    return stay if more == stay else _with_partners(more, packages)


def write(
    bumped: BumpPlan, folder: Path, paths: Mapping[str, Path], check: Callable[[], None]
) -> list[Path]:
    """Write bumps into a recipe's files, all or none; `check` reads the recipe again.

    Where that raises, all files are again as they were; where the process is killed, the next bump
    puts them back. Raises ConfigError for a line that has not the pin as it was read, or a file
    that can't be written; then none is changed.
    """
    names = {place.file for place in bumped.bumps} | {file for file, _ in bumped.additions}
    before = {paths[name]: _text(paths[name]) for name in sorted(names)}
    after = {paths[name]: _bumped(before[paths[name]], name, bumped) for name in sorted(names)}
    if not after:
        return []
    try:
        bump_journal.change(folder, before, after)
        check()
    except BaseException:
        bump_journal.put_back(folder, before, after)
        raise
    return list(after)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None


def _bumped(text: str, file: str, bumped: BumpPlan) -> str:
    """Return a file's text with its bumps, and its additions below their lines."""
    lines = text.splitlines(keepends=True)
    for place, new in bumped.bumps.items():
        if place.file == file:
            line = lines[place.line - 1] if place.line <= len(lines) else ""
            lines[place.line - 1 : place.line] = [_bumped_line(line, place, new)]
    for (of, number), pins in sorted(bumped.additions.items(), reverse=True):
        item = _ITEM.match(lines[number - 1]) if of == file and number <= len(lines) else None
        if item is not None:
            lines[number - 1] = lines[number - 1].rstrip("\n") + "\n"
            lines[number:number] = [f"{item[0]}{pin}\n" for pin in pins]
    return "".join(lines)


def _bumped_line(line: str, place: VersionPlace, new: str) -> str:
    begins = [match.end(1) for match in _pattern(place).finditer(line)]
    if len(begins) != 1:
        raise ConfigError(
            f"the line does not pin {place.name} {place.version}",
            where=f"{place.file}:{place.line}",
            why="the file changed meanwhile, or the version is made of other values",
            next_step=f"write {new} there by hand",
        )
    (at,) = begins
    # YAML takes 2.4 for a number, and 2.3.5 for a text.
    is_bare = line[:at].rstrip().endswith(":") and re.fullmatch(r"\d+(\.\d+)?", new)
    text = f'"{new}"' if is_bare else new
    return line[:at] + text + line[at + len(place.version) :]


def _pattern(place: VersionPlace) -> re.Pattern[str]:
    """Match a version behind its name: `numpy==2.3.5`, `numpy: 2.3.5`, `torch: "2.6"`."""
    spelled = re.sub(r"[-_.]+", "[-_.]+", place.name)
    return re.compile(
        rf"((?<![\w.-]){spelled}(?:\[[^\]]*\])?[\"']?(?:==|\s*:\s*)[\"']?)"
        rf"{re.escape(place.version)}(?![\w.+!-])",
        re.IGNORECASE,
    )


def _places(plan: Plan, texts: Mapping[str, str]) -> Iterator[tuple[str, VersionPlace]]:
    """Yield each package with the lines that its version stands in: its pin's, or that of the
    value which the pin is made of; and that of `verify`.
    """
    marks = {key: origin.where for key, _, origin in plan.origins}
    for pin in planned_pins.of_plan(plan):
        name, version = _package(pin.package), pin.package.partition("==")[2]
        package = canonicalize_name(name)
        file, _, number = pin.origin.rpartition(":")
        if file not in texts:
            continue  # of a recipe below, or of no file
        place = VersionPlace(file=file, line=int(number), name=name, version=version)
        elsewhere = _ELSEWHERE.search(_line(place.file, place.line, texts))
        if elsewhere is None:
            yield package, place
        for key, mark in marks.items():
            group, _, last = key.rpartition(".")
            if not isinstance(mark, Mark) or mark.file not in texts:
                continue
            place = VersionPlace(file=mark.file, line=mark.line, name=last, version=version)
            is_value = elsewhere is not None and key == f"versions.{elsewhere[1]}"
            is_proof = group == "verify.imports" and canonicalize_name(last) == package
            # One that is made of a value has no version of its own.
            if is_value or (
                is_proof and _pattern(place).search(_line(place.file, place.line, texts))
            ):
                yield package, place


def _package(pin: str) -> str:
    """Return the name of a pin: no version, no extras."""
    return pin.partition("==")[0].partition("[")[0]


def _line(file: str, number: int, texts: Mapping[str, str]) -> str:
    lines = texts[file].splitlines()
    return lines[number - 1] if number <= len(lines) else ""

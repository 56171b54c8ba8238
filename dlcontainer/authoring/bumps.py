"""Newer pins in a recipe's own text: versions alone change, comments and all else stay."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from dlcontainer.authoring.outdated import VariantAge
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.planning import pins as planned_pins
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files

# A version that stands elsewhere: `torch=={{ versions.torch }}`.
_ELSEWHERE = re.compile(r"\{\{\s*versions\.([\w-]+)\s*\}\}")


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

    `unwritten` says of what is not, why.
    """

    bumps: Mapping[VersionPlace, str]
    versions: Sequence[Mapping[str, str]]
    unwritten: tuple[str, ...]


def plan_bumps(variants: Sequence[PlannedVariant], texts: Mapping[str, str]) -> BumpPlan:
    """Choose the bumps of a recipe's variants; what they share must come to one version.

    `texts` has the recipe's own files, by the name that places give them: no other is written.
    """
    unwritten: dict[str, None] = {}
    proposals: dict[VersionPlace, set[str]] = {}
    of_package: dict[str, set[VersionPlace]] = {}
    newer = [_newer(variant, unwritten) for variant in variants]
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
    return BumpPlan(
        bumps=bumps,
        versions=[
            {package: version for package, version in versions.items() if package in written}
            for versions in newer
        ],
        unwritten=tuple(unwritten),
    )


def _newer(variant: PlannedVariant, unwritten: dict[str, None]) -> dict[str, str]:
    """Return the fitting versions of a variant's pins that are newer."""
    newer = {pin.name: str(pin.fitting) for pin in variant.age.pins if pin.state == "newer"}
    if newer and variant.age.needed:
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
    bumps: Mapping[VersionPlace, str], paths: Mapping[str, Path], check: Callable[[], None]
) -> list[Path]:
    """Write bumps into their files, each at once; `check` reads the recipe again.

    Where that raises, all files are again as they were. Raises ConfigError for a line that has not
    the pin as it was read, or a file that can't be written; then none is changed.
    """
    by_file: dict[Path, dict[VersionPlace, str]] = {}
    for place, new in bumps.items():
        by_file.setdefault(paths[place.file], {})[place] = new
    before = {path: _text(path) for path in by_file}
    after = {path: _bumped(before[path], by_file[path]) for path in by_file}
    try:
        _put(after)
        check()
    except BaseException:
        _put(before)
        raise
    return list(after)


def _put(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        try:
            atomic_files.write(path, text)
        except OSError as error:
            raise ConfigError(
                f"can't write {path}: {error.strerror}",
                next_step="copy the recipe's folder to your own recipes, and bump it there",
            ) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None


def _bumped(text: str, bumps: Mapping[VersionPlace, str]) -> str:
    lines = text.splitlines(keepends=True)
    for place, new in bumps.items():
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        begins = [match.end(1) for match in _pattern(place).finditer(line)]
        if len(begins) != 1:
            raise ConfigError(
                f"the line does not pin {place.name} {place.version}",
                where=f"{place.file}:{place.line}",
                why="the file changed meanwhile, or the version is made of other values",
                next_step=f"write {new} there by hand",
            )
        (at,) = begins
        lines[place.line - 1] = line[:at] + new + line[at + len(place.version) :]
    return "".join(lines)


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
        name, _, version = pin.package.partition("==")
        name = name.partition("[")[0]
        package = canonicalize_name(name)
        file, _, number = pin.origin.rpartition(":")
        if file not in texts:
            continue  # of a recipe below, or of no file
        place = VersionPlace(file=file, line=int(number), name=name, version=version)
        elsewhere = _ELSEWHERE.search(_line(place, texts))
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
            if is_value or (is_proof and _pattern(place).search(_line(place, texts))):
                yield package, place


def _line(place: VersionPlace, texts: Mapping[str, str]) -> str:
    lines = texts[place.file].splitlines()
    return lines[place.line - 1] if place.line <= len(lines) else ""

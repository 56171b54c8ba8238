"""Which package needs which: what each database writes, resolved among the installed ones.

Sources: deb-control(5) "Depends", "Provides"; packaging.python.org, "Dependency specifiers".
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dlcontainer.image.contents import InstalledPackage

_FOLDER_VERSION = re.compile(r"/python(\d+\.\d+)(?:/|$)")
_VERSIONED = re.compile(r"\s*[(\[<>=!~].*")

Graph = Mapping[InstalledPackage, Sequence[InstalledPackage]]


def needed(packages: Sequence[InstalledPackage], arch: str) -> Graph:
    """Return what each package needs; one that tells no needs is left out.

    `arch` is the image's, as `uname -m` names it. What is not installed is left out: another
    alternative is, or the package was put there by force.
    """
    python = _PythonNeeds(arch=arch)
    for package in packages:
        if package.kind == "pypi":
            python.add(package)
    python.settle()
    systems = {kind: _named(packages, kind) for kind in ("deb", "rpm", "conda")}
    graph = {}
    for package in packages:
        if package.needs is None:
            continue
        names = systems.get(package.kind)
        targets = python.of(package) if names is None else _of_system(package, names)
        graph[package] = [target for target in dict.fromkeys(targets) if target != package]
    return graph


def tops(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """Return those that nothing needs, and one of each circle that nothing else reaches."""
    below = {target for targets in graph.values() for target in targets}
    chosen = [ref for ref in sorted(graph) if ref not in below]
    reached: set[str] = set()
    for ref in [*chosen, *sorted(graph)]:
        if ref in reached:
            continue
        if ref in below:
            chosen.append(ref)
        waiting = [ref]
        while waiting:
            target = waiting.pop()
            if target not in reached:
                reached.add(target)
                waiting += graph.get(target, ())
    return chosen


_Names = Mapping[str, Sequence[InstalledPackage]]


def _named(packages: Iterable[InstalledPackage], kind: str) -> _Names:
    """Map names to packages; a name that is provided stands behind a package's own."""
    named, provided = defaultdict(list), defaultdict(list)
    for package in packages:
        if package.kind == kind:
            named[package.name].append(package)
            for name in package.provides:
                provided[name].append(package)
    return {**provided, **named}


def _of_system(package: InstalledPackage, names: _Names) -> Iterable[InstalledPackage]:
    for need in package.needs or ():
        alternatives = need.split("|") if package.kind == "deb" else [need]
        for alternative in alternatives:
            targets = names.get(_bare(alternative, package.kind), ())
            if targets:
                yield from _same_arch(package, targets)
                break


def _bare(need: str, kind: str) -> str:
    if kind == "rpm":  # a mark in brackets is part of the name there
        return need
    name = _VERSIONED.sub("", need).strip()
    return name.partition(":")[0] if kind == "deb" else (name.split() or [""])[0]


def _same_arch(
    package: InstalledPackage, targets: Sequence[InstalledPackage]
) -> Sequence[InstalledPackage]:
    return [target for target in targets if target.arch == package.arch] or targets


@dataclass(kw_only=True, slots=True)
class _PythonNeeds:
    """The Python packages of each folder, with the extras that others want of them."""

    arch: str
    by_name: dict[tuple[str, str], InstalledPackage] = field(default_factory=dict)
    extras: dict[InstalledPackage, set[str]] = field(default_factory=lambda: defaultdict(set))
    parsed: dict[InstalledPackage, list[Requirement]] = field(default_factory=dict)

    def add(self, package: InstalledPackage) -> None:
        """Take a package in."""
        for place in package.places:
            self.by_name[place, canonicalize_name(package.name)] = package
        self.parsed[package] = list(_requirements(package.needs or ()))

    def settle(self) -> None:
        """Carry the extras over until no package wants more of another."""
        waiting = list(self.parsed)
        while waiting:
            for requirement, target in self._targets(waiting.pop()):
                if requirement.extras - self.extras[target]:
                    self.extras[target] |= requirement.extras
                    waiting.append(target)

    def of(self, package: InstalledPackage) -> Iterable[InstalledPackage]:
        """Return what a package needs in its own folders."""
        return [target for _, target in self._targets(package)]

    def _targets(self, package: InstalledPackage) -> Iterator[tuple[Requirement, InstalledPackage]]:
        for place in package.places:
            for requirement in self.parsed[package]:
                target = self.by_name.get((place, canonicalize_name(requirement.name)))
                if target is not None and self._applies(requirement, place, package):
                    yield requirement, target

    def _applies(self, requirement: Requirement, place: str, package: InstalledPackage) -> bool:
        if requirement.marker is None:
            return True
        version = match[1] if (match := _FOLDER_VERSION.search(place)) else "3"
        settings = {
            "python_version": version,
            "python_full_version": f"{version}.0",
            "implementation_version": f"{version}.0",
            "platform_machine": self.arch,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_version": "",
        }
        extras = sorted({"", *self.extras[package]})
        try:
            return any(requirement.marker.evaluate({**settings, "extra": name}) for name in extras)
        except ValueError:  # a comparison that has no answer
            return False


def _requirements(needs: Iterable[str]) -> Iterator[Requirement]:
    for text in needs:
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue  # a package of before that standard

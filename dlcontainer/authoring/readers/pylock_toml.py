"""pylock.toml, the standard lock: exact versions with hashes and markers; addresses are dropped.

Source: packaging.python.org, "pylock.toml Specification" (PEP 751).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.faults import RELEASE_NEXT
from dlcontainer.authoring.readers.toml_requirements import TomlRequirements
from dlcontainer.authoring.readers.toml_text import TomlText
from dlcontainer.config.document import KeyPath
from dlcontainer.config.suggestions import cut
from dlcontainer.packages.resolve.wishes import Wish

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
# `'cuda' in extras`: of the lock's own choices, which are made here.
_CHOICE = re.compile(
    r"""(["'])(?P<name>[^"']*)\1\s+(?P<not>not\s+)?in\s+(?P<list>extras|dependency_groups)\b"""
)
_LEFT = re.compile(r"\b(?:extras|dependency_groups)\b")
_ALWAYS, _NEVER = 'python_version >= "0"', 'python_version < "0"'
_MOST_VERSION = 200
_PLACES = {"vcs": "version control", "directory": "a directory", "archive": "an archive"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PylockReader:
    """Reads one lock into a draft; `groups` and `extras` are chosen of those that it offers."""

    of: TomlRequirements
    groups: frozenset[str]
    extras: frozenset[str]

    def read(self) -> None:
        """Take all packages of the lock."""
        data = self.of.toml.data
        version = data.get("lock-version")
        if not (isinstance(version, str) and version.split(".")[0] == "1"):
            what = f"lock-version is not 1.x: {cut(repr(version), 40)}"
            self.of.refuse(("lock-version",), what, "write the lock again with a newer tool")
            return
        self.of.python(data.get("requires-python"), ("requires-python",))
        packages = data.get("packages")
        if not isinstance(packages, list):
            self.of.refuse(("packages",), "no list [[packages]]", "write the lock again")
            return
        if environments := self.of.texts("environments"):
            note = f"the lock was made for: {cut(' or '.join(environments), 200)}"
            self.of.draft.notes.append(note)
        for index, package in enumerate(packages):
            if isinstance(package, dict) and not self.of.draft.is_full:
                self._package(package, ("packages", index))

    def _package(self, package: dict[str, Any], path: KeyPath) -> None:
        name, version = str(package.get("name")), package.get("version")
        for place, noun in _PLACES.items():
            if place in package:
                what = f"'{cut(name, 80)}' comes from {noun}, not from an index"
                self.of.refuse((*path, place), what, RELEASE_NEXT)
                return
        if not isinstance(version, str) or len(version) > _MOST_VERSION:
            what = f"'{cut(name, 80)}' has no version"
            self.of.refuse(path, what, RELEASE_NEXT)
            return
        marker = self._marker(package.get("marker"), (*path, "marker"))
        hashes = self._hashes(package, name, path)
        if marker is None or hashes is None:
            return
        requirement = self.of.requirement(f"{name}=={version}{marker}", (*path, "name"))
        if requirement is not None:
            origin = self.of.toml.origin((*path, "name"))
            wish = Wish(requirement=requirement, origin=origin, hashes=hashes)
            self.of.draft.wishes.append(wish)

    def _marker(self, marker: object, path: KeyPath) -> str | None:
        """Return `; MARKER` with the lock's choices made; None where that was refused."""
        if marker is None:
            return ""
        settled = _CHOICE.sub(self._choice, marker) if isinstance(marker, str) else ""
        try:
            Requirement(f"name; {settled}")
            is_clear = not _LEFT.search(settled)
        except (InvalidRequirement, RecursionError):
            is_clear = False
        if not is_clear:
            what = f"a marker that is not understood: {cut(repr(marker), 80)}"
            self.of.refuse(path, what, "write the lock again, for one set of extras and groups")
            return None
        return f"; {settled}"

    def _choice(self, match: re.Match[str]) -> str:
        chosen = self.extras if match["list"] == "extras" else self.groups
        is_in = canonicalize_name(match["name"]) in chosen
        return _ALWAYS if is_in != bool(match["not"]) else _NEVER

    def _hashes(self, package: dict[str, Any], name: str, path: KeyPath) -> frozenset[str] | None:
        """Return the SHA-256 values of a package's wheels; None where that was refused."""
        wheels = package.get("wheels")
        if not isinstance(wheels, list) or not wheels:
            # A wheel that a folder of the site has may serve.
            note = f"{self.of.toml.origin(path)}: the lock has no wheel of '{cut(name, 80)}'"
            self.of.draft.notes.append(note)
            return frozenset()
        hashes = set()
        for index, wheel in enumerate(wheels):
            if isinstance(wheel, dict) and "path" in wheel and "url" not in wheel:
                what = f"'{cut(name, 80)}': a wheel at a path is not taken"
                self.of.refuse((*path, "wheels", index), what, RELEASE_NEXT)
                return None
            digest = _digest(wheel)
            if digest is None:
                what = f"'{cut(name, 80)}': a file without a SHA-256 of 64 hex digits"
                self.of.refuse((*path, "wheels", index), what, "write the lock again")
                return None
            hashes.add(digest)
        return frozenset(hashes)


def _digest(wheel: object) -> str | None:
    hashes = wheel.get("hashes") if isinstance(wheel, dict) else None
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    is_digest = isinstance(digest, str) and _DIGEST.fullmatch(digest)
    return str(digest).lower() if is_digest else None


def read(toml: TomlText, draft: WishDraft, groups: Sequence[str], extras: Sequence[str]) -> None:
    """Read a lock into a draft; its default groups count where none was asked for."""
    of = TomlRequirements(toml=toml, draft=draft)
    for name in extras:
        of.find(name, of.texts("extras"), ("extras",), "extra")
    for name in groups:
        of.find(name, of.texts("dependency-groups"), ("dependency-groups",), "group")
    chosen = groups or of.texts("default-groups")
    PylockReader(
        of=of,
        groups=frozenset(map(canonicalize_name, chosen)),
        extras=frozenset(map(canonicalize_name, extras)),
    ).read()
    draft.is_locked = True

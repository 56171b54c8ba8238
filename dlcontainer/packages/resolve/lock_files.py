"""The file that is installed of each version, of a lock that a resolver wrote for a target.

A version has a file for each Python and machine: only the one that pip takes counts for a hash.
Source: packaging.python.org, "Platform compatibility tags": the first of the tags wins.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from packaging import tags
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from dlcontainer.packages.pip import pip_resolver
from dlcontainer.packages.resolve.resolution import Target

if TYPE_CHECKING:
    from dlcontainer.config.field_types import Arch


def hashes_of(text: str, target: Target) -> dict[str, frozenset[str]]:
    """Return, by canonical name, the SHA-256 of the wheel that a target takes.

    A package is left out where no wheel of it fits; its value is empty where the lock has no hash.
    """
    ranks = {tag: rank for rank, tag in enumerate(_tags(target))}
    hashes: dict[str, frozenset[str]] = {}
    for package in cast("list[Mapping[str, object]]", tomllib.loads(text).get("packages", [])):
        wheels = cast("list[Mapping[str, object]]", package.get("wheels", []))
        ranked = [(rank, wheel) for wheel in wheels if (rank := _rank(wheel, ranks)) is not None]
        if ranked:
            _, best = min(ranked, key=lambda pair: pair[0])
            digest = cast("Mapping[str, str]", best.get("hashes", {})).get("sha256")
            name = canonicalize_name(str(package["name"]))
            hashes[name] = frozenset([digest.lower()] if digest else [])
    return hashes


def _tags(target: Target) -> Iterable[Tag]:
    major, minor = target.python.split(".")
    version, interpreter = (int(major), int(minor)), f"cp{major}{minor}"
    platforms = pip_resolver.platforms(cast("Arch", target.arch), target.glibc)
    yield from tags.cpython_tags(version, platforms=platforms)
    yield from tags.compatible_tags(version, interpreter, platforms)


def _rank(wheel: Mapping[str, object], ranks: Mapping[Tag, int]) -> tuple[int, int, str] | None:
    """Return how good a wheel is, the least the best: its tag, then the highest build."""
    place = str(wheel.get("name") or wheel.get("url") or wheel.get("path"))
    name = PurePosixPath(unquote(urlsplit(place).path)).name
    try:
        _, _, build, tags_ = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    fitting = [ranks[tag] for tag in tags_ if tag in ranks]
    number, letters = build if build else (-1, "")
    return (min(fitting), -number, letters) if fitting else None

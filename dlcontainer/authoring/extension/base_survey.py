"""What an image holds before a layer comes over it: read from its files, nothing of it runs."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlcontainer.authoring.extension.base_copy import BaseCopy
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import ChecksFailedError
from dlcontainer.formats import apptainer_metadata
from dlcontainer.image import layout, record
from dlcontainer.image.contents import (
    FileTree,
    SquashfsTree,
    TreeContents,
    TreeEntry,
    image_survey,
    take,
)
from dlcontainer.image.contents.image_survey import ImageSurvey, Interpreter
from dlcontainer.image.contents.links import followed
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.packages.resolve.resolution import ParentPin
from dlcontainer.system import foreign_files

LABELS = f"{apptainer_metadata.FOLDER}/labels.json"
# Bytes of a file that says something of the image; of a C library.
_MOST, _MOST_LIBRARY = 64_000_000, 16_000_000
_OWN = (layout.MANIFEST, layout.PROVENANCE, layout.LIBRARIES, layout.VERIFY, layout.PACK, LABELS)
_GLIBC = re.compile(r"(?:/usr)?/lib(?:64)?/(?:[^/]+/)?libc\.so\.6")
_STATED = re.compile(rb"GNU C Library [^\n]*? version (2\.\d+)")
_VERSION = re.compile(r"(?:\d+:)?(2\.\d+)")
_METADATA = re.compile(r"(?P<folder>.*)/[^/]+\.dist-info/METADATA")
_EXTRA = re.compile(r"\bextra\s*[=!]=")


# No slots: an answer is kept in the instance's dictionary.
@dataclass(frozen=True, kw_only=True)
class BaseSurvey:
    """What was read; `texts` are files that say what the image and its packages are, by path."""

    image: BaseCopy
    entries: Sequence[TreeEntry]
    contents: TreeContents
    survey: ImageSurvey
    texts: Mapping[str, str]
    interpreter: Interpreter
    glibc: str

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each path, as `ls -l` shows it."""
        return {entry.path: entry.kind for entry in self.entries}

    @cached_property
    def links(self) -> Mapping[str, str]:
        """What each link says."""
        return {entry.path: entry.target for entry in self.entries if entry.kind == "l"}

    @cached_property
    def metadata(self) -> Mapping[str, Sequence[str]]:
        """The METADATA of Python packages, by the folder that has the packages."""
        listed: dict[str, list[str]] = {}
        for path in self.texts:
            match = _METADATA.fullmatch(path)
            if match:
                listed.setdefault(match["folder"], []).append(path)
        return listed

    def json(self, path: str) -> dict[str, Any]:
        """Return a file of the image that is a JSON object; empty where there is none."""
        return _object(self.texts.get(path))


def read(image: BaseCopy, execution: Execution, folder: Path) -> BaseSurvey:
    """Read an image's files; `folder` is private and empty.

    Raises ChecksFailedError for one without Python or glibc, or that is ours without its record.
    """
    tree = SquashfsTree.of(image.copy, execution.host.environ, execution.runner)
    entries = tree.entries()
    reader = RpmReader(runner=execution.runner, environ=execution.host.environ)
    contents = take(tree, reader, entries)
    survey = image_survey.read(entries, contents.packages)
    texts = _texts(tree, entries, folder)
    _require_record(image, entries)
    return BaseSurvey(
        image=image,
        entries=entries,
        contents=contents,
        survey=survey,
        texts=texts,
        interpreter=_python(image, survey, _object(texts.get(layout.MANIFEST))),
        glibc=_glibc(image, survey, tree, folder),
    )


def _object(text: str | None) -> dict[str, Any]:
    try:
        body = foreign_files.loads(text or "{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def pins(survey: BaseSurvey, folders: Sequence[str]) -> tuple[ParentPin, ...]:
    """List the Python packages that lie in these folders of the image: none may change.

    Of two of a name that of the first folder holds, as for Python. What has no version that Python
    packages have is left out: no resolver takes it.
    """
    installed: dict[str, ParentPin] = {}
    for folder, package in itertools.product(folders, survey.contents.packages):
        version = _version(package.version)
        if package.kind != "pypi" or folder not in package.places or version is None:
            continue
        name = canonicalize_name(package.name)
        pin = ParentPin(
            requirement=Requirement(f"{name}=={version}"),
            origin=f"{survey.image.path.name}:{folder}",
            strength="hard",
            installed=True,
            extras=_extras(survey, folder, name),
        )
        installed.setdefault(name, pin)
    return tuple(pin for _, pin in sorted(installed.items()))


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _extras(survey: BaseSurvey, folder: str, name: str) -> tuple[str, ...]:
    """Return what the extras of an installed package add, as lines of METADATA."""
    for path in survey.metadata.get(folder, ()):
        stem = path.rpartition("/")[0].rpartition("/")[2].partition("-")[0]
        if canonicalize_name(stem) != name:
            continue
        try:
            stated = Metadata.from_email(survey.texts.get(path, ""), validate=False)
            needs, extras = stated.requires_dist or [], stated.provides_extra or []
        except (InvalidMetadata, ExceptionGroup):
            return ()
        return (
            *(f"Provides-Extra: {extra}" for extra in extras),
            *(f"Requires-Dist: {need}" for need in needs if _EXTRA.search(str(need.marker))),
        )
    return ()


def _texts(tree: SquashfsTree, entries: Sequence[TreeEntry], folder: Path) -> dict[str, str]:
    small = {entry.path for entry in entries if entry.kind == "-" and entry.size <= _MOST}
    listed = {path for path in small if _METADATA.fullmatch(path)}
    unpacked = folder / "texts"
    unpacked.mkdir()
    files = tree.fetch((small & {*_OWN, *apptainer_metadata.ENVIRONMENT}) | listed, unpacked)
    return {path: file.read_text(errors="replace") for path, file in files.items()}


def _require_record(image: BaseCopy, entries: Sequence[TreeEntry]) -> None:
    if image.record is None and any(entry.path == layout.FOLDER for entry in entries):
        path = record.beside(image.path)
        raise ChecksFailedError(
            f"{image.path} has a {layout.FOLDER}, and there is no record {path.name} beside it",
            why="an image of dlcontainer is extended by its record, which says what it is for",
            next_step=record.copy_too(path),
        )


def _python(image: BaseCopy, survey: ImageSurvey, manifest: Mapping[str, Any]) -> Interpreter:
    """Choose the Python that is meant: that of the record, or the one that has frameworks."""
    if image.record is not None:
        prefix = image.record.record.content.offer.prefix
        program = str(manifest.get("python") or f"{prefix}/bin/python")
        for interpreter in survey.interpreters:
            if interpreter.prefix == prefix:
                return replace(interpreter, path=program)
    if survey.interpreters:
        return survey.interpreters[0]
    oldest = ".".join(map(str, image_survey.OLDEST))
    raise ChecksFailedError(
        f"{image.path} has no Python",
        why=f"no folder has both lib/python3.*/os.py and bin/python of Python {oldest} or later",
        next_step="choose an image with Python: the layer is one of Python packages",
    )


def _glibc(image: BaseCopy, survey: ImageSurvey, tree: FileTree, folder: Path) -> str:
    """Return the version of the C library as 2.N: of its package, else as the file states it."""
    match = _VERSION.match(survey.glibc or "")
    if match:
        return match[1]
    by_path = {entry.path: entry for entry in tree.entries()}
    ends = (followed(path, by_path) for path in by_path if _GLIBC.fullmatch(path))
    libraries = {end.path for end in ends if end is not None and end.size <= _MOST_LIBRARY}
    unpacked = folder / "glibc"
    unpacked.mkdir()
    for file in tree.fetch(libraries, unpacked).values():
        stated = _STATED.search(file.read_bytes())
        if stated:
            return stated[1].decode()
    raise ChecksFailedError(
        f"can't tell the C library of {image.path}",
        why="no package database names glibc, and no libc.so.6 states its version; wheels for "
        "musl are not chosen",
        next_step="choose an image of a distribution with glibc (Debian, Ubuntu, RHEL, SLES)",
    )

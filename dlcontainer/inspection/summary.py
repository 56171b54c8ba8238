"""Inspect: what an image says of itself, and what its files say. Nothing of the image runs."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.formats import apptainer_metadata
from dlcontainer.image import bill_file, contents, layout, libraries, record, sif
from dlcontainer.image.contents import Library, SquashfsTree, TreeContents, TreeEntry
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.sif import SifPart
from dlcontainer.system import foreign_files
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary

_LABELS = f"{apptainer_metadata.FOLDER}/labels.json"
# Of each file that tells of the image: a bill of materials is the largest.
_MOST_BYTES = 64_000_000
_OWN = (layout.MANIFEST, layout.PROVENANCE, layout.SBOM, layout.LIBRARIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """What was found in and beside an image; None where an image has no such thing."""

    image: Path
    size: int
    arch: str
    parts: tuple[SifPart, ...]
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    contents: TreeContents
    # the tree's listing
    entries: Sequence[TreeEntry]
    manifest: Mapping[str, Any] | None
    provenance: Mapping[str, Any] | None
    libraries: tuple[Library, ...] | None
    # the bill of materials inside, as text
    sbom: str | None
    record: Mapping[str, Any] | None
    notes: tuple[str, ...]


def inspect(image: Path, environ: Mapping[str, str], runner: Runner) -> Inspection:
    """Look at an image file.

    Raises ChecksFailedError for what is no image or is cut, EngineError without unsquashfs.
    """
    parts = sif.parts(image)
    tree = SquashfsTree.of(image, environ, runner)
    entries = tree.entries()
    taken = contents.take(tree, RpmReader(runner=runner, environ=environ), entries)
    notes = list(taken.notes)
    with temporary(environ, runner) as folder:
        small = {entry.path for entry in entries if entry.kind == "-" and entry.size <= _MOST_BYTES}
        readable = small & {*_OWN, *apptainer_metadata.ENVIRONMENT, _LABELS}
        files = tree.fetch(readable, folder)
        texts = {path: file.read_text(errors="replace") for path, file in files.items()}
    if layout.MANIFEST not in texts:
        notes.append(f"no {layout.MANIFEST} inside: not an image of dlcontainer")
    elif layout.SBOM not in texts:
        notes.append("no bill of materials inside: made by an earlier dlcontainer, or by hand")
    bill = texts.get(layout.SBOM)
    with _noting_errors(notes, "the bill of materials"):
        notes += _differences(bill, image, parts, len(taken.packages))
    return Inspection(
        image=image,
        size=image.stat().st_size,
        arch=sif.arch(image),
        parts=parts,
        labels=_object(texts, _LABELS, notes) or {},
        environment=apptainer_metadata.exported(texts),
        contents=taken,
        entries=entries,
        manifest=_object(texts, layout.MANIFEST, notes),
        provenance=_object(texts, layout.PROVENANCE, notes),
        libraries=_libraries(texts, notes),
        sbom=bill,
        record=_record(image, notes),
        notes=tuple(notes),
    )


def require_sbom(inspection: Inspection) -> str:
    """Return the bill inside an image; raises ChecksFailedError where there is none."""
    if inspection.sbom is None:
        raise ChecksFailedError(
            f"{inspection.image} contains no bill of materials",
            why=f"there is no {layout.SBOM} inside",
            next_step="build the image with `dlcontainer build`",
        )
    bill_file.count(inspection.sbom)
    return inspection.sbom


def _differences(
    bill: str | None, image: Path, parts: tuple[SifPart, ...], packages: int
) -> list[str]:
    if bill is None:
        return []
    notes = []
    listed = bill_file.count(bill)
    if listed != packages:
        notes.append(
            f"the bill of materials lists {listed} packages, the package databases {packages}"
        )
    sbom_parts = [part for part in parts if part.kind == "sbom"]
    if sbom_parts and sif.read(image, sbom_parts[0]) != bill.encode():
        notes.append("the SIF's bill of materials is not the bill inside the image")
    return notes


def _object(texts: Mapping[str, str], path: str, notes: list[str]) -> Mapping[str, Any] | None:
    if path not in texts:
        return None
    with _noting_errors(notes, path):
        body = foreign_files.loads(texts[path])
        if isinstance(body, dict):
            return body
        raise ValueError("not a JSON object")
    return None


def _libraries(texts: Mapping[str, str], notes: list[str]) -> tuple[Library, ...] | None:
    if layout.LIBRARIES not in texts:
        return None
    with _noting_errors(notes, layout.LIBRARIES):
        return libraries.read(texts[layout.LIBRARIES])
    return None


def _record(image: Path, notes: list[str]) -> Mapping[str, Any] | None:
    path = record.beside(image)
    with _noting_errors(notes, path.name):
        record_file = record.opened(path)
        return record_file.body if record_file else None
    return None


class _noting_errors(contextlib.AbstractContextManager[None]):  # noqa: N801 - used as a statement
    """Note what can't be read, and go on."""

    def __init__(self, notes: list[str], what: str) -> None:
        self.notes, self.what = notes, what

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if not isinstance(error, (ValueError, KeyError, TypeError, ChecksFailedError)):
            return False
        problem = error.what if isinstance(error, ChecksFailedError) else f"can't be read: {error}"
        self.notes.append(f"{self.what}: {problem}")
        return True

"""What earlier builds left: an image that needs no building, and what its steps were made of."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from dlcontainer import record, rootfs, sbom
from dlcontainer.engines.apptainer import squash
from dlcontainer.explain import Inputs
from dlcontainer.machine import source_date
from dlcontainer.plan import Plan
from dlcontainer.record import Written
from dlcontainer.workshop import Workshop


def paths(plan: Plan, output: Path) -> dict[str, Path]:
    """Name an image's files by suffix: its log, bill of materials, record, itself."""
    suffixes = (".log", sbom.SUFFIX, ".json", ".sif")
    return {suffix: output / f"{plan.name}{suffix}" for suffix in suffixes}


def found(plan: Plan, workshop: Workshop, there: Mapping[str, Path]) -> Written | None:
    """Give the record of the image that is there, if it is this plan's, on today's base, whole."""
    if not all(path.is_file() for path in there.values()):
        return None
    written = record.read(there[".json"])
    lock = workshop.bundle.lock.digest if workshop.bundle else None
    if written is None or (written.digest, written.lock) != (plan.digest, lock):
        return None
    packing = (squash(workshop.level), workshop.order.digest if workshop.order else None)
    if (written.moment, written.packing) != (source_date(workshop.host.environ), packing):
        return None
    if not plan.recipe.base.image:
        base = rootfs.recall(plan, workshop.cache, workshop.bundle)
        if base is None or base.sha256 != written.base:
            return None
    with there[".sif"].open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == written.sha256:
            return written
    workshop.progress.note(f"{there['.sif']} is not what its record says: made anew")
    return None


def inputs(plan: Plan, workshop: Workshop) -> Inputs | None:
    """Give what the steps of the last build of a plan were made of; None where none is known."""
    try:
        body = json.loads(_path(plan, workshop).read_text())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def note_inputs(plan: Plan, workshop: Workshop, made_of: Inputs) -> None:
    """Note what the steps of this build are made of, for the next to compare with."""
    path = _path(plan, workshop)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(json.dumps(made_of))
    aside.replace(path)


def _path(plan: Plan, workshop: Workshop) -> Path:
    return workshop.cache / "inputs" / f"{plan.name}.json"

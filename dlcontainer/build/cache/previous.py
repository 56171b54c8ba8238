"""What earlier builds left: an image that needs no building, and what its steps were made of."""

import json
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import write_record
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.base import root_tree
from dlcontainer.build.cache.explain import Inputs
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.context import Workshop
from dlcontainer.engines.apptainer import squash
from dlcontainer.image import record, sbom
from dlcontainer.image.record import Record
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, digests, foreign_files, guarded_files
from dlcontainer.system.machine import source_date


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where what a build makes lies: the image, if it is a file, and what lies beside it."""

    image: Path | None
    record: Path
    log: Path
    sbom: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.record, self.log, self.sbom, *([self.image] if self.image else []))


def places(plan: Plan, workshop: Workshop, output: Path) -> Places:
    """Name the files of a plan's image, of the outcome that is wanted."""
    outcome = workshop.delivery.outcome
    name = write_record.file_name(plan, outcome)
    stem = output / (plan.name if outcome == "sif" else f"{plan.name}.{outcome}")
    return Places(
        image=output / name if name else None,
        record=stem.with_name(f"{stem.name}.json"),
        log=stem.with_name(f"{stem.name}.log"),
        sbom=stem.with_name(f"{stem.name}{sbom.SUFFIX}"),
    )


def found(plan: Plan, workshop: Workshop, there: Places) -> Record | None:
    """Give the record of the image that is there, if it is this plan's, on today's base, whole.

    None where a registry is to get it: only a build pushes.
    """
    if workshop.delivery.registry or not all(path.is_file() for path in there.files):
        return None
    written = record.read(there.record)
    lock = workshop.bundle.lock.digest if workshop.bundle else None
    packing = (squash(workshop.level), workshop.order.digest if workshop.order else None)
    wanted = (plan.digest, lock, workshop.kind, source_date(workshop.host.environ), packing)
    if written is None or wanted != (
        written.digest,
        written.lock,
        written.engine.builder,
        written.provenance.source_date_epoch,
        (written.engine.squash or (), written.engine.order),
    ):
        return None
    if not plan.recipe.base.image:
        base = root_tree.recall(plan, workshop.cache, workshop.bundle)
        if base is None or written.base is None or base.sha256 != written.base.sha256:
            return None
    if _sha256(plan, workshop, there) == written.image.sha256:
        return written
    workshop.progress.note(f"{there.image or 'the image'} is not what its record says: made again")
    return None


def _sha256(plan: Plan, workshop: Workshop, there: Places) -> str | None:
    if there.image is not None:
        return digests.of_file(there.image)
    if workshop.oci is None:
        return None
    store = OciStore(client=workshop.oci, arch=plan.site.arch)
    image = workshop.oci.image(oci_backend.image_name(plan, store))
    return image.id.removeprefix("sha256:") if image else None


def inputs(plan: Plan, workshop: Workshop) -> Inputs | None:
    """Give what the steps of the last build of a plan were made of; None where none is known."""
    try:
        body = foreign_files.loads(guarded_files.read_own(_path(plan, workshop)))
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def note_inputs(plan: Plan, workshop: Workshop, made_of: Inputs) -> None:
    """Note what the steps of this build are made of, for the next to compare with."""
    path = _path(plan, workshop)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic_files.write(path, json.dumps(made_of), mode=0o600)


def _path(plan: Plan, workshop: Workshop) -> Path:
    return workshop.cache / "inputs" / f"{plan.name}.json"

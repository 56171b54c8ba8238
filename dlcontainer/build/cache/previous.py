"""What earlier builds left: an image that needs no building, and what its steps were made of."""

import json
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import write_record
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.base import carried_base, root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.explain import Inputs
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.context import BuildContext
from dlcontainer.engines.engine import Outcome
from dlcontainer.image import record, sbom
from dlcontainer.image.record import Record
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, digests, foreign_files, guarded_files
from dlcontainer.system.machine import source_date


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOutputs:
    """Where what a build makes lies: the image, if it is a file, and what lies beside it."""

    image: Path | None
    record: Path
    log: Path
    sbom: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.record, self.log, self.sbom, *([self.image] if self.image else []))


def places(plan: Plan, context: BuildContext, output: Path) -> BuildOutputs:
    """Name the files of a plan's image, of the outcome that is wanted."""
    return places_of(plan, context.export.outcome, output)


def places_of(plan: Plan, outcome: Outcome, output: Path) -> BuildOutputs:
    """Name the files of a plan's image of an outcome."""
    name = write_record.file_name(plan, outcome)
    stem = output / (plan.name if outcome == "sif" else f"{plan.name}.{outcome}")
    return BuildOutputs(
        image=output / name if name else None,
        record=stem.with_name(f"{stem.name}.json"),
        log=stem.with_name(f"{stem.name}.log"),
        sbom=stem.with_name(f"{stem.name}{sbom.SUFFIX}"),
    )


def found(
    plan: Plan, context: BuildContext, outputs: BuildOutputs, *, is_newest: bool = False
) -> Record | None:
    """Return the record of the image that is there, if it is this plan's, on today's base, whole.

    `is_newest`: the mirrors have nothing newer, so neither the base's age counts nor an order of
    the files that this build is not told. None where a registry is to get it: only a build
    pushes.
    """
    if context.export.registry or not all(path.is_file() for path in outputs.files):
        return None
    execution, written = context.execution, record.read(outputs.record)
    moment = source_date(execution.host.environ)
    steps = dict(context.refreshed.steps) if context.refreshed else {}
    if written is None:
        return None
    keeps_order = is_newest and context.order is None
    order = context.order.digest if context.order else None
    packing = (context.squash(plan), written.engine.order if keeps_order else order)
    expected = (plan.digest, context.lock, context.kind, moment, packing, steps)
    if expected != (
        written.digest,
        written.lock,
        written.engine.builder,
        written.provenance.source_date_epoch,
        (written.engine.squash or (), written.engine.order),
        dict(written.refresh.steps) if written.refresh else {},
    ):
        return None
    if not (plan.recipe.base.image or (is_newest and context.base is None)):
        base = _base(plan, context)
        if base is None or written.base is None or base.sha256 != written.base.sha256:
            return None
    if _sha256(plan, context, outputs) == written.image.sha256:
        return written
    execution.progress.note(
        f"{outputs.image or 'the image'} does not match its record: building it again"
    )
    return None


def _base(plan: Plan, context: BuildContext) -> BaseTree | None:
    """Return the root tree that a build would begin with, if it needs no making."""
    if context.base is not None:
        return carried_base.peek(plan, context.base, context.bundle)
    return root_tree.recall(plan, context.execution.cache, context.bundle)


def _sha256(plan: Plan, context: BuildContext, outputs: BuildOutputs) -> str | None:
    if outputs.image is not None:
        return digests.of_file(outputs.image)
    if context.oci is None:
        return None
    store = OciStore(client=context.oci, arch=plan.site.arch)
    image = context.oci.image(oci_backend.image_name(plan, store))
    return image.id.removeprefix("sha256:") if image else None


def inputs(plan: Plan, context: BuildContext) -> Inputs | None:
    """Return what the steps of the last build of a plan were made of; None where none is known."""
    try:
        body = foreign_files.loads(guarded_files.read_own(_path(plan, context)))
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def note_inputs(plan: Plan, context: BuildContext, made_of: Inputs) -> None:
    """Note what the steps of this build are made of, for the next to compare with."""
    path = _path(plan, context)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic_files.write(path, json.dumps(made_of), mode=0o600)


def _path(plan: Plan, context: BuildContext) -> Path:
    return context.execution.cache / "inputs" / f"{plan.name}.json"

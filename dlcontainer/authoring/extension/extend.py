"""Extend: an image that is there and a file of packages -> an image with a layer, validated."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.adopt import layer, packing, vetting
from dlcontainer.adopt.packing import PackOrder
from dlcontainer.authoring import wish_files
from dlcontainer.authoring.extension import base_copy, base_survey, layer_content, layer_record
from dlcontainer.authoring.extension.base_copy import BaseCopy
from dlcontainer.authoring.extension.base_survey import BaseSurvey
from dlcontainer.authoring.extension.interpreter import BaseProgram
from dlcontainer.authoring.extension.layer_content import LayerContents, MadeImage, NamedImage
from dlcontainer.authoring.extension.layer_making import LayerMaker
from dlcontainer.authoring.extension.layer_record import BaseProof, RecordFacts
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.engines import apptainer, emulation
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import BuildError, ChecksFailedError, MisfitError, UsageError
from dlcontainer.image import sbom, sif
from dlcontainer.image.record import Record
from dlcontainer.packages.resolve.wishes import WishList
from dlcontainer.planning import built_for
from dlcontainer.sites.site import Site
from dlcontainer.system.background import beside
from dlcontainer.system.machine import free_mb
from dlcontainer.system.process import CommandFailedError
from dlcontainer.system.workspace import settle, settling, workspace
from dlcontainer.validate import validate as validating
from dlcontainer.validate.checks.verify import verify
from dlcontainer.validate.inspected import ImageInspection, ValidateContext

_STEPS = 7
_IMAGE, _RECORD, _BILL = "image.sif", "record.json", "sbom.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendRequest:
    """What was asked: which packages on which image, where to; `most` in bytes, unpacked."""

    image: Path
    wishes: WishList
    site: Site
    output: Path
    tmpdir: Path | None
    name: str | None
    version: str | None
    most: int
    trusted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendContext:
    """With what an image is extended; `validate` hears of each check of the new image."""

    execution: Execution
    validate: ValidateContext


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendResult:
    """An image and its record, in their places, and what the layer brought."""

    image: Path
    record: Path
    written: Record
    layer: LayerContents


def extend(request: ExtendRequest, context: ExtendContext) -> ExtendResult:
    """Add a layer of packages to an image.

    Raises ConfigError for a wrong file of packages, MisfitError where packages, image and site
    contradict each other, ChecksFailedError for an image that can't be used, changes meanwhile or
    fails a check, BuildError where an index or the engine fails. Nothing is left behind then.
    """
    execution, output = context.execution, request.output
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"can't write to {output}: {error.strerror}", next_step="choose another folder: -o DIR"
        ) from None
    runner, note = execution.runner, execution.progress.note
    with (
        workspace(request.tmpdir or output, runner, note) as work,
        workspace(output, runner, note, hands_on=True) as near,
    ):
        return _Extension(request=request, context=context, work=work, near=near).make()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Extension:
    """One extension: `work` is private, `near` on the file system of the output."""

    request: ExtendRequest
    context: ExtendContext
    work: Path
    near: Path

    def make(self) -> ExtendResult:
        """Make the image; the base's own proof runs beside the choice of packages."""
        request, execution = self.request, self.context.execution
        progress = execution.progress
        progress.expect(_STEPS)
        progress.step(f"copy {request.image.name}")
        copy = self.work / "base.sif"
        image = base_copy.take(request.image, copy, request.site.owners, progress.phase)
        self._require_fitting(image)
        progress.step("read the base's files")
        base = base_survey.read(image, execution, self._folder("read"))
        vetting.require_writable(base.entries, self._most, request.image.name)
        named = self._named(base)
        self._require_free(named)
        inspection = ImageInspection(
            image=copy,
            site=request.site,
            context=ValidateContext(execution=execution, on_check=lambda _: None),
            written=image.record.record if image.record else None,
        )
        program = BaseProgram(
            image=copy,
            python=base.interpreter.path,
            arch=request.site.arch,
            contained=inspection.contained,
            execution=execution,
        )
        with beside(execution.runner) as background:
            proofs = background.start(lambda _: _proved(base, inspection))
            contents = self._layer(base, program)
            before = proofs.result()
        new = self._new(named, base, contents)
        progress.step("pack the image")
        self._pack(named, new, base)
        record = self._record(named, new, image)
        progress.step("validate the image")
        image_file = self.near / _IMAGE
        checks = validating.validate(image_file, request.site, self.context.validate, record)
        validating.require_ok(checks)
        layer_record.add_proofs(self.near / _RECORD, before, checks)
        image.require_same()
        return self._settled(named, record, contents)

    @property
    def _most(self) -> int:
        return min(self.request.most, free_mb(self.work) * 1_000_000)

    def _folder(self, name: str) -> Path:
        folder = self.work / name
        folder.mkdir()
        return folder

    def _require_fitting(self, image: BaseCopy) -> None:
        """Refuse an image of another machine or site; raises MisfitError, BuildError."""
        site, name = self.request.site, image.path.name
        arch = sif.arch(image.copy)
        if arch != site.arch:
            raise MisfitError(
                f"{name} is for {arch}, but the site {site.name} has {site.arch}",
                next_step=f"choose an image for {OCI_ARCH[site.arch]}, or a site with {arch}",
            )
        if image.record is not None:
            mismatch = built_for.mismatch(image.record.record.content, site)
            if mismatch is not None:
                raise MisfitError(
                    f"{name} was {mismatch.what}", why=mismatch.why, next_step=mismatch.next_step
                )
        if site.arch != self.context.execution.host.arch:
            emulation.require(site.arch, site.name)

    def _named(self, base: BaseSurvey) -> NamedImage:
        request = self.request
        below = layer_content.named(base)
        before = layer_content.proofs_before(base)
        name = request.name or f"{below.name}-{wish_files.recipe_name(request.wishes.path)}"[:63]
        if name in (below.name, *before):
            raise UsageError(
                f"--name {name}: an image below the layer has this name",
                next_step=f"choose another: --name {name}-2",
            )
        return NamedImage(
            name=name.rstrip("-._"), version=request.version or below.version, site=request.site
        )

    def _place(self, named: NamedImage, suffix: str) -> Path:
        stem = f"{named.name}-{named.version}-{self.request.site.target}"
        return self.request.output / f"{stem}{suffix}"

    def _require_free(self, named: NamedImage) -> None:
        """Refuse to write over an image; raises UsageError."""
        for suffix in (".sif", ".json"):
            place = self._place(named, suffix)
            if place.exists() or place.is_symlink():
                raise UsageError(
                    f"{place} is there already",
                    why="`extend` writes over nothing",
                    next_step="choose another name (--name NAME/VERSION) or folder (-o DIR)",
                )

    def _layer(self, base: BaseSurvey, program: BaseProgram) -> LayerContents:
        request = self.request
        maker = LayerMaker(
            base=base,
            program=program,
            wishes=request.wishes,
            site=request.site,
            execution=self.context.execution,
            work=self._folder("making"),
            most=self._most,
        )
        return maker.make(self._folder("layer"))

    def _new(self, named: NamedImage, base: BaseSurvey, contents: LayerContents) -> MadeImage:
        content = layer_content.content(named, base, contents)
        bill = layer_content.bill(named, layer.digest(content), base, contents)
        (self.near / _BILL).write_text(bill)
        return MadeImage(content=content, layer=contents, bill=bill)

    def _pack(self, named: NamedImage, new: MadeImage, base: BaseSurvey) -> None:
        """Let the engine lay the layer over the base, and add the bill as a part of the file."""
        execution, image = self.context.execution, self.near / _IMAGE
        folder = self.work / "layer"
        layer_content.write(folder, named, new, base)
        (self.work / layer_content.DEFINITION).write_text(layer_content.definition(base.image.copy))
        order = PackOrder(
            work=self.work,
            definition=layer_content.DEFINITION,
            image=image,
            arch=self.request.site.arch,
            squash=apptainer.SQUASH,
            values={"DLC_LAYER": str(folder)},
        )
        packing.build(order, execution)
        options = sif.part_options(self.request.site.arch)["sbom"]
        argv = execution.engine.sif_add_argv(image, self.near / _BILL, sif.BILL, options)
        try:
            execution.runner(argv, env=apptainer.environment(execution.host.environ))
        except CommandFailedError:
            execution.progress.line(sif.NO_BILLS)

    def _record(self, named: NamedImage, new: MadeImage, image: BaseCopy) -> Record:
        facts = RecordFacts(
            content=new.content,
            image=self.near / _IMAGE,
            name=self._place(named, ".sif").name,
            base=image,
            execution=self.context.execution,
            trusted=self.request.trusted,
        )
        return layer_record.write(self.near / _RECORD, facts)

    def _settled(self, named: NamedImage, record: Record, contents: LayerContents) -> ExtendResult:
        image, written = self._place(named, ".sif"), self._place(named, ".json")
        with settling(self.request.output):
            # Another extension may have ended meanwhile.
            self._require_free(named)
            settle(self.near / _BILL, self._place(named, sbom.SUFFIX))
            settle(self.near / _RECORD, written)
            # Last: who sees the image sees its record too.
            settle(self.near / _IMAGE, image)
        return ExtendResult(image=image, record=written, written=record, layer=contents)


def _proved(base: BaseSurvey, inspection: ImageInspection) -> list[BaseProof]:
    """Run the base's own proofs, where it has any; raises ChecksFailedError for one that fails."""
    if base.image.record is None or not layer_content.proofs_before(base):
        return []
    try:
        outcomes = list(verify(inspection))
    except LookupError as error:
        raise _unproved(base, str(error)) from None
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed:
        raise _unproved(base, failed[0].detail)
    recipe = layer_content.named(base).name
    return [BaseProof(of=outcome.of or recipe, detail=outcome.detail) for outcome in outcomes]


def _unproved(base: BaseSurvey, why: str) -> ChecksFailedError:
    name = base.image.path.name
    return ChecksFailedError(
        f"{name} fails its own proof, before anything is added to it",
        why=why,
        next_step="look at the base first: dlcontainer validate IMAGE",
    )

"""Adopt: an image of somebody else's -> an image with a record; nothing of it runs on the way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.adopt import given, layer, links, packing, vetting, write_record
from dlcontainer.adopt.given import AdoptionSource
from dlcontainer.adopt.layer import ImageOrigin
from dlcontainer.adopt.packing import PackOrder
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.engines import apptainer
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import BuildError, ChecksFailedError, MisfitError
from dlcontainer.formats import apptainer_metadata
from dlcontainer.image import sbom, sif
from dlcontainer.image.contents import SquashfsTree, TreeEntry, image_survey, take
from dlcontainer.image.contents.image_survey import ImageSurvey
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.record import Record
from dlcontainer.registry import archive, pull
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import free_mb
from dlcontainer.system.workspace import settle, settling, workspace

_LAYOUT, _PLAIN = "layout", "plain.sif"
# Of a script that sets variables, bytes.
_MOST = 1_000_000
# Between two steps: quick to write and to read.
_QUICK = ("-comp", "lz4")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionOptions:
    """What was asked: where to, how it is called, which commands a module has; `most` in bytes."""

    output: Path
    tmpdir: Path | None
    commands: tuple[str, ...]
    name: str | None
    version: str | None
    most: int
    trusted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptContext:
    """With what an image is adopted; `check` validates it against its record."""

    execution: Execution
    access: RegistryAccess
    check: Callable[[Path, Record], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionResult:
    """An image and its record, in their places, and what its files told."""

    image: Path
    record: Path
    digest: str
    survey: ImageSurvey
    trusted: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Adoption:
    """One adoption: `work` is private, `near` on the file system of the output."""

    source: AdoptionSource
    site: Site
    wishes: AdoptionOptions
    context: AdoptContext
    work: Path
    near: Path


def adopt(
    source: AdoptionSource, site: Site, wishes: AdoptionOptions, context: AdoptContext
) -> AdoptionResult:
    """Adopt an image for a site.

    Raises BuildError for a registry or an archive that does not give what it announced,
    ChecksFailedError for an image that can't be used or fails a check, MisfitError for another
    architecture. Nothing is left behind then.
    """
    try:
        wishes.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"can't write to {wishes.output}: {error.strerror}",
            next_step="choose another folder: -o DIR",
        ) from None
    parent, execution = wishes.tmpdir or wishes.output, context.execution
    with (
        workspace(parent, execution.runner, execution.progress.note) as work,
        workspace(wishes.output, execution.runner, execution.progress.note, hands_on=True) as near,
    ):
        return _adopted(
            _Adoption(
                source=source, site=site, wishes=wishes, context=context, work=work, near=near
            )
        )


def _adopted(work: _Adoption) -> AdoptionResult:
    execution, site = work.context.execution, work.site
    # Its files, the layer, the validation; before them what makes a SIF of another kind.
    execution.progress.expect(3 if work.source.kind == "sif" else 5)
    digest = _plain(work)
    image, origin = work.work / _PLAIN, _origin(work, digest)
    _require_arch(image, site, origin)
    execution.progress.step("read the image's files")
    tree = SquashfsTree.of(image, execution.host.environ, execution.runner)
    entries = tree.entries()
    vetting.require_harmless(entries, _most(work), origin.source)
    rpms = RpmReader(runner=execution.runner, environ=execution.host.environ)
    contents = take(tree, rpms, entries)
    survey = image_survey.read(entries, contents.packages)
    _require_usable(survey, origin)
    _require_commands(work.wishes.commands, entries, origin)
    sets = _variables(tree, work.work / "scripts")
    content = layer.content(origin, site, survey, work.wishes.commands, sets)
    execution.progress.step("add a layer with record, probe and mount points")
    folder = work.work / "layer"
    folder.mkdir()
    layer.write(folder, content, site, entries, survey.interpreters[0])
    (work.work / layer.DEFINITION).write_text(layer.definition(image, content, origin))
    finished = work.near / "image.sif"
    _build(work, layer.DEFINITION, finished, apptainer.SQUASH, {"DLC_LAYER": str(folder)})
    written = write_record.AdoptionFacts(
        origin=origin,
        content=content,
        image=finished,
        name=f"{_stem(work, origin)}.sif",
        execution=execution,
        trusted=work.wishes.trusted,
    )
    record = write_record.write(work.near / "record.json", written)
    bill = write_record.bill(origin, layer.digest(content), site.arch, contents)
    (work.near / "sbom.json").write_text(bill)
    execution.progress.step("validate the image")
    work.context.check(finished, record)
    return _settled(work, origin, survey, record)


def _most(work: _Adoption) -> int:
    return min(work.wishes.most, free_mb(work.work) * 1_000_000)


def _plain(work: _Adoption) -> str:
    """Have the image as a SIF in the private folder; return the digest that names it."""
    source, execution, plain = work.source, work.context.execution, work.work / _PLAIN
    if source.kind == "sif":
        plain.symlink_to(source.path)
        return given.sha256_of(source.path)
    layout = work.work / _LAYOUT
    layout.mkdir()
    most = _most(work)
    if source.reference is not None:
        execution.progress.step(f"fetch {source.reference}")
        digest = str(source.reference.digest)
        pull.pull(source.reference, work.site.arch, work.context.access, layout, most)
    else:
        execution.progress.step(f"read {source.path.name}")
        digest = archive.unpack(source.path, work.site.arch, layout, most)
    where = source.reference or source.path.name
    manifest = archive.manifest_of(layout)
    replacements = vetting.require_layers(layout, manifest, most, where)
    for fix in replacements:
        execution.progress.note(fix.said)
    if replacements:
        links.lay(layout, manifest, replacements)
    execution.progress.step("unpack the layers")
    _build(work, f"oci:{_LAYOUT}", plain, _QUICK, {})
    return digest


def _origin(work: _Adoption, digest: str) -> ImageOrigin:
    name, version = given.name_of(work.source, digest)
    return ImageOrigin(
        source=given.shown(work.source, digest),
        digest=digest,
        name=work.wishes.name or name,
        version=work.wishes.version or version,
    )


def _build(
    work: _Adoption, definition: str, image: Path, squash: Sequence[str], values: Mapping[str, str]
) -> None:
    order = PackOrder(
        work=work.work,
        definition=definition,
        image=image,
        arch=work.site.arch,
        squash=squash,
        values=values,
    )
    packing.build(order, work.context.execution)


def _variables(tree: SquashfsTree, folder: Path) -> list[str]:
    """Name the variables that the image's scripts set, read and not run."""
    folder.mkdir()
    sizes = {entry.path: entry.size for entry in tree.entries() if entry.kind == "-"}
    paths = [path for path in apptainer_metadata.ENVIRONMENT if sizes.get(path, _MOST) < _MOST]
    files = tree.fetch(paths, folder)
    return list(
        apptainer_metadata.exported(
            {path: file.read_text(errors="replace") for path, file in files.items()}
        )
    )


def _require_arch(image: Path, site: Site, origin: ImageOrigin) -> None:
    arch = sif.arch(image)
    if arch != site.arch:
        raise MisfitError(
            f"{origin.source} is for {arch}, but the site {site.name} has {site.arch}",
            next_step=f"choose an image for {OCI_ARCH[site.arch]}, or a site with {arch}",
        )


def _require_usable(survey: ImageSurvey, origin: ImageOrigin) -> None:
    if survey.c_library == "musl":
        raise ChecksFailedError(
            f"{origin.source} has musl as its C library",
            why="a site's drivers and MPI libraries are built for glibc and don't load with musl",
            next_step="choose an image of a distribution with glibc (Debian, Ubuntu, RHEL, SLES)",
        )
    if not survey.interpreters:
        oldest = ".".join(map(str, image_survey.OLDEST))
        raise ChecksFailedError(
            f"{origin.source} has no Python",
            why=f"no folder has both lib/python3.*/os.py and bin/python of Python {oldest} or "
            "later",
            next_step="choose an image with Python: validation and measurements need it",
        )


def _require_commands(
    names: Sequence[str], entries: Sequence[TreeEntry], origin: ImageOrigin
) -> None:
    present = {entry.path.rpartition("/")[2] for entry in entries if entry.kind in "-l"}
    missing = sorted(set(names) - present)
    if missing:
        raise ChecksFailedError(
            f"{origin.source} has no command {', '.join(missing)}",
            why="a module would offer this command, but the image has no file of that name",
            next_step="check the names: --command NAME",
        )


def _stem(work: _Adoption, origin: ImageOrigin) -> str:
    return f"{origin.name}-{origin.version}-{work.site.target}"


def _settled(
    work: _Adoption, origin: ImageOrigin, survey: ImageSurvey, record: Record
) -> AdoptionResult:
    stem = work.wishes.output / _stem(work, origin)
    image = stem.with_name(f"{stem.name}.sif")
    written = stem.with_name(f"{stem.name}.json")
    with settling(work.wishes.output):
        settle(work.near / "sbom.json", stem.with_name(f"{stem.name}{sbom.SUFFIX}"))
        settle(work.near / "record.json", written)
        # Last: who sees the image sees its record too.
        settle(work.near / "image.sif", image)
    return AdoptionResult(
        image=image,
        record=written,
        digest=record.digest,
        survey=survey,
        trusted=not record.is_contained,
    )

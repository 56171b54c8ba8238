"""`dlcontainer render`: the text of a recipe for a site, in one format."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan

Format = Literal["apptainer", "dockerfile", "native", "job", "route"]


def render(
    site: options.OptionalSite = None,
    recipe: options.Recipe = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            help="Format to render. Default: apptainer; into a folder, apptainer and dockerfile.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File for the text; or folder (existing, or ending in /) for the text "
            "and all files that a build without dlcontainer needs.",
        ),
    ] = None,
    with_base: Annotated[
        bool,
        typer.Option(
            "--with-base", help="Also put the base into the folder, if no registry has it."
        ),
    ] = False,
    every: options.All = False,
    launch: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="NAME",
            help="The site's form that starts the job script's ranks. Default: its first.",
        ),
    ] = None,
    account: options.Account = None,
    partition: options.Partition = None,
    time: options.Time = None,
    nodes: options.Nodes = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Render the definition file, the Dockerfile, the native script or the site's job script."""
    from dlcontainer.cli.context import here
    from dlcontainer.sites.site import SiteTarget

    resource_settings = options.resources(
        account=account, partition=partition, time=time, nodes=nodes
    )
    if (launch is not None or resource_settings) and form != "job":
        raise UsageError(
            "--form, --account, --partition, --time and --nodes apply to job scripts only",
            next_step="add --format job",
        )
    world = here()
    if every:
        options.refuse_with_all(
            set=settings,
            node_type=node_type,
            epoch=epoch,
            variant=variant,
            with_base=with_base or None,
        )
        _render_all(world, recipe, site, target, cpu=cpu, as_json=as_json)
        return
    site = options.required_site(site, "render", recipe)
    every_setting = [*(settings or []), *resource_settings]
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    settled = world.plan(recipe, site, every_setting, meant, variant, cpu=cpu)
    request = _RenderRequest(form=form, launch=launch, target=target, with_base=with_base)
    console = output.Console(verbose=verbose, quiet=as_json)
    _render(world, settled, request, console, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RenderRequest:
    """What was asked for: a format, of a job script its form, and where it goes."""

    form: Format | None
    launch: str | None
    target: str | None
    with_base: bool

    @property
    def into(self) -> bool:
        """Whether the text, and what it needs, goes into a folder."""
        if self.target is None:
            return False
        from dlcontainer.formats import build_context

        return build_context.is_folder(self.target)

    @property
    def builds(self) -> bool:
        """Whether that folder gets all that a build without dlcontainer needs."""
        if not self.into:
            return False
        from dlcontainer.formats import folder_readme

        return (self.form or "apptainer") in folder_readme.COMMANDS


def _render_all(
    world: "CliContext",
    recipe: str | None,
    site: str | None,
    target: str | None,
    *,
    cpu: bool,
    as_json: bool,
) -> None:
    from dlcontainer.cli import matrix

    if target is None:
        raise UsageError("--all requires a folder to write to", next_step="add -o DIR")
    matrix.render_all(world, recipe, site, Path(target), cpu=cpu, as_json=as_json)


def _render(
    world: "CliContext",
    settled: "Plan",
    request: _RenderRequest,
    console: output.Console,
    *,
    as_json: bool,
) -> None:
    from dlcontainer.formats import texts
    from dlcontainer.sites import gpu_jobs

    form: Format = request.form or "apptainer"
    folders = world.resources.template_folders()
    builds = request.builds
    if request.with_base and not builds:
        raise UsageError(
            "--with-base requires a folder that an image is built in",
            next_step="use -o FOLDER/ with --format apptainer, dockerfile or route",
        )
    text = texts.text(settled, form, folders, request.launch)
    for note in gpu_jobs.notes(settled.site) if form == "job" else ():
        output.complain(f"note: {note}")
    neighbours = texts.beside(settled, form, folders)
    if builds and request.form is None:
        name = texts.FILE_NAMES["dockerfile"]
        neighbours[name] = texts.text(settled, "dockerfile", folders)
    every = {texts.FILE_NAMES[form]: text, **neighbours}
    written, message = None, ""
    if builds:
        from dlcontainer.formats import standing_alone

        target = Path(str(request.target))
        laid = _base_layer(world, settled, request, every, console)
        names = standing_alone.write(settled, every, target, folders, laid)
        written, message = target / texts.FILE_NAMES[form], f"wrote {target}: {', '.join(names)}"
    elif request.target is not None:
        from dlcontainer.formats import build_context

        written = build_context.write(settled, form, text, request.target, neighbours)
        message = f"wrote {written}"
    if as_json:
        body = {"format": form, "digest": settled.digest, "text": text, "beside": neighbours}
        output.emit("render", {**body, "written": str(written) if written else None})
    elif written is None:
        output.write(text)
    else:
        output.say(message)
        _say_missing(settled, every, request)


def _say_missing(settled: "Plan", every: "Mapping[str, str]", request: _RenderRequest) -> None:
    """Say in one line that a text begins with a file that is not beside it."""
    from dlcontainer.formats import folder_readme

    files = folder_readme.base_files(settled, every)
    if files and not request.with_base:
        how = "add --with-base" if request.into else "-o FOLDER/ --with-base"
        output.complain(f"note: the base is missing ({', '.join(files)}); to get it: {how}")


def _base_layer(
    world: "CliContext",
    settled: "Plan",
    request: _RenderRequest,
    every: "Mapping[str, str]",
    console: output.Console,
) -> "Callable[[Path], None] | None":
    """Return what puts the base into the folder; None where nobody asked, or a registry has it."""
    from dlcontainer.formats import folder_readme

    files = folder_readme.base_files(settled, every)
    if not (request.with_base and files):
        return None
    from dlcontainer.build import preflight
    from dlcontainer.build.base import finished
    from dlcontainer.cli.fetch import finisher
    from dlcontainer.system import file_locks

    scratch = preflight.choose_tmpdir(settled, world.host, None)
    log = Path(f"{Path(str(request.target))}.failed.log")

    def lay(folder: Path) -> None:
        with file_locks.building(world.cache, console.note):
            finished.lay(settled, finisher(world, console, scratch), files, folder, log)

    return lay

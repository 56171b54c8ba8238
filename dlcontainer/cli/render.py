"""`dlcontainer render`: the text of a recipe for a site, in one format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dlcontainer.cli import matrix, options, output
from dlcontainer.errors import UsageError

Format = Literal["apptainer", "dockerfile", "native", "job", "route"]


def render(
    site: options.OptionalSite = None,
    recipe: options.Recipe = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    form: Annotated[Format, typer.Option("--format", "-f", help="What to render.")] = "apptainer",
    target: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A file for the text; or a folder (ending in / or there already) for the text "
            "and the files that it names.",
        ),
    ] = None,
    every: options.All = False,
    launch: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="NAME",
            help="A job script's way to place ranks. Default: the site's first.",
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
    from dlcontainer.formats import build_context, texts
    from dlcontainer.sites.site import Target

    asked = options.resources(account=account, partition=partition, time=time, nodes=nodes)
    if (launch is not None or asked) and form != "job":
        raise UsageError(
            "--form, --account, --partition, --time and --nodes are a job script's",
            next_step="--format job",
        )
    world = here()
    if every:
        options.refuse_with_all(set=settings, node_type=node_type, epoch=epoch, variant=variant)
        if target is None:
            raise UsageError("--all writes a folder: which?", next_step="-o DIR")
        matrix.render_all(world, recipe, site, Path(target), cpu=cpu, as_json=as_json)
        return
    site = options.required_site(site, "render", recipe)
    given = [*(settings or []), *asked]
    meant = Target(node_type=node_type, epoch=epoch)
    settled = world.plan(recipe, site, given, meant, variant, cpu=cpu)
    folders = world.resources.template_folders()
    text = texts.text(settled, form, folders, launch)
    beside = texts.beside(settled, form, folders)
    written = None
    if target is not None:
        written = build_context.write(settled, form, text, target, beside)
    if as_json:
        body = {"format": form, "digest": settled.digest, "text": text, "beside": beside}
        output.emit("render", {**body, "written": str(written) if written else None})
    elif written is None:
        output.write(text)
    else:
        output.say(f"wrote {written}")

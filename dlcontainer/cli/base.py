"""`dlcontainer base`: what an image starts from, pinned by digest or made as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.app import App

if TYPE_CHECKING:
    from dlcontainer.config.image_names import ImageReference

app = App(help="Bases: pin a registry image by its digest, or build a root tree as a file.")


@app.command()
def pin(
    site: options.Site,
    recipe: options.Recipe = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="docker://NAME[:TAG]",
            help="Pin this image instead of the recipe's, such as a mirror's copy.",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--print", help="Print the lines for a site file; write nothing.")
    ] = False,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    settings: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Pin a base image: read its digest from the registry and save it for this site."""
    from dlcontainer.build.base import pins
    from dlcontainer.cli.context import here
    from dlcontainer.sites.site import SiteTarget

    world = here()
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    # As if nothing were pinned yet: the name that the recipe gives is what is looked up.
    as_image = ["base.kind=oci", "site.images=null", *(settings or [])]
    settled = world.plan(recipe, site, as_image, meant, variant, cpu=cpu)
    usual = world.plan(recipe, site, settings, meant, variant, cpu=cpu).recipe.base
    is_tree = usual.image is None
    pin = pins.read(settled, _given(image), world.host, replaces_tree=is_tree)
    name = world.locate("site-configs", _bare(site)).stem
    if not show:
        pins.write(world.pins_file, name, pin)
    place = None if show else str(world.pins_file)
    if as_json:
        body = {"image": pin.image, "pinned": pin.pinned, "site": name, "file": place}
        output.emit("base-pinned", body)
    elif show:
        output.write(f"{pins.as_site_lines(pin)}\n")
    else:
        output.say(f"{place}: pinned {pin.image} to {pin.pinned} for site {name}")


@app.command()
def make(
    site: options.Site,
    target: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    recipe: options.Recipe = None,
    locked: Annotated[
        Path | None,
        typer.Option("--locked", metavar="FILE", help="Use exactly the packages of this lock."),
    ] = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    settings: options.Set = None,
    tmpdir: options.Tmpdir = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Build the root tree that an image starts from, as a file for `build --base` elsewhere."""
    from dlcontainer.build.base import finished
    from dlcontainer.cli import fetch
    from dlcontainer.cli.context import here
    from dlcontainer.sites.site import SiteTarget
    from dlcontainer.system import file_locks

    world = here()
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    settled = world.plan(recipe, site, settings, meant, variant, cpu=cpu)
    console = output.Console(verbose=verbose, events=as_json)
    with file_locks.building(world.cache, console.note):
        bundle = fetch.bundle_of(
            world, settled, console, locked=locked, offline=None, dry_run=False
        )
        record = finished.make(
            settled, bundle, fetch.finisher(world, console, tmpdir), target.absolute()
        )
    if as_json:
        output.emit("base-made", {"file": str(target), **record.model_dump(exclude={"schema_"})})
        return
    console.end(f"done: {record.size / 1e6:.0f} MB, sha256:{record.sha256}")
    output.copied(str(target))


def _bare(site: str) -> str:
    from dlcontainer.sites.site import read_target

    return read_target(site)[0]


def _given(image: str | None) -> "ImageReference | None":
    from dlcontainer.config.image_names import parse_image
    from dlcontainer.errors import UsageError

    if image is None:
        return None
    try:
        return parse_image(image)
    except ValueError as error:
        raise UsageError(f"--image: {error}") from None

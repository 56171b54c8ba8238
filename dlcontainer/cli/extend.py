"""`dlcontainer extend`: a layer of one's own packages on an image that is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import adopt, options, output, own_recipes
from dlcontainer.engines.engine import EngineKind
from dlcontainer.errors import MisfitError

if TYPE_CHECKING:
    from dlcontainer.authoring.extension.extend import ExtendContext, ExtendResult
    from dlcontainer.cli.context import CliContext

Image = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE",
        readable=False,
        help="A SIF file: a centre's, or one that dlcontainer made, with its record beside it.",
    ),
]
Requirements = Annotated[
    Path,
    typer.Option(
        "--requirement",
        "-r",
        metavar="FILE",
        help="requirements*.txt, pyproject.toml, pylock.toml, uv.lock or environment.yml.",
    ),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME[/VERSION]",
        help="Name of the image. Default: the base's and FILE's, with the base's version.",
    ),
]
Engine = Annotated[
    EngineKind | None,
    typer.Option("--engine", help="Engine that adds the layer. Default: the site's."),
]


def extend(
    image: Image,
    file: Requirements,
    site: options.Site,
    target: options.Output = Path("images"),
    name: Named = None,
    group: own_recipes.Group = None,
    extra: own_recipes.Extra = None,
    trust: adopt.Trust = False,
    engine: Engine = None,
    most_gb: adopt.Most = 100,
    tmpdir: options.Tmpdir = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Add your own Python packages to an image that is there; nothing of it is replaced."""
    from dlcontainer.authoring.extension import extend as extending
    from dlcontainer.authoring.readers import wish_file
    from dlcontainer.cli.context import here

    world = here()
    loaded = world.site(site).value
    _require_apptainer(engine or loaded.engine.kind, is_typed=engine is not None)
    module, version = adopt.names(name)
    request = extending.ExtendRequest(
        image=options.image_file(image),
        wishes=wish_file.read(file, groups=group or (), extras=extra or ()),
        site=loaded,
        output=target.absolute(),
        tmpdir=tmpdir.absolute() if tmpdir else None,
        name=module,
        version=version,
        most=most_gb * 10**9,
        trusted=trust,
    )
    console = output.Console(verbose=verbose, events=as_json)
    for note in request.wishes.notes:
        console.note(note)
    with console.beating():
        done = extending.extend(request, _context(world, console))
    _show(done, console, as_json=as_json)


def _require_apptainer(engine: EngineKind, *, is_typed: bool) -> None:
    if engine != "apptainer":
        raise MisfitError(
            f"{engine} can't extend a SIF",
            where=None if is_typed else "engine.kind of the site",
            why="Docker and Podman add layers to images in their own stores, and take no SIF as "
            "one of them",
            next_step="use --engine apptainer; or build an image of a recipe with these packages",
        )


def _context(world: "CliContext", console: output.Console) -> "ExtendContext":
    from dlcontainer.authoring.extension.extend import ExtendContext
    from dlcontainer.validate.inspected import ValidateContext

    execution = world.execution(console)
    return ExtendContext(
        execution=execution,
        validate=ValidateContext(
            execution=execution, on_check=console.checked, on_begin=console.phase
        ),
    )


def _show(done: "ExtendResult", console: output.Console, *, as_json: bool) -> None:
    packages = [f"{wheel.name}=={wheel.version}" for wheel in done.layer.wheels]
    base = done.written.base
    notes = [str(note) for note in done.layer.resolution.notes]
    trusted = not done.written.is_contained
    if as_json:
        body = {
            "image": str(done.image),
            "record": str(done.record),
            "digest": done.written.digest,
            "sha256": done.written.image.sha256,
            "base": {"path": base and base.path, "sha256": base and base.sha256},
            "packages": packages,
            "modules": done.layer.module_names,
            "commands": list(done.layer.commands),
            "resolver": done.layer.resolution.resolver,
            "notes": notes,
            "trusted": trusted,
        }
        output.emit("extend", body)
        return
    for note in notes:
        console.note(note)
    rows = [
        ("packages", ", ".join(packages)),
        ("base", f"{base.path}, sha256:{base.sha256}" if base else "?"),
        ("runs", adopt.how_it_runs(trusted=trusted)),
    ]
    output.complain(output.table(rows))
    output.copied(str(done.image))

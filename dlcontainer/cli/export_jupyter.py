"""`dlcontainer export jupyter`: a published module as a kernel in Jupyter's menu."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.publish.kernelspec import KernelModule

_VENV = "DLCONTAINER_VENV"


def jupyter(
    module: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE]",
            help="A published version's folder, or NAME/VERSION with --root. Default: "
            "the loaded module.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="Published tree that has the module."),
    ] = None,
    venv: Annotated[
        Path | None,
        typer.Option(
            "--venv",
            metavar="DIR",
            help=f"Environment made by dlcontainer-venv. Default: ${_VENV}, if it is set.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The kernel's name. Default: the module's."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for kernels. Default: this user's Jupyter folder.",
        ),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a kernelspec, so that Jupyter notebooks run in a published module."""
    from dlcontainer.cli.context import here
    from dlcontainer.publish import kernelspec
    from dlcontainer.system.environ import variables

    world = here()
    console = output.Console(verbose=verbose, quiet=as_json)
    chosen = _module(world, module, root)
    active = variables.text(world.environ, _VENV)
    environment = venv or (Path(active) if active else None)
    places = kernelspec.folders(world.environ, world.host.home)
    console.step(f"try {chosen.name}")
    runner = console.runner(world.environ)
    kernel = kernelspec.tried(
        chosen,
        environment.absolute() if environment else None,
        places.runtime,
        world.environ,
        runner,
    )
    path = kernelspec.write(kernel, (target or places.kernels).absolute(), name or kernel.name)
    if as_json:
        body = {"kernel": path.parent.name, "title": kernel.title, "file": str(path)}
        more = {"env": dict(kernel.environ), "debugger": kernel.debugger}
        output.emit("export-jupyter", {**body, "module": chosen.name, **more})
        return
    if variables.text(kernel.environ, "DLCONTAINER_BIND"):
        console.note(
            f"DLCONTAINER_BIND shows {places.runtime} to the image: this kernel "
            "works only for users whose Jupyter writes there"
        )
    output.copied(str(path), before="wrote ")
    output.say(
        f"next: choose {kernel.title!r} in Jupyter, or: jupyter console --kernel {path.parent.name}"
    )


def _module(world: "CliContext", name: str | None, root: Path | None) -> "KernelModule":
    from dlcontainer.errors import UsageError
    from dlcontainer.publish import kernelspec
    from dlcontainer.publish.tree import changes, layout
    from dlcontainer.system.machine import find_program

    if name is None:
        python = find_program("python", world.environ)
        folder = python.parent.parent if python is not None else None
        if root is None and folder is not None and _has_image(folder):
            return kernelspec.at(folder)
        raise UsageError(
            "no module is loaded, and none was named",
            next_step="run `module load NAME`, or give NAME/VERSION with --root ROOT",
        )
    if root is None:
        return kernelspec.at(Path(name))
    version = name.partition("/")[2]
    if not version or "/" in version:
        raise UsageError(f"{name}: not NAME/VERSION", next_step="write it as for `module load`")
    for listed in changes.listing(root.absolute()):
        if listed.is_called(name):
            return kernelspec.at(listed.folder)
    raise UsageError(
        f"{name} is not published in {root}", next_step=layout.typed(root.absolute(), "list")
    )


def _has_image(folder: Path) -> bool:
    """Return whether a folder is a release, of an image file or an unpacked one."""
    return any((folder / name).is_file() for name in ("image.sif", "tree.list"))

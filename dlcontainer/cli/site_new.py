"""`dlcontainer site new`: a first site file of this machine, which `plan` takes as it is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext

Detected = Annotated[
    Path | None,
    typer.Option(
        "--detected",
        metavar="FILE",
        readable=False,
        help="What `site detect -o FILE` wrote. Default: this node is asked now.",
    ),
]


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the site to make.")],
    from_machine: Annotated[
        bool, typer.Option("--from-machine", help="Write what the machine says of itself.")
    ] = False,
    detected: Detected = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="New site file. Default: NAME.yaml below your own site configs.",
        ),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a first site file of this machine, each value with how it was read.

    What is unknown is left out; `plan` takes the file as it is.
    """
    from dlcontainer.cli import site_detect
    from dlcontainer.cli.context import here
    from dlcontainer.detection import node_report, site_file

    if not from_machine:
        raise UsageError(
            "Missing option '--from-machine'.",
            next_step=f"dlcontainer site new {name} --from-machine; or copy a site that is there: "
            "dlcontainer site show SITE --path",
        )
    world, console = here(), output.Console(verbose=verbose, quiet=as_json)
    path = _new_file(world, name, target)
    detection = node_report.read(detected) if detected else site_detect.this_node(world, console)
    text = site_file.text(name, detection)
    _require_loads(world, path, text, console)
    _write(path, text)
    missing = site_file.unknowns(detection)
    if as_json:
        output.emit("site-new", {"site": str(path), "unknown": list(missing)})
        return
    output.copied(str(path), before="wrote ")
    if missing:
        output.title("\nnot known, so left out")
        output.listed(missing)
    output.copied(f"dlcontainer plan --site {name if target is None else path}", before="\nnext: ")


def _new_file(world: "CliContext", name: str, target: Path | None) -> Path:
    """Return where the file is to stand; raises UsageError for a name or a file that is there."""
    from dlcontainer.detection import site_file

    if not site_file.is_name(name):
        raise UsageError(
            f"not a site's name: {name!r}", next_step="use a-z, 0-9, '.', '_' and '-', up to 63"
        )
    path = target or world.user_folder / "site-configs" / f"{name}.yaml"
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{path} exists already: a site file is never overwritten",
            next_step="choose another name, or remove that file",
        )
    if target is None and name in world.resources.names("site-configs"):
        raise UsageError(
            f"there is a site named {name!r} already",
            why=f"it is {world.locate('site-configs', name)}",
            next_step="choose another name, or another file with -o",
        )
    return path.absolute()


def _require_loads(world: "CliContext", path: Path, text: str, console: output.Console) -> None:
    """Read the site as a user will, before it takes its place; raises ConfigError."""
    from dlcontainer.system import workspace

    with workspace.temporary(world.environ, console.runner(world.environ)) as folder:
        draft = folder / path.name
        draft.write_text(text)
        world.site(str(draft))


def _write(path: Path, text: str) -> None:
    from dlcontainer.system import report_files

    report_files.write_folder({path.name: text}, path.parent)

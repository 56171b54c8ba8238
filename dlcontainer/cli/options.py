"""Options that several commands share: one spelling, one help text."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import completion, usage_errors
from dlcontainer.errors import UsageError

# The groups of a help page.
WHAT, JOB = "Recipe and site", "Job script"

Recipe = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE",
        help="A recipe's name or its file. Default: the site's own.",
        autocompletion=completion.recipes,
    ),
]
SITE_HELP = "A site's name, with @EPOCH and :NODE_TYPE where it has several; or its file."
Site = Annotated[
    str,
    typer.Option(
        "--site",
        "-s",
        metavar="SITE",
        help=SITE_HELP,
        autocompletion=completion.sites,
        rich_help_panel=WHAT,
    ),
]
OptionalSite = Annotated[
    str | None,
    typer.Option(
        "--site",
        "-s",
        metavar="SITE",
        help=SITE_HELP,
        autocompletion=completion.sites,
        rich_help_panel=WHAT,
    ),
]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Every recipe for every site; RECIPE and --site restrict it.",
        rich_help_panel=WHAT,
    ),
]
NodeType = Annotated[
    str | None,
    typer.Option(
        "--node-type",
        metavar="NAME",
        help="One of the site's node types. Default: its usual one.",
        autocompletion=completion.node_types,
        rich_help_panel=WHAT,
    ),
]
Epoch = Annotated[
    str | None,
    typer.Option(
        "--epoch",
        metavar="NAME",
        help="One of the site's software epochs. Default: its usual one.",
        autocompletion=completion.epochs,
        rich_help_panel=WHAT,
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="A variant of the recipe, or a kind (vendor, distro). Default: the best that runs.",
        autocompletion=completion.variants,
        rich_help_panel=WHAT,
    ),
]
Cpu = Annotated[
    bool,
    typer.Option(
        "--cpu",
        help="Take a variant without device code, at a site with accelerators.",
        rich_help_panel=WHAT,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value, e.g. environment.OMP_NUM_THREADS=4.",
        rich_help_panel=WHAT,
    ),
]
Account = Annotated[
    str | None,
    typer.Option("--account", metavar="NAME", help="A job script's account.", rich_help_panel=JOB),
]
Partition = Annotated[
    str | None,
    typer.Option(
        "--partition", metavar="NAME", help="A job script's partition.", rich_help_panel=JOB
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="LIMIT",
        help="A job's limit: H:MM:SS, or as the site's scheduler reads it.",
        rich_help_panel=JOB,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes", metavar="N", min=1, help="A job script's number of nodes.", rich_help_panel=JOB
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON of a versioned schema, and nothing else.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the tools' own output and commands.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where the image goes.")
]
FilePath = Annotated[
    bool, typer.Option("--path", help="Print where its file is, and nothing else: to copy it.")
]
Proofs = Annotated[
    list[Path] | None,
    typer.Option(
        "--proof",
        metavar="PATH",
        help="A job's proof, what `validate --json` printed, or a folder of both: how far the "
        "site got.",
    ),
]
Tmpdir = Annotated[
    Path | None,
    typer.Option(
        "--tmpdir", metavar="DIR", help="The folder for temporary files, such as an unpacked tree."
    ),
]


def required_site(site: str | None, command: str, recipe: str | None = None) -> str:
    """Return the site of a command that needs one unless told --all; raises UsageError."""
    if site is not None:
        return site
    why, step = usage_errors.with_site(f"dlcontainer {command}", [recipe or ""]) or (None, None)
    step = step or "name one of those that `dlcontainer site list` shows"
    raise UsageError("Missing option '--site' / '-s'.", why=why, next_step=step)


def refuse_with_all(**given: object) -> None:
    """Refuse options that mean one combination beside --all; raises UsageError."""
    for name, value in given.items():
        if value:
            raise UsageError(
                f"--{name.replace('_', '-')} does not go with --all",
                next_step="restrict it by RECIPE and --site SITE[@EPOCH][:NODE_TYPE]",
            )


def image_file(path: Path) -> Path:
    """Return the path of an image as an absolute one.

    Raises UsageError for none and for a folder: a mistyped path is not a bad image.
    """
    wrong = None
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            wrong = os.strerror(errno.EISDIR)
    except OSError as error:
        wrong = str(error.strerror)
    if wrong:
        raise UsageError(
            f"can't read {path}: {wrong}", next_step="give the path of an image (.sif)"
        )
    return path.absolute()


def resources(**given: str | int | None) -> list[str]:
    """Return a job's resources as settings of the site."""
    return [
        f"site.scheduler.resources.{name}={json.dumps(value)}"
        for name, value in given.items()
        if value is not None
    ]

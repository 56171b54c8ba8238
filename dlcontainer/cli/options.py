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
SITE_HELP = "A site's name, with @EPOCH and :NODE_TYPE if it has several; or its file."
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
        help="Take every recipe at every site; RECIPE and --site restrict the choice.",
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
        help="Variant of the recipe, or kind of variants (vendor, distro). Default: the "
        "best that runs.",
        autocompletion=completion.variants,
        rich_help_panel=WHAT,
    ),
]
Cpu = Annotated[
    bool,
    typer.Option(
        "--cpu",
        help="Use a variant without device code, even at a site with accelerators.",
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
    typer.Option(
        "--account", metavar="NAME", help="Account for the job script.", rich_help_panel=JOB
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(
        "--partition", metavar="NAME", help="Partition for the job script.", rich_help_panel=JOB
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="LIMIT",
        help="Time limit for the job: H:MM:SS, or as the site's scheduler reads it.",
        rich_help_panel=JOB,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        help="Number of nodes for the job script.",
        rich_help_panel=JOB,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON, in a versioned schema.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the tools' own output and commands.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the image.")
]
FilePath = Annotated[
    bool, typer.Option("--path", help="Print only the path of the file, so that you can copy it.")
]
Proofs = Annotated[
    list[Path] | None,
    typer.Option(
        "--proof",
        metavar="PATH",
        help="A job's proof, output of `validate --json`, or a folder of both; shows "
        "how far the site got.",
    ),
]
Tmpdir = Annotated[
    Path | None,
    typer.Option(
        "--tmpdir", metavar="DIR", help="Folder for temporary files, such as an unpacked tree."
    ),
]


def required_site(site: str | None, command: str, recipe: str | None = None) -> str:
    """Return the site of a command that needs one unless told --all; raises UsageError."""
    if site is not None:
        return site
    why, step = usage_errors.with_site(f"dlcontainer {command}", [recipe or ""]) or (None, None)
    step = step or "name a site that `dlcontainer site list` shows"
    raise UsageError("Missing option '--site' / '-s'.", why=why, next_step=step)


def refuse_with_all(**restrictions: object) -> None:
    """Refuse options that mean one combination beside --all; raises UsageError."""
    for name, value in restrictions.items():
        if value:
            raise UsageError(
                f"--{name.replace('_', '-')} can't be combined with --all",
                next_step="restrict --all with RECIPE and --site SITE[@EPOCH][:NODE_TYPE]",
            )


def require_one_format(*, as_json: bool, sarif: bool) -> None:
    """Raise UsageError where two formats are asked for."""
    if as_json and sarif:
        raise UsageError("--json and --sarif are two formats", next_step="take one of them")


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


def resources(**amounts: str | int | None) -> list[str]:
    """Return a job's resources as settings of the site."""
    return [
        f"site.scheduler.resources.{name}={json.dumps(value)}"
        for name, value in amounts.items()
        if value is not None
    ]

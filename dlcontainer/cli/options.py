"""Options that several commands share: one spelling, one help text."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.errors import UsageError

Recipe = Annotated[
    str | None,
    typer.Argument(
        metavar="[RECIPE]", help="A recipe's name or its file; without it the site's default."
    ),
]
SITE_HELP = "A site's name, with @EPOCH and :NODE_TYPE where it has several; or its file."
Site = Annotated[str, typer.Option("--site", "-s", metavar="SITE", help=SITE_HELP)]
OptionalSite = Annotated[str | None, typer.Option("--site", "-s", metavar="SITE", help=SITE_HELP)]
All = Annotated[
    bool,
    typer.Option("--all", help="Every recipe for every site; RECIPE and --site restrict it."),
]
NodeType = Annotated[
    str | None,
    typer.Option("--node-type", metavar="NAME", help="One of the site's node types; else usual."),
]
Epoch = Annotated[
    str | None,
    typer.Option("--epoch", metavar="NAME", help="One of the site's software epochs; else usual."),
]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="A variant of the recipe, or its kind (vendor, distro); else the best that runs.",
    ),
]
Cpu = Annotated[
    bool,
    typer.Option("--cpu", help="Take a variant without device code, at a site with accelerators."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override one value, e.g. environment.OMP_NUM_THREADS=4."
    ),
]
Account = Annotated[
    str | None, typer.Option("--account", metavar="NAME", help="A job script's account.")
]
Partition = Annotated[
    str | None, typer.Option("--partition", metavar="NAME", help="Its partition or queue.")
]
Time = Annotated[
    str | None, typer.Option("--time", metavar="LIMIT", help="Its time limit: MINUTES or H:MM:SS.")
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", metavar="N", min=1, help="Its number of nodes.")
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
Tmpdir = Annotated[
    Path | None,
    typer.Option("--tmpdir", metavar="DIR", help="Where the tree is unpacked while building."),
]


def required_site(site: str | None) -> str:
    """Give the site of a command that needs one unless told --all; raises UsageError."""
    if site is None:
        raise UsageError("Missing option '--site' / '-s'.", next_step="dlcontainer site list")
    return site


def refuse_with_all(**given: object) -> None:
    """Refuse options that mean one combination beside --all; raises UsageError."""
    for name, value in given.items():
        if value:
            raise UsageError(
                f"--{name.replace('_', '-')} does not go with --all",
                next_step="restrict it by RECIPE and --site SITE[@EPOCH][:NODE_TYPE]",
            )


def image_file(path: Path) -> Path:
    """Give the path of an image as an absolute one.

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
    """Give a job's resources as settings of the site."""
    return [
        f"site.scheduler.resources.{name}={json.dumps(value)}"
        for name, value in given.items()
        if value is not None
    ]

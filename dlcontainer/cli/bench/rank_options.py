"""The options of `dlcontainer bench` that make a launch one of several ranks."""

from typing import Annotated

import typer

from dlcontainer.bench.samples.vocabulary import Start

RANKS = "Ranks"

Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        metavar="R",
        min=1,
        help="Number of ranks that the site's launcher starts in each launch. Default: "
        "one process.",
        rich_help_panel=RANKS,
    ),
]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node",
        metavar="P",
        min=1,
        help="Ranks per node. Default: spread evenly over the nodes.",
        rich_help_panel=RANKS,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        help="Number of nodes to use in the current allocation.",
        rich_help_panel=RANKS,
    ),
]
Started = Annotated[
    Start | None,
    typer.Option(
        "--start",
        help="storm: ranks wait for each other before the import; natural: each rank "
        "imports at once.",
        rich_help_panel=RANKS,
    ),
]
LauncherWords = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="WORDS",
        help="Launcher to use instead of the site's, e.g. 'mpirun --oversubscribe'; "
        "{nodes}, {ranks} and {ranks_per_node} are filled in.",
        rich_help_panel=RANKS,
    ),
]
FormName = Annotated[
    str | None,
    typer.Option(
        "--form",
        metavar="NAME",
        help="The site's form that starts the ranks. Default: its first.",
        rich_help_panel=RANKS,
    ),
]

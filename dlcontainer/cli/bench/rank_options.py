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
        help="A launch is R ranks that the site's launcher starts. Default: one process.",
        rich_help_panel=RANKS,
    ),
]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node",
        metavar="P",
        min=1,
        help="Ranks on each node. Default: evenly over the nodes.",
        rich_help_panel=RANKS,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        help="Nodes of the allocation that this runs in.",
        rich_help_panel=RANKS,
    ),
]
Started = Annotated[
    Start | None,
    typer.Option(
        "--start",
        help="storm: ranks wait for each other before the import; natural: each as it comes.",
        rich_help_panel=RANKS,
    ),
]
LauncherWords = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="WORDS",
        help="In place of the site's: 'mpirun --oversubscribe'; may hold {nodes}, {ranks}, "
        "{ranks_per_node}.",
        rich_help_panel=RANKS,
    ),
]
FormName = Annotated[
    str | None,
    typer.Option(
        "--form",
        metavar="NAME",
        help="One of the site's ways to place ranks. Default: its first.",
        rich_help_panel=RANKS,
    ),
]

"""The options of `dlcontainer bench` that make a launch one of several ranks."""

from typing import Annotated

import typer

from dlcontainer.bench.samples.vocabulary import Start

Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        metavar="R",
        min=1,
        help="A launch is R ranks that the site's launcher starts; without it one process.",
    ),
]
PerNode = Annotated[
    int | None,
    typer.Option("--ranks-per-node", metavar="P", min=1, help="Without it evenly over the nodes."),
]
Nodes = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", min=1, help="Of the allocation that this runs in."),
]
Started = Annotated[
    Start | None,
    typer.Option(
        "--start",
        help="storm: ranks wait for each other before the import; natural: each as it comes.",
    ),
]
LauncherWords = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="WORDS",
        help="In place of the site's: 'mpirun --oversubscribe'; may hold {nodes}, {ranks}, "
        "{ranks_per_node}.",
    ),
]
FormName = Annotated[
    str | None,
    typer.Option("--form", metavar="NAME", help="Which of the site's ways to place ranks."),
]

"""The options of `dlcontainer bench` that make a launch one of several ranks."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.measure.launcher import Asked
    from dlcontainer.bench.samples.records import Declared
    from dlcontainer.cli.bench.session_options import SessionOptions

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


def asked(options: "SessionOptions", begun: "Declared | None") -> "Asked | None":
    """Give the ranks asked for, or those that a session that goes on was declared with.

    None where launches are single processes. Raises UsageError.
    """
    from dlcontainer.bench.measure.launcher import Asked

    work = begun.workload if begun else {}
    known = {name: work.get(name) for name in ("ranks", "ranks_per_node", "nodes")}
    ranks = options.ranks or _whole(known["ranks"])
    others = (options.per_node, options.nodes, options.start, options.form)
    if ranks is None and options.launcher is None:
        if any(other is not None for other in others):
            raise UsageError(
                "--ranks-per-node, --nodes, --start, --form are about ranks",
                next_step="say how many: --ranks R",
            )
        return None
    started = work.get("launcher")
    words = tuple(shlex.split(options.launcher)) if options.launcher else ()
    if not words and isinstance(started, list):
        words = tuple(str(word) for word in started)
    return Asked(
        ranks=ranks or 1,
        per_node=options.per_node or _whole(known["ranks_per_node"]),
        nodes=options.nodes or _whole(known["nodes"]) or 1,
        start=options.start or ("storm" if work.get("start") == "storm" else "natural"),
        words=words,
        form=options.form,
        settled=bool(started) and options.launcher is None,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None

"""The options of `dlcontainer bench` that make a launch one of several ranks."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.bench.samples.vocabulary import HOROVOD, WAYS, Framework, Start
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlcontainer.bench.measure.launcher import Asked
    from dlcontainer.bench.samples.records import Declared

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
Distributed = Annotated[
    str | None,
    typer.Option(
        "--distributed",
        metavar="WAY",
        help="How ranks train together: ddp (PyTorch), tensorflow, horovod; without it Horovod "
        "where the recipe has it, else the framework's own.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """What was typed of ranks."""

    ranks: int | None = None
    per_node: int | None = None
    nodes: int | None = None
    start: Start | None = None
    launcher: str | None = None
    form: str | None = None
    distributed: str | None = None

    def asked(self, begun: "Declared | None") -> "Asked | None":
        """Give what was asked for, or what a session that goes on was declared with.

        None where launches are single processes. Raises UsageError.
        """
        from dlcontainer.bench.measure.launcher import Asked

        work = begun.workload if begun else {}
        known = {name: work.get(name) for name in ("ranks", "ranks_per_node", "nodes")}
        ranks = self.ranks or _whole(known["ranks"])
        others = (self.per_node, self.nodes, self.start, self.form, self.distributed)
        if ranks is None and self.launcher is None:
            if any(other is not None for other in others):
                raise UsageError(
                    "--ranks-per-node, --nodes, --start, --form, --distributed are about ranks",
                    next_step="say how many: --ranks R",
                )
            return None
        started = work.get("launcher")
        words = tuple(shlex.split(self.launcher)) if self.launcher else ()
        if not words and isinstance(started, list):
            words = tuple(str(word) for word in started)
        return Asked(
            ranks=ranks or 1,
            per_node=self.per_node or _whole(known["ranks_per_node"]),
            nodes=self.nodes or _whole(known["nodes"]) or 1,
            start=self.start or ("storm" if work.get("start") == "storm" else "natural"),
            words=words,
            form=self.form,
            settled=bool(started) and self.launcher is None,
        )

    def way(
        self,
        framework: Framework | None,
        modules: "Sequence[str]",
        begun: "Declared | None",
    ) -> str:
        """Name the way to train on several ranks; empty where nothing is trained.

        `modules` are those that the recipe verifies. Raises UsageError where the way is not there.
        """
        if framework is None:
            if self.distributed:
                raise UsageError("--distributed: an import trains nothing")
            return ""
        ways = WAYS.get(framework)
        if not ways:
            raise UsageError(
                f"--ranks: the probe trains {framework} in one process only",
                next_step=f"leave it out, or measure an image with one of {', '.join(WAYS)}",
            )
        there = [way for way in ways if way != HOROVOD or HOROVOD in modules]
        usual = HOROVOD if HOROVOD in there else there[0]
        wanted = self.distributed or (begun and str(begun.workload.get("distributed"))) or usual
        if wanted not in there:
            raise UsageError(
                f"--distributed {wanted}: there is no such way with this image",
                why=f"for {framework} there is {', '.join(ways)}; Horovod where the recipe "
                "verifies it",
                next_step=f"one of: {', '.join(there)}",
            )
        return wanted


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None

"""The options of `bench scaling` as typed: its own, and those of `bench train` that all points
share.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dlcontainer.bench.probes.probe import GROUP, UNIT, Option, Values
from dlcontainer.bench.probes.train import TRAIN
from dlcontainer.cli import options
from dlcontainer.cli.bench import probe_command, rank_options, session_options

_POINTS = "Points"
# A study settles these itself.
_SETTLED = frozenset({UNIT.name, GROUP.name, "batch", "parallel", "apart"})

Ranks = Annotated[
    str,
    typer.Option(
        "--ranks",
        metavar="N,N,...",
        help="Numbers of ranks, e.g. 1,2,4,8. The last is the one that the study is about.",
        rich_help_panel=_POINTS,
    ),
]
Parallel = Annotated[
    str | None,
    typer.Option(
        "--parallel",
        metavar="NAME,...",
        help="Parallel strategies, each at every number of ranks that it divides: dp, fsdp, tp2, "
        "dp2xpp2. dp and fsdp take the ranks that are left. Default: dp.",
        rich_help_panel=_POINTS,
    ),
]
Scaled = Annotated[
    Literal["weak", "strong"],
    typer.Option(
        "--scaling",
        help="weak: the batch of a rank stays the same; strong: that of all ranks together.",
        rich_help_panel=_POINTS,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        help="Batch of one data-parallel rank; with --scaling strong that of all ranks together. "
        "Default: the network's own, for the device.",
        rich_help_panel=_POINTS,
    ),
]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node",
        metavar="P",
        min=1,
        help="Ranks on a full node. Default: the site's form, its GPUs per node, or 1; without a "
        "scheduler all ranks on this node.",
        rich_help_panel=_POINTS,
    ),
]
Looks = Annotated[
    str | None,
    typer.Option(
        "--looks",
        metavar="N,N,...",
        help="Numbers of pairs after which the last point may end; the points before it have 8 "
        "pairs. Default: 8,16,32.",
        rich_help_panel=_POINTS,
    ),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        metavar="N",
        help="Run N pairs at the last point and at most 8 before it, with one look each (a verdict "
        "needs 8).",
        rich_help_panel=_POINTS,
    ),
]
NoExtras = Annotated[
    bool,
    typer.Option(
        "--no-extras",
        help="Measure the points alone: no messages, and no ranks that never talk.",
        rich_help_panel=_POINTS,
    ),
]
OneAllocation = Annotated[
    bool,
    typer.Option(
        "--one-allocation",
        help="Measure all points in the current allocation, on the same nodes; idle nodes count. "
        "Default: a job of its own size for each point, where the site has a scheduler.",
        rich_help_panel=options.JOB,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print points, minutes and GPU-hours; measure and write nothing."
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Folder for the sessions. A second run keeps complete sessions and goes on with the "
        "others.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyOptions:
    """The options as they were typed; None is what was not given.

    `values` are the options of `bench train` that all points share.
    """

    site: options.Site
    image: session_options.Image
    ranks: Ranks
    folder: Folder
    parallel: Parallel = None
    scaling: Scaled = "weak"
    batch: Batch = None
    per_node: PerNode = None
    looks: Looks = None
    pairs: Pairs = None
    no_extras: NoExtras = False
    one_allocation: OneAllocation = False
    dry_run: DryRun = False
    values: Values = field(default_factory=dict)
    native: session_options.NativeFolder = None
    margin: session_options.Margin = None
    threads: session_options.Threads = None
    timeout: session_options.Timeout = 600.0
    launcher: rank_options.LauncherWords = None
    form: rank_options.FormName = None
    recipe: session_options.RecipeOf = None
    settings: options.Set = None
    account: options.Account = None
    partition: options.Partition = None
    time: options.Time = None
    as_json: options.Json = False
    verbose: options.Verbose = False


def shared() -> tuple[Option, ...]:
    """Return the options of `bench train` that all points share."""
    return tuple(option for option in TRAIN.options if option.name not in _SETTLED)


def parameters() -> Iterator[inspect.Parameter]:
    """Yield the parameters of the command, in the order of its page."""
    for option in fields(StudyOptions):
        if option.name == "values":
            yield from (probe_command.parameter(option, is_own=True) for option in shared())
            continue
        default = inspect.Parameter.empty if option.default is MISSING else option.default
        yield inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type
        )


def read(typed: Mapping[str, Any]) -> StudyOptions:
    """Return what was typed, by the names of parameters."""
    names = {option.name for option in shared()}
    option = {name: value for name, value in typed.items() if name not in names}
    typed_options = {name: typed[name] for name in names if typed[name] is not None}
    return StudyOptions(**option, values=typed_options)

"""The session that an exported ReFrame test runs: its words, its tasks, its figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlcontainer.bench.probes import PROBES
from dlcontainer.cli.bench import probe_command, session_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.measure.launcher import RankOptions
    from dlcontainer.formats.reframe import Tasks

# What the test itself gives to `bench`.
_OURS = ("site", "image", "target", "resume", "as_json", "verbose")
# The two sides whose figures the test has.
_SIDES = ("native", "container")


def tasks(probes: Sequence[str], words: Sequence[str], bench: typer.Typer) -> "Tasks":
    """Return the tasks of a job that runs `bench` with these words; raises UsageError."""
    from dlcontainer.bench.measure import launcher
    from dlcontainer.formats.reframe import Tasks

    rank_options = [_ranks(name, words, bench) for name in probes]
    ranks = rank_options[0]
    if ranks is None:
        return Tasks()
    return Tasks(ranks=ranks.ranks, per_node=launcher.per_node(ranks), nodes=ranks.nodes)


def _ranks(name: str, words: Sequence[str], bench: typer.Typer) -> "RankOptions | None":
    """Have `bench`'s own parser and checks read the words: they name what is wrong with them."""
    from dlcontainer.cli.bench import defaults

    probe = PROBES[name]
    typed = probe_command.as_options(probe, PROBES, _read(name, words, bench))
    sides = session_options.arms(typed.arms) or _SIDES
    if (sides[0], sides[-1]) != _SIDES:
        raise UsageError(
            f"--arms {typed.arms}: the test compares {' and '.join(_SIDES)}",
            next_step="leave --arms out, or run `dlcontainer bench` directly",
        )
    session_options.check_pairs(typed.pairs)
    defaults.schedule(typed, None, joins=probe.joins)
    defaults.margin(typed, None)
    ranks = defaults.ranks_of(typed, None)
    probe.check_ranks(ranks.ranks if ranks else 0)
    return ranks


def _read(name: str, words: Sequence[str], bench: typer.Typer) -> dict[str, Any]:
    group = typer.main.get_group(bench)
    words_before = ["--site", "local", "--image", "image.sif"]
    context = group.commands[name].make_context(name, [*words, *words_before])
    spelled = {param.name: param.opts for param in context.command.params}
    for ours in _OURS:
        behind = [word.partition("=")[0] for word in words]
        taken = [option for option in spelled[ours] if option in behind]
        if taken:
            raise UsageError(
                f"{taken[0]} after --: the test itself passes this option to `bench`",
                next_step="remove it after --",
            )
    for param, argument in context.params.items():
        path = Path(argument) if isinstance(argument, str) and "/" in argument else argument
        if isinstance(path, Path) and param not in _OURS and not path.is_absolute():
            raise UsageError(
                f"{path}: this path is relative to the current folder",
                why="ReFrame runs the test in a folder of its own",
                next_step=f"give the absolute path: {path.absolute()}",
            )
    return context.params


def metrics(name: str) -> dict[str, list[str]]:
    """Return the probe's further figures: name in the test -> name in the report, unit."""
    return {
        metric.name.rpartition(".")[2]: [metric.name, metric.unit]
        for metric in PROBES[name].metrics[1:]
    }


def figures(name: str) -> tuple[str, ...]:
    """Name what the test gives of a probe's session, but its rows."""
    from dlcontainer.formats.reframe import UNITS

    return (*UNITS, *metrics(name))

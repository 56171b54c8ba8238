"""`dlcontainer export threads`: the best number of threads, measured, as a site file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import BenchDataError, ChecksFailedError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.probes.threads import ThreadChoice
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.cli.context import CliContext
    from dlcontainer.sites.site import Site

_PROBE = "threads"


def threads(
    samples: Annotated[
        Path, typer.Argument(metavar="FILE", help="Session file of `dlcontainer bench threads`.")
    ],
    target: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="NAME.yaml", help="Site file to write; NAME must be new."
        ),
    ],
    site: Annotated[
        str | None,
        typer.Option("--site", metavar="SITE", help="Site to extend. Default: the session's."),
    ] = None,
    is_unsure_enough: Annotated[
        bool,
        typer.Option(
            "--unsure", help="Write the best number even if it can't be told apart from others."
        ),
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a site file with the number of threads that was fastest in the image."""
    from dlcontainer.cli.context import here
    from dlcontainer.sites import with_threads
    from dlcontainer.system import digests, report_files

    report_files.require(target)
    series = _session(samples)
    chosen = _choice(series)
    if chosen.tied and not is_unsure_enough:
        raise _unsure(chosen)
    world = here()
    parent = _parent(world, site or series.session.declared.site)
    _require_new(target, parent)
    measured = with_threads.ThreadSetting(
        threads=chosen.threads,
        summary=_words(parent, chosen),
        source=f"{samples.name}, sha256 {digests.of_file(samples)}",
    )
    text = with_threads.text(target.stem, parent, measured)
    _require_loads(world, target, text, measured.threads)
    report_files.write(text, target)
    if as_json:
        body = {
            "site": str(target), "extends": parent.name, "threads": chosen.threads,
            "not_told_apart": list(chosen.tied), "next": chosen.next,
            "next_over_best": chosen.behind.ratio,
            "interval": [chosen.behind.low, chosen.behind.high],
            "operations": chosen.kernels, "launches": chosen.launches,
        }  # fmt: skip
        output.emit("export-threads", body)
        return
    output.say(f"wrote {target}: {measured.summary}")
    output.copied(f"dlcontainer site diff {parent.target} {target}", before="next: ")


def _session(samples: Path) -> "Series":
    """Read the session; raises BenchDataError for another probe's, or for another file."""
    from dlcontainer.bench.report import given

    analyses, _ = given.read([samples])
    if not analyses or analyses[0].series.session.declared.probe != _PROBE:
        raise BenchDataError(
            f"{samples} is not a session of `bench {_PROBE}`",
            next_step=f"dlcontainer bench {_PROBE} --site SITE --image IMAGE -o {_PROBE}.jsonl",
        )
    return analyses[0].series


def _choice(series: "Series") -> "ThreadChoice":
    from dlcontainer.bench.probes import threads as probe

    choice = probe.choice(series, series.session.declared.arms[-1])
    if choice is None:
        raise BenchDataError(
            f"{series.path} has times for fewer than two numbers of threads",
            next_step=f"run `dlcontainer bench {_PROBE}` with --counts 1,2,4",
        )
    return choice


def _unsure(chosen: "ThreadChoice") -> ChecksFailedError:
    tied = ", ".join(map(str, chosen.tied))
    return ChecksFailedError(
        f"{chosen.threads} threads can't be told apart from {tied}: nothing was written",
        why=f"time of the next best / the best: {_ratio(chosen)}; from {chosen.launches} "
        f"launches and {chosen.kernels} kernels",
        next_step="measure more pairs on a quiet machine (--pairs 16), or write "
        f"{chosen.threads} anyway with --unsure",
    )


def _ratio(chosen: "ThreadChoice") -> str:
    behind = chosen.behind
    if behind.low <= 0:
        return f"{behind.ratio:.3f} (too few launches for an interval)"
    return f"{behind.ratio:.3f} [{behind.low:.3f}, {behind.high:.3f}]"


def _words(parent: "Site", chosen: "ThreadChoice") -> str:
    many = "thread" if chosen.threads == 1 else "threads"
    rest = ", ".join(map(str, chosen.measured))
    tied = ", ".join(map(str, chosen.tied))
    sure = f"not told apart from {tied}" if tied else "sure"
    return (
        f"{parent.target} with {chosen.threads} {many} a process: the best of {chosen.kernels} "
        f"kernels (others: {rest}; {chosen.next} takes {_ratio(chosen)} times as long; {sure})"
    )


def _parent(world: "CliContext", name: str) -> "Site":
    """Load the site of the session; raises UsageError where that is a path, which none extends."""
    from dlcontainer.sites.site import read_target

    bare, _ = read_target(name)
    if "/" in bare or bare.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{name}: `extends` takes a site's name, not a path",
            next_step="put that file into ~/.config/dlcontainer/site-configs, then use --site NAME",
        )
    return world.site(name).value


def _require_new(target: Path, parent: "Site") -> None:
    if target.exists():
        raise UsageError(
            f"{target} exists already: a site file is never overwritten",
            next_step="choose another name: -o NAME.yaml",
        )
    if target.stem == parent.name:
        raise UsageError(
            f"{target}: a site can't extend a site of the same name",
            next_step=f"choose another name: -o {parent.name}-threads.yaml",
        )


def _require_loads(world: "CliContext", target: Path, text: str, threads: int) -> None:
    """Read the site as a user will, before it takes its place; raises ConfigError."""
    from dlcontainer.errors import ConfigError
    from dlcontainer.sites.with_threads import VARIABLE
    from dlcontainer.system import workspace
    from dlcontainer.system.process import ProcessRunner

    with workspace.temporary(world.environ, ProcessRunner(environ=world.environ)) as folder:
        path = folder / target.name
        path.write_text(text)
        site = world.site(str(path)).value
    numbers = {site.environment.get(VARIABLE), site.jobs.environment.get(VARIABLE)}
    if numbers != {str(threads)}:
        raise ConfigError(
            f"{VARIABLE} would be {', '.join(sorted(map(str, numbers)))} instead of {threads}",
            why="your overrides.yaml overrides every site file",
            next_step=f"remove {VARIABLE} from overrides.yaml, under sites.{target.stem}",
        )

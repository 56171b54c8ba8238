"""What starts ranks here: the site's launch form or launcher, mpirun, or processes of this host.

Pure but for two looks.

Words of counts are added only to launchers that are known; any other takes them from its
allocation, and the ranks themselves find out where there are not those that were asked for.
"""

import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dlcontainer import schedulers
from dlcontainer.bench.measure.ranks import HANDED, RankGroup
from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.engines.apptainer import KEPT_VARIABLES
from dlcontainer.errors import UsageError
from dlcontainer.planning.launch.on_host import UnsetError, fill
from dlcontainer.sites.facts import LAUNCH_WORDS, LaunchForm, Scheduler
from dlcontainer.system import rank_processes
from dlcontainer.system.machine import find_program

_COUNT = re.compile(r"(?<!\$)\{(" + "|".join(LAUNCH_WORDS) + r")\}")
# A launcher that was built where it stands finds its libraries by this.
_ITS_OWN = ("LD_LIBRARY_PATH", "OPAL_PREFIX", "TMPDIR")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankOptions:
    """What was asked for on the command line: None is what the site or the counts settle.

    `words` is a launcher of the user's own, `form` the name of one of the site's. `settled`: the
    words are those of a session that goes on, counts included.
    """

    ranks: int
    per_node: int | None = None
    nodes: int = 1
    start: Start = "natural"
    words: tuple[str, ...] = ()
    form: str | None = None
    settled: bool = False


def rank_group(options: RankOptions, scheduler: Scheduler, environ: Mapping[str, str]) -> RankGroup:
    """Settle how the ranks of a session are started.

    Raises UsageError where counts contradict each other, or nothing is known that starts ranks.
    """
    on_each = per_node(options)
    if options.nodes > 1 and schedulers.allocation(environ) is None:
        raise UsageError(
            f"--nodes {options.nodes}: not in a batch job",
            why="other nodes are reached within an allocation only",
            next_step="submit a job that runs this command, or leave --nodes out",
        )
    counts = {"nodes": options.nodes, "ranks": options.ranks, "ranks_per_node": on_each}
    words = options.words or _of_site(options, scheduler, environ)
    if find_program(words[0], environ) is None:
        raise UsageError(
            f"launcher {words[0]} not found",
            next_step="load the site's module, install Open MPI (Debian: openmpi-bin), or name "
            'another launcher: --launcher "WORD ..."',
        )
    if not options.settled and not any(_COUNT.search(word) for word in words):
        words = (*words, *_counting(words, options, scheduler.kind))
    filled = tuple(_COUNT.sub(lambda m: str(counts[m[1]]), word) for word in words)
    return RankGroup(
        launcher=filled,
        ranks=options.ranks,
        per_node=on_each,
        nodes=options.nodes,
        start=options.start,
        host="127.0.0.1" if options.nodes == 1 else _first_node(environ),
        environment={
            **_environment(environ),
            **schedulers.cpus_handed(filled, environ, scheduler.kind),
        },
        cpus=schedulers.cpus_each(filled, environ, scheduler.kind),
    )


def _first_node(environ: Mapping[str, str]) -> str:
    """Name the host of rank 0: within a job this one, else the first of the held allocation."""
    name = schedulers.first_host(environ)
    if name is None:
        return platform.node()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        # A scheduler's name of a node need not be a host's.
        return platform.node()
    return name


def per_node(options: RankOptions) -> int:
    """Return the ranks on each node; raises UsageError where the counts contradict each other."""
    if (
        options.ranks < 1
        or options.nodes < 1
        or (options.per_node is not None and options.per_node < 1)
    ):
        raise UsageError("--ranks, --ranks-per-node and --nodes must be at least 1")
    per_node_ranks = options.per_node or -(-options.ranks // options.nodes)
    if -(-options.ranks // per_node_ranks) != options.nodes:
        raise UsageError(
            f"--nodes {options.nodes} does not match {options.ranks} ranks at {per_node_ranks} per "
            "node",
            next_step="give --ranks and --nodes, and --ranks-per-node if the last node has fewer "
            "ranks",
        )
    return per_node_ranks


def _of_site(
    options: RankOptions, scheduler: Scheduler, environ: Mapping[str, str]
) -> tuple[str, ...]:
    form = _form(options, scheduler)
    words = form.launcher if form else scheduler.launcher
    if words:
        return tuple(_filled(word, environ) for word in words)
    if options.nodes == 1 and find_program("mpirun", environ) is None:
        return rank_processes.words()
    return ("mpirun",)


def _form(options: RankOptions, scheduler: Scheduler) -> LaunchForm | None:
    forms = scheduler.forms
    if options.form is not None and options.form not in forms:
        raise UsageError(
            f"--form {options.form}: the site has no such form",
            next_step=f"choose from: {', '.join(forms)}"
            if forms
            else "leave out --form: the site has no forms",
        )
    if options.form is not None:
        return forms[options.form]
    return next(iter(forms.values()), None)


def _filled(word: str, environ: Mapping[str, str]) -> str:
    try:
        return fill(word, environ)
    except UnsetError as error:
        raise UsageError(
            f"${error} is not set, but the site's launcher needs it",
            next_step=f"load the module that sets it, or export {error}",
        ) from None


def _counting(words: tuple[str, ...], options: RankOptions, kind: str) -> tuple[str, ...]:
    launcher = schedulers.launcher(words[0], kind)
    if launcher is None:
        return ()
    return launcher.counts if options.nodes == 1 else (*launcher.counts, *launcher.across_nodes)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Take what a launcher needs; all else of the caller's stays out of what is measured."""
    names = (*KEPT_VARIABLES, *_ITS_OWN)
    return {
        name: value
        for name, value in environ.items()
        if name in names or any(fnmatchcase(name, pattern) for pattern in HANDED)
    }

"""What starts ranks here: the site's launch form, its launcher, or mpirun. Pure but for two looks.

Words of counts are added only to launchers that are known; any other takes them from its
allocation, and the ranks themselves find out where there are not those that were asked for.
"""

import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from dlcontainer import schedulers
from dlcontainer.bench.measure.ranks import HANDED, Team
from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.engines.apptainer import KEPT_VARIABLES
from dlcontainer.errors import UsageError
from dlcontainer.sites.facts import LAUNCH_WORDS, LaunchForm, Scheduler
from dlcontainer.system.machine import find_program

_COUNT = re.compile(r"(?<!\$)\{(" + "|".join(LAUNCH_WORDS) + r")\}")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# A launcher that was built where it stands finds its libraries by this.
_ITS_OWN = ("LD_LIBRARY_PATH", "OPAL_PREFIX", "TMPDIR")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
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


def team(asked: Asked, scheduler: Scheduler, environ: Mapping[str, str]) -> Team:
    """Settle how the ranks of a session are started.

    Raises UsageError where counts contradict each other, or nothing is known that starts ranks.
    """
    per_node = _per_node(asked)
    if asked.nodes > 1 and schedulers.allocation(environ) is None:
        raise UsageError(
            f"--nodes {asked.nodes}: not in a batch job",
            why="other nodes are reached within an allocation only",
            next_step="submit a job that runs this command, or leave --nodes out",
        )
    counts = {"nodes": asked.nodes, "ranks": asked.ranks, "ranks_per_node": per_node}
    words = asked.words or _of_site(asked, scheduler, environ)
    if find_program(words[0], environ) is None:
        raise UsageError(
            f"no launcher {words[0]} here",
            next_step="load the site's module, install Open MPI (Debian: openmpi-bin), or name "
            'another launcher: --launcher "WORD ..."',
        )
    if not asked.settled and not any(_COUNT.search(word) for word in words):
        words = (*words, *_counting(words, asked))
    filled = tuple(_COUNT.sub(lambda m: str(counts[m[1]]), word) for word in words)
    return Team(
        launcher=filled,
        ranks=asked.ranks,
        per_node=per_node,
        nodes=asked.nodes,
        start=asked.start,
        host="127.0.0.1" if asked.nodes == 1 else _first_node(environ),
        environment=_environment(environ),
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


def _per_node(asked: Asked) -> int:
    if asked.ranks < 1 or asked.nodes < 1 or (asked.per_node is not None and asked.per_node < 1):
        raise UsageError("--ranks, --ranks-per-node, --nodes: at least 1")
    per_node = asked.per_node or -(-asked.ranks // asked.nodes)
    if -(-asked.ranks // per_node) != asked.nodes:
        raise UsageError(
            f"{asked.ranks} ranks at {per_node} a node are no {asked.nodes} nodes",
            next_step="--ranks R --nodes N, and --ranks-per-node where the last node has fewer",
        )
    return per_node


def _of_site(asked: Asked, scheduler: Scheduler, environ: Mapping[str, str]) -> tuple[str, ...]:
    form = _form(asked, scheduler)
    words = form.launcher if form else scheduler.launcher
    return tuple(_filled(word, environ) for word in words) or ("mpirun",)


def _form(asked: Asked, scheduler: Scheduler) -> LaunchForm | None:
    forms = scheduler.forms
    if asked.form is not None and asked.form not in forms:
        raise UsageError(
            f"--form {asked.form}: the site has no such form",
            next_step=f"one of: {', '.join(forms)}" if forms else "leave it out: it has none",
        )
    if asked.form is not None:
        return forms[asked.form]
    return next(iter(forms.values()), None)


def _filled(word: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in environ:
            raise UsageError(
                f"${name} is not set; the site's launcher uses it",
                next_step=f"load the module that sets it, or export {name}",
            )
        return environ[name]

    return _VARIABLE.sub(value, word)


def _counting(words: tuple[str, ...], asked: Asked) -> tuple[str, ...]:
    known = schedulers.launcher(Path(words[0]).name)
    if known is None:
        return ()
    return known.counts if asked.nodes == 1 else (*known.counts, *known.across_nodes)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Take what a launcher needs; all else of the caller's stays out of what is measured."""
    names = (*KEPT_VARIABLES, *_ITS_OWN)
    return {
        name: value
        for name, value in environ.items()
        if name in names or any(fnmatchcase(name, pattern) for pattern in HANDED)
    }

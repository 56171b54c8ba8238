"""Ranks: what starts them, where they meet and write, the commands around each. Pure but for ports.

What a rank finds in its environment is said in probe/ranks.py, which reads it.
"""

import math
import secrets
import shlex
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import JsonValue

from dlcontainer import schedulers
from dlcontainer.bench.samples.vocabulary import CPUS_ASKED, Start
from dlcontainer.engines.engine import Binds

# Where a container sees the folder of all launches; every tree has an empty /mnt.
INSIDE = "/mnt"
# Ranks find other nodes by the names that the host knows; resolv.conf the engine brings itself.
_NAMES: Binds = ((Path("/etc/hosts"), "/etc/hosts"),)
# Stands between the variables that a rank is handed and its command.
_END = "dlc-rank"

# Ranks, and how they find each other: as in the published wrappers (templates/module).
_LAUNCHERS = (
    *schedulers.variables(),
    *("PMI_*", "PMIX_*", "PMI2_*", "OMPI_*", "PRTE_*", "HYDRA_*", "HYDI_*", "MPI*", "MV2_*"),
    *("I_MPI_*", "FLUX_*"),
)
# How they talk: the same in every arm, and attested.
_TRANSPORTS = (
    *("NCCL_*", "RCCL_*", "GLOO_*", "UCX_*", "UCC_*", "FI_*", "PSM2_*", "PSM3_*"),
    "HOROVOD_*",
)
# Which rank it is, for the names of files before a Python runs.
_WHICH = tuple(variables.rank for variables in schedulers.known_ranks())

# Runs on the host for each rank, whichever side it is of. Variables are put into the command as
# words, since engines let no other through, and evaluate those that they do. It stays to say how
# the rank ended. Builtins only, but for the clock.
_OUTER = """\
dlc_folder=$1; shift
DLC_RANKS_BEGIN=$(date +%s%N); export DLC_RANKS_BEGIN
dlc_rank=@WHICH@
case $dlc_rank in
    '' | *[!0-9]*) dlc_rank=pid$$ ;;
    ????? | ??????*) ;;
    *) dlc_rank=0000$dlc_rank; dlc_rank=${dlc_rank#"${dlc_rank%?????}"} ;;
esac
dlc_own=$dlc_folder/rank-$dlc_rank
set -f
IFS='
'
dlc_left=$#
while [ "$dlc_left" -gt 0 ]; do
    dlc_word=$1; shift; dlc_left=$((dlc_left - 1))
    if [ "$dlc_word" = @END@ ]; then
        for dlc_line in $(export -p); do
            dlc_name=${dlc_line#export }
            [ "$dlc_name" != "$dlc_line" ] || continue
            dlc_name=${dlc_name%%=*}
            case $dlc_name in '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
            case $dlc_name in @HANDED@) ;; *) continue ;; esac
            # A line may be the middle of another variable's value: then the name need not be one.
            eval "[ -n \"\\${$dlc_name+x}\" ] || continue; dlc_value=\\$$dlc_name"
            set -- "$@" "$dlc_name=$dlc_value"
        done
    fi
    set -- "$@" "$dlc_word"
done
dlc_code=0
"$@" 2>"$dlc_own.err" || dlc_code=$?
# Who waits for this rank must not wait for ever, even where it ended without an error.
[ "$dlc_code" = 0 ] && [ -e "$dlc_own.json" ] || printf '%s\n' "$dlc_code" >"$dlc_own.exit"
exit "$dlc_code"
"""
# The first instruction inside: a shell's, in every arm.
_RANK = (
    "DLC_PROBE_INSIDE=$(date +%s%N); export DLC_PROBE_INSIDE; "
    f'while [ "$1" != {_END} ]; do export "$1"; shift; done; shift; exec "$@"'
)


def _which() -> str:
    text = ""
    for name in reversed(_WHICH):
        text = f"${{{name}-{text}}}"
    return text


HANDED = (*_LAUNCHERS, *_TRANSPORTS)

# What the launcher needed of the caller, and what it sets besides, is not the native side's to
# find: a container is handed none of it either. Only `date` is still looked for.
_CLEARED = f"""\
set -f; IFS='
'
for dlc_line in $(export -p); do
    dlc_name=${{dlc_line#export }}
    [ "$dlc_name" != "$dlc_line" ] || continue
    dlc_name=${{dlc_name%%=*}}
    case $dlc_name in
        '' | [0-9]* | *[!A-Za-z0-9_]* | PATH | DLC_* | {" | ".join(HANDED)}) ;;
        *) unset "$dlc_name" ;;
    esac
done
unset IFS dlc_line dlc_name; set +f
"""

OUTER = (
    _OUTER.replace("@WHICH@", _which())
    .replace("@END@", _END)
    .replace("@HANDED@", " | ".join((*HANDED, "DLC_RANKS_BEGIN")))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankGroup:
    """How many ranks, how they lie on the nodes, and the words that start them."""

    launcher: tuple[str, ...]
    ranks: int
    per_node: int
    nodes: int = 1
    start: Start = "natural"
    # Where rank 0 is found by the others.
    host: str = "127.0.0.1"
    # Of the caller's environment, what the launcher gets.
    environment: Mapping[str, str]
    # What each rank was asked for; None where nothing says it.
    cpus: int | None = None

    def declared(self) -> dict[str, JsonValue]:
        """Return what of it is part of a declaration."""
        return {
            "ranks": self.ranks,
            "ranks_per_node": self.per_node,
            "nodes": self.nodes,
            "start": self.start,
            "launcher": list(self.launcher),
            **({CPUS_ASKED: self.cpus} if self.cpus is not None else {}),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLaunch:
    """One launch of a rank group: its folder on the host, and how its ranks find each other."""

    rank_group: RankGroup
    folder: Path
    patience_s: float
    meet: int
    master: int
    token: str

    def handed(self, folder: Path) -> dict[str, str]:
        """Return what the launch hands each rank; `folder` is the one as the probe sees it."""
        rank_group = self.rank_group
        transports = {
            name: value
            for name, value in rank_group.environment.items()
            if any(fnmatchcase(name, pattern) for pattern in _TRANSPORTS)
        }
        return {
            **transports,
            "DLC_RANKS": str(rank_group.ranks),
            "DLC_RANKS_PER_NODE": str(rank_group.per_node),
            "DLC_RANKS_RESULTS": str(folder),
            "DLC_RANKS_MEET": f"{rank_group.host}:{self.meet}",
            "DLC_RANKS_TOKEN": self.token,
            "DLC_RANKS_START": rank_group.start,
            "DLC_RANKS_PATIENCE": str(math.ceil(self.patience_s)),
            "MASTER_ADDR": rank_group.host,
            "MASTER_PORT": str(self.master),
        }

    @property
    def binds(self) -> Binds:
        """The folder of all launches, and where a container sees it; other nodes' names too."""
        return binds(self.folder.parent) + (_NAMES if self.rank_group.nodes > 1 else ())

    @property
    def inside(self) -> Path:
        """The launch's folder as a container sees it."""
        return Path(INSIDE) / self.folder.name

    def launched(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """Lay the launcher before the command of each rank, which holds what `rank` gives.

        `environment` is that of the engine on each node; not every launcher carries it there.
        """
        variables = (environment or {}).items()
        script = (
            "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables) + OUTER
        )
        words = ["/bin/sh", "-c", script, "sh", str(self.folder)]
        return [*self.rank_group.launcher, *words, *command]


def rank(argv: Sequence[str], environment: Mapping[str, str], *, cleared: bool) -> list[str]:
    """Wrap what runs inside an arm: it sets `environment`, and what each rank is handed.

    They are words of the command: not every launcher carries its own environment to other nodes.
    `cleared` takes away what only the launcher needed.
    """
    words = [f"{name}={value}" for name, value in environment.items()]
    script = (_CLEARED if cleared else "") + _RANK
    return ["/bin/sh", "-c", script, "sh", *words, _END, *argv]


def binds(parent: Path) -> Binds:
    """Return where a container sees the folder of all launches."""
    return ((parent, INSIDE),)


def gather(rank_group: RankGroup, parent: Path, patience_s: float) -> RankLaunch:
    """Make a folder for a launch in `parent`, and find two free ports for it."""
    folder = Path(tempfile.mkdtemp(prefix="launch-", dir=parent))
    with socket.socket() as first, socket.socket() as second:
        # Both are held until both are known: else they could be the same.
        ports = []
        for port_socket in (first, second):
            port_socket.bind(("", 0))
            ports.append(int(port_socket.getsockname()[1]))
    return RankLaunch(
        rank_group=rank_group,
        folder=folder,
        patience_s=patience_s,
        meet=ports[0],
        master=ports[1],
        token=secrets.token_hex(16),
    )

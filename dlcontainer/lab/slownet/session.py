"""A network that stands while a command runs: the folder, the program below, what both said."""

import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dlcontainer
from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slownet.ground import END, NAMES, READY
from dlcontainer.lab.slownet.mounts import HostMountWatch
from dlcontainer.lab.slownet.network import VirtualNetwork
from dlcontainer.system.process import ProcessRunner

# The hosts by name, and what tells one network from another.
HOSTS, JOB = "DLC_HOSTS", "DLC_HOSTS_JOB"
# A job script of a site without a scheduler has its ranks meet there, and not at the loopback.
MEETING = "DLCONTAINER_MASTER_ADDR"
# By folder: what started this Python may have found the package in its own way.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; "
    "runpy.run_module('dlcontainer.lab.slownet.' + sys.argv.pop(1), run_name='__main__')"
)
_WORD = """\
#!/bin/sh
exec {python} -I -c {start} {package} rank_starter {ready} {what} "$@"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams:
    """The descriptors that the command gets as its output and its errors."""

    out: int
    err: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkRun:
    """How it went: the command's exit code, what the links gave and carried, mounts by host.

    `ended`: the command went on after a loss until it was ended.
    """

    code: int
    links: Sequence[Mapping[str, Any]]
    directions: Mapping[str, Mapping[str, int]]
    lost: Sequence[Mapping[str, Any]]
    mounts: Mapping[str, int]
    looks: int
    ended: bool


def run(
    network: VirtualNetwork,
    argv: Sequence[str],
    streams: Streams,
    work: Path,
    runner: ProcessRunner,
) -> NetworkRun:
    """Make the network, try it, run the command in its first host; nothing is left after it.

    Raises ChecksFailedError where it can't be made, or is not what was asked for.
    """
    _written(network, work)
    order = {"network": network.body(), "work": str(work), "out": streams.out, "err": streams.err}
    package = str(Path(dlcontainer.__file__).parent.parent)
    words = [sys.executable, "-I", "-c", _START, package, "ground", json.dumps(order), *argv]
    path = runner.environ.get("PATH", os.defpath)
    environ = {
        MEETING: network.hosts[0].name,
        **runner.environ,
        "PATH": f"{work / 'bin'}{os.pathsep}{path}",
        JOB: work.name,
        HOSTS: " ".join(host.name for host in network.hosts),
    }
    handed = replace(runner, inherited=(streams.out, streams.err))
    with _watched(work / READY) as watch:
        done = handed(words, env=environ, check=False)
    if not (work / END).exists():
        raise ChecksFailedError(
            "the program that runs the network ended before the command",
            why=" ".join(done.stderr.split())[-400:] or f"exit code {done.returncode}",
        )
    end = json.loads((work / END).read_text())
    if "error" in end:
        raise ChecksFailedError(end["error"], why=end.get("why"), next_step=end.get("next"))
    return NetworkRun(
        code=end["code"],
        links=json.loads((work / READY).read_text())["links"],
        directions=end["ways"],
        lost=end["lost"],
        mounts=watch.most,
        looks=watch.looks,
        ended=end["ended"],
    )


def _written(network: VirtualNetwork, work: Path) -> None:
    names = "".join(f"{host.address} {host.name}\n" for host in network.hosts)
    (work / NAMES).write_text(f"127.0.0.1 localhost\n{names}")
    folder = work / "bin"
    folder.mkdir()
    words = {
        "python": shlex.quote(sys.executable),
        "start": shlex.quote(_START),
        "package": shlex.quote(str(Path(dlcontainer.__file__).parent.parent)),
        "ready": shlex.quote(str(work / READY)),
    }
    for what in ("launch", "on"):
        program = folder / f"dlc-{what}"
        program.write_text(_WORD.format(what=what, **words))
        program.chmod(0o755)


@contextmanager
def _watched(ready: Path) -> Iterator[HostMountWatch]:
    """Count mounts while it is entered, in a thread of its own."""
    end, watch = threading.Event(), HostMountWatch(ready)

    def work() -> None:
        while not end.wait(watch.every_s):
            watch.look()

    thread = threading.Thread(target=work, name="dlcontainer-watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        end.set()
        thread.join(watch.patience_s)

#!/usr/bin/env python3
"""The storm's prediction on a file system that is not ours: sshfs through a delaying proxy.

sshfs speaks to OpenSSH's sftp-server over loopback, without ssh between them (`directport`): no
key, no account and no daemon of the machine is used. The parameters come from `lab probe-fs`
and from one import by one rank; the other points are predicted before they are measured.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.delayproxy import proxy
from benchmarks.sampling import describe, machine_facts
from benchmarks.stormpoints import (
    CORES,
    Outcome,
    as_json,
    folders,
    frozen,
    last_rank,
    make_prefix,
    table,
)
from dlcontainer.lab.filesystem import microbenchmark
from dlcontainer.lab.slowfs.cache_profiles import PROFILES
from dlcontainer.lab.storm.measure import Bench, Runnable, measure, of_prefix
from dlcontainer.lab.storm.storm_model import ImportLoad, ServerModel, StormJob, predict
from dlcontainer.system.process import ProcessRunner

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
# Kept by the client as under a lock: the profile that the operations are counted with.
_CACHING = (
    "entry_timeout=3600,attr_timeout=3600,negative_timeout=3600,kernel_cache,dcache_timeout=3600"
)
_MOUNT_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The two programs, and the round trip between them, ms."""

    sshfs: str
    sftp: str
    round_trip_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Mounts that stand for nodes, and ranks on each."""

    nodes: int
    ranks: int
    round_trip_ms: float

    @property
    def name(self) -> str:
        """Return what it is, in words."""
        return f"sshfs, {self.nodes} mounts x {self.ranks} ranks, {self.round_trip_ms:g} ms"


HELD_OUT = ((1, 2), (1, 4), (2, 1), (4, 1))


def main() -> None:
    """Probe and calibrate at each delay, freeze, predict, measure, compare."""
    options = _options()
    runner = ProcessRunner(environ=dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="dlcontainer-sshfs-") as name:
        work = Path(name)
        prefix = make_prefix(work, runner, options.module)
        tree = of_prefix(prefix, options.module, runner.environ)
        bench = Bench(work=work, runner=runner, profile=PROFILES["lustre"], say=_say)
        load = measure(bench, tree, None, options.module).loads["tree"]
        systems = {}
        for delay in options.round_trip_ms:
            server = Server(sshfs=options.sshfs, sftp=options.sftp_server, round_trip_ms=delay)
            systems[delay] = server, _calibrate(server, tree, load, runner)
        predicted = {
            Point(nodes=nodes, ranks=ranks, round_trip_ms=delay): predict(
                load, system, _job(nodes, ranks)
            ).seconds
            for delay, (_, system) in systems.items()
            for nodes, ranks in HELD_OUT[: options.points]
        }
        settled: dict[str, object] = {
            "load": asdict(load),
            "systems": {str(delay): asdict(system) for delay, (_, system) in systems.items()},
            "predicted": {point.name: seconds for point, seconds in predicted.items()},
        }
        _say(f"frozen: {frozen(settled)}")
        outcomes = []
        for point, seconds in predicted.items():
            server, _ = systems[point.round_trip_ms]
            taken = tuple(_launch(server, tree, point, runner) for _ in range(options.n))
            outcomes.append(Outcome(name=point.name, predicted=seconds, measured=taken))
            _say(f"{point.name}: {seconds:.2f} s predicted, {median(taken):.2f} s measured")
    facts = machine_facts()
    if options.json:
        body = {"schema": "dlcontainer/benchmark-storm/1", "frozen": frozen(settled), **settled}
        print(json.dumps({**body, "points": as_json(outcomes), "machine": facts}, indent=1))
        return
    print(f"{describe(facts)}; parameters {frozen(settled)[:16]}")
    print(table(outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=3, help="launches of a point (default 3)")
    parser.add_argument("--module", default="numpy", help="what ranks import (default numpy)")
    parser.add_argument(
        "--points", type=int, default=len(HELD_OUT), help="only so many of the points (default all)"
    )
    parser.add_argument("--sshfs", default=shutil.which("sshfs"), help="the program")
    found = next((one for one in SFTP_SERVERS if Path(one).exists()), None)
    parser.add_argument("--sftp-server", default=found, help="the program")
    parser.add_argument("--round-trip-ms", type=float, nargs="+", default=[10.0, 20.0])
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.sshfs is None or options.sftp_server is None:
        parser.error("install sshfs and openssh-sftp-server, or name both programs")
    return options


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _job(nodes: int, ranks: int) -> StormJob:
    return StormJob(nodes=nodes, ranks=ranks, cores=max(1, CORES // nodes))


@contextmanager
def _mounted(server: Server, source: Path, point: Path) -> Iterator[None]:
    with proxy([server.sftp, "-R"], server.round_trip_ms / 1000) as port:
        options = f"directport={port},ro,auto_unmount,{_CACHING}"
        argv = [server.sshfs, "-f", "-o", options, f"127.0.0.1:{source}", str(point)]
        with subprocess.Popen(argv) as running:
            try:
                until = time.monotonic() + _MOUNT_S
                while not os.path.ismount(point):
                    if running.poll() is not None or time.monotonic() > until:
                        raise SystemExit("sshfs did not mount")
                    time.sleep(0.05)
                yield
            finally:
                running.terminate()
                running.wait(_MOUNT_S)


def _calibrate(
    server: Server, tree: Runnable, load: ImportLoad, runner: ProcessRunner
) -> ServerModel:
    """Probe a mount, then let one rank import: what reads cost beside comes from that."""
    with folders(1) as (place,), _mounted(server, tree.under, place):
        probed = microbenchmark.probe(place).speed
    assert probed.latency_ms is not None
    assert probed.operations_per_s is not None
    latency, rate = probed.latency_ms / 1000, probed.operations_per_s
    bare = ServerModel(latency_s=latency, rate=rate, read_s=0.0)
    point = Point(nodes=1, ranks=1, round_trip_ms=server.round_trip_ms)
    took = median(_launch(server, tree, point, runner) for _ in range(3))
    without = predict(load, bare, _job(1, 1)).seconds
    read = max(0.0, (took - without) / load.read_waits)
    _say(f"calibration, {point.name}: {took:.2f} s; {latency * 1000:.2f} ms, {rate:.0f}/s")
    return ServerModel(latency_s=latency, rate=rate, read_s=read)


def _launch(server: Server, tree: Runnable, point: Point, runner: ProcessRunner) -> float:
    with folders(point.nodes) as places, ExitStack() as stack:
        for place in places:
            stack.enter_context(_mounted(server, tree.under, place))
        return last_rank(tree, places, point.ranks, runner)


if __name__ == "__main__":
    main()

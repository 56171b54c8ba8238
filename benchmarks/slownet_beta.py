#!/usr/bin/env python3
"""Collective operations over `lab slownet` at several rates: is half the rate twice the beta?

The statistic was declared before the runs that docs/measurements/probes.md has: beta is the
difference of the best times of the two largest sizes over the difference of their
bytes, the slower rank's of each; beta of half the rate over beta of
the rate lies within 15 % of 2. A benchmark, not a test.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sampling import describe, machine_facts
from dlcontainer.bench.samples.rows import joining
from dlcontainer.config.resources import PROBE
from dlcontainer.system.process import CommandFailedError, ProcessRunner

OFF = 0.15
START = "from dlcontainer.cli.main import run; run()"


@dataclass(frozen=True, kw_only=True, slots=True)
class Beta:
    """What a byte takes, s, of an operation at a rate, Mbit/s."""

    operation: str
    mbit: int
    beta: float


def main() -> None:
    """Measure at each rate and half of it, print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="one with the backend's library")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--operations", default="send_recv,all_reduce")
    parser.add_argument("--rates", nargs="+", type=int, default=[100, 200], help="Mbit/s, even")
    parser.add_argument("--latency", default="0us")
    parser.add_argument("--by", choices=["tun", "tbf"], default="tun")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    wanted = sorted({half for rate in options.rates for half in (rate, rate // 2)})
    found = [beta for rate in wanted for beta in measured(options, rate)]
    known = {(one.operation, one.mbit): one.beta for one in found}
    ratios = [
        {
            "operation": name,
            "mbit": rate,
            "ratio": round(known[name, rate // 2] / beta, 3),
            "is_2": abs(known[name, rate // 2] / beta / 2 - 1) <= OFF,
        }
        for (name, rate), beta in known.items()
        if rate in options.rates
    ]
    facts = machine_facts()
    if options.json:
        betas = [asdict(one) for one in found]
        body = {"machine": facts, "by": options.by, "betas": betas, "ratios": ratios}
        print(json.dumps({"schema": "dlcontainer/benchmark-slownet/1", **body}, indent=1))
        return
    print(describe(facts))
    for one in found:
        of_wire = one.beta * one.mbit * 1e6 / 8
        print(f"{one.operation:12} {one.mbit:5} Mbit/s  {one.beta:.3e} s/byte, {of_wire:.3f} wire")
    for row in ratios:
        word = "within" if row["is_2"] else "NOT within"
        print(f"{row['operation']}: {row['mbit']} / 2: {row['ratio']}: {word} 15 % of 2")


def measured(options: argparse.Namespace, mbit: int) -> list[Beta]:
    """Run two ranks of the probe on two hosts, at a rate."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-slownet-") as folder:
        environ = {
            **os.environ,
            "PYTHONPATH": str(HERE.parent),
            "DLC_RANKS": "2",
            "DLC_RANKS_RESULTS": folder,
            "DLC_RANKS_MEET": "n1:7711",
            "DLC_RANKS_PATIENCE": "120",
            "DLC_RANKS_PER_NODE": "1",
            "MASTER_ADDR": "n1",
            "MASTER_PORT": "7712",
            "OMP_NUM_THREADS": "1",
        }
        network = ["--by", options.by, "--rate", f"{mbit}Mbit", "--latency", options.latency]
        probe = ["collectives", "--backend", options.backend, "--operations", options.operations]
        sizes = ["--sizes", "4,65536,1048576,4194304", "--rounds", str(options.rounds)]
        # The ranks must not find this checkout's packages.
        launch = ["env", "-u", "PYTHONPATH", "dlc-launch", "2", "1", options.python, "-S"]
        ranks = [*launch, str(PROBE), *probe, *sizes, "--seed", "1"]
        words = [sys.executable, "-c", START, "lab", "slownet", *network, "--", *ranks]
        try:
            ProcessRunner(environ=environ)(words)
        except CommandFailedError as error:
            raise SystemExit(f"{mbit} Mbit/s: {error.completed.stderr[-2000:]}") from None
        return _betas(Path(folder), mbit)


def _betas(folder: Path, mbit: int) -> list[Beta]:
    bodies = [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]
    nodes = [body["place"]["node"] for body in bodies]
    if nodes != ["n1", "n2"] or socket.gethostname() in nodes:
        raise SystemExit(f"the ranks were not on two hosts: {nodes}")
    best: dict[str, dict[int, float]] = {}
    for body in bodies:
        for row in joining.read(body["rows"]):
            own = best.setdefault(str(row.parameters["operation"]), {})
            size = int(row.parameters["bytes"])
            own[size] = max(own.get(size, 0.0), row.best)
    found = []
    for name, times in best.items():
        one, other = sorted(times)[-2:]
        found.append(
            Beta(operation=name, mbit=mbit, beta=(times[other] - times[one]) / (other - one))
        )
    return found


if __name__ == "__main__":
    main()

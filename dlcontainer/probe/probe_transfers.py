"""The transfers probe: copies between host and devices, and in the host's memory. Python >= 3.6.

The rows come from the session, as JSON. Each has `transfer` (of TRANSFERS), `memory` (of the host's
side: pageable or pinned; "device" between devices), `from` and `to` ("node 0" is memory of that NUMA
node, "gpu 0" that of a device) and `bytes`. The framework is a module transfers_NAME.py with a class
Transfers, made from (rows, threads):
- `framework`: the module that is attested.
- `check(row)`: how many values arrived right; raises rows.WrongError where one did not.
- `timed(row, repeats)`: the seconds of each repetition, from the call until the data is there.
- `facts()`: what of the places is attested.
- `close()`: leave the process as it was.
"""

import argparse
import importlib
import json
import time

import hand_over
import rows

NAME = "transfers"
TRANSFERS = ("host to host", "host to device", "device to host", "device to device")
FRAMEWORKS = ("torch",)


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe " + NAME)
    parser.add_argument("--rows", type=json.loads, required=True, help="[{...}, ...]")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--framework", choices=FRAMEWORKS, default=FRAMEWORKS[0])
    return parser.parse_args(arguments)


def repeats(size):
    """Give how often a visit repeats a transfer of so many bytes."""
    if size <= 1 << 16:
        return 20
    return 10 if size <= 1 << 20 else 3


def run(arguments, stamps):
    """Measure and report; `stamps` are those of this process until now, ns."""
    wanted = options(arguments)
    module = importlib.import_module("transfers_" + wanted.framework)
    stamps["import"] = _now()
    transfers = module.Transfers(wanted.rows, wanted.threads)
    stamps["placed"] = _now()
    checked = [transfers.check(row) for row in wanted.rows]
    stamps["checked"] = _now()
    begin = time.perf_counter()
    found = rows.measured(
        wanted.rows, wanted.rounds, wanted.seed,
        lambda row: checked[wanted.rows.index(row)],
        lambda row: transfers.timed(row, repeats(row["bytes"])),
    )  # fmt: skip
    values = {"wall_s": time.perf_counter() - begin}
    stamps["rows"] = _now()
    facts = transfers.facts()
    transfers.close()
    hand_over.report(
        NAME,
        stamps,
        values,
        workload={"rows": len(wanted.rows), "rounds": wanted.rounds, "seed": wanted.seed,
                  "threads": wanted.threads, "framework": wanted.framework},
        rows=found,
        framework=transfers.framework,
        attested=facts,
    )  # fmt: skip


def _now():
    return int(time.time() * 1e9)

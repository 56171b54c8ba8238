"""How long the analysis of many samples takes, and how much memory: made-up sessions, real code.

Three shapes of the same number of raw values: a session of many steps a launch (a few thousand
lines with hundreds of values each), one of many ranks a launch (`--ranks`: a value is a rank with
its phases), and one line for each value, which no session has.
"""

import argparse
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sampling import describe, machine_facts
from dlcontainer.bench import probes
from dlcontainer.bench.analysis.session_analysis import analyse
from dlcontainer.bench.samples import hash_chain, reader
from dlcontainer.bench.samples.encoding import to_fields
from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages
from dlcontainer.bench.samples.records import (
    PROCEDURE,
    ArmDescription,
    End,
    Json,
    Sample,
    SessionDeclaration,
    SessionHeader,
)

_FACTS: dict[str, Json] = {"python": "3.11", "threads": 2}


def session(pairs: int) -> SessionHeader:
    """Return a declaration of so many pairs and as many controls."""
    declared = SessionDeclaration(
        probe="train", question="overhead", metric="wall_s", margin=0.02, alpha=0.05, pairs=pairs,
        control_pairs=pairs, seed=1, warmups=0, arms=("native", "container"), loss_tolerance=0.01,
        procedure=PROCEDURE,
    )  # fmt: skip
    return SessionHeader(
        declared=declared,
        arms={
            "native": ArmDescription(what="made up"),
            "container": ArmDescription(what="made up"),
        },
        machine={"note": "made up: nothing was run"},
        started="2026-01-05T09:00:00Z",
    )


def ranks(count: int, draw: random.Random) -> list[Mapping[str, Json]]:
    """Return what so many ranks of a launch say."""
    return [
        {
            "rank": rank, "node": f"node{rank // 8}", "wall_s": round(draw.gauss(10, 0.1), 6),
            "phases": {name: round(draw.random(), 6) for name in ("runtime", "python", "import")},
        }
        for rank in range(count)
    ]  # fmt: skip


def records(pairs: int, values: int, *, ranked: bool = False) -> Iterator[dict[str, object]]:
    """Yield the lines' fields of a session whose launches hold so many raw values each."""
    draw = random.Random(1)
    yield to_fields(session(pairs))
    for arm in ("native", "container"):
        yield {"kind": "stack", "arm": arm, "facts": _FACTS}
    (stage,) = plan_stages(looks=(pairs,), counts=LaunchCounts(controls=pairs), seed=1)
    steps: list[Json] = [round(0.05 * draw.uniform(1, 1.1), 6) for _ in range(values - values // 2)]
    losses: list[Json] = [round(2.3 * 0.99**step, 5) for step in range(values // 2)] or [1.0]
    raw: dict[str, Json] = {"loss": losses, "steps_s": steps}
    if ranked:
        raw = {"loss": [1.0]}
    index, began = 0, datetime(2026, 1, 5, 9, tzinfo=UTC)
    for pair in stage:
        for position in (0, 1):
            inside = pair.series == "pair" and pair.order[position] == "c"
            sample = Sample(
                index=index, role=pair.series, arm="container" if inside else "native",
                started=(began + timedelta(seconds=11 * index)).isoformat(), returncode=0,
                wall_s=draw.gauss(10, 0.1),
                pair=pair.number, position=1 if position else 0,
                order=pair.order, values=raw,
                ranks=tuple(ranks(values, draw)) if ranked else (),
            )  # fmt: skip
            yield to_fields(sample)
            index += 1
    yield to_fields(End(complete=True, samples=index))


def write(path: Path, pairs: int, values: int, *, ranked: bool = False) -> None:
    """Write the file without its writer, which waits for the disk after each line."""
    previous = ""
    with path.open("w") as file:
        for fields in records(pairs, values, ranked=ranked):
            text, previous = hash_chain.encode(fields, previous)
            file.write(text)


def main() -> None:
    """Write a session, then read and judge it; print seconds and the peak of memory."""
    parser = argparse.ArgumentParser(description="Time the analysis of many samples.")
    parser.add_argument("-n", type=int, default=1_000_000, metavar="N", help="raw values")
    parser.add_argument(
        "--each", type=int, default=400, metavar="K", help="values a launch; 1: lines"
    )
    parser.add_argument("--ranks", action="store_true", help="a value is a rank")
    parser.add_argument("--json", action="store_true", help="print JSON")
    wanted = parser.parse_args()
    pairs = max(8, wanted.n // wanted.each // 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.jsonl"
        # In another process: the peak of memory is to be that of the reading.
        child = multiprocessing.get_context("spawn").Process(
            target=write, args=(path, pairs, wanted.each), kwargs={"ranked": wanted.ranks}
        )
        child.start()
        child.join()
        megabytes = path.stat().st_size / 1e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began, worked = time.perf_counter(), time.process_time()
        series = reader.read(path)
        read_s = time.perf_counter() - began
        word = analyse(series, probes.traits(series)).verdict.word
        seconds = time.perf_counter() - began
        processor_s = time.process_time() - worked
    found = {
        "values": 4 * pairs * wanted.each, "launches": 4 * pairs, "file_mb": round(megabytes, 1),
        "read_s": round(read_s, 2), "seconds": round(seconds, 2),
        "processor_s": round(processor_s, 2), "verdict": word,
        "memory_before_mb": round(before),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip
    print(json.dumps({**found, "machine": machine_facts()}) if wanted.json else found)
    if not wanted.json:
        print(describe(machine_facts()))


if __name__ == "__main__":
    main()

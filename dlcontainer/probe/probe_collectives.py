"""The collectives probe: operations of all ranks together, by message size. Python >= 3.6.

A backend is a module collectives_NAME.py with a class Group, made from (place, backend, patience):
- `rank`, `size`: what the library itself says; a wrong MPI says that each rank is alone.
- `framework`: the module that is attested; `transport()`: a dict of what is known of the way.
- `prepare(elements)`: two buffers of so many float32, on the backend's device.
- `fill(pattern)`: fill the first buffer from a list that is repeated; None: zeros.
- `act(operation, elements)`: run one, and return when this rank is through with it.
- `wrong(pattern, elements)`: how many elements of the result are not the pattern, repeated.
- `close()`.

`elements` are those of the whole array, nccl-tests' S: of reduce_scatter the input, of all_gather
the output, of all_to_all either; a multiple of the ranks. The result is in the second buffer, but
for broadcast and all_reduce, which work in the first.
"""

import argparse
import importlib
import os
import time

import barrier
import hand_over
import ranks
import rows

NAME = "collectives"
OPERATIONS = (
    "broadcast", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv", "barrier"
)  # fmt: skip
# Each rank has a part of S alone: S is a multiple of the ranks.
SPLIT = ("reduce_scatter", "all_gather", "all_to_all")
# These work in the first buffer, and have their result there.
IN_PLACE = ("broadcast", "all_reduce")
# backend -> the module that knows it
BACKENDS = {
    "gloo": "torch", "nccl": "torch", "xccl": "torch", "xla": "torch", "mpi": "torch",
    "mpi4py": "mpi4py", "horovod": "horovod",
}  # fmt: skip
# backend -> operations that it has not
ABSENT = {"horovod": ("send_recv",), "mpi": ("reduce_scatter",)}
WIDTH = 4  # bytes of a float32
# Elements repeat by this: no power of 2, so that parts of a size differ.
PERIOD = 7
# Sums of whole numbers below 2**24 are exact in float32, however many ranks.
WEIGHTS = 8
# Visited once in a round: repetitions up to so many bytes.
REPEATS = ((1 << 16, 20), (1 << 20, 10), (1 << 62, 3))
# A barrier that waits is at least so long where one rank comes late; tried again on a busy machine.
LATE_S, TRIALS = 0.05, 5


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe collectives")
    parser.add_argument("--backend", choices=sorted(BACKENDS), required=True)
    parser.add_argument("--operations", required=True, help="with commas between")
    parser.add_argument("--sizes", required=True, help="bytes, with commas between")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args(arguments)
    wanted.operations = wanted.operations.split(",")
    absent = ABSENT.get(wanted.backend, ())
    unknown = [name for name in wanted.operations if name not in OPERATIONS or name in absent]
    if unknown:
        parser.error("--operations {}: one of {}".format(unknown[0], ", ".join(OPERATIONS)))
    wanted.sizes = [int(size) for size in wanted.sizes.split(",")]
    return wanted


def declared(operations, sizes, count):
    """List the rows of so many ranks; the session lists them by the same rule."""
    found = []
    for operation in operations:
        for size in sizes if operation != "barrier" else (0,):
            least = WIDTH * count if operation in SPLIT else WIDTH
            found.append({"operation": operation, "bytes": -(-size // least) * least})
    return [row for number, row in enumerate(found) if row not in found[:number]]


def repeats(size):
    """Give how often a size is repeated in one visit."""
    return next(times for most, times in REPEATS if size <= most)


def run(arguments, stamps):
    """Measure and report; `stamps` are those of this process until now, ns."""
    try:
        _run(options(arguments), stamps)
    except BaseException as problem:  # whatever it was, the rank's file says it
        hand_over.failed(NAME, problem)
        raise


def _run(wanted, stamps):
    place = ranks.place()
    meeting = barrier.Meeting(place)
    if os.environ.get("DLC_RANKS_START") == "storm":
        meeting.wait()
        stamps["barrier"] = _now()
    module = importlib.import_module("collectives_" + BACKENDS[wanted.backend])
    stamps["import"] = _now()
    meeting.wait()  # the group's own time is not that of the slowest import
    patience = ranks.number(os.environ, "DLC_RANKS_PATIENCE") or 600
    group = module.Group(place, wanted.backend, patience)
    require_all(group, place, wanted.backend)
    stamps["process_group"] = _now()
    try:
        values, found = _measured(Session(group, place, meeting), wanted, stamps)
    except (rows.WrongError, ranks.RanksError):
        raise
    except Exception as problem:
        _require_others(problem)
        raise
    meeting.wait()  # nobody leaves while others need the group
    transport = group.transport()
    group.close()
    meeting.wait()
    meeting.close()
    hand_over.report(
        NAME,
        stamps,
        values,
        workload={
            "backend": wanted.backend, "operations": wanted.operations, "sizes": wanted.sizes,
            "rounds": wanted.rounds, "seed": wanted.seed, "ranks": group.size, "type": "float32",
        },
        rows=found,
        framework=group.framework,
        more={"transport": transport, "seen": {"rank": group.rank, "size": group.size}},
    )  # fmt: skip


def _measured(session, wanted, stamps):
    listed = declared(wanted.operations, wanted.sizes, session.size)
    session.group.prepare(max(row["bytes"] for row in listed) // WIDTH)
    checked = {}
    for row in listed:
        checked[row["operation"], row["bytes"]] = session.check(row)
    stamps["checked"] = _now()
    begin = time.perf_counter()
    found = rows.measured(
        listed, wanted.rounds, wanted.seed,
        lambda row: checked[row["operation"], row["bytes"]], session.visit,
    )  # fmt: skip
    values = {"wall_s": time.perf_counter() - begin}
    stamps["rows"] = _now()
    return values, found


def require_all(group, place, backend):
    """Refuse a library that sees other ranks than were started: a wrong MPI runs as 1 of 1."""
    if (group.rank, group.size) != (place.rank, place.size):
        raise RuntimeError(
            "{} sees rank {} of {}, and the launcher started rank {} of {}: its MPI is not the "
            "launcher's, or does not know this launcher".format(
                backend, group.rank, group.size, place.rank, place.size
            )
        )


def _require_others(problem):
    """Say that another rank has ended, where one has: then that is what went wrong."""
    end = time.time() + 1.0
    while time.time() < end:
        ended = barrier.gone(os.environ.get("DLC_RANKS_RESULTS", ""))
        if ended:
            raise ranks.RanksError("waiting for rank {}: it has ended".format(ended[0]))
        time.sleep(0.05)


class Session(object):
    """What ranks do together: each row checked, then visited in rounds."""

    def __init__(self, group, place, meeting):
        self.group, self._place, self._meeting, self.size = group, place, meeting, place.size

    def check(self, row):
        """Run an operation once with known values; give how many were right."""
        operation, elements = row["operation"], row["bytes"] // WIDTH
        if operation == "barrier":
            return self._waits()
        self.group.fill(given(operation, self._place.rank))
        self.group.act(operation, elements)
        total, wrong = 0, 0
        for part in expected(operation, elements, self._place.rank, self.size):
            total += part.count
            wrong += self.group.wrong(operation, part)
        if wrong:
            raise rows.WrongError(
                "{} of {:,} bytes: {:,} of {:,} values are not the known result".format(
                    operation, row["bytes"], wrong, total
                )
            )
        self.group.fill(None)
        return total

    def _waits(self):
        """Let the last rank come late; the others must have waited."""
        for _ in range(TRIALS):
            self._meeting.wait()
            if self._place.rank == self.size - 1:
                time.sleep(LATE_S)
            begin = time.perf_counter()
            self.group.act("barrier", 0)
            waited = time.perf_counter() - begin
            is_late = self._place.rank == self.size - 1
            said = self._meeting.exchange("1" if is_late or waited >= LATE_S / 2 else "0")
            if "0" not in said:
                return 1
        raise rows.WrongError("barrier: rank {} did not wait for the last one".format(said.index("0")))

    def visit(self, row):
        """Time each repetition; a barrier before each, as OSU's benchmarks have it."""
        operation, elements = row["operation"], row["bytes"] // WIDTH
        times, act = [], self.group.act
        for _ in range(repeats(row["bytes"])):
            act("barrier", 0)
            begin = time.perf_counter()
            act(operation, elements)
            times.append(time.perf_counter() - begin)
        return times


class Part(object):
    """A stretch of a result: element i of `count` is weight * ((first + i) % PERIOD + 1)."""

    def __init__(self, at, count, first, weight):
        self.at, self.count, self.first, self.weight = at, count, first, weight

    def pattern(self):
        """Give one period of it."""
        return [self.weight * ((self.first + i) % PERIOD + 1) for i in range(PERIOD)]


def weight(rank):
    """Give the factor by which a rank's values differ from its neighbours'."""
    return rank % WEIGHTS + 1


def given(_operation, rank):
    """Give one period of what a rank puts in."""
    return Part(0, PERIOD, 0, weight(rank)).pattern()


def expected(operation, elements, rank, count):
    """List the stretches that a rank's result must be made of."""
    every, block = sum(weight(one) for one in range(count)), elements // count
    if operation == "broadcast":
        return [Part(0, elements, 0, weight(0))]
    if operation == "all_reduce":
        return [Part(0, elements, 0, every)]
    if operation == "reduce_scatter":
        return [Part(0, block, rank * block, every)]
    if operation == "all_gather":
        return [Part(one * block, block, 0, weight(one)) for one in range(count)]
    if operation == "all_to_all":
        return [Part(one * block, block, rank * block, weight(one)) for one in range(count)]
    return [Part(0, elements, 0, weight((rank - 1) % count))]  # send_recv: from the rank before


def _now():
    return int(time.time() * 1e9)

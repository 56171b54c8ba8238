"""The train probe: a small residual network on synthetic data, with the framework that is asked for.

Prints one JSON object. Wall time is that of all steady steps together, the device idle at both
ends: a median step would hide stragglers. Python >= 3.6.

Each framework has a file of its own, train_NAME.py, with a class Trainer: made from the options,
it trains a step, waits until its device is idle, gives a clock and the losses. The networks are the
same, layer by layer; weights and data come from each framework's own generator, so their losses are
not to be compared with each other.

Ranks that train together: `--distributed WAY` takes the Trainer of train_NAME_WAY.py, which is
named in WAYS (and in FILES, where the file has another name). Beside a Trainer's work (`step`, `settle`, `clock`, `losses`, `counts`, `device`,
`framework`) it keeps to this:
- `wanted.place` is this rank's ranks.Place; MASTER_ADDR and MASTER_PORT are free for it to use.
- Weights are the same on all ranks (made from `wanted.seed`), data are this rank's own (from
  `wanted.seed + 1 + stream(wanted)`); the batch is that of one rank, or group of them.
- `step` averages the gradients of all ranks; `losses` are this rank's own, the session averages.
- It calls `stamp("import")` when the framework is loaded, `stamp("device")` when its device has
  data and weights, `stamp("process_group")` when all ranks have found each other, before or after
  the device. Trainers of one process call the first two.
- `wanted.meeting()` gives the ranks' barrier.Meeting, where a trainer has something to exchange.
- `weights()` gives all weights that are trained, as one flat list of floats. How far they moved is
  reported by each rank; where ranks differ, nobody averaged, and the session refuses the launch.
- A device for each rank of a node: that of its `place.local_rank`, counted round.
- `feed(samples, wanted)` gives itself, training on those of train_input.py; waits are in `waited_s`.
- Where ranks hold parts of the weights, `weights()` gives them by the part's name, and `movement`
  how each part moved. `shares` is how many ranks train together on one batch.
- `gate(wanted)` holds the training against one process, before a time counts (--gate).
- `apart(number)` trains a step and talks to nobody; False where it can't be.
- `close()` leaves the group; `transport()` gives what is known of the way between ranks, a dict.
The frame holds the barrier before the clock starts, on every rank, by means of its own.
"""

import argparse
import importlib
import os
import resource
import time

import accelerator
import baton
import calibrate
import hand_over
import ranks
import train_options
from barrier import Meeting
from train_options import FRAMEWORKS, WAYS, options  # noqa: F401

# The way whose file has another name: it would be train_tensorflow_tensorflow.
FILES = {"tensorflow": "multiworker"}
CLASSES = 10
# device -> batch, image side, width of the first stage: a step of some 20 ms on either; cuda's are
# those of every accelerator
SIZES = {"cpu": (16, 32, 8), "cuda": (256, 64, 64)}
BATCHES = 8  # made before the clock starts, used in turn
RATE, MOMENTUM = 0.02, 0.9
STAMPS = {}
_SUMS = 8


def stamp(name):
    """Say that a phase is over, now."""
    STAMPS[name] = int(time.time() * 1e9)


def settle_sizes(wanted, device):
    """Fill in what the options left to the device."""
    batch, size, width = accelerator.sizes(SIZES, device)
    wanted.batch, wanted.size = wanted.batch or batch, wanted.size or size
    wanted.width = wanted.width or width


def stream(wanted):
    """Number the samples that a rank trains on: those of its rank, or of its group."""
    rank = wanted.place.rank
    return wanted.axes.stream(rank) if wanted.axes else rank


def stages(width):
    """Give the stages after the stem: input channels, output channels, stride; two blocks each."""
    return ((width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2))


class Clock(object):
    """Times of steps by this process's clock: for devices that are idle after a step."""

    def __init__(self):
        self.marks = []

    def mark(self):
        """Mark the end of a step (first: the begin of all)."""
        self.marks.append(time.perf_counter())

    def steps_s(self):
        """Give each step's time, s; the device must be idle."""
        return [b - a for a, b in zip(self.marks, self.marks[1:])]


def cpu_seconds():
    """Give this process's CPU time, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(trainer, wanted, meet=lambda: None):
    """Train; give the values and the steps' times. `meet` waits for the other ranks."""
    clock = trainer.clock()
    for number in range(wanted.warmup):
        trainer.step(number)
        if number == 0:
            trainer.settle()
            stamp("step_1")
    trainer.settle()
    meet()
    stamp("steady")
    cpu, begin = cpu_seconds(), time.perf_counter()
    clock.mark()
    for number in range(wanted.steps):
        trainer.step(wanted.warmup + number)
        clock.mark()
    trainer.settle()
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    steps = clock.steps_s()
    values = {
        "wall_s": wall,
        "cpu_s_per_step": cpu / wanted.steps,
        "step_p50_s": quantile(steps, 0.5),
        "step_p95_s": quantile(steps, 0.95),
    }
    return values, steps


def movement(before, after):
    """Say how weights moved: the way's length, and sums of every eighth of its parts."""
    moved = [new - old for old, new in zip(before, after)]
    sums = [sum(moved[first::_SUMS]) for first in range(_SUMS)]
    return {"length": sum(part * part for part in moved) ** 0.5, "sums": sums}


def quantile(values, share):
    """Give the smallest value with at least this share at or below it (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


def run(arguments, stamps):
    """Train and hand over the report; `stamps` are those of this process until now, ns."""
    STAMPS.update(stamps, **ranks.stamps(os.environ))
    try:
        wanted = options(arguments)
        body = _trained(wanted)
    except BaseException as problem:  # whatever it was, the rank's file says it
        hand_over.failed("train", problem)
        raise
    ranks.say(body)
    if wanted.baton and not wanted.input:  # readers are processes: Python ends them on its way
        baton.leave()


def _trained(wanted):
    place, held = ranks.place(), []

    def meeting():
        # Begun when it is first needed: without a storm nobody waits before the import.
        if not held:
            held.append(Meeting(place))
        return held[0]

    wanted.place, wanted.meeting = place, meeting
    if wanted.axes:
        wanted.axes.hold(place.size)
    if wanted.baton:
        return _resident(wanted)
    calibrated = _calibrated()
    if os.environ.get("DLC_RANKS_START") == "storm":
        meeting().wait()
        stamp("barrier")
    together = wanted.distributed not in (None, train_options.APART)
    way = FILES.get(wanted.distributed, wanted.distributed)
    name = "_".join(["train", wanted.framework] + ([way] if together else []))
    trainer = importlib.import_module(name).Trainer(wanted)
    _fed(trainer, wanted, _samples(wanted))
    gate = trainer.gate(wanted) if wanted.gate else None
    before = trainer.weights() if together else []
    values, steps = measure(trainer, wanted, lambda: meeting().wait())
    values.update(_waited(getattr(trainer, "waited_s", []), wanted.steps))
    body = _report(trainer, wanted, values, steps)
    if gate:
        body["gate"] = gate
    # After the figures were taken, of all ranks: what it needs is none of theirs.
    meeting().wait()
    calibrated["after"] = calibrate.measure()
    body["calibration"] = calibrated
    values.update(calibrate.joined(calibrated["before"], calibrated["after"]))
    if together:
        moved = getattr(trainer, "movement", None)
        body["moved"] = moved(before) if moved else movement(before, trainer.weights())
        body["transport"] = trainer.transport()
        values.update(_apart(trainer, wanted, meeting))
        meeting().wait()  # nobody leaves while others need the group
        trainer.close()
    meeting().close()
    return body


def _apart(trainer, wanted, meeting):
    """Time steps of all ranks at once that talk to nobody; nothing where they can't."""
    alone = getattr(trainer, "apart", None)
    number = wanted.warmup + wanted.steps
    # The first one is not timed: it may still talk.
    if not wanted.apart or alone is None or not alone(number):
        return {}
    trainer.settle()
    meeting().wait()
    clock = trainer.clock()
    clock.mark()
    for one in range(wanted.apart):
        alone(number + 1 + one)
        clock.mark()
    trainer.settle()
    return {"apart_s_per_step": quantile(clock.steps_s(), 0.5)}


def _resident(wanted):
    """Train in turns, as the session orders; the report is that of all turns together."""
    module = importlib.import_module("train_" + wanted.framework)
    calibrated = {}
    pipes = baton.Baton(wanted.baton, wanted.process)
    pipes.answer({"here": os.getpid()})
    everywhere = os.sched_getaffinity(0)
    # Before the session's first order: processes import beside each other.
    importlib.import_module(wanted.framework)
    stamp("import")
    samples = _samples(wanted)
    first = dict(STAMPS)
    _rehearsed(module, wanted)

    def make():
        trainer = _fed(module.Trainer(wanted), wanted, samples)
        # It was made when the session said so: no phase of this process's start.
        STAMPS.clear()
        STAMPS.update(first)
        return trainer

    cpus = [int(cpu) for cpu in wanted.cpus.split(",")]

    def stop():
        import attest

        calibrated["after"] = calibrate.measure()
        attest.end()

    resident = baton.Resident(
        make, wanted.warmup, cpus, lambda: calibrated.update(_calibrated()), stop
    )
    if not resident.serve(pipes) or "after" not in calibrated:
        raise SystemExit("the session ended before this process had all of its turns")
    wanted.steps = max(1, len(resident.steps))
    values = {
        "wall_s": resident.wall,
        "cpu_s_per_step": resident.cpu / wanted.steps,
        "idle_cpu_s": resident.idle,
    }
    values.update(_waited(resident.waited, wanted.steps))
    # All has been measured: processes report beside each other.
    os.sched_setaffinity(0, everywhere)
    body = _report(resident.trainer, wanted, values, resident.steps)
    body["calibration"] = calibrated
    values.update(calibrate.joined(calibrated["before"], calibrated["after"]))
    body["losses"] = resident.losses
    del body["workload"]["steps"]  # how often it had its turn, not what it did
    pipes.close()
    return body


def _samples(wanted):
    """Give the samples to train on, every one checked; None: noise, and nothing is loaded for it."""
    if not wanted.input:
        return None
    import train_input

    return train_input.prepared(wanted)


def _fed(trainer, wanted, samples):
    return trainer if samples is None else trainer.feed(samples, wanted)


def _waited(spent, steps):
    # By a timed step, on the average; nothing where none are read.
    return {"input_s_per_step": sum(spent[-steps:]) / steps} if spent else {}


def _rehearsed(module, wanted):
    """Train one small step: what a framework loads with its first optimizer is there then."""
    small = argparse.Namespace(
        **dict(vars(wanted), batch=2, size=8, width=8, workload=train_options.RESIDUAL)
    )
    module.Trainer(small).step(0)


def _calibrated():
    """Run the kernels before the framework is there, and note what must not change."""
    import attest

    if ranks.attests():
        attest.begin()
    found = {"before": calibrate.measure()}
    stamp("calibration")
    return found


def _crowded(place):
    per_node = place.local_size or ranks.number(os.environ, "DLC_RANKS_PER_NODE") or place.size
    return per_node > (os.cpu_count() or per_node)


def _report(trainer, wanted, values, steps):
    import attest

    usage = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "max_rss_mb": usage.ru_maxrss / 1024.0,
        # Ranks that train together on one batch share it.
        "samples_per_s": wanted.batch
        * wanted.steps
        / values["wall_s"]
        / getattr(trainer, "shares", 1),
    }
    counts.update(trainer.counts())
    workload = dict(vars(wanted), device=trainer.device, ranks=wanted.place.size)
    # What a published network was counted to be, before its first step.
    workload.update(getattr(trainer, "counted", {}))
    # The stack names the framework with its version; the place is this rank's own.
    own = ["framework", "place", "meeting", "baton", "process", "cpus"]
    for name in own + train_options.unsaid(wanted):
        del workload[name]
    if trainer.device == accelerator.CPU and _crowded(wanted.place):
        # Compute takes turns on cores: such times tell of communication alone.
        workload["emulated"] = "compute: {} ranks on {} cores".format(
            wanted.place.local_size or wanted.place.size, os.cpu_count()
        )
    return {
        "schema": hand_over.SCHEMA,
        "probe": "train",
        "ok": True,
        "error": None,
        "workload": workload,
        "stamps_ns": STAMPS,
        "values": values,
        "counts": counts,
        "steps_s": [round(step, 6) for step in steps],
        "losses": trainer.losses(),
        "affinity": attest.affinity(),
        "stack": attest.stack(trainer.framework) if ranks.attests() else None,
    }

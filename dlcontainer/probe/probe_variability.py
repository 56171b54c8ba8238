"""The variability probe: the times of many equal steps, one by one. Python >= 3.6.

A step is one fixed piece of work, by a class of KERNELS, made from (threads, device, local rank):
- `framework`: the module that is attested; None where Python alone computes.
- `step()`: do it; on a GPU until that is idle.
- `right()`: how many values of the last step were held against the known result; raises
  rows.WrongError where one differs.

Every step's result is checked, outside of its time, and a wrong one ends the launch. Ranks begin
together and then run each for itself: nobody waits for a slower one, so each rank's times are its
own. What the node is (processor, memory, cores) is attested beside.
"""

import argparse
import hashlib
import os
import platform
import time

import accelerator
import barrier
import hand_over
import ranks
import rows
import watch

NAME = "variability"
# The side of the matrices; whole numbers whose sums of products are exact in float32.
SIDE, PERIOD = 512, 7
BLOCK = 1 << 20  # bytes
# SHA-256 of BLOCK bytes, 0 to 255 again and again.
DIGEST = "fbbab289f7f94b25736c58be46a994c441fd02552cc6022352e3d86d2fab7c83"
WARMUP = 20


class Gemm(object):
    """One product of two square matrices in fp32, by PyTorch."""

    def __init__(self, threads, device, local_rank):
        import torch

        torch.set_num_threads(threads)
        self.framework, self._torch = torch, torch
        on = accelerator.chosen(torch, device)
        on.take(local_rank)
        self._settle = on.settle
        count = torch.arange(SIDE)
        line, column = count.remainder(PERIOD), count.remainder(PERIOD - 2)
        whole = line[:, None] + column[None, :]
        self._one, self._other = (
            one.float().to(device) for one in (whole, whole.t().contiguous())
        )
        # Whole numbers: this sum has no rounding, in whatever order; nor in TF32.
        self._known = whole.matmul(whole.t()).float().to(device)
        self._result = torch.empty(SIDE, SIDE, device=device)

    def step(self):
        """Multiply."""
        self._torch.mm(self._one, self._other, out=self._result)
        self._settle()

    def right(self):
        """Hold all values against the sums of whole numbers."""
        if not self._torch.equal(self._result, self._known):
            wrong = int((self._result != self._known).sum())
            raise rows.WrongError(
                "gemm: {:,} of {:,} values are not the known result".format(wrong, SIDE * SIDE)
            )
        self._result.fill_(-1.0)  # a step that computes nothing must not pass
        self._settle()
        return SIDE * SIDE


class Hash(object):
    """SHA-256 of a block of memory, by Python alone."""

    framework = None

    def __init__(self, _threads, _device, _local_rank):
        self._block, self._digest = bytes(bytearray(range(256))) * (BLOCK >> 8), ""

    def step(self):
        """Hash."""
        self._digest = hashlib.sha256(self._block).hexdigest()

    def right(self):
        """Hold the digest against the known one."""
        if self._digest != DIGEST:
            raise rows.WrongError("hash: {} is not the known digest".format(self._digest or "none"))
        self._digest = ""
        return 1


KERNELS = {"gemm": Gemm, "hash": Hash}


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe variability")
    parser.add_argument("--kernel", choices=sorted(KERNELS), required=True)
    parser.add_argument("--timed", type=int, required=True, help="steps")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=accelerator.DEVICES, default="cpu")
    parser.add_argument("--watch", action="store_true")
    return parser.parse_args(arguments)


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
    kernel = KERNELS[wanted.kernel](wanted.threads, wanted.device, place.local_rank)
    stamps["import"] = _now()
    for _ in range(WARMUP):
        kernel.step()
        kernel.right()
    stamps["warm"] = _now()
    meeting.wait()  # all ranks at once: what they take from each other is in their times
    times, begin = [], time.perf_counter()

    def check(_row):
        kernel.step()
        return kernel.right()

    def visit(_row):
        times.extend(timed(kernel, wanted.timed))
        return times

    row = {"kernel": wanted.kernel, "device": wanted.device, "threads": wanted.threads}
    watched = watch.here() if wanted.watch else None
    found = rows.measured([row], 1, 0, check, visit)
    wall = time.perf_counter() - begin
    beside = watched.end() if watched else {}
    stamps["steps"] = _now()
    meeting.wait()  # nobody's end is beside another's steps
    meeting.close()
    hand_over.report(
        NAME,
        stamps,
        {"wall_s": wall},
        workload=dict(row, timed=wanted.timed),
        counts=dict(beside, tail_ratio=quantile(times, 0.99) / rows.median(times)),
        steps_s=times,
        rows=found,
        framework=kernel.framework,
        attested={"node_type": node_type()},
    )


def timed(kernel, count):
    """Time steps, each by itself; its result is checked after its time, and before the next."""
    times, clock = [], time.perf_counter
    for _ in range(count):
        begin = clock()
        kernel.step()
        taken = clock() - begin
        kernel.right()
        times.append(taken)
    return times


def quantile(values, share):
    """Give the smallest value with at least this share at or below it (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


def node_type(root="/"):
    """Give what kind of node this is: its processor, its processors' number, its memory in GiB."""
    memory = _lines(root + "proc/meminfo").get("MemTotal", "").split()
    # To a GiB: what the firmware keeps differs by some MiB between nodes of one kind.
    is_known = bool(memory) and memory[0].isdigit()
    return {
        "cpu_model": _model(_lines(root + "proc/cpuinfo")),
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "memory_gib": int(round(int(memory[0]) / 1048576.0)) if is_known else None,
    }


def _model(said):
    # Of ARM's processors Linux gives numbers alone.
    arm = " ".join(said[name] for name in ("CPU implementer", "CPU part") if said.get(name))
    return said.get("model name") or said.get("cpu") or arm or platform.machine()


def _lines(path):
    """Read a file of NAME: VALUE; the first of each name counts."""
    found = {}
    try:
        with open(path, errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    return found


def _now():
    return int(time.time() * 1e9)

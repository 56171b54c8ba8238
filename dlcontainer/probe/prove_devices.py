"""Every device that a framework sees, proved: named, counted, trained on, held against the CPU.

devices_NAME.py has a class Devices for each framework: `names()` gives the devices' names, in the
framework's order; `losses(index, steps)` trains the same small network from the same weights on the
same data for so many steps on that device (None: the CPU) and gives the losses. Nothing but the
standard library and the framework; syntax of Python 3.5, since images of Caffe have that.
"""

import importlib
import os

FRAMEWORKS = ("torch", "tensorflow", "mxnet", "jax", "caffe")
STEPS = 5
# How far a device's losses may be from the CPU's, relative to the CPU's. This network's, over these
# steps, on a CPU: float64 and other orders of summing are 2e-7 from float32, products rounded to
# TF32 (where a framework can't switch it off) 2e-4, to bfloat16 1e-3. So what computes in float32
# or TF32 is inside, and nothing coarser. The losses fall by more than MOVES: a device that does not
# train, or gives one number for all, is far outside.
BOUND = 5e-4
MOVES = 0.05
# What hides devices from a process: set by schedulers, launchers and users.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ONEAPI_DEVICE_SELECTOR",
    "ZE_AFFINITY_MASK",
    "NVIDIA_VISIBLE_DEVICES",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
)
_BUSY = ("busy or unavailable", "devices are busy", "exclusive")


def proved(framework, own=None):
    """Try each device, or only the one that `own` counts to; give what was seen.

    `state` is "ok", "failed", or "not tried" where the framework sees no device.
    """
    # Read when the libraries are loaded, where that is still to come: full float32.
    os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
    devices = importlib.import_module("devices_" + framework).Devices()
    names = devices.names()
    found = {
        "framework": framework,
        "count": len(names),
        "names": names,
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "bound": BOUND,
        "cpu_losses": devices.losses(None, STEPS),
        "devices": [],
    }
    if names:
        wanted = range(len(names)) if own is None else [own % len(names)]
        found["devices"] = [_tried(devices, index, names, found["cpu_losses"]) for index in wanted]
    found["state"], found["detail"] = judged(found)
    return found


def untried():
    """Say that nothing could be tried: this Python has no framework that is known here."""
    detail = "the image has none of the frameworks that devices are tried with: "
    return {
        "framework": None,
        "count": 0,
        "names": [],
        "devices": [],
        "state": "not tried",
        "detail": detail + ", ".join(FRAMEWORKS),
    }


def _tried(devices, index, names, reference):
    entry = {"index": index, "name": names[index], "losses": [], "apart": None, "error": None}
    try:
        entry["losses"] = devices.losses(index, STEPS)
        entry["apart"] = apart(entry["losses"], reference)
    except Exception as problem:
        entry["error"] = "{}: {}".format(type(problem).__name__, problem).splitlines()[0][:300]
    entry["ok"] = entry["error"] is None and entry["apart"] <= BOUND
    return entry


def apart(losses, reference):
    """Give the largest difference, relative to the reference; what is no number is beyond all."""
    if len(losses) != len(reference) or not reference:
        return 1e9
    worst = 0.0
    for mine, other in zip(losses, reference):
        off = abs(mine - other) / max(abs(other), 1e-9)
        if not off <= 1e9:  # NaN compares as false
            return 1e9
        worst = max(worst, off)
    return worst


def judged(found):
    """Give the state of what was seen, and the line that says why."""
    reference = found["cpu_losses"]
    if not abs(reference[-1] - reference[0]) >= MOVES * abs(reference[0]):  # NaN compares as false
        return "failed", "the CPU's own losses do not move: {}".format(reference)
    if not found["count"]:
        return "not tried", "{} sees no device{}".format(found["framework"], _hidden(found))
    bad = [entry for entry in found["devices"] if not entry["ok"]]
    if bad:
        return "failed", "; ".join(_fault(entry) for entry in bad)
    tried = found["devices"]
    worst = max(entry["apart"] for entry in tried)
    shown = "{} of {} devices trained as the CPU does (losses {:.1e} apart, bound {:g}): {}"
    return "ok", shown.format(len(tried), found["count"], worst, BOUND, counted(found["names"]))


def _hidden(found):
    said = ["{}={!r}".format(name, value) for name, value in sorted(found["variables"].items())]
    return "; " + ", ".join(said) if said else ""


def _fault(entry):
    where = "device {} ({})".format(entry["index"], entry["name"])
    if entry["error"]:
        hint = ""
        if any(word in entry["error"] for word in _BUSY):
            hint = (
                "; another process holds it: in exclusive-process mode a device takes one rank, "
                "so start one rank a device, or several under MPS"
            )
        return "{}: {}{}".format(where, entry["error"], hint)
    return "{}: losses {:.1e} from the CPU's, bound {:g}".format(where, entry["apart"], BOUND)


def counted(names):
    """Give names with their numbers: 4 x NVIDIA A100-SXM4-40GB."""
    kinds = sorted(set(names), key=names.index)
    return ", ".join("{} x {}".format(names.count(kind), kind) for kind in kinds)


def line(framework):
    """Give state and reason in few words, for a recipe's proof; never raises."""
    try:
        found = proved(framework)
    except Exception as problem:
        return "failed", "{}: {}".format(type(problem).__name__, problem)
    return found["state"], found["detail"]


def present():
    """Name the first framework that this Python has; None without one."""
    import importlib.util

    for name in FRAMEWORKS:
        if importlib.util.find_spec(name):
            return name
    return None

# ruff: noqa: BLE001, PTH118, PTH123, RUF005, T201, UP004
# mypy: ignore-errors
"""A PyTorch of CPUs that looks like one with an accelerator, and every probe's path over it.

PYTHON -c TEXT_OF_THIS FOLDER_OF_THE_PROBE KIND FOLDER_OF_THE_DIGITS     one JSON object

Tensors "on the device" lie in the host's memory: what is asked of a device is noted and answered,
as the kind's documentation says it. A wrong number can't be seen here, a wrong name can.
"""

import contextlib
import hashlib
import importlib.machinery
import io
import json
import os
import socket
import sys
import time
import traceback
import types

import torch

FOLDER, KIND, DIGITS = sys.argv[1:4]
TYPE = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "tpu": "xla"}[KIND]
BACKEND = {"cuda": "nccl", "xpu": "xccl", "xla": "xla"}[TYPE]
asked = {}


def note(name, answer=None):
    def call(*words, **_named):
        asked[name] = asked.get(name, 0) + 1
        return answer(*words) if callable(answer) else answer

    return call


class Event(object):
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        asked["record"] = asked.get("record", 0) + 1
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


@contextlib.contextmanager
def nothing(*_words):
    yield


def module():
    facts = types.SimpleNamespace(uuid="GPU-1", gcnArchName="gfx90a:sramecc+")
    own = {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: 2,
        "current_device": lambda: 0,
        "set_device": note("set_device"),
        "synchronize": note("synchronize"),
        "get_device_name": note("get_device_name", "Fake {}".format),
        "get_device_properties": note("get_device_properties", facts),
        "get_device_capability": note(
            "get_device_capability", {"has_fp64": True} if TYPE == "xpu" else (9, 0)
        ),
        "is_bf16_supported": lambda *_words: True,
        "max_memory_allocated": note("max_memory_allocated", 5000000),
        "Event": Event,
        "device": nothing,
    }
    if TYPE == "cuda":
        own["can_device_access_peer"] = note("can_device_access_peer", True)
        own["nccl"] = types.SimpleNamespace(version=lambda: (2, 28, 9))
    return own


def xla():
    names = ("torch_xla", "torch_xla.core", "torch_xla.core.xla_model", "torch_xla.distributed",
             "torch_xla.distributed.xla_backend")  # fmt: skip
    for name in names:
        made = types.ModuleType(name)
        made.__spec__ = importlib.machinery.ModuleSpec(name, None)
        made.__path__ = []
        sys.modules[name] = made
    model = sys.modules["torch_xla.core.xla_model"]
    model.get_xla_supported_devices = lambda: ["xla:0", "xla:1"]
    model.xla_device_hw = lambda _device: "TPU"
    model.mark_step, model.wait_device_ops = note("mark_step"), note("synchronize")
    model.get_memory_info = note("max_memory_allocated", {"peak_bytes_used": 5000000})


def moved(given):
    """Give what a call is given with the device's places become the host's."""
    if isinstance(given, torch.device):
        return torch.device("cpu") if given.type == TYPE else given
    if isinstance(given, str) and given.partition(":")[0] == TYPE:
        asked["placed"] = asked.get("placed", 0) + 1
        return "cpu"
    return given


class Placed(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, _types, words=(), named=None):
        named = {name: moved(given) for name, given in (named or {}).items()}
        named.pop("pin_memory", None)
        if getattr(function, "__name__", "") == "is_pinned":
            return True
        if getattr(function, "__name__", "") == "pin_memory":
            return words[0]
        return function(*map(moved, words), **named)


def install():
    if TYPE == "xla":
        xla()
    else:
        for name, call in module().items():
            setattr(getattr(torch, TYPE), name, call)
        if hasattr(torch, "accelerator"):
            common = torch.accelerator
            common.current_accelerator = lambda *_words: torch.device(TYPE)
            common.is_available, common.device_count = (lambda: True), (lambda: 2)
            common.synchronize = note("synchronize")
            common.set_device_index = note("set_device")
    if KIND == "rocm":
        torch.version.hip = "6.3.42131"
    group, begun = torch.distributed, torch.distributed.init_process_group

    def meet(backend, init_method, **named):
        assert (backend, init_method) == (BACKEND, "xla://" if TYPE == "xla" else "env://")
        asked["met"] = asked.get("met", 0) + 1
        begun("gloo", init_method="env://", **named)

    group.init_process_group = meet
    group.is_nccl_available = lambda: TYPE == "cuda"
    group.is_xccl_available = lambda: TYPE == "xpu"
    whole = torch.nn.parallel.DistributedDataParallel

    def averaged(model, device_ids=None):
        assert device_ids == (None if TYPE == "xla" else [0]), device_ids
        return whole(model)

    torch.nn.parallel.DistributedDataParallel = averaged
    seen = torch.profiler.profile

    def profile(activities):
        # A PyTorch of CPUs ends where it is to look at a device.
        assert TYPE == "xla" or TYPE.upper() in [one.name for one in activities]
        return seen(activities=[torch.profiler.ProfilerActivity.CPU])

    torch.profiler.profile = profile
    # For as long as this process lives.
    Placed().__enter__()


def port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def rows():
    shapes = {"gemm": "m16n16k16", "triad": "n65536"}
    precisions = ("fp32", "bf16") if TYPE == "xla" else ("fp32", "bf16", "fp16")
    kernels = [
        {"kernel": kernel, "precision": one, "layer": "", "shape": shape, "threads": 1}
        for kernel, shape in shapes.items()
        for one in precisions
        if kernel == "gemm" or one == "fp32"
    ]
    ways = [
        {"transfer": "host to device", "memory": "pinned", "from": "node 0", "to": "gpu 0"},
        {"transfer": "device to host", "memory": "pageable", "from": "gpu 0", "to": "node 0"},
        {"transfer": "device to device", "memory": "device", "from": "gpu 0", "to": "gpu 1"},
    ]
    return [[2, one] for one in kernels], [dict(one, bytes=4096) for one in ways]


def launches():
    kernels, ways = rows()
    common = ["--device", TYPE]
    small = ["--steps", "2", "--warmup", "1", "--batch", "4"]
    rule = {"batch": 32, "decay": 0, "exponent": 0.5, "momentum": 0.9, "rate": 0.12, "trust": 0,
            "weight_decay": 0.0001}  # fmt: skip
    import digits

    with open(os.path.join(DIGITS, digits.FILE), "rb") as file:
        sha256 = hashlib.sha256(file.read()).hexdigest()
    numbers = ["--rounds", "1", "--threads", "1"]
    yield "kernels", ["--rows", json.dumps(kernels), *numbers, *common]
    yield "transfers", ["--rows", json.dumps(ways), *numbers]
    yield "variability", ["--kernel", "gemm", "--timed", "5", "--threads", "1", *common]
    learn = ["--data", DIGITS, "--sha256", sha256, "--optimizers", "sgd", "--batches", "32"]
    learn += ["--seeds", "1", "--steps", "4", "--every", "2", "--target", "50", "--threads", "1"]
    yield "convergence", [*learn, "--rules", json.dumps({"sgd": rule}), *common]
    yield "train", [*small, "--size", "8", "--width", "8", *common]
    yield "train", [*small, "--size", "8", "--width", "8", "--precision", "bf16"]
    yield (
        "train",
        ["--steps", "1", "--warmup", "1", "--batch", "1", "--workload", "convnet", *common],
    )
    yield "train", [*small, "--size", "8", "--width", "8", *common, "--distributed", "ddp"]
    yield (
        "collectives",
        [
            *("--backend", BACKEND, "--operations", "all_reduce,barrier", "--sizes", "64,4096"),
            *("--rounds", "1"),
        ],
    )
    yield "devices", ["--framework", "torch"]


def ran(name, words):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port())
    before, printed = dict(asked), io.StringIO()
    with contextlib.redirect_stdout(printed):
        __import__("probe_" + name).run(words, {"python": time.time_ns()})
    new = {key: number - before.get(key, 0) for key, number in asked.items()}
    said = json.loads(printed.getvalue().splitlines()[-1])
    return {"probe": name, "said": said, "asked": {key: one for key, one in new.items() if one}}


def main():
    sys.path.insert(0, FOLDER)
    install()
    found = []
    for name, words in launches():
        try:
            found.append(ran(name, words))
        except BaseException as problem:
            traceback.print_exc()
            sys.exit("{} on a fake {}: {!r}".format(" ".join([name] + words)[:200], KIND, problem))
    found.append(proof())
    print(json.dumps({"kind": KIND, "launches": found}))


def proof():
    """Give what a proof's ranks ask of their devices."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port())
    import prove_torch
    import ranks

    own = prove_torch.own_device(1, None)
    prove_torch.SIZES = dict.fromkeys(prove_torch.SIZES, (1 << 10,))
    group = prove_torch.Group(ranks.place(), prove_torch.backend(), 60)
    said = {"off": group.off(), "bandwidth": group.bandwidth(), "backend": group.backend}
    group.close()
    return {"probe": "prove", "said": dict(said, device=own, library=prove_torch.library()),
            "asked": {}}  # fmt: skip


main()

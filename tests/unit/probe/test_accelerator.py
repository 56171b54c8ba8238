"""The one device layer: nobody else names a vendor's module, and each kind is found and asked."""

import ast
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import collectives
from dlcontainer.bench.probes.probe import DEVICES
from dlcontainer.config.resources import PROBE

LAYER = {"accelerator.py", "accelerator_kinds.py"}
MODULES = {"cuda", "xpu", "hip", "xla", "torch_xla", "accelerator_idx", "mps", "hpu", "npu"}
# Of PyTorch's types none stands in a file of a PyTorch probe, but as a column of a table.
TYPES = ("cuda", "xpu", "xla", "nccl", "xccl")
TABLES = {"workloads_torch.py"}
TABLE_KEY = {"prove_torch.py": {"cuda"}}
# A word of the path where NCCL writes, and the log's reader.
SUFFIX = {"train_torch_ddp.py": {"nccl"}, "collectives_torch.py": {"nccl"}}


def of_a_vendor(source: str, words: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in MODULES:
            yield f"{node.lineno}: .{node.attr}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [str(getattr(node, "module", ""))]
            if any(set(name.split(".")) & MODULES for name in names):
                yield f"{node.lineno}: import"
        if words and isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value.partition(":")[0]
            if word in TYPES and len(node.value) <= len(word) + 3:
                yield f"{node.lineno}: {word}"


def test_a_vendor_is_named_in_the_device_layer_alone() -> None:
    places: list[str] = []
    for path in sorted(PROBE.glob("*.py")):
        if path.name in LAYER | TABLES:
            continue
        allowed = TABLE_KEY.get(path.name, set()) | SUFFIX.get(path.name, set())
        is_torch = "torch" in path.stem or path.stem == "probe_variability"
        for place in of_a_vendor(path.read_text(), words=is_torch):
            if place.rpartition(": ")[2] not in allowed:
                places.append(f"{path.name}:{place}")
    assert places == []


@pytest.mark.parametrize(
    "source",
    [
        "torch.cuda.synchronize()",
        "self.framework.xpu.Event()",
        "import torch_xla",
        "from torch import cuda",
        "import torch_xla.core.xla_model as xm",
        "if device == 'cuda': pass",
        "place = 'cuda:{}'.format(1)",
        "torch.version.hip",
    ],
)
def test_a_vendor_s_word_is_told(source: str) -> None:
    assert len(list(of_a_vendor(source, words=True))) == 1


def module(count: int, **more: Any) -> Any:
    return SimpleNamespace(is_available=lambda: count > 0, device_count=lambda: count, **more)


def version(**known: str | None) -> Any:
    return SimpleNamespace(**{"cuda": None, "hip": None, **known})


@pytest.mark.parametrize(
    ("torch", "kind", "place"),
    [
        (SimpleNamespace(cuda=module(0)), "cpu", "cpu"),
        (SimpleNamespace(), "cpu", "cpu"),
        # An old one, which has no torch.version.hip and no torch.accelerator.
        (SimpleNamespace(cuda=module(2)), "cuda", "cuda:1"),
        (SimpleNamespace(cuda=module(2), version=version(cuda="13.0")), "cuda", "cuda:1"),
        (SimpleNamespace(cuda=module(2), version=version(hip="6.3")), "rocm", "cuda:1"),
        (SimpleNamespace(cuda=module(0), xpu=module(1)), "xpu", "xpu:1"),
    ],
)
def test_the_kind_that_is_there_is_seen(probe: Any, torch: Any, kind: str, place: str) -> None:
    layer = probe("accelerator")
    seen = layer.seen(torch)
    assert (seen.kind, seen.place(1), bool(seen)) == (kind, place, kind != "cpu")
    assert layer.chosen(torch, "auto").kind == kind
    assert layer.chosen(torch, "cpu").kind == "cpu"


def test_the_cpu_answers_what_is_asked_of_whatever_is_seen(probe: Any) -> None:
    cpu = probe("accelerator").seen(SimpleNamespace(cuda=module(0)))
    assert (cpu.names(), cpu.count(), cpu.place(0), cpu.take(3)) == ([], 0, "cpu", 0)
    cpu.settle()
    cpu.settle(1)
    cpu.end_step()
    cpu.forget_peak()
    assert (cpu.peak_bytes(), cpu.library(), cpu.log_variables("x")) == (None, None, {})
    assert (cpu.backend(), cpu.lacking("bf16"), cpu.init_method) == ("gloo", "", "env://")


@pytest.mark.parametrize("known", [{"cuda": "13.0"}, {"hip": "6.3"}])
def test_a_device_in_use_is_known_without_being_begun(probe: Any, known: dict[str, str]) -> None:
    def begun() -> int:
        raise AssertionError("a fork could not use the device then")

    events: list[str] = []
    event = SimpleNamespace(record=lambda: events.append("record"))
    cuda = SimpleNamespace(
        is_available=begun,
        device_count=begun,
        is_initialized=lambda: False,
        synchronize=lambda: events.append("wait"),
        Event=lambda enable_timing: event if enable_timing else None,
    )
    torch, layer = SimpleNamespace(cuda=cuda, version=version(**known)), probe("accelerator")
    assert layer.in_use(torch) is None
    assert layer.in_use(SimpleNamespace()) is None
    cuda.is_initialized = lambda: True
    device = layer.in_use(torch)
    assert (device.kind, device.is_recording()) == ("cuda" if "cuda" in known else "rocm", False)
    assert (device.mark(), device.settle(), events) == (event, None, ["record", "wait"])
    cuda.is_current_stream_capturing = lambda: True
    assert device.is_recording()


@pytest.mark.parametrize(("device", "title"), [("cuda", "GPU"), ("xpu", "GPU"), ("xla", "TPU")])
def test_a_device_that_is_not_there_is_refused(probe: Any, device: str, title: str) -> None:
    with pytest.raises(RuntimeError, match=f"--device {device}: this PyTorch sees no {title}"):
        probe("accelerator").chosen(SimpleNamespace(cuda=module(0)), device)


def test_the_common_calls_are_taken_where_they_mean_the_type(probe: Any) -> None:
    asked: list[tuple[str, Any]] = []
    common = SimpleNamespace(
        current_accelerator=lambda: SimpleNamespace(type="xpu"),
        is_available=lambda: True,
        device_count=lambda: 4,
        set_device_index=lambda index: asked.append(("common", index)),
        synchronize=lambda *index: asked.append(("wait", index)),
    )
    own = module(4, set_device=lambda index: asked.append(("own", index)))
    torch = SimpleNamespace(cuda=own, xpu=module(4), accelerator=common)
    layer = probe("accelerator")
    assert layer.named(torch, "xpu").take(6) == 2
    layer.named(torch, "xpu").settle(3)
    assert layer.named(torch, "cuda").take(5) == 1
    assert asked == [("common", 2), ("wait", (3,)), ("own", 1)]


@pytest.mark.parametrize(
    ("target", "precision", "says"),
    [
        ("gfx906:sramecc+", "bf16", "this GPU is a gfx906:sramecc+, which has no matrix"),
        ("gfx906", "fp16", ""),
        ("gfx90a", "bf16", ""),
        ("gfx1030", "int8", "this GPU is a gfx1030"),
        ("gfx1100", "bf16", ""),
    ],
)
def test_what_amd_s_gpus_lack(probe: Any, target: str, precision: str, says: str) -> None:
    own = module(
        1,
        current_device=lambda: 0,
        get_device_properties=lambda _index: SimpleNamespace(gcnArchName=target),
    )
    torch = SimpleNamespace(cuda=own, version=version(hip="6.3"))
    said = probe("accelerator").named(torch, "cuda").lacking(precision)
    assert said.startswith(says)
    assert bool(said) == bool(says)


def test_a_cpu_of_torch_xla_is_no_accelerator(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(
        get_xla_supported_devices=lambda: ["xla:0"], xla_device_hw=lambda _device: "CPU"
    )
    kinds = probe("accelerator_kinds")
    monkeypatch.setattr(kinds.Tpu, "is_of", classmethod(lambda _kind, _torch: True))
    monkeypatch.setitem(sys.modules, "torch_xla.core.xla_model", model)
    assert probe("accelerator").seen(SimpleNamespace()).kind == "cpu"
    model.xla_device_hw = lambda _device: "TPU"
    assert probe("accelerator").seen(SimpleNamespace()).kind == "tpu"


def test_every_accelerator_takes_the_accelerators_sizes(probe: Any) -> None:
    layer = probe("accelerator")
    table = {"cpu": 1, "cuda": 2}
    assert [layer.sizes(table, device) for device in layer.DEVICES] == [1, 2, 2, 2]


def test_session_and_probe_have_the_same_devices(probe: Any) -> None:
    layer = probe("accelerator")
    assert layer.DEVICES == DEVICES
    # Each backend between devices that a session can ask for has a device here.
    known = {name for name in layer.BACKENDS if name in collectives.BACKENDS}
    assert known == {"nccl", "xccl", "xla"}
    assert set(layer.BACKENDS.values()) == set(DEVICES[1:])

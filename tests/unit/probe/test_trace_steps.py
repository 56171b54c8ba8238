"""The tracer of steps with profilers that are stand-ins: what it leaves, whatever happens."""

import importlib.util
import json
import os
import shutil
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.step_events import HOOK_FILES
from dlcontainer.bench.job.trace_hook import TraceSchedule
from dlcontainer.bench.trace import process_trace
from dlcontainer.bench.trace.process_trace import ProcessTrace
from dlcontainer.config.resources import PROBE
from tests.unit.probe.test_step_hook import run

OPTIMIZER, OTHER = object(), object()
ALL = 2 + 3 * 4 + 2
# As much of PyTorch's profilers as ours take; a real one writes in the integration tests.
PROFILER = """
class profile(object):
    def __init__(self, activities, record_shapes):
        assert record_shapes
    def start(self):
        import torch.autograd.profiler as module
        module._prepare_profiler()
        module._enable_profiler()
    def stop(self):
        pass
    def export_chrome_trace(self, path):
        open(path, "w").write("{}")
def supported_activities():
    return ()
class ExecutionTraceObserver(object):
    def register_callback(self, path):
        open(path, "w").write("{}")
        return self
    def start(self):
        pass
    stop = unregister_callback = start
"""
INNER = """
scopes = "none"
def _prepare_profiler():
    pass
def _enable_profiler(**named):
    global scopes
    scopes = named
"""
# As much of its modules: hooks behind a forward that did not raise.
MODULES = """
import torch
hooks = []
def register_module_forward_hook(hook):
    hooks.append(hook)
class Module(object):
    def __init__(self, forward):
        self.forward = forward
    def _call_impl(self, *words):
        def inner():
            result = self.forward(*words)
            for hook in hooks:
                assert hook(self, words, result) is None
            return result
        return inner()
    __call__ = _call_impl
"""


class Device:
    """A device whose queue is 10 s of work a step behind the host; it has a clock of its own."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.now_s = log, 500.0
        self.is_lost, self.records = False, False

    def settle(self) -> None:
        if self.is_lost:
            raise RuntimeError("an illegal memory access was encountered")
        self.log.append("settle")

    def mark(self) -> float:
        return self.now_s

    def between(self, one: float, other: float) -> float:
        return other - one

    def is_recording(self) -> bool:
        return self.records


class Profilers:
    """The profilers' module, without PyTorch: what was started and stopped."""

    TAKEN = "the program profiles itself"

    def __init__(self, *, taken: bool = False, failing: BaseException | None = None) -> None:
        self.taken, self.failing = taken, failing
        self.computes_on: Device | None = None
        self.log: list[str] = []
        self.KINDS = dict.fromkeys(("kineto", "chakra"), self.made)

    def made(self, path: str, has_operations: bool) -> "Profilers":
        assert has_operations
        self.path = path
        return self

    def are_taken(self) -> bool:
        return self.taken

    def start(self, running: "Profilers", tracer: Any) -> None:
        self.log.append(f"start {Path(self.path).suffixes[-2]}")
        if self.failing is not None:
            raise self.failing

    def stop(self) -> None:
        self.log.append("stop")
        Path(self.path).write_text("{}")

    def place(self) -> tuple[int, int]:
        return 1, 2

    def device(self) -> Any:
        return self.computes_on


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(PROBE)
    spec = importlib.util.spec_from_file_location("trace_steps", PROBE / "trace_steps.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    monkeypatch.setattr(loaded.atexit, "register", lambda *_: None)
    monkeypatch.setitem(loaded.sys.modules, "torch", type("T", (), {"__version__": "2.13.0"}))
    return loaded


def tracer(module: ModuleType, folder: Path, profilers: Profilers) -> Any:
    times: dict[str, Any] = {"step_at": "optimizer", "warm_up": 2, "steps": 4}
    return module.Tracer({"folder": str(folder), "operations": True, **times}, profilers)


def left(folder: Path) -> ProcessTrace:
    (process,) = process_trace.read(folder)
    return process


def test_blocks_without_with_and_without_a_profiler(module: ModuleType, tmp_path: Path) -> None:
    profilers = Profilers()
    tracing = tracer(module, tmp_path, profilers)
    for step in range(ALL + 5):
        tracing.step(OPTIMIZER)
        if step % 3 == 0:
            tracing.step(OTHER)
    process = left(tmp_path)
    assert [len(process.block(block)) for block in range(-1, 4)] == [2, 4, 4, 4, 2]
    assert profilers.log == ["start .kineto", "stop", "start .chakra", "stop"]
    assert (process.end, process.head.rank, process.head.ranks) == ("complete", 1, 2)
    assert [line.block for line in process.profiles.values()] == [1, 3]
    assert all(process.profile(kind) for kind in ("kineto", "chakra"))
    assert process.steps[0].s is None
    assert all(line.s is not None for line in process.steps[1:])


def step(tracing: Any, device: Device, many: int) -> None:
    for _ in range(many):
        device.now_s += 10
        tracing.step(OPTIMIZER)


def test_steps_of_a_device_end_by_its_queue(module: ModuleType, tmp_path: Path) -> None:
    profilers = Profilers()
    tracing = tracer(module, tmp_path, profilers)
    profilers.computes_on = device = Device(profilers.log)
    begun = time.time()
    step(tracing, device, ALL)
    process = left(tmp_path)
    assert [[line.s for line in process.block(block)] for block in range(3)] == [[10.0] * 4] * 3
    for block in range(3):
        ends = [line.at for line in process.block(block)]
        assert [later - ends[0] for later in ends] == pytest.approx([0, 10, 20, 30], abs=1e-5)
        assert begun + 10 <= ends[0] <= time.time() + 10
    # Idle before a profiler begins and ends; before them, the warm-up has the host's times.
    order = "settle settle settle start .kineto settle settle settle stop"
    assert " ".join(profilers.log).startswith(order)
    assert max(line.s or 0 for line in process.block(-1)) < 10


def test_a_device_that_is_lost_leaves_the_host_s_times(module: ModuleType, tmp_path: Path) -> None:
    profilers = Profilers()
    tracing = tracer(module, tmp_path, profilers)
    profilers.computes_on = device = Device(profilers.log)
    step(tracing, device, 8)
    device.is_lost = True
    tracing.end("the program ended")
    process = left(tmp_path)
    assert [line.s for line in process.block(0)] == [10.0] * 4
    assert [line.s is not None and line.s < 10 for line in process.block(1)] == [True] * 2
    assert process.end == "the program ended"


def test_a_pytorch_that_cannot_tell_its_device_fails_no_program(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("no accelerator module")

    profilers = Profilers()
    monkeypatch.setattr(profilers, "device", fail)
    tracing = tracer(module, tmp_path, profilers)
    for _ in range(ALL):
        tracing.step(OPTIMIZER)
    process = left(tmp_path)
    assert process.end == "complete"
    assert [len(process.block(block)) for block in range(3)] == [4, 4, 4]


def test_what_is_only_recorded_is_no_step(module: ModuleType, tmp_path: Path) -> None:
    profilers = Profilers()
    tracing = tracer(module, tmp_path, profilers)
    profilers.computes_on = device = Device(profilers.log)
    for number in range(2 * ALL):
        device.records = number % 2 == 1
        step(tracing, device, 1)
    assert [len(left(tmp_path).block(block)) for block in range(-1, 4)] == [2, 4, 4, 4, 2]


@pytest.mark.parametrize(("steps", "blocks"), [(1, [1, 0, 0]), (8, [2, 4, 2]), (11, [2, 4, 4])])
def test_a_program_that_ends_early(
    module: ModuleType, tmp_path: Path, steps: int, blocks: list[int]
) -> None:
    tracing = tracer(module, tmp_path, Profilers())
    for _ in range(steps):
        tracing.step(OPTIMIZER)
    tracing.end("the program ended")
    tracing.end("again")
    process = left(tmp_path)
    assert [len(process.block(block)) for block in range(-1, 2)] == blocks
    assert ("kineto" in process.profiles) is (steps > 6)
    assert process.end == "the program ended"


def test_a_process_that_is_killed_leaves_its_blocks(module: ModuleType, tmp_path: Path) -> None:
    tracing = tracer(module, tmp_path, Profilers())
    for _ in range(8):
        tracing.step(OPTIMIZER)
    process = left(tmp_path)
    assert (process.end, len(process.steps), process.profiles) == (None, 6, {})


def test_a_process_without_a_step_leaves_nothing(module: ModuleType, tmp_path: Path) -> None:
    tracer(module, tmp_path, Profilers()).end("the program ended")
    assert list(tmp_path.iterdir()) == []


def test_a_fork_has_a_trace_of_its_own(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing = tracer(module, tmp_path, Profilers())
    for _ in range(8):
        tracing.step(OPTIMIZER)
    real = os.getpid()
    monkeypatch.setattr(module.os, "getpid", lambda: real + 1)
    tracing.end("the parent's trace is not the child's")
    assert left(tmp_path).end is None
    for _ in range(ALL):
        tracing.step(OTHER)
    parent, child = sorted(process_trace.read(tmp_path), key=lambda process: process.head.pid)
    assert (parent.end, len(parent.steps)) == (None, 6)
    assert (child.end, len(child.steps)) == ("complete", ALL)


@pytest.mark.parametrize(
    ("profilers", "end"),
    [
        (Profilers(taken=True), "the program profiles itself"),
        (Profilers(failing=RuntimeError("no such device")), "RuntimeError: no such device"),
        (Profilers(failing=OSError(28, "No space left")), "OSError: [Errno 28] No space left"),
    ],
)
def test_no_program_fails_for_its_trace(
    module: ModuleType, tmp_path: Path, profilers: Profilers, end: str
) -> None:
    tracing = tracer(module, tmp_path, profilers)
    for _ in range(ALL):
        tracing.step(OPTIMIZER)
    assert left(tmp_path).end == end
    assert "stop" not in profilers.log


def test_nor_for_a_full_disk(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    tracing = tracer(module, tmp_path, Profilers())
    tracing.step(OPTIMIZER)
    monkeypatch.setattr(module.os, "write", full)
    for _ in range(ALL):
        tracing.step(OPTIMIZER)
    tracing.end("the program ended")


STEPS = (
    "import torch.profiler\n"
    "from torch.optim.optimizer import Optimizer\n"
    "optimizer = Optimizer()\n"
    "for step in range(40):\n"
    "    {inside}\n"
    "    optimizer.step()\n"
)


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """Give a folder with the hook as a job has it, and a stand-in of PyTorch."""
    for name in ("hook", "events"):
        (tmp_path / name).mkdir()
    for name in ("optim", "autograd", "profiler", "nn/modules"):
        (tmp_path / "site/torch" / name).mkdir(parents=True)
    for name, source in HOOK_FILES.items():
        (tmp_path / "hook" / name).write_text(source.read_text())
    from tests.unit.probe.test_step_hook import OPTIMIZER as MODULE

    site = tmp_path / "site/torch"
    (site / "__init__.py").write_text(
        '__version__ = "2.13.0"\nfrom torch import autograd, compiler\n'
    )
    (site / "compiler.py").write_text("def is_compiling():\n    return False\n")
    (site / "nn/modules/module.py").write_text(MODULES)
    (site / "autograd/__init__.py").write_text("def _profiler_enabled():\n    return False\n")
    (site / "autograd/profiler.py").write_text(INNER)
    (site / "profiler/__init__.py").write_text("import torch.autograd.profiler\n" + PROFILER)
    (site / "optim/__init__.py").touch()
    (site / "optim/optimizer.py").write_text(MODULE)
    trace_hook.write(tmp_path, TraceSchedule(warm_up=2, steps=4))
    return tmp_path


def again(folder: Path, schedule: TraceSchedule) -> None:
    """Write what the hook reads once more."""
    for name in ("trace", "mpi"):
        (folder / name).rmdir()
    shutil.rmtree(folder / "watch")
    trace_hook.write(folder, schedule)


def test_the_hook_traces_a_program(real_processes: None, hooked: Path) -> None:
    text = STEPS.format(inside="pass") + (
        "import sys\nprint([n for n in sys.modules if n.startswith('trace_')])\n"
    )
    assert run(hooked, text) == "[]\n"
    process = left(hooked / "trace")
    assert (process.end, sorted(process.profiles)) == ("complete", ["chakra", "kineto"])
    names = sorted(path.suffix for path in (hooked / "trace").iterdir())
    assert names == [".json", ".json", ".trace"]


def test_it_stands_back_for_a_profiler_of_the_program(real_processes: None, hooked: Path) -> None:
    inside = "step == 8 and torch.autograd.profiler._enable_profiler()"
    run(hooked, STEPS.format(inside=inside))
    process = left(hooked / "trace")
    assert process.end == "the program profiles itself"
    assert sorted(process.profiles) == ["kineto"]


@pytest.mark.parametrize("text", ['{"cut": [', "", None])
def test_a_file_that_pytorch_did_not_write_whole(
    real_processes: None, hooked: Path, text: str | None
) -> None:
    path = hooked / "site/torch/profiler/__init__.py"
    write = "pass" if text is None else f"open(path, 'w').write({text!r})"
    path.write_text(path.read_text().replace('open(path, "w").write("{}")', write, 1))
    run(hooked, STEPS.format(inside="pass"))
    process = left(hooked / "trace")
    assert process.end == "OSError: PyTorch's file is incomplete: is the disk full?"
    assert [file.suffix for file in (hooked / "trace").iterdir()] == [".trace"]


RECORD_SCOPE = (
    "class _C: _profiler = type('P', (), {'RecordScope': type('R', (), {'USER_SCOPE': 7})})\n"
)


@pytest.mark.parametrize(
    ("has_scopes", "end"),
    [
        (True, "complete"),
        (False, "OSError: this PyTorch can't leave operations out: trace with them"),
    ],
)
def test_operations_are_left_out_by_scope(
    real_processes: None, hooked: Path, has_scopes: bool, end: str
) -> None:
    again(hooked, TraceSchedule(warm_up=2, steps=4, operations=False))
    path = hooked / "site/torch/__init__.py"
    made = RECORD_SCOPE if has_scopes else "class _C: _profiler = None\n"
    path.write_text(path.read_text() + made)
    inside = "step == 8 and print(torch.autograd.profiler.scopes)"
    said = run(hooked, STEPS.format(inside=inside))
    process = left(hooked / "trace")
    assert (process.end, process.head.operations) == (end, False)
    assert said == ("{'scopes': {7}}\n" if has_scopes else "none\n")


def test_without_a_plan_nothing_is_traced(real_processes: None, hooked: Path) -> None:
    (hooked / "hook/trace.json").unlink()
    run(hooked, STEPS.format(inside="pass"))
    assert list((hooked / "trace").iterdir()) == []
    assert json.loads(next((hooked / "events").iterdir()).read_text().split("\n")[0])


# A network that runs once, one that raises behind a layer, a model that calls itself, in two
# threads, and a network behind it.
FORWARDS = """
import threading
import torch.profiler
from torch.nn.modules.module import Module
def failing(): layer() or 1 / 0
def recursive(depth): return depth and model(depth - 1)
layer = Module(int)
raises, model, after = Module(failing), Module(recursive), Module(layer)
layer()
for step in range({steps}):
    try: raises()
    except ZeroDivisionError: pass
    model(3)
    thread = threading.Thread(target=model, args=(3,))
    thread.start()
    thread.join()
    after()
"""


@pytest.fixture
def of_forwards(hooked: Path) -> Path:
    """Give the folder of the hook where a model's return is a step."""
    again(hooked, TraceSchedule(warm_up=2, steps=4, step_at="forward"))
    return hooked


@pytest.mark.parametrize(("steps", "taken"), [(10, 9), (30, ALL)])
def test_steps_of_a_program_without_an_optimizer(
    real_processes: None, of_forwards: Path, steps: int, taken: int
) -> None:
    run(of_forwards, FORWARDS.format(steps=steps))
    process = left(of_forwards / "trace")
    assert (len(process.steps), process.head.step_at) == (taken, "forward")


@pytest.mark.parametrize("version", ["2.2.2", "2", "a fork"])
def test_a_pytorch_that_is_too_old_for_it(
    real_processes: None, of_forwards: Path, version: str
) -> None:
    path = of_forwards / "site/torch/__init__.py"
    path.write_text(path.read_text().replace("2.13.0", version))
    run(of_forwards, FORWARDS.format(steps=30))
    assert list((of_forwards / "trace").iterdir()) == []

"""The hook of steps: a stand-in for PyTorch's module of optimizers, and real Pythons."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import step_events
from dlcontainer.bench.job.step_events import HOOK_FILES, ProcessEvents
from tests.skips import skip
from tests.unit.probe.test_pythons import MINORS, interpreter

# As much of PyTorch as the hook sees; `loader` and `file` are what users of a module look at.
OPTIMIZER = """
import sys
hooks = []


def register_optimizer_step_post_hook(hook):
    hooks.append(hook)


class Optimizer(object):
    def step(self):
        for hook in hooks:
            hook(self, (), {})
"""
BEGIN = "from torch.optim.optimizer import Optimizer\noptimizer = Optimizer()\n"
THREE = f"{BEGIN}for _ in range(3):\n    optimizer.step()\n"


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """Give a folder with the hook, a stand-in of PyTorch and a place for events."""
    for name in ("hook", "events", "site/torch/optim", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    for name, source in HOOK_FILES.items():
        (tmp_path / "hook" / name).write_text(source.read_text())
    for name in ("torch/__init__.py", "torch/optim/__init__.py"):
        (tmp_path / "site" / name).touch()
    (tmp_path / "site/torch/optim/optimizer.py").write_text(OPTIMIZER)
    return tmp_path


def run(folder: Path, text: str, *options: str, program: str = sys.executable) -> str:
    paths = [str(folder / name) for name in ("hook", "site")]
    environ = {"DLCONTAINER_EVENTS": str(folder / "events"), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [program, *options, "-c", text], env={"PATH": "/usr/bin:/bin", **environ}, cwd=folder,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def events(folder: Path) -> tuple[ProcessEvents, ...]:
    return step_events.read(folder / "events")


def counts(folder: Path) -> list[int]:
    return sorted(len(process.steps()) for process in events(folder))


@pytest.mark.parametrize("minor", MINORS)
def test_steps_are_stamped_by_every_python(real_processes: None, hooked: Path, minor: int) -> None:
    program = interpreter(minor)
    if program is None:
        skip(f"no Python 3.{minor} here; type `make setup`")
    run(hooked, THREE, program=program)
    assert counts(hooked) == [3]


def test_nothing_of_the_hook_is_seen(real_processes: None, hooked: Path) -> None:
    text = (
        f"{THREE}import sys, torch.optim.optimizer as own\n"
        "print([p for p in sys.path if p.endswith('/hook')], 'event_stamps' in sys.modules)\n"
        "print(type(own.__loader__).__name__, type(own.__spec__.loader).__name__, "
        "[f for f in sys.meta_path if type(f).__module__ == 'sitecustomize'])\n"
    )
    said = run(hooked, text)
    assert said.split("\n")[:2] == ["[] False", "SourceFileLoader SourceFileLoader []"]


def test_the_program_s_own_sitecustomize_runs(real_processes: None, hooked: Path) -> None:
    own = (
        "import sys\nHERE = 1\n"
        "print('own', [p for p in sys.path if p.endswith('/hook')], __name__)\n"
    )
    (hooked / "site/sitecustomize.py").write_text(own)
    said = run(hooked, f"{THREE}import sitecustomize\nprint(sitecustomize.HERE)\n")
    assert said == "own [] sitecustomize\n1\n"
    assert counts(hooked) == [3]


def test_one_that_fails_fails_as_it_would(real_processes: None, hooked: Path) -> None:
    (hooked / "site/sitecustomize.py").write_text("import no_such_module\n")
    said = run(hooked, THREE)
    assert "No module named 'no_such_module'" in said
    assert counts(hooked) == [3]


def test_a_usercustomize_runs(real_processes: None, hooked: Path) -> None:
    (hooked / "site/usercustomize.py").write_text("print('user')\n")
    said = run(hooked, f"import site\nprint(site.ENABLE_USER_SITE)\n{THREE}")
    assert said == ("user\nTrue\n" if "True" in said else "False\n")
    assert counts(hooked) == [3]


def test_forked_workers_stamp_nothing_and_ranks_their_own(
    real_processes: None, hooked: Path
) -> None:
    fork = (
        "import os\n"
        "for steps in (0, 0, 4):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        for _ in range(steps): optimizer.step()\n"
        "        sys.exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    run(hooked, f"import sys\n{THREE}{fork}")
    assert counts(hooked) == [3, 4]


def test_steps_before_a_kill_are_kept(real_processes: None, hooked: Path) -> None:
    text = f"import os, time\n{BEGIN}for _ in range(20):\n    time.sleep(.005); optimizer.step()\n"
    run(hooked, f"{text}os._exit(0)\n")
    assert counts(hooked) == [20]


def test_two_optimizers_are_told_apart(real_processes: None, hooked: Path) -> None:
    run(hooked, f"{BEGIN}other = Optimizer()\nfor _ in range(3): other.step(); optimizer.step()\n")
    [process] = events(hooked)
    assert Counter({name: len(each) for name, each in process.moments.items()}) == {
        "optimizer-step/0": 3, "optimizer-step/1": 3,
    }  # fmt: skip


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"]])
def test_a_python_that_reads_no_path_has_no_steps(
    real_processes: None, hooked: Path, options: list[str]
) -> None:
    run(hooked, f"import sys\nsys.path.insert(0, 'site')\n{THREE}", *options)
    assert events(hooked) == ()


def test_a_pytorch_without_the_hook_says_so(real_processes: None, hooked: Path) -> None:
    (hooked / "site/torch/optim/optimizer.py").write_text("class Optimizer: pass\n")
    run(hooked, BEGIN)
    [process] = events(hooked)
    assert list(process.moments) == [step_events.NO_HOOK]


def test_a_program_is_not_to_blame_for_the_disk(real_processes: None, hooked: Path) -> None:
    (hooked / "events").rmdir()
    assert run(hooked, f"{THREE}print('done')\n") == "done\n"


def test_an_import_that_failed_is_hooked_the_next_time(real_processes: None, hooked: Path) -> None:
    text = (hooked / "site/torch/optim/optimizer.py").read_text()
    once = "import builtins\nif not hasattr(builtins, 'once'):\n    builtins.once = 1\n    1 / 0\n"
    (hooked / "site/torch/optim/optimizer.py").write_text(once + text)
    run(hooked, f"try:\n    import torch.optim.optimizer\nexcept ZeroDivisionError: pass\n{THREE}")
    assert counts(hooked) == [3]


def test_what_the_writer_and_the_reader_hold_is_one(probe: Any) -> None:
    hook, stamps = probe("step_hook"), probe("event_stamps")
    names = (hook.STEP, hook.NO_HOOK)
    assert names == (step_events.STEP, step_events.NO_HOOK)
    assert stamps.SUFFIX == ".events"
    assert stamps.MOST * 40 < step_events._MOST_BYTES

"""Real images import from their pack; what a user puts above or beside it wins as before."""

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from tests.integration.publish.tools import Shelf, clean_home
from tests.integration.world import Built, World, write_wheel
from tests.skips import skip

LOADER = "print(type(__import__('sys').modules[{!r}].__spec__.loader).__name__)"
TINY = f"import dlctiny; print(dlctiny.__version__); {LOADER.format('dlctiny')}"


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Runs an image's Python, with its pack or without."""

    engine: Apptainer
    mode: str
    world: World
    image: Path
    prefix: str
    nothing: Path

    @cached_property
    def packages(self) -> str:
        """The folder that the pack lies in: the base's Python is this host's release's."""
        return self.out("import sysconfig; print(sysconfig.get_path('purelib'))").strip()

    def run(
        self, *words: str, pack: bool = True, options: tuple[str, ...] = ()
    ) -> "subprocess.CompletedProcess[str]":
        """Run Python; without the pack an empty file lies over the line that starts it."""
        if not pack:
            options += ("--bind", f"{self.nothing}:{self.packages}/_dlcontainer_pack.pth")
        python = (f"{self.prefix}/bin/python", *words)
        spec = RunSpec(image=self.image, argv=python, mode=self.mode, site_words=options)
        return subprocess.run(
            self.engine.run_argv(spec),
            env=apptainer.environment(self.world.environ),
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )

    def out(self, program: str, *, options: tuple[str, ...] = ()) -> str:
        """Give the output of a program that ends well."""
        done = self.run("-c", program, options=options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def same(self, program: str) -> str:
        """Run a program with the pack and without it; both must say the same."""
        packed, plain = (self.run("-c", program, pack=pack) for pack in (True, False))
        assert (packed.returncode, plain.returncode) == (0, 0), packed.stderr + plain.stderr
        assert packed.stdout == plain.stdout
        return packed.stdout


@pytest.fixture
def tiny_inside(
    world: World, engine: Apptainer, tried: EngineCapabilities, tiny_image: Built, tmp_path: Path
) -> Inside:
    (tmp_path / "nothing").touch()
    return Inside(
        engine=engine,
        mode=str(tried.run_mode),
        world=world,
        image=tiny_image.image,
        prefix="/opt/tiny",
        nothing=tmp_path / "nothing",
    )


def test_an_image_imports_from_its_pack(tiny_inside: Inside) -> None:
    assert tiny_inside.out(TINY) == "1.0\nPackLoader\n"
    assert tiny_inside.run("-c", TINY, pack=False).stdout == "1.0\nSourceFileLoader\n"
    assert tiny_inside.run("-O", "-c", TINY).stdout == "1.0\nSourceFileLoader\n"


def test_a_module_updated_on_top_wins(tiny_inside: Inside, tmp_path: Path) -> None:
    """Beside the image by PYTHONPATH, bound over the file, and in an overlay that is written to."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dlctiny.py").write_text("__version__ = '2.0'\n")
    mine = f"{tmp_path}/mine"
    wins = "2.0\nSourceFileLoader\n"
    path = ("--bind", f"{mine}:/mine", "--env", "PYTHONPATH=/mine")
    assert tiny_inside.out(TINY, options=path) == wins
    # The byte code in the image says that it is right whatever the source is: without it.
    program = (
        "import os, shutil, subprocess, sys\n"
        f"os.chdir({tiny_inside.packages!r}); shutil.rmtree('__pycache__')\n"
        "shutil.copy('/mine/dlctiny.py', 'dlctiny.py')\n"
        f"subprocess.run([sys.executable, '-B', '-c', {TINY!r}], check=True)\n"
    )
    done = tiny_inside.run("-c", program, options=("--bind", f"{mine}:/mine", "--writable-tmpfs"))
    if "Read-only file system" in done.stderr:
        skip(f"no writable overlay: {done.stderr[-200:]}", elsewhere="another kernel")
    if "Value too large for defined data type" in done.stderr:  # root's files, whose id nobody maps
        skip(f"no overlay without subordinate ids: {done.stderr[-200:]}", elsewhere="a run as root")
    assert done.stdout == wins, done.stderr


def test_a_wheel_in_an_environment_on_top_shadows_the_packed_one(
    world: World, engine: Apptainer, tiny_image: Built, tmp_path: Path
) -> None:
    """As docs/use/users-day.md types: dlcontainer-venv, activate, pip install; then without it."""
    root, venv = tmp_path / "root", tmp_path / "my env"
    world.run("publish", tiny_image.image, "-s", "local", "--root", root)
    environ = clean_home(tmp_path)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    shelf = Shelf(root=root, name="tiny", version="1.0", environ=environ)
    made = str(shelf.folder / "bin/dlcontainer-venv")
    assert shelf.run(shelf.python, "-c", TINY).stdout == "1.0\nPackLoader\n"
    shelf.run(made, str(venv))
    entered: dict[str, Any] = {"DLCONTAINER_VENV": str(venv)}
    assert shelf.run(shelf.python, "-c", TINY, **entered).stdout == "1.0\nPackLoader\n"
    wheel = write_wheel(tmp_path / "wheels", "2.0")
    pip = ("pip", "install", "-q", "--no-index", str(wheel))
    shelf.run("/bin/sh", "-c", '. "$0/bin/activate"; "$@"', str(venv), *pip)
    # The rest is packed as before.
    both = f"{TINY}; import json; {LOADER.format('json.decoder')}; print(dlctiny.__file__)"
    told = shelf.run(shelf.python, "-c", both, **entered).stdout.splitlines()
    assert told[:3] == ["2.0", "SourceFileLoader", "PackLoader"]
    assert told[3].startswith(f"{venv}/lib/")
    version = "import importlib.metadata as m; print(m.version('dlctiny'))"
    assert shelf.run(shelf.python, "-c", version, **entered).stdout == "2.0\n"
    assert shelf.run(shelf.python, "-c", TINY).stdout == "1.0\nPackLoader\n"
    shelf.run(str(shelf.folder / "bin/pip"), "uninstall", "-q", "-y", "dlctiny", **entered)
    assert shelf.run(shelf.python, "-c", TINY, **entered).stdout == "1.0\nPackLoader\n"


TORCH = """\
import importlib.metadata, importlib.resources, inspect, io, pickle, pkgutil, sys, traceback
import torch, torch.nn as nn, numpy
from torch.utils.data import DataLoader

print(torch.__file__, torch.__version__, numpy.__cached__, importlib.metadata.version("torch"))
print(inspect.getsource(nn.Linear), inspect.getsourcefile(nn.functional))
print(sorted(one.name for one in pkgutil.iter_modules(torch.__path__)))
print(sorted(one.name for one in importlib.resources.files("torch.nn").iterdir()))
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
with torch.no_grad():
    for one in model.parameters():
        one.fill_(0.5)
print(pickle.loads(pickle.dumps(model)))
stored = io.BytesIO(); torch.save(model, stored); stored.seek(0)
print(torch.load(stored, weights_only=False)(torch.ones(1, 4)))
print(torch.jit.script(model)(torch.ones(1, 4)), torch.jit.script(model).code)
for backend in ("eager", "inductor"):
    print(torch.compile(model, backend=backend)(torch.ones(1, 4)))
for context in ("fork", "spawn", "forkserver"):
    loader = DataLoader(torch.arange(6), 2, num_workers=2, multiprocessing_context=context)
    print(context, [batch.tolist() for batch in loader])
rate = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward(); rate.step()
print(list(model.parameters()))
try:
    model(torch.ones(1, 3))
except RuntimeError:
    print(traceback.format_exc())
"""
# numpy's wheel has its own tests; pytest comes from beside the image.
OWN_TESTS = "numpy/lib/tests"


@pytest.fixture
def torch_inside(tiny_inside: Inside, pytorch_image: Built) -> Inside:
    return Inside(
        engine=tiny_inside.engine,
        mode=tiny_inside.mode,
        world=tiny_inside.world,
        image=pytorch_image.image,
        prefix="/opt/pytorch",
        nothing=tiny_inside.nothing,
    )


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_pytorch_is_the_same(torch_inside: Inside) -> None:
    loader = "import torch.nn; " + LOADER.format("torch.nn.functional")
    assert torch_inside.out(loader) == "PackLoader\n"
    told = torch_inside.same(TORCH)
    assert "class Linear(Module)" in told
    assert told.count("[[0, 1], [2, 3], [4, 5]]") == 3
    assert f'File "{torch_inside.packages}/torch/nn/modules/linear.py"' in told


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_numpy_s_own_tests_pass_equally(torch_inside: Inside, tmp_path: Path) -> None:
    """As many tests pass, fail and are skipped, each by its name, with the pack and without."""
    tools = Path(pytest.__file__).parent.parent
    names = ["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"]
    names += ["py.py", "hypothesis", "_hypothesis_globals.py", "sortedcontainers", "attr"]
    beside = [one for name in names for one in ("--bind", f"{tools}/{name}:/beside/{name}")]
    options = (*beside, "--bind", f"{tmp_path}:/out", "--env", "PYTHONPATH=/beside")
    results = []
    for pack in (True, False):
        words = ("-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow")
        tests = f"{torch_inside.packages}/{OWN_TESTS}"
        done = torch_inside.run(*words, tests, pack=pack, options=options)
        lines = {one for one in done.stdout.splitlines() if one.startswith(("PASSED", "FAILED"))}
        assert len(lines) > 1000, done.stdout[-2000:] + done.stderr[-2000:]
        results.append(lines)
    assert results[0] == results[1]

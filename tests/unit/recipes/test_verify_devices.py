"""The recipes' proofs try every device by the probe beside them; no device is not tried."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest

from dlcontainer.config.resources import PROBE
from tests.values import ROOT

RECIPES = ("caffe", "horovod", "jax", "mxnet", "pytorch", "tensorflow")
DEVICES = """
class Devices(object):
    def names(self):
        return NAMES

    def losses(self, index, steps):
        return [1.0 / (step + 1) for step in range(steps)] if index is None else [0.0] * steps
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no module and no path of a probe's copy behind."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    yield
    for name in ("prove_devices", "devices_torch"):
        sys.modules.pop(name, None)


def loaded(recipe: str, folder: Path, names: list[str] | None = None) -> ModuleType:
    """Load a recipe's proof as an image has it: beside the probe, if there is one."""
    path = folder / "verify.py"
    shutil.copy(ROOT / "recipes" / recipe / "verify.py", path)
    if names is not None:
        shutil.copytree(PROBE, folder / "probe", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "probe/devices_torch.py").write_text(DEVICES.replace("NAMES", repr(names)))
    spec = importlib.util.spec_from_file_location(f"verify_{recipe}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_device_that_computes_otherwise_is_found(recipe: str, tmp_path: Path) -> None:
    state, detail = loaded(recipe, tmp_path, ["GPU A", "GPU A"]).devices("torch")
    assert state == "failed"
    assert detail.startswith("device 0 (GPU A): losses ")
    # A build's test must leave nothing in the image.
    assert not (tmp_path / "probe/__pycache__").exists()


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_device_is_not_tried(recipe: str, tmp_path: Path) -> None:
    state, detail = loaded(recipe, tmp_path, []).devices("torch")
    assert (state, detail.split(";")[0]) == ("not tried", "torch sees no device")


@pytest.mark.parametrize("recipe", RECIPES)
def test_without_a_probe_nothing_is_tried(recipe: str, tmp_path: Path) -> None:
    found = loaded(recipe, tmp_path).devices("torch")
    assert found == ("not tried", "no probe beside this file")


@pytest.mark.parametrize(("names", "code"), [(["GPU A"], 1), ([], 0)])
def test_a_device_that_fails_fails_the_proof(
    tmp_path: Path,
    names: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch = MagicMock()
    torch.randn.return_value.mean.return_value.__gt__.return_value = MagicMock()
    falling = iter(range(100, 0, -1))
    torch.nn.functional.cross_entropy.return_value.item = lambda: float(next(falling))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert loaded("pytorch", tmp_path, names).main() == code
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is (code == 0)
    assert said["devices"].startswith("failed: " if code else "not tried: ")

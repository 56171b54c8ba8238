"""What is slimmed away: files by their rules and no others, and no promise with them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.recipes.slim import RULES
from tests.integration.world import World
from tests.values import ROOT

ALL = f"slim=[{', '.join(RULES)}]"
# Not in the shipped image, and not promised without it: PyTorch's compiler and C++ extensions
# want a compiler, and ninja.
COMPILER = ["g++", "ninja-build", "python3-dev"]

# Made as wheels are unpacked: what goes, what stays, and a link that leads out.
SUITES = """\
site=$(echo "$prefix"/lib/python3*/site-packages)
mkdir -p /opt/outside/tests "$prefix/lib/tests"
touch /opt/outside/tests/test_kept.py "$prefix/lib/tests/test_x.py"
cd "$site"
ln -s /opt/outside linked
mkdir -p a/tests/data "a b/tests" nvidia/lib torch/test torch/bin
touch a/tests/__init__.py a/tests/base.py a/test_me.py a/one.a nvidia/lib/libcudadevrt.a
for name in a/tests/test_one.py a/tests/data/two_test.py "a b/tests/test_'x.py"; do
    echo 12 > "$name"
done
touch torch/bin/torch_shm_manager torch/bin/protoc torch/bin/test_api torch/bin/StoreTest
touch torch/test/run
"""
KEPT = {
    "a/tests/__init__.py",
    "a/tests/base.py",
    "a/test_me.py",
    "../../tests/test_x.py",
    "linked/tests/test_kept.py",
    "nvidia/lib/libcudadevrt.a",
    "torch/bin/protoc",
    "torch/bin/torch_shm_manager",
}

PROMISES = """\
import ast, json, pathlib, sysconfig
import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils.cpp_extension import load_inline

def step(x):
    return torch.sin(x) ** 2 + torch.nn.functional.softmax(x @ x.T, dim=-1).sum()

x = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))
compiled = torch.compile(step, backend="inductor", fullgraph=True)
apart = float((compiled(x) - step(x)).abs().max())
made = load_inline(
    "dlc_twice", "torch::Tensor twice(torch::Tensor x) { return x * 2; }", functions=["twice"]
)
root = pathlib.Path(sysconfig.get_path("purelib"))
broken, read = [], 0
for file in root.rglob("*.py"):
    if "tests" in file.relative_to(root).parts:
        continue
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        continue
    read += 1
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            after = parts[parts.index("tests") + 1 :] if "tests" in parts else []
            if any(part.startswith("test_") or part.endswith("_test") for part in after):
                broken.append(f"{file}: {name}")
libraries = list(pathlib.Path(cache_dir()).rglob("*.so"))
print(json.dumps({
    "apart": apart,
    "twice": bool(torch.equal(made.twice(x), x * 2)),
    "compiled": len(libraries),
    "read": read,
    "broken": broken,
}))
"""


def run(
    world: World, engine: Apptainer, mode: str, image: Path, bind: Path, *argv: str
) -> "subprocess.CompletedProcess[str]":
    spec = RunSpec(
        image=image,
        argv=argv,
        mode=mode,
        environment={"TORCH_EXTENSIONS_DIR": "/tmp/extensions"},
        binds=((bind, "/tmp"),),
    )
    return subprocess.run(
        engine.run_argv(spec),
        env=apptainer.environment(world.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def files(
    world: World, engine: Apptainer, tried: EngineCapabilities, image: Path, tmp: Path
) -> set[str]:
    within = 'cd "$1"/lib/python3*/site-packages && '
    find = within + "find a nvidia torch linked/tests ../../tests -type f"
    tmp.mkdir()
    argv = ("/bin/sh", "-c", find, "sh", "/opt/tiny")
    done = run(world, engine, str(tried.run_mode), image, tmp, *argv)
    return set(done.stdout.splitlines())


def test_what_the_rules_name_goes_and_nothing_else(
    world: World,
    tiny: Path,
    wheels: Path,
    engine: Apptainer,
    tried: EngineCapabilities,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a recipe with suites"
    folder.mkdir()
    body = yaml.safe_load((tiny / "recipe.yaml").read_text())
    body["steps"].append({"name": "suites", "shell": SUITES})
    (folder / "recipe.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    (folder / "verify.py").write_text((tiny / "verify.py").read_text())
    found = world.having(PIP_FIND_LINKS=f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}")
    built = found.build(folder, tmp_path / "images", "--set", ALL)
    left = files(world, engine, tried, built.image, tmp_path / "inner")
    assert left == KEPT
    removed = built.recorded()["provenance"]["slim"]
    assert set(removed) == set(RULES)
    assert removed["test-programs"] == {"files": 3, "bytes": 0}
    assert removed["test-suites"]["files"] >= 3
    assert removed["test-suites"]["bytes"] >= 9
    said = json.loads(world.run("inspect", built.image, "--json").stdout)
    assert said["provenance"]["slim"] == removed
    shown = world.run("inspect", built.image).stdout
    assert "slim       test-programs: 3 files removed, 0.0 MB unpacked" in shown
    checks = found.checks(built.image)
    assert all(ok for ok, _ in checks.values())


def with_compiler(folder: Path) -> Path:
    """Write the shipped PyTorch recipe with a compiler in the image."""
    source = ROOT / "recipes" / "pytorch"
    body: dict[str, Any] = yaml.safe_load((source / "recipe.yaml").read_text())
    changes = body["variants"]["wheels"]["changes"]
    changes["steps"].append({"name": "compiler", "os_packages": COMPILER})
    body["variants"] = {"wheels": body["variants"]["wheels"]}
    folder.mkdir()
    (folder / "recipe.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    (folder / "verify.py").write_text((source / "verify.py").read_text())
    return folder


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_no_promise_of_pytorch_goes(
    world: World, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    recipe = with_compiler(tmp_path / "with a compiler")
    built = world.build(recipe, tmp_path / "images", "--set", ALL)
    removed = built.recorded()["provenance"]["slim"]
    assert removed["test-programs"]["bytes"] > 100_000_000
    assert removed["test-suites"]["files"] > 1000
    assert all(ok for ok, _ in world.checks(built.image).values())
    inner = tmp_path / "inner"
    inner.mkdir()
    argv = ("/opt/pytorch/bin/python", "-c", PROMISES)
    done = run(world, engine, str(tried.run_mode), built.image, inner, *argv)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["apart"] < 1e-5
    assert said["twice"] is True
    assert said["compiled"] >= 1
    assert said["read"] > 2000
    assert said["broken"] == []

"""Records the facts in which a planted process differs from a clean one.

`python -m tests.plants.record` takes root and the tools that the lists name; a plant that can't be
put in place here is left out, and said so. `--packages FOLDER` holds PyTorch, for what takes it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dlcontainer.bench.samples import comparable, owners
from dlcontainer.bench.samples.records import Json
from dlcontainer.config.resources import PROBE
from tests.plants import planting
from tests.plants.planting import Plant

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "plants"
_WORK = "planted_work"
_COMMON = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
}
_SECONDS = 300
# Paths of temporary folders, and what comes of them.
_UNSAID = frozenset({"libraries", "library_builds", "sys_path", "sys_prefix"})


def main() -> int:
    """Record a list."""
    parser = argparse.ArgumentParser()
    parser.add_argument("list", nargs="?", type=Path, default=planting.FIRST)
    parser.add_argument("--packages", type=Path)
    wanted = parser.parse_args()
    found = {}
    for plant in planting.load(wanted.list):
        try:
            found[plant.name] = differing(plant, wanted.packages)
        except (OSError, subprocess.SubprocessError) as problem:
            sys.stderr.write(f"{plant.name}: {problem}\n")
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / wanted.list.with_suffix(".json").name
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return 0


def differing(plant: Plant, others: Path | None) -> dict[str, list[Json]]:
    """Give each fact that differs, clean and planted."""
    with tempfile.TemporaryDirectory(prefix="dlc-plant-") as folder:
        tree = made(Path(folder), others)
        clean = attested(tree, (), {}, plant)
        with planting.planted(plant, tree) as around:
            now = attested(tree, around.words, dict(around.environment), plant)
    return {
        name: [clean.get(name), now.get(name)]
        for name in sorted(clean.keys() | now.keys())
        if clean.get(name) != now.get(name) and not owners.is_in(name, owners.PASSING | _UNSAID)
    }


def made(folder: Path, others: Path | None) -> Path:
    """Make a virtual environment with a package of some modules, byte code and all."""
    tree = folder / "tree"
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--without-pip", str(tree)], check=True, timeout=_SECONDS
    )
    package = planting.packages(tree) / _WORK
    package.mkdir()
    names = [f"part{number}" for number in range(40)]
    for name in names:
        (package / f"{name}.py").write_text("value = 1\n")
    (package / "__init__.py").write_text("".join(f"import {_WORK}.{name}\n" for name in names))
    if others:
        (planting.packages(tree) / "others.pth").write_text(f"{others}\n")
    argv = [f"{tree}/bin/python", "-m", "compileall", "-q", str(package)]
    subprocess.run(argv, check=True, timeout=_SECONDS)
    return tree


def attested(
    tree: Path, words: tuple[str, ...], environment: dict[str, str], plant: Plant
) -> dict[str, Json]:
    """Run the import probe; give what it attests, one name a fact."""
    module = "torch" if plant.category == "framework" else _WORK
    argv = [*words, f"{tree}/bin/python", "-S", str(PROBE), "import", "--module", module]
    env = {**_COMMON, "HOME": str(tree), **environment}
    done = subprocess.run(
        argv, env=env, check=True, capture_output=True, text=True, timeout=_SECONDS, cwd=os.sep
    )
    said = json.loads(done.stdout.splitlines()[-1])
    return dict(comparable.flat(said["stack"]))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())

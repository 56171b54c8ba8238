"""Images with something known planted in them, and native sides with another BLAS."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.integration.world import World

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
NUMPY = "2.2.6"
OTHER_NUMPY = "2.3.5"  # bundles another OpenBLAS
NUMERIC = f"""\
schema: 1
name: numeric
version: "1.0"
summary: A Python and NumPy, for tests
space_mb: 500
base: {{distribution: debian, release: bookworm}}
prefix: /opt/numeric
steps:
  - name: system
    os_packages: [python3, python3-venv]
  - name: wheel
    python_packages:
      packages: [numpy=={NUMPY}]
exposes: [python]
verify:
  script: verify.py
  imports: {{numpy: "{NUMPY}"}}
"""


def numpy_recipe(folder: Path) -> Path:
    """Write a recipe with NumPy and nothing else."""
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(NUMERIC)
    (folder / "verify.py").write_text('import json; print(json.dumps({"ok": True}))\n')
    return folder


# The last step of a recipe: a line of code at the end of a file of the image's packages.
STEP = """\
  - name: planted
    shell: |
      packages=$({prefix}/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
      printf '%s\\n' '{line}' >> "$packages/{file}"
"""
# As the build compiles them: a module without byte code would be attested.
COMPILED = """\
      {prefix}/bin/python -m compileall -q -f --invalidation-mode unchecked-hash "$packages/{file}"
"""


def planted_image(
    world: World,
    recipe: Path,
    prefix: str,
    folder: Path,
    line: str,
    file: str = "planted.pth",
    *more: str,
) -> Path:
    """Build a recipe's image with one more step: a line of code that a module or, in a .pth file,
    each start of Python runs.

    Sides are held to have the same .pth files; nobody attests the text of a module.
    """
    assert "'" not in line, "it stands between single quotes of a shell"
    planted = folder / "planted recipe"
    shutil.copytree(recipe, planted)
    text = (planted / "recipe.yaml").read_text()
    begin = text.index("exposes:")
    step = STEP + COMPILED if file.endswith(".py") else STEP
    step = step.format(prefix=prefix, line=line, file=file)
    (planted / "recipe.yaml").write_text(text[:begin] + step + text[begin:])
    return world.build(planted, folder, *more).image


def other_openblas(twin: Path, side: Path) -> Path:
    """Copy a twin and put the OpenBLAS of another NumPy in the place of its own."""
    shutil.copytree(twin, side, symlinks=True)
    (own,) = side.glob("lib/python3*/site-packages/numpy.libs/libscipy_openblas*.so")
    other = openblas_of(OTHER_NUMPY, side.with_name("wheels"))
    assert other != own.read_bytes()
    own.write_bytes(other)
    return side


# Changes a module just after it is imported; `change` is put before it.
HOOK = """
import importlib.machinery
import sys


class Finder:
    def find_spec(self, name, path, target=None):
        if name != "MODULE":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""
# Makes each training step longer by a share of its own time. What the clock and the planted wait
# miss is made up for in the next step, so the ratio of many steps is 1 + share on any machine.
SLOWER_STEPS = """
import time


def change(module):
    step, state = module.SGD.step, {"end": None, "owed": 0.0}

    def slower(self, *words, **named):
        done = step(self, *words, **named)
        now = end = time.perf_counter()
        if state["end"] is not None:
            state["owed"] += SHARE * (now - state["end"])
        while end - now < state["owed"]:
            end = time.perf_counter()
        state["owed"] -= end - now
        state["end"] = end
        return done

    module.SGD.step = slower
"""
PLANTED_STEPS = """\
        - name: planted
          files: {planted.py: /opt/planted.py}
        - name: started
          shell: |
            packages=$(/opt/pytorch/bin/python -c \\
              "import sysconfig; print(sysconfig.get_path('purelib'))")
            echo 'import sys; exec(open("/opt/planted.py").read(), {})' > "$packages/planted.pth"

"""
# Where the steps of the recipe's CPU wheels end.
_AFTER_WHEELS = '      verify:\n        imports:\n          torch: "{{ versions.torch }}"\n'


def hook(module: str, change: str) -> str:
    """Give the code that changes a module when it is imported; `change` defines `change`."""
    return change + HOOK.replace("MODULE", module)


def slower_steps(share: float) -> str:
    """Give the code that makes PyTorch's training steps longer by a share."""
    return hook("torch.optim.sgd", SLOWER_STEPS.replace("SHARE", str(share)))


def planted_pytorch(world: World, folder: Path, code: str) -> Path:
    """Build PyTorch's image with code that each start of Python runs; the rest is the recipe's."""
    recipe = folder / "planted recipe"
    shutil.copytree(RECIPES / "pytorch", recipe)
    text = (recipe / "recipe.yaml").read_text()
    before, end, after = text.partition(_AFTER_WHEELS)
    assert end, "the recipe's CPU wheels are written otherwise"
    (recipe / "recipe.yaml").write_text(before + PLANTED_STEPS + end + after)
    (recipe / "planted.py").write_text(code)
    return world.build(recipe, folder).image


def linked_copy(packages: Path, folder: Path) -> Path:
    """Copy a folder of packages by hard links: replace a file there, never write into it."""
    shutil.copytree(packages, folder, symlinks=True, copy_function=os.link)
    return folder


def replace(path: Path, content: bytes) -> None:
    """Give a linked copy a file of its own in the place of a shared one."""
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(content)
    shutil.copymode(path, aside)
    aside.replace(path)


def openblas_of(numpy: str, wheels: Path) -> bytes:
    """Fetch a NumPy's wheel; give the OpenBLAS in it."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
         "-d", str(wheels), f"numpy=={numpy}"],
        check=True,
        timeout=300,
    )  # fmt: skip
    (wheel,) = wheels.glob("numpy-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if "/libscipy_openblas" in name]
        return packed.read(name)

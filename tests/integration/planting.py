"""Images with something known planted in them, and native sides with another BLAS."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.integration.world import World

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


# The last step of a recipe: code that each start of the image's Python runs.
STEP = """\
  - name: planted
    shell: |
      packages=$({prefix}/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
      printf '%s\\n' '{line}' > "$packages/planted.pth"
"""


def planted_image(world: World, recipe: Path, prefix: str, folder: Path, line: str) -> Path:
    """Build a recipe's image with one more step: a line of code that each start of Python runs."""
    assert "'" not in line, "it stands between single quotes of a shell"
    planted = folder / "planted recipe"
    shutil.copytree(recipe, planted)
    text = (planted / "recipe.yaml").read_text()
    begin = text.index("exposes:")
    step = STEP.format(prefix=prefix, line=line)
    (planted / "recipe.yaml").write_text(text[:begin] + step + text[begin:])
    return world.build(planted, folder).image


def other_openblas(twin: Path, side: Path) -> Path:
    """Copy a twin and put the OpenBLAS of another NumPy in the place of its own."""
    shutil.copytree(twin, side, symlinks=True)
    (own,) = side.glob("lib/python3*/site-packages/numpy.libs/libscipy_openblas*.so")
    wheels = side.with_name("wheels")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
         "-d", str(wheels), f"numpy=={OTHER_NUMPY}"],
        check=True,
        timeout=300,
    )  # fmt: skip
    (wheel,) = wheels.glob("numpy-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if "/libscipy_openblas" in name]
        assert packed.read(name) != own.read_bytes()
        own.write_bytes(packed.read(name))
    return side

"""Images with something known planted in them, and native sides with another BLAS."""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.integration.world import Built, World

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


def planted_image(
    world: World,
    built: Built,
    folder: Path,
    prefix: str,
    *,
    pth: str = "",
    edit: tuple[str, str, str] | None = None,
) -> Path:
    """Copy an image, with a line of code that each start of Python runs, or a file changed.

    `edit` is a file below its packages, a line of it, and what is laid behind that line.
    """
    folder.mkdir(parents=True)
    tree, image = folder / "tree", folder / built.image.name
    _apptainer(world, "build", "--sandbox", str(tree), str(built.image))
    (packages,) = (tree / prefix).glob("lib/python3*/site-packages")
    if pth:
        (packages / "planted.pth").write_text(pth + "\n")
    if edit:
        name, line, more = edit
        file = packages / name
        text = file.read_text()
        assert text.count(line) == 1, f"{name}: {line}"
        file.write_text(text.replace(line, line + more))
        # Byte code has unchecked hashes: the source would not be read.
        for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            old.unlink()
    _apptainer(world, "build", str(image), str(tree))
    shutil.rmtree(tree)
    record = json.loads(built.record.read_text())
    record["image"]["sha256"] = hashlib.sha256(image.read_bytes()).hexdigest()
    (folder / built.record.name).write_text(json.dumps(record))
    return image


def _apptainer(world: World, *words: str) -> None:
    done = subprocess.run(
        ["apptainer", "--quiet", *words],
        env=dict(world.environ),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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

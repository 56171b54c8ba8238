"""A stand-in for PyTorch: just what the train probe calls, with a step of a known length.

What is true of two sides is then known to the millisecond, which of a real framework nobody knows.
"""

import base64
import hashlib
import zipfile
from pathlib import Path

VERSION = "1.0+standin"
STEP_S = 0.04
PREFIX = "/opt/standin"
# Its module, in the folder of packages.
FILE = "torch/__init__.py"

RECIPE = f"""\
schema: 1
name: standin
version: "1.0"
summary: A Python and a stand-in for PyTorch, for tests
space_mb: 300
base: {{distribution: debian, release: bookworm}}
prefix: {PREFIX}
steps:
  - name: system
    os_packages: [python3, python3-venv]
  - name: wheel
    python_packages:
      packages: ["torch=={VERSION}"]
exposes: [python]
verify:
  script: verify.py
  imports: {{torch: "{VERSION}"}}
"""

# Seconds that a test plants in `sys.planted_s` are added to each step.
MODULE = """\
import sys
import time
import types

__version__ = "VERSION"


class Any:
    def __init__(self, *words, **named):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Any()

    def __call__(self, *words, **named):
        return Any()

    def __add__(self, other):
        return self

    def __float__(self):
        return 1.0

    def __iter__(self):
        return iter(())


class SGD(Any):
    def step(self):
        WORK


def constant(value):
    return lambda *words, **named: value


version = types.SimpleNamespace(git_version="standin", cuda=None)
cuda = types.SimpleNamespace(is_available=constant(False))
get_num_threads = get_num_interop_threads = constant(1)
set_num_threads = manual_seed = constant(None)
nn = types.SimpleNamespace(Module=Any, functional=Any())
for name in ("Conv2d", "ConvTranspose2d", "BatchNorm2d", "ReLU", "AdaptiveAvgPool2d"):
    setattr(nn, name, Any)
nn.Flatten = nn.Linear = Any
nn.Sequential = Any
optim = types.SimpleNamespace(SGD=SGD)
Generator, randn, randint, relu = Any, Any(), Any(), Any()
backends = types.SimpleNamespace(
    cpu=types.SimpleNamespace(get_cpu_capability=constant("standin")),
    mkldnn=types.SimpleNamespace(is_available=constant(False)),
)
__config__ = types.SimpleNamespace(show=constant(""))
"""
# Asleep, a step is as long on a busy machine; at work it needs a processor to itself.
ASLEEP = f'time.sleep({STEP_S} + getattr(sys, "planted_s", 0.0))'
AT_WORK = f"""end = time.process_time() + {STEP_S}
        while time.process_time() < end:
            pass"""


def write(folder: Path, work: str) -> tuple[Path, Path]:
    """Write the recipe and the wheel; give their folders."""
    recipe, wheels = folder / "recipe", folder / "wheels"
    recipe.mkdir(parents=True)
    wheels.mkdir()
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "verify.py").write_text('import json; print(json.dumps({"ok": True}))\n')
    info = f"torch-{VERSION}.dist-info"
    files = {
        "torch/__init__.py": MODULE.replace("VERSION", VERSION).replace("WORK", work),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        rows.append(f"{name},sha256={digest.rstrip(b'=').decode()},{len(text)}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(wheels / f"torch-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return recipe, wheels

"""Small Python environments with a package of their own, run without a pack and with one."""

import json
import os
import py_compile
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.values import ROOT

PROBE = ROOT / "dlcontainer" / "probe"
UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
WRITER = PROBE / "pack_modules.py"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"

# A package with a module, a sub-package, data, and one module that its import does not load.
FILES: Mapping[str, str] = {
    "alpha/__init__.py": "import json\nfrom alpha import one\nfrom alpha.sub import two\n",
    "alpha/__main__.py": "import sys\nprint(__file__, sys.argv[1:])\n",
    "alpha/one.py": "'''A text.'''\nclass Thing:\n    value = 1\n\n\n"
    "def fail():\n    raise ValueError('here')\n\nDEBUG = __debug__\n",
    "alpha/sub/__init__.py": "",
    "alpha/sub/two.py": "from alpha.one import Thing\n\n\ndef double(x):\n    return 2 * x\n",
    "alpha/later.py": "VALUE = 'later'\n",
    "alpha/data.txt": "some text\n",
    "alpha-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: alpha\nVersion: 1.5\n",
    "alpha-1.5.dist-info/RECORD": "alpha/__init__.py,,\n",
}
LOADERS = """\
import sys
def loader(name):
    return type(sys.modules[name].__spec__.loader).__name__
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A virtual environment at a path; its processes have no variables of ours."""

    prefix: Path

    @property
    def packages(self) -> Path:
        """Its folder of packages."""
        return self.prefix / "lib" / VERSION / "site-packages"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.prefix / "bin" / "python"

    @property
    def file(self) -> Path:
        """Its pack."""
        return self.packages / "_dlcontainer_pack.bin"

    def write(self, files: Mapping[str, str]) -> None:
        """Write files below the folder of packages, with their byte code."""
        for name, text in files.items():
            path = self.packages / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if path.suffix == ".py":
                py_compile.compile(str(path), invalidation_mode=UNCHECKED)

    def run(
        self, *words: str | Path, check: bool = True, cwd: Path | None = None, path: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run its interpreter."""
        return subprocess.run(
            [str(self.python), *map(str, words)],
            env={"PATH": os.defpath} | ({"PYTHONPATH": path} if path else {}),
            cwd=cwd or self.prefix,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=check,
        )

    def pack(self, *modules: str, words: tuple[str, ...] = ("--everywhere",)) -> dict[str, Any]:
        """Pack what modules import; gives the report."""
        report = self.prefix / "pack.json"
        stamp = ("--stamp", str(self.prefix))
        self.run("-IB", WRITER, "--report", report, *stamp, *words, *(modules or ("alpha",)))
        body: dict[str, Any] = json.loads(report.read_text())
        return body

    def loader(self, module: str, *flags: str, path: str = "") -> str:
        """Name the class that loads a module."""
        program = f"{LOADERS}import {module}\nprint(loader({module!r}))"
        return self.run(*flags, "-c", program, path=path).stdout.strip()

    def same(self, program: str, *flags: str, path: str = "") -> str:
        """Run a program with the pack and without it; both must say the same."""
        return self.same_words(*flags, "-c", program, path=path)

    def same_words(self, *words: str | Path, path: str = "") -> str:
        """Run its interpreter with the pack and without it; both must say the same."""
        packed = self.run(*words, check=False, path=path)
        with self.without():
            plain = self.run(*words, check=False, path=path)
        assert (packed.stdout, packed.stderr) == (plain.stdout, plain.stderr)
        assert packed.returncode == plain.returncode
        return packed.stdout

    @contextmanager
    def without(self) -> Iterator[None]:
        """Take the line away that starts the loader; the folder's time is as before then."""
        line, info = self.file.with_suffix(".pth"), self.packages.stat()
        hidden = line.rename(self.prefix / "hidden")
        os.utime(self.packages, ns=(info.st_atime_ns, info.st_mtime_ns))
        try:
            yield
        finally:
            hidden.rename(line)
            os.utime(self.packages, ns=(info.st_atime_ns, info.st_mtime_ns))


def make(prefix: Path, files: Mapping[str, str] = FILES) -> Environment:
    """Make an environment as venv does, without its second."""
    found = Environment(prefix=prefix)
    found.packages.mkdir(parents=True)
    (prefix / "bin").mkdir()
    base = Path(sysconfig.get_config_var("BINDIR")) / VERSION
    found.python.symlink_to(base)
    (prefix / "pyvenv.cfg").write_text(f"home = {base.parent}\nversion = {VERSION}\n")
    found.write(files)
    return found

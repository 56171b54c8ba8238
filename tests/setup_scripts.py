"""The scripts of `make setup` with the modules that they import, for a made-up checkout."""

import contextlib
import shutil
from pathlib import Path

from tests.values import ROOT

# All that they may import: they run before any package is installed.
_PARTS = ("__init__.py", "errors.py", "engine_setup", "installation", "system")


def copy_scripts(checkout: Path) -> None:
    """Copy the scripts and their modules into a checkout."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tools", checkout / "tools", ignore=ignore)
    (checkout / "dlcontainer").mkdir()
    for name in _PARTS:
        source, target = ROOT / "dlcontainer" / name, checkout / "dlcontainer" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copyfile(source, target)


class Told:
    """A teller that keeps all that it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, title: str) -> None:
        self.lines.append(f"step: {title}")

    def say(self, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.lines.append(f"note: {text}")

    def tool(self, line: str) -> None:
        self.lines.append(f"| {line}")

    def waiting(self, what: str) -> contextlib.AbstractContextManager[None]:
        self.lines.append(f"waits: {what}")
        return contextlib.nullcontext()

    def take(self) -> str:
        """Return what was told since the last time."""
        said = "\n".join(self.lines)
        self.lines.clear()
        return said

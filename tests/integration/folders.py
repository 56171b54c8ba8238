"""Ways into one folder that no image shows by itself, for tests of where programs run."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import automount

WAYS = ("plain", "link in home", "link at /", "link in a link", "link to an automount", "automount")
# It says where it is, whether each name of its folder leads there, and leaves a file.
LOOK = """
import json, os, sys
open("ckpt", "w").close()
same = [os.path.samefile(name, ".") for name in sys.argv[1:]]
print(json.dumps([os.getcwd(), os.environ.get("PWD"), same]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Folders that no image shows by itself: far/run, and what leads to it."""

    far: Path
    # What would be a link at / of a machine whose / is root's alone.
    outside: Path
    automounted: Path
    home: Path

    @property
    def run(self) -> Path:
        return self.far / "run"

    def name(self, way: str) -> Path:
        """Give the name by which the user stands in far/run."""
        names = {
            "plain": self.far,
            "link in home": self.home / "scratch",
            "link at /": self.outside,
            "link in a link": self.home / "two",
            "link to an automount": self.home / "mounted",
            "automount": self.automounted / "far",
        }
        return names[way] / "run"

    def real(self, way: str) -> Path:
        """Give the name without links."""
        return self.automounted / "far/run" if "automount" in way else self.run

    def argv(self, way: str, *argv: str) -> list[str]:
        """Give what goes before a command, where a mount has to appear."""
        if "automount" not in way:
            return [*argv]
        start = ["unshare", "--mount", "--propagation", "slave", sys.executable, automount.__file__]
        folders = [str(self.automounted), str(self.far.parent), str(self.name(way))]
        return [*start, *folders, *argv]


@contextlib.contextmanager
def placed(parent: Path) -> Iterator[Place]:
    """Make the folders: not below /tmp, which the engine shows, nor below the home of the test."""
    root = os.getuid() == 0
    with tempfile.TemporaryDirectory(
        dir="/var/opt" if root else Path.home(), prefix="dlc-"
    ) as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        for part in ("far/run", "auto", "links"):
            (folder / part).mkdir(parents=True)
        home = parent / "a home"
        home.mkdir()
        outside = Path("/" if root else folder / "links") / folder.name
        outside.symlink_to(folder / "far")
        try:
            (folder / "links/second").symlink_to(outside)
            (home / "two").symlink_to(os.path.relpath(folder / "links/second", home.resolve()))
            (home / "scratch").symlink_to(f"{folder}/far/")
            (home / "mounted").symlink_to(folder / "auto/far")
            yield Place(far=folder / "far", outside=outside, automounted=folder / "auto", home=home)
        finally:
            outside.unlink()

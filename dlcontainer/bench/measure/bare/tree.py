"""An unpacked image whose Python can be started where it lies: its links lead into itself."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.measure.bare import loader
from dlcontainer.image.contents import elf
from dlcontainer.system import atomic_files

LIBRARY_PATH = "LD_LIBRARY_PATH"


class CannotStartError(Exception):
    """The tree's Python can't be started here; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BareTree:
    """A tree, its Python, and the loader that starts it with the folders of its libraries.

    `prefix` is the environment's place in the image; without a `loader` the program is static.
    """

    root: Path
    prefix: str
    python: Path
    loader: str | None
    libraries: tuple[str, ...]

    @property
    def here(self) -> Path:
        """Where the environment lies on this host."""
        return self.root / self.prefix.lstrip("/")

    def started(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words that stand before the Python, for an image's environment."""
        if self.loader is None:
            return ()
        named = environment.get(LIBRARY_PATH, "").split(":")
        first = [f"{self.root}{part}" for part in named if part.startswith("/")]
        folders = dict.fromkeys((*first, *self.libraries))
        program = str(self.root / self.loader.lstrip("/"))
        # The host's cache of libraries is not the image's.
        return (program, "--inhibit-cache", "--library-path", ":".join(folders))

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return an image's environment as it holds here; the loader has the libraries' folders."""
        return {
            name: self._moved(value) for name, value in environment.items() if name != LIBRARY_PATH
        }

    def _moved(self, text: str) -> str:
        """Return a value with the environment's paths where they are here."""
        starts = (
            part == self.prefix or part.startswith(f"{self.prefix}/") for part in text.split(":")
        )
        return ":".join(
            f"{self.root}{part}" if is_own else part
            for part, is_own in zip(text.split(":"), starts, strict=True)
        )


def prepare(root: Path, prefix: str, python: str) -> BareTree:
    """Make an unpacked tree, which is a copy of ours, ready; raises CannotStartError."""
    root = root.resolve()
    _lead_inside(root)
    program = root / python.lstrip("/")
    try:
        real = program.resolve(strict=True)
        if not real.is_relative_to(root):
            raise CannotStartError(f"{python} points outside the image")
        name = elf.interpreter(real)
        if name is not None and not (root / name.lstrip("/")).is_file():
            raise CannotStartError(f"the loader {name} is missing from the image")
        _settle(root, root / prefix.lstrip("/") / "pyvenv.cfg")
    except (OSError, ValueError) as error:
        raise CannotStartError(str(error)) from None
    return BareTree(
        root=root,
        prefix=prefix,
        python=program,
        loader=name,
        libraries=loader.library_folders(root, name) if name else (),
    )


def _lead_inside(root: Path) -> None:
    """Have links lead to the tree's own files: from the host absolute ones lead to the host's."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if not path.is_symlink():
                continue
            target = str(path.readlink())
            if target.startswith("/"):
                new_target = target
            elif Path(os.path.normpath(f"{folder}/{target}")).is_relative_to(root):
                continue
            else:
                # Above the root lies the root.
                new_target = os.path.normpath(f"/{os.path.relpath(folder, root)}/{target}")
            path.unlink()
            path.symlink_to(f"{root}{new_target}")


def _settle(root: Path, file: Path) -> None:
    """Have an environment find the standard library of its own Python, here."""
    if not file.exists():
        # An installation finds it from its program.
        return
    if not file.resolve().is_relative_to(root):
        raise CannotStartError(f"{file} points outside the image")
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines):
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip().startswith("/"):
            lines[number] = f"home = {root}{value.strip()}"
    atomic_files.write(file, "\n".join(lines) + "\n", mode=0o644)

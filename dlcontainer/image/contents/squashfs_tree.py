"""A tree that lies packed in an image file: read by unsquashfs, only what is asked for."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer import installation
from dlcontainer.errors import ChecksFailedError, EngineError
from dlcontainer.image import sif
from dlcontainer.image.contents.model import TreeEntry, is_plain
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import CommandFailedError, CompletedCommand, Runner

# A line of `unsquashfs -lln`: mode, owner by number, size (or a device's numbers), time, path.
_ROOT = "squashfs-root"
_LINE = re.compile(rf"(\S)(\S{{9}}) (\d+/\d+) +(\d+|\d+, *\d+) ([\d-]+ [\d:]+) {_ROOT}(/.*)?")
# MB of its queues of data and of fragments: its own, 256 each, cost memory and gain nothing.
_QUEUES = ("-da", "32", "-fr", "32")
# unsquashfs ends with 2 where all was read but an attribute could not be set: device nodes and
# owners, which an ordinary user can't make.
_MINOR = 2
_FULL = re.compile(r"No space left on device|Disk quota exceeded")


@dataclass(kw_only=True, slots=True)
class SquashfsTree:
    """The tree of an image file (SIF)."""

    image: Path
    program: Path
    runner: Runner
    environ: Mapping[str, str]
    _entries: list[TreeEntry] = field(default_factory=list)

    @classmethod
    def of(cls, image: Path, environ: Mapping[str, str], runner: Runner) -> "SquashfsTree":
        """Find what reads it; raises EngineError where there is none."""
        program = find_program("unsquashfs", environ)
        if program is None:
            raise EngineError(
                "no unsquashfs on PATH",
                why="dlcontainer reads the files of an image with it",
                next_step=installation.helper(environ, "squashfs-tools"),
            )
        return cls(image=image, program=program, runner=runner, environ=environ)

    def entries(self) -> Sequence[TreeEntry]:
        """List all entries; raises ChecksFailedError for a damaged image."""
        if not self._entries:
            part = sif.tree(self.image)
            listing = self._run(["-lln", "-o", str(part.offset), str(self.image)])
            self._entries = sorted(_listed(listing), key=lambda entry: entry.path)
        return self._entries

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        """Unpack the files asked for into a folder; raises ChecksFailedError."""
        plain_paths = sorted(path for path in paths if "\n" not in path)
        if not plain_paths:
            return {}
        listed = folder / "wanted"
        # The names are no patterns: each character that could be one is escaped.
        lines = [re.sub(r"([\\*?\[\]])", r"\\\1", path.lstrip("/")) for path in plain_paths]
        listed.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        target = folder / "tree"
        self.unpack(target, ["-ef", str(listed)])
        files = {path: target / path.lstrip("/") for path in plain_paths}
        root = target.resolve()
        return {path: file for path, file in files.items() if is_plain(file, root)}

    def unpack(self, target: Path, options: Sequence[str] = ()) -> None:
        """Unpack the tree, or what options restrict it to, into a new folder."""
        part = sif.tree(self.image)
        argv = ["-no-progress", "-no-xattrs", "-quiet", *_QUEUES, "-o", str(part.offset)]
        self._run([*argv, "-d", str(target), *options, str(self.image)])

    def _run(self, argv: Sequence[str]) -> str:
        # One language, so that the listing is what is expected.
        env = {"PATH": self.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        done = self.runner([str(self.program), *argv], env=env, check=False)
        if done.returncode not in (0, _MINOR):
            raise self._failed(done) from CommandFailedError(done)
        return done.stdout

    def _failed(self, done: CompletedCommand) -> ChecksFailedError:
        message = (done.stderr or done.stdout).strip()
        full = _FULL.search(message)
        if full:
            return ChecksFailedError(
                f"no room to unpack files of {self.image}",
                why=full[0],
                next_step="set TMPDIR to a folder with more room",
            )
        return ChecksFailedError(
            f"can't read the file tree of {self.image}",
            why=message[-400:],
            next_step="copy or build the image again; unsquashfs must be 4.4 or later, and "
            "support the image's compression",
        )


def _listed(text: str) -> Iterable[TreeEntry]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or not match[6]:
            continue
        kind, mode, owner, size, time, path = match.groups()
        target = ""
        if kind == "l":
            path, _, target = path.partition(" -> ")
        yield TreeEntry(
            path=path,
            kind=kind,
            mode=mode,
            owner=owner,
            size=int(size) if kind == "-" else 0,
            target=target,
            time=time,
        )

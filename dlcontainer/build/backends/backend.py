"""Where an image grows step by step: what every engine's backend does, and what it keeps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.image.contents.search import SearchableTree

# The rest of keeping a result; it needs the tree no more and may run beside other work.
SaveTask = Callable[[], None]


class DamagedError(Exception):
    """A kept result could not be used after all: `recall` does not give it again."""


class BuildBackend(Protocol):
    """One image in the making.

    `begin` once, then `run` and `keep` for each step, then `finish`. What was begun is undone at
    the end, whatever ends it: a backend is handed out by a context manager.
    """

    def recall(self, key: str) -> CachedStep | None:
        """Return the kept result of a step, if it is whole and of a maker that is trusted."""

    def begin(self, parent: CachedStep | None) -> None:
        """Start from a kept result, or from the base; raises DamagedError."""

    def run(self, step: BuildStep) -> None:
        """Put the step's files in and run its script; raises CommandFailedError."""

    def keep(self, step: BuildStep, packages: Packages) -> SaveTask:
        """Take the tree as it is now as this step's result, and return what keeps it.

        It appears whole or not at all, when that has been called.
        """

    def files(self) -> SearchableTree:
        """Show the files of the tree as it is now."""

    def finish(self, target: Path, sbom: Path) -> None:
        """Make the image of the tree as it is now, with the plan's environment and labels.

        `sbom` is the bill of materials: it goes where the engine's kind of image has a place.
        """

    def shell_command(self) -> tuple[list[str], Mapping[str, str], Path]:
        """Return command, environment and folder of a shell in the tree as it is now."""

"""Sessions whose truth is known: one image, or two copies of it, under both labels.

Nothing differs then, or the candidate's training steps are longer by a known share of their own
processor time (slower_steps.py). A run that was interrupted goes on with the session it was at.
"""

import argparse
import filecmp
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.slower_steps import planted
from dlcontainer.bench.measure import arms
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings, SessionSides
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import Probe, Value
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.cli.bench import bench_context, sessions
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.cli.context import here
from dlcontainer.cli.output import Console
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files

TRAIN = PROBES["train"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """With what all sessions are measured."""

    image: Path
    site: str
    recipe: str | None
    folder: Path
    threads: int
    group: int

    def options(self, *, seed: int, margin: float, file: "File", **values: Value) -> SessionOptions:
        """Return what a user would type for one session of groups."""
        return SessionOptions(
            site=self.site,
            image=self.image,
            recipe=self.recipe,
            threads=self.threads,
            seed=seed,
            margin=f"{100 * margin:g}%",
            values={"device": "cpu", "unit": "groups", "group": self.group, **values},
            target=None if file.is_cut else file.path,
            resume=file.path if file.is_cut else None,
        )


def parser(description: str) -> argparse.ArgumentParser:
    """Return the options that scripts of sessions share."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--image", type=Path, help="needed unless --report is given")
    made.add_argument("--site", default="local")
    made.add_argument("--recipe")
    made.add_argument("--out", type=Path, required=True, help="the folder of the sessions")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--group", type=int, default=2)
    made.add_argument("--report", action="store_true", help="measure nothing")
    return made


def placed(options: argparse.ArgumentParser, wanted: argparse.Namespace) -> Place:
    """Make the folder of the sessions, and give with what they are measured."""
    if not (wanted.image or wanted.report):
        options.error("--image is missing")
    wanted.out.mkdir(parents=True, exist_ok=True)
    return Place(
        image=(wanted.image or Path()).absolute(),
        site=wanted.site,
        recipe=wanted.recipe,
        folder=wanted.out.absolute(),
        threads=wanted.threads,
        group=wanted.group,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """Where a session goes, and whether it goes on there."""

    path: Path
    is_cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A session that can be measured."""

    settings: SessionSettings
    image: BenchImage
    context: BenchContext
    sides: SessionSides


def paths_of(folder: Path, stem: str) -> Iterator[Path]:
    """Name a session's file, and those that take its place where it can't go on."""
    yield folder / f"{stem}.jsonl"
    yield from (folder / f"{stem}-again{attempt}.jsonl" for attempt in range(1, 10))


def file_of(folder: Path, stem: str) -> File | None:
    """Return the file that a session is measured into; None where it is complete."""
    for path in paths_of(folder, stem):
        if not path.exists():
            return File(path=path)
        try:
            if reader.read(path).complete:
                return None
            continuation.read(path)
        except BenchDataError as error:
            print(f"{path.name}: {error}", flush=True)
            continue
        return File(path=path, is_cut=True)
    return None


@contextmanager
def ready(
    options: SessionOptions,
    *,
    probe: Probe = TRAIN,
    slower: float = 0.0,
    copies: tuple[Path, Path] | None = None,
) -> Iterator[Ready]:
    """Make a session ready; of `copies` the reference has the first, the candidate the other."""
    world, console = here(), Console(verbose=False, quiet=True)
    settled = sessions.settled(probe, options, world, console)
    with bench_context.opened(world, console, settled.plan, None, settled.image) as context:
        candidate = arms.container(context, settled.image, probe)
        reference = replace(candidate, name="native", mount="none")
        if copies:
            reference = replace(reference, image=copies[0])
            candidate = replace(candidate, image=copies[1])
        if slower:
            candidate = replace(candidate, context=planted(context, settled.image, slower))
        sides = SessionSides(
            reference=reference, candidate=candidate, joiner=None, why="the same image"
        )
        yield Ready(settings=settled.settings, image=settled.image, context=context, sides=sides)


def copies_of(image: Path, folder: Path) -> tuple[Path, Path]:
    """Return two copies of an image in a folder: made once, and anew for another image."""
    found = []
    for name in ("one", "other"):
        copy = folder / f"copy-{name}.sif"
        if not copy.exists() or not filecmp.cmp(image, copy, shallow=False):
            aside = copy.with_suffix(".part")
            shutil.copy(image, aside)
            atomic_files.move(aside, copy)
        found.append(copy)
    return found[0], found[1]

"""The commands that change a user's cache, and what users get: a session of `bench`."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from dlcontainer.bench.samples import reader
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import step_folders
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import BenchDataError
from dlcontainer.system import digests
from tests.faults.stage import Subject

_CACHE = "cache/dlcontainer"
# Folder, and the note without which it counts for nothing.
_FOLDERS = {"bases/debian": "base.json", "locked/0123": "lock.json", "twins/torch": "ready.json"}
_PRUNED = ("steps", "bases", "locked", "twins", "notes")
SESSION = "a session.jsonl"


def _steps(state: Path) -> StepCache:
    return StepCache(folder=state / _CACHE / "steps", builders=(), on_note=lambda text: None)


def _packed(path: Path) -> None:
    path.write_bytes(b"x" * 10)


def _kept(state: Path) -> None:
    """Keep two steps, and one thing of each other kind; steps were used last."""
    steps = _steps(state)
    for key in ("aa1", "bb2"):
        step = BuildStep(name="s", number=1, total=2, script="", files=(), inputs={}, key=key)
        steps.keep(step, (), state / "tmp", _packed)()
    for place, note in _FOLDERS.items():
        folder = state / _CACHE / place
        folder.mkdir(parents=True)
        for name in ("content", "more", note):
            (folder / name).write_text("{}")
            os.utime(folder / name, (1_000_000_000,) * 2)
    (state / _CACHE / "trial.json").write_text("{}")


def _usable(state: Path) -> list[str]:
    """List what a build would use; all of it must be whole."""
    cache, found = state / _CACHE, []
    for place, note in _FOLDERS.items():
        if (cache / place / note).exists():
            assert {path.name for path in (cache / place).iterdir()} == {"content", "more", note}
            found.append(place)
    for maker in step_folders.makers(cache / "steps"):
        for path in (cache / "steps" / maker.name).glob("??/*.sqfs"):
            with (
                suppress(FileNotFoundError),
                step_folders.opened(cache / "steps", maker, path.stem) as entry,
            ):
                assert digests.of_open(entry.tree) == entry.sha256
                found.append(path.stem)
    return sorted(found)


def _measured(state: Path) -> list[object]:
    """Read what a session has: whole lines, each in its place."""
    try:
        series = reader.read(state / SESSION)
    except (BenchDataError, FileNotFoundError):
        # Before its first line is on the disk a session has none.
        assert not (state / SESSION).exists() or b"\n" not in (state / SESSION).read_bytes()
        return []
    return [asdict(sample) | {"line": 0} for sample in series.samples]


CACHES: Mapping[str, Subject] = {
    "cache prune": Subject(
        prepare=_kept,
        argv=(
            *("cache", "prune", "--max-size", "0"),
            *(word for kind in _PRUNED for word in ("--kind", kind)),
        ),
        view=_usable,
        many=True,
        warm=False,
    ),
    "session": Subject(
        prepare=lambda state: None,
        argv=(SESSION,),
        entry="tests.faults.entries:session",
        view=_measured,
        many=True,
    ),
}

"""A step cache in a folder that others may write: how it is filled, used and seen by others."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.system import guarded_files

NOTES: list[str] = []


KEY = "ab12"


def shared(place: Path, mode: int, builders: tuple[str, ...] = ()) -> StepCache:
    folder = place / "it's shared"
    folder.mkdir()
    folder.chmod(mode)
    return StepCache(folder=folder, builders=builders, on_note=NOTES.append)


def work_of(cache: StepCache) -> Path:
    work = cache.folder.with_name("work")
    work.mkdir(mode=0o700, exist_ok=True)
    return work


def step(key: str) -> BuildStep:
    return BuildStep(name="work", number=1, total=2, script="", files=(), inputs={}, key=key)


def keep(
    cache: StepCache,
    key: str = KEY,
    data: bytes = b"tree",
    meanwhile: Callable[[Path], None] = lambda _: None,
) -> None:
    def make(path: Path) -> None:
        path.write_bytes(data)
        meanwhile(path)

    cache.keep(step(key), (), work_of(cache), make)()
    assert list(work_of(cache).iterdir()) == []


def tree_of(cache: StepCache, key: str = KEY) -> Path:
    (path,) = cache.folder.glob(f"by-*/??/{key}.sqfs")
    return path


def note_of(cache: StepCache, key: str = KEY) -> Path:
    return tree_of(cache, key).with_suffix(".json")


def used(cache: StepCache, meanwhile: Callable[[Path], None] = lambda _: None) -> bytes:
    """Use an entry as a build does, with its second look after the first; give what was used."""
    kept = cache.recall(KEY)
    assert kept is not None
    target = work_of(cache) / "parent.sqfs"
    with cache.taken(kept, target) as is_whole:
        meanwhile(target)
        data = target.read_bytes()
        if not is_whole():
            raise DamagedError(KEY)
    return data


class Others:
    """The same folder, seen by another user than the one who filled it."""

    def __init__(self, cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.maker, self.cache = guarded_files.name_of(os.getuid()), cache
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 4711)

    def seen(self, *builders: str) -> StepCache:
        NOTES.clear()
        return StepCache(folder=self.cache.folder, builders=builders, on_note=NOTES.append)

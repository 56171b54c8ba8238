"""Half an entry, which a killed build or prune left: listed, and pruned, unless it is new."""

import os
from pathlib import Path

import pytest

from dlcontainer.build.cache.step_cache import StepCache

HOUR_AGO = 1_700_000_000
WORDS = {".sqfs": b"x" * 10, ".json": b"{}"}


@pytest.fixture
def cache(tmp_path: Path) -> StepCache:
    return StepCache(folder=tmp_path / "steps", builders=(), on_note=lambda text: None)


def half(cache: StepCache, suffix: str, moment: float | None = HOUR_AGO) -> Path:
    shelf = cache.folder / "by-someone" / "aa"
    shelf.mkdir(parents=True)
    path = shelf / f"aa1{suffix}"
    path.write_bytes(WORDS[suffix])
    if moment is not None:
        os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize("suffix", WORDS)
def test_half_an_entry_is_pruned(cache: StepCache, suffix: str) -> None:
    path = half(cache, suffix)
    ((kept, used),) = cache.entries()
    assert (kept.key, kept.name, kept.size) == ("aa1", "not whole", len(WORDS[suffix]))
    assert used == HOUR_AGO
    assert cache.recall("aa1") is None
    assert [one.key for one in cache.prune(0)] == ["aa1"]
    assert not path.exists()


@pytest.mark.parametrize("suffix", WORDS)
def test_one_that_is_new_may_be_a_build_s(cache: StepCache, suffix: str) -> None:
    path = half(cache, suffix, moment=None)
    assert cache.entries() == []
    assert cache.prune(0) == []
    assert path.exists()


def test_what_is_another_user_s_stays(cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = half(cache, ".sqfs")
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert cache.entries() == []
    assert cache.prune(0) == []
    assert path.exists()

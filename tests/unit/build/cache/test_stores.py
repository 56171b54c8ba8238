"""What is kept, of every kind: listed by last use, pruned, and left while it is in use."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import stores
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.build.cache.stores import Store
from dlcontainer.system import file_locks
from tests.fakeoci import FakeClient, image

NOTES: list[str] = []
STEP = "dlcontainer/steps"


def write(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(b"x" * size)

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Give a cache with something of each kind; the number of seconds says how long ago."""
    NOTES.clear()
    folder = tmp_path / "it's a cache"
    steps = StepCache(folder=folder / "steps", builders=(), on_note=NOTES.append)
    for key, seconds in (("aa1", 900), ("bb2", 100)):
        step = BuildStep(name="s", number=1, total=2, script="", files=(), inputs={}, key=key)
        steps.keep(step, (), tmp_path, write(10))()
        age(note_of(folder, key), seconds)
    for place, note, seconds in (
        ("bases/debian", "base.json", 500),
        ("locked/0123", "lock.json", 300),
        ("twins/torch", "ready.json", 200),
    ):
        (folder / place).mkdir(parents=True)
        (folder / place / "content").write_bytes(b"x" * 18)
        (folder / place / note).write_text("{}")
        age(folder / place / note, seconds)
    (folder / "trial.json").write_text("{}")
    age(folder / "trial.json", 400)
    return folder


def note_of(cache: Path, key: str) -> Path:
    (path,) = cache.glob(f"steps/by-*/??/{key}.json")
    return path


def age(path: Path, seconds: int) -> None:
    os.utime(path, (1_800_000_000 - seconds,) * 2)


@contextlib.contextmanager
def using(steps: StepCache, key: str, work: Path) -> Iterator[None]:
    """Use a kept step as a build does that unpacks it."""
    kept = steps.recall(key)
    assert kept is not None
    with steps.taken(kept, work / "parent.sqfs"):
        yield


def of(cache: Path, *engines: FakeClient) -> list[Store]:
    steps = StepCache(folder=cache / "steps", builders=(), on_note=NOTES.append)
    return stores.of_cache(cache, steps, [OciStore(client=one, arch="x86_64") for one in engines])


def test_all_kinds_are_listed_by_last_use(cache: Path) -> None:
    found = [(one.kind, one.key, one.size) for one in stores.entries(of(cache))]
    assert found == [
        ("steps", "bb2", 10),
        ("twins", "torch", 20),
        ("locked", "0123", 20),
        ("notes", "trial.json", 2),
        ("bases", "debian", 20),
        ("steps", "aa1", 10),
    ]


def test_what_was_used_longest_ago_goes_until_the_rest_fits(cache: Path) -> None:
    gone = stores.prune(of(cache), 52, cache, NOTES.append)
    assert [one.key for one in gone] == ["aa1", "debian"]
    assert not (cache / "bases/debian").exists()
    assert stores.prune(of(cache), 52, cache, NOTES.append) == []
    assert len(stores.prune(of(cache), 0, cache, NOTES.append)) == 4
    assert stores.entries(of(cache)) == []


def test_while_a_build_runs_only_kept_steps_go_that_nobody_unpacks(cache: Path) -> None:
    steps = StepCache(folder=cache / "steps", builders=(), on_note=NOTES.append)
    with file_locks.building(cache, NOTES.append), using(steps, "aa1", cache.parent):
        gone = stores.prune(of(cache), 0, cache, NOTES.append)
    assert [one.key for one in gone] == ["bb2"]
    assert "a build is running" in NOTES[0]
    assert steps.recall("aa1") is not None
    assert len(stores.entries(of(cache))) == 5


def test_a_site_s_own_limit_spares_what_is_unpacked(cache: Path) -> None:
    steps = StepCache(folder=cache / "steps", builders=(), on_note=NOTES.append)
    with using(steps, "aa1", cache.parent):
        assert [one.key for one in steps.prune(0)] == ["bb2"]
    assert [one.key for one in steps.prune(0)] == ["aa1"]


def test_a_base_that_others_stand_on_goes_after_them(cache: Path) -> None:
    """Its layers stay as long as theirs do: to take its name away first would free nothing."""
    base = image(f"{STEP}:base", created="2027-01-01T00:00:00Z", layers=("l0",))
    step = image(f"{STEP}:step", created="2027-01-02T00:00:00Z", layers=("l0", "l1"))
    other = image(f"{STEP}:other", created="2027-01-01T12:00:00.5Z", layers=("m0",))
    client = FakeClient(store={one.names[0]: one for one in (base, step, other)})
    engine = [store for store in of(cache, client) if store.kind == "docker"]
    gone = stores.prune(engine, 0, cache, NOTES.append)
    assert [one.key for one in gone] == ["other", "step", "base"]
    assert client.store == {}


def test_what_the_engine_keeps_is_not_called_gone(cache: Path) -> None:
    class Refusing(FakeClient):
        def untag(self, name: str) -> None:
            from dlcontainer.errors import EngineError

            raise EngineError("a container uses it")

    client = Refusing(store={f"{STEP}:k": image(f"{STEP}:k")})
    engine = [store for store in of(cache, client) if store.kind == "docker"]
    assert stores.prune(engine, 0, cache, NOTES.append) == []


def test_a_folder_that_is_not_whole_is_listed_as_such(cache: Path) -> None:
    (cache / "locked/0123/lock.json").unlink()
    found = {one.key: one.name for one in stores.entries(of(cache))}
    assert (found["0123"], found["debian"]) == ("not whole", "debian")


def test_a_cache_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert stores.entries(of(tmp_path / "none")) == []
    assert stores.prune(of(tmp_path / "none"), 0, tmp_path / "none", NOTES.append) == []


def test_what_links_lead_to_is_not_kept_here(cache: Path, tmp_path: Path) -> None:
    """Neither counted, nor read, nor removed: only the link goes."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "much").write_bytes(b"x" * 10_000)
    (elsewhere / "base.json").write_text('{"name": "secret"}')
    (cache / "bases/linked").symlink_to(elsewhere)
    (cache / "a note").symlink_to(elsewhere)
    (cache / "locked/0123/lock.json").unlink()
    (cache / "locked/0123/lock.json").symlink_to(elsewhere / "base.json")
    found = {one.key: one for one in stores.entries(of(cache))}
    assert "linked" not in found
    assert found["a note"].size < 1000
    assert found["0123"].name == "not whole"
    stores.prune(of(cache), 0, cache, NOTES.append)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["base.json", "much"]
    assert not os.path.lexists(cache / "a note")


@pytest.mark.parametrize("text", ["[" * 100_000, " " * (2 << 20)], ids=["deep", "huge"])
def test_a_note_that_makes_no_sense_stops_nothing(cache: Path, text: str) -> None:
    (cache / "bases/debian/base.json").write_text(text)
    found = {one.key: one.name for one in stores.entries(of(cache))}
    assert found["debian"] == "not whole"


def test_a_kept_step_of_another_user_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.getuid()
    (steps,) = [store for store in of(cache) if store.kind == "steps"]
    entries = steps.entries()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert [steps.remove(entry) for entry in entries] == [False, False]
    assert len(list(cache.glob("steps/by-*/??/*.sqfs"))) == 2


def test_what_can_t_be_removed_is_counted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **keywords: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        patch.setattr(Path, "unlink", fail)
        assert stores.prune(of(cache), 0, cache, NOTES.append) == []
    assert NOTES == [
        (
            "not removed: 6 entries, which are in use, belong to another user, or are on "
            "a failing disk"
        )
    ]
    found = [(one.kind, one.key, one.name) for one in stores.entries(of(cache))]
    # Note and tree of a step stay together.
    assert [one for one in found if one[0] == "steps"] == [
        ("steps", "bb2", "s"),
        ("steps", "aa1", "s"),
    ]

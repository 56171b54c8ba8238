"""A prefix of a user's own: whose it is, what it may replace, and that it goes again."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engine_setup import trees, user_prefix
from dlcontainer.engine_setup.surroundings import Session, begun
from dlcontainer.engine_setup.user_prefix import MARK, UserPrefix
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.machine import MountPoint
from tests.hostile import open_place
from tests.setup_scripts import Told


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Give a folder that others may enter, as a home often is."""
    with open_place() as folder:
        yield folder


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    # A name with a space elsewhere than in the home: Apptainer mounts nothing below one.
    session = Session(environ={"HOME": str(home), "PATH": ""}, teller=Told(), elsewhere="name it")
    with begun(session), user_prefix.written_by_one():
        yield home


def usual(home: Path) -> Path:
    return home / ".local/share/dlcontainer/engine"


def fill(place: UserPrefix) -> None:
    """Set up what an engine comes to: two trees, and links to programs in them."""

    def build(tree: Path) -> None:
        (tree / "usr/bin").mkdir(parents=True)
        (tree / "usr/bin/apptainer").touch()

    user_prefix.prepare(place)
    for name in ("apptainer", "programs"):
        trees.publish(place.prefix, name, build)
    trees.link_into(place.links, "apptainer", place.prefix / "apptainer/usr/bin/apptainer")
    user_prefix.show(place)


def test_it_is_made_where_all_commands_look_and_goes_without_a_trace(home: Path) -> None:
    place = user_prefix.locate(None)
    assert place.prefix == place.link == usual(home)
    fill(place)
    assert (usual(home) / "bin/apptainer").resolve().is_file()
    assert user_prefix.take_away(place)
    assert list(usual(home).parent.iterdir()) == []
    assert not user_prefix.take_away(place)


def test_another_folder_is_found_by_a_link_and_stays_in_use(home: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "scratch/mine"
    place = user_prefix.locate(chosen)
    fill(place)
    assert usual(home).readlink() == chosen
    # Without --prefix it is this one: an upgrade, and the removal.
    assert user_prefix.locate(None) == place
    with pytest.raises(EngineError, match="an engine is set up in") as caught:
        user_prefix.locate(tmp_path / "third")
    assert "setup engine --remove" in str(caught.value.next_step)
    assert user_prefix.take_away(user_prefix.locate(None))
    assert not usual(home).is_symlink()
    assert not chosen.exists()


def test_a_link_to_a_folder_that_was_removed_by_hand(home: Path, tmp_path: Path) -> None:
    fill(user_prefix.locate(tmp_path / "gone"))
    (tmp_path / "gone").rename(tmp_path / "moved")
    place = user_prefix.locate(tmp_path / "new")
    fill(place)
    assert usual(home).readlink() == tmp_path / "new"
    user_prefix.take_away(place)
    usual(home).symlink_to(tmp_path / "nowhere")
    assert not user_prefix.take_away(user_prefix.locate(None))
    assert not usual(home).is_symlink()


def test_a_prefix_whose_path_has_a_space(home: Path, tmp_path: Path) -> None:
    place = user_prefix.locate(tmp_path / "a prefix")
    user_prefix.prepare(place)
    apart = trees.home_without_space(place.prefix, {"HOME": str(home)})
    trees.publish(place.prefix, "apptainer", lambda tree: (tree / "x").touch(), home=apart)
    user_prefix.show(place)
    assert list(apart.iterdir()) == [(place.prefix / "apptainer").resolve()]
    assert user_prefix.take_away(place)
    assert not apart.exists()
    assert not place.prefix.exists()


def test_a_folder_with_something_else_in_it_stays_as_it_is(home: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "tools"
    (chosen / "bin").mkdir(parents=True)
    (chosen / "apptainer-1.4").mkdir()
    place = user_prefix.locate(chosen)
    for refuses in (user_prefix.prepare, user_prefix.take_away):
        with pytest.raises(EngineError, match="holds something else"):
            refuses(place)
    assert {path.name for path in chosen.iterdir()} == {"bin", "apptainer-1.4"}


def test_a_file_of_the_users_own_stays_when_the_engine_goes(home: Path) -> None:
    place = user_prefix.locate(None)
    fill(place)
    (place.prefix / "notes").touch()
    (place.prefix / "apptainer-1.4").mkdir()
    assert user_prefix.take_away(place)
    assert {path.name for path in place.prefix.iterdir()} == {"notes", "apptainer-1.4"}


def test_where_nothing_private_was_needed_nothing_is_left(home: Path) -> None:
    place = user_prefix.locate(None)
    user_prefix.prepare(place)
    assert (place.prefix / MARK).is_file()
    user_prefix.show(place)
    assert not place.prefix.exists()


def test_one_that_ends_early_leaves_the_work_of_another_alone(home: Path) -> None:
    """The first works, or is done; the second, which waited for it, is interrupted."""
    place = user_prefix.locate(None)
    user_prefix.prepare(place)
    with trees.locked(place.prefix):
        user_prefix.show(place)
        assert (place.prefix / MARK).is_file()
    second = user_prefix.locate(None)
    fill(place)
    user_prefix.show(second)
    assert (place.links / "apptainer").resolve().is_file()


def test_what_a_killed_set_up_or_removal_left_is_taken(home: Path) -> None:
    place = user_prefix.locate(None)
    (place.prefix / "apptainer-0123abcd").mkdir(parents=True)
    (place.prefix / "bin").mkdir()
    fill(place)
    assert not (place.prefix / "apptainer-0123abcd").exists()
    (place.prefix / MARK).unlink()
    assert user_prefix.take_away(place)
    assert not place.prefix.exists()


def test_a_refusal_leaves_no_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_mb", lambda _: 40)
    with pytest.raises(EngineError):
        user_prefix.prepare(user_prefix.locate(None))
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("which", ["", ".local", ".local/share/dlcontainer/engine"])
def test_a_folder_that_others_can_change_is_refused(home: Path, which: str) -> None:
    place = user_prefix.locate(None)
    place.prefix.mkdir(parents=True)
    (home / which).chmod(0o775)
    with pytest.raises(EngineError, match="other users can change") as caught:
        user_prefix.prepare(place)
    assert f"chmod go-w {home / which}".rstrip("/") in str(caught.value.next_step)
    assert list(place.prefix.iterdir()) == []


def test_whatever_the_umask_nobody_else_may_write(home: Path) -> None:
    before = os.umask(0o002)
    try:
        with user_prefix.written_by_one():
            user_prefix.prepare(user_prefix.locate(None))
    finally:
        os.umask(before)
    made = [usual(home), usual(home) / "bin", *list(usual(home).parents)[:3]]
    assert [path for path in made if path.stat().st_mode & 0o022] == []


def test_a_file_system_where_nothing_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = MountPoint(point=home, kind="nfs", options=frozenset({"rw", "noexec"}))
    monkeypatch.setattr(machine, "mount_of", lambda _: mount)
    with pytest.raises(EngineError, match="no program can run in") as caught:
        user_prefix.prepare(user_prefix.locate(None))
    assert "--prefix" in str(caught.value.next_step)
    monkeypatch.setattr(machine, "mount_of", lambda _: replace(mount, options=frozenset()))
    user_prefix.prepare(user_prefix.locate(None))


def test_a_disk_without_room(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_mb", lambda _: 40)
    with pytest.raises(EngineError, match="only 40 MB free"):
        user_prefix.prepare(user_prefix.locate(None))
    # One that is there needs none.
    monkeypatch.undo()
    fill(user_prefix.locate(None))
    monkeypatch.setattr(machine, "free_mb", lambda _: 40)
    user_prefix.prepare(user_prefix.locate(None))


def test_without_a_home_there_is_no_folder() -> None:
    session = Session(environ={"PATH": ""}, teller=Told(), elsewhere="")
    with begun(session), pytest.raises(EngineError, match="HOME is not set"):
        user_prefix.locate(None)


def test_a_path_that_no_library_path_can_hold(home: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot install into"):
        user_prefix.prepare(user_prefix.locate(tmp_path / "a:b"))
    assert not (tmp_path / "a:b").exists()

import errno
import fcntl
import shlex
import subprocess
import threading
from pathlib import Path

import pytest

from dlcontainer.engine_setup.trees import (
    check_prefix,
    home_without_space,
    link_into,
    locked,
    publish,
    write_wrapper,
)
from dlcontainer.errors import EngineError
from tests.processes import poll
from tests.setup_scripts import Told


def fill(tree: Path) -> None:
    (tree / "file").write_text(str(tree))


def test_a_tree_is_built_where_it_stays(tmp_path: Path) -> None:
    published = publish(tmp_path, "engine", fill)
    assert published == tmp_path / "engine"
    assert (published / "file").read_text() == str(published.resolve())


def test_the_old_tree_goes_when_the_new_one_is_there(tmp_path: Path) -> None:
    old = publish(tmp_path, "engine", fill).resolve()
    new = publish(tmp_path, "engine", fill).resolve()
    assert old != new
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["engine", new.name])


def test_a_failed_build_leaves_the_old_tree_and_nothing_else(tmp_path: Path) -> None:
    old = publish(tmp_path, "engine", fill).resolve()

    def fail(tree: Path) -> None:
        (tree / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, "engine", fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["engine", old.name])
    assert (tmp_path / "engine/file").exists()


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "engine-dead0000" / "usr").mkdir(parents=True)
    other = tmp_path / "programs-1234"
    other.mkdir()
    publish(tmp_path, "engine", fill)
    assert not (tmp_path / "engine-dead0000").exists()
    assert other.exists()


def test_a_path_with_a_space_gets_a_home_without_one(tmp_path: Path) -> None:
    prefix = tmp_path / "a prefix"
    home = home_without_space(prefix, {"HOME": str(tmp_path)})
    assert home.parent == tmp_path / ".local/share/dlcontainer"
    assert home != home_without_space(tmp_path / "b prefix", {"HOME": str(tmp_path)})
    with locked(prefix):
        published = publish(prefix, "engine", fill, home=home)
    assert published == prefix / "engine"
    assert published.resolve().parent == home


def test_a_path_without_a_space_is_its_own_home(tmp_path: Path) -> None:
    assert home_without_space(tmp_path, {}) == tmp_path


@pytest.mark.parametrize("environ", [{}, {"HOME": "/a b"}, {"XDG_DATA_HOME": "relative"}])
def test_no_home_without_a_space_is_an_error(environ: dict[str, str]) -> None:
    with pytest.raises(EngineError, match="cannot set Apptainer up") as caught:
        home_without_space(Path("/x y"), environ)
    assert "XDG_DATA_HOME" in str(caught.value)


@pytest.mark.parametrize("path", ["/a:b", "/a\nb", '/a"b', "/a$b", "/a;b"])
def test_paths_that_cannot_stand_in_a_library_path_are_refused(path: str) -> None:
    with pytest.raises(EngineError, match="cannot install into"):
        check_prefix(Path(path))


def test_links_are_replaced_and_told_once(tmp_path: Path) -> None:
    assert link_into(tmp_path, "tool", Path("/one"))
    assert not link_into(tmp_path, "tool", Path("/one"))
    assert link_into(tmp_path, "tool", Path("/two"))
    assert (tmp_path / "tool").readlink() == Path("/two")
    assert [path.name for path in tmp_path.iterdir()] == ["tool"]


def test_a_wrapper_keeps_hostile_names_apart(tmp_path: Path, real_processes: None) -> None:
    folder = tmp_path / "a'; echo x"
    folder.mkdir()
    wrapper = folder / "show"
    write_wrapper(
        wrapper,
        ["/bin/sh", "-c", 'printf "%s|" "$LIBS" "$@"', "it's"],
        prepend={"LIBS": [folder, Path("/b c")], "NONE": []},
        append={"LIBS": ["/last one"], "MORE": []},
    )
    done = subprocess.run(
        [str(wrapper), "an argument", "$HOME"],
        env={"LIBS": "/old"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{folder}:/b c:/old:/last one|an argument|$HOME|"
    assert "NONE" not in wrapper.read_text()
    assert shlex.split(wrapper.read_text().splitlines()[-1])[0] == "exec"


def test_a_file_system_without_locks_is_told_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "prefix"):
        assert "has no locks: run one set-up at a time" in told.take()


def test_who_comes_second_waits_and_is_told(tmp_path: Path, told: Told) -> None:
    entered = threading.Event()

    def second() -> None:
        with locked(tmp_path):
            entered.set()

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        assert poll(lambda: bool(told.lines), 60)
        assert not entered.is_set()
    thread.join()
    assert entered.is_set()
    assert "waiting for another set-up in" in told.take()

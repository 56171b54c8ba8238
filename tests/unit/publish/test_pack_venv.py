"""The program that makes one file of an environment: it loses nothing, wherever it is ended."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.templating import render_template
from tests.values import TEMPLATES

PROGRAM = compile(render_template([TEMPLATES], "module/pack_venv.py.j2", {}), "pack_venv", "exec")
# What changes a file system.
CHANGES = (
    *(
        (os, name)
        for name in ("chmod", "makedirs", "mkdir", "rename", "rmdir", "symlink", "unlink")
    ),
    *((os, name) for name in ("utime", "fsync")),
    (shutil, "copyfile"),
)
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
PACK, NEW = "environment.sqfs", ".environment.sqfs.newabc123"


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the program's own comes after it."""


@dataclass(kw_only=True)
class Fault:
    """The change number `at` fails, before it is done."""

    at: int
    error: BaseException
    count: int = 0

    def put_into(self, patches: pytest.MonkeyPatch) -> None:
        for module, name in CHANGES:
            patches.setattr(module, name, self._failing(getattr(module, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*words: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise self.error
            return real(*words, **more)

        return wrapped


class World:
    """An environment, and the tree that its file shows where it is mounted.

    The file itself holds no tree here: it is there, or it is not.
    """

    fault: Fault | None = None

    def __init__(self, folder: Path) -> None:
        self.env, self.shown = folder / "my env", folder / "shown"
        packages = self.env / "lib" / "python" / "sité-packages"
        (packages / "deep" / "er").mkdir(parents=True)
        (self.env / "bin").mkdir()
        (self.env / "empty").mkdir()
        for path, text in (
            (self.env / "pyvenv.cfg", f"version = {HERE}.2\n"),
            (self.env / ".dlcontainer-module", "demo/1.0\n"),
            (self.env / "bin/activate", "# here\n"),
            (self.env / "bin/tool", "#!/bin/sh\n"),
            (packages / "one.py", "x = 1\n"),
            (packages / "deep/er/two.py", "x = 2\n" * 9),
        ):
            path.write_text(text)
        (self.env / "bin/tool").chmod(0o755)
        (self.env / "bin/python").symlink_to("/opt/demo/bin/python")
        os.utime(packages / "one.py", (1_600_000_000, 1_600_000_000))
        self.before = view(self.env)

    def squash(self) -> None:
        """Do what mksquashfs does."""
        shutil.copytree(self.env, self.shown, symlinks=True)
        (self.env / NEW).write_bytes(b"hsqs")

    def run(self, what: str, note: str = "") -> int:
        argv = ["-c", str(self.env), str(self.env), str(self.shown), what, note]
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(sys, "argv", argv)
            patches.setattr(os, "sync", lambda: None)
            patches.setattr(os, "fsync", lambda handle: None)
            if self.fault:
                self.fault.put_into(patches)
            try:
                exec(PROGRAM, {"__name__": "__main__"})
            except SystemExit as ended:
                return int(ended.code or 0)
        return 0

    def left(self) -> list[str]:
        """Name what of the command's own is left beside the environment."""
        names = {path.name for path in self.env.glob(".environment.sqfs.*")}
        return sorted(names - {".environment.sqfs.lock"})

    def pack(self) -> list[int]:
        """Run what --pack runs, from what is there."""
        codes = []
        if not (self.env / PACK).exists():
            for left in self.env.glob(".environment.sqfs.new*"):
                left.unlink()
            shutil.rmtree(self.shown, ignore_errors=True)
            self.squash()
            codes.append(self.run("verify", NEW))
        if (self.env / PACK).exists():
            codes.append(self.run("finish"))
        return codes

    def unpack(self) -> list[int]:
        codes = [self.run("unpack")] if (self.env / PACK).exists() else []
        return codes if any(codes) else [*codes, self.run("settled")]

    def seen(self) -> dict[str, object]:
        """Return what a launch sees: the file, where there is one."""
        return view(self.shown if (self.env / PACK).exists() else self.env)


def view(top: Path) -> dict[str, object]:
    """Take all of a tree that a program could tell."""
    found: dict[str, object] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if "environment.sqfs" in name or name in (".dlcontainer-image", "bin"):
            continue
        info = path.lstat()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = stat.S_IMODE(info.st_mode)
        else:
            found[name] = (stat.S_IMODE(info.st_mode), int(info.st_mtime), path.read_bytes())
    return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_there_and_back(world: World) -> None:
    assert world.pack() == [0, 0]
    assert sorted(view(world.env)) == [".dlcontainer-module", "bin/activate", "pyvenv.cfg"]
    assert (world.env / PACK).stat().st_mode & 0o777 == 0o444
    assert world.unpack() == [0, 0]
    assert view(world.env) == world.before
    assert not list(world.env.glob("*.sqfs"))
    assert world.pack() == [0, 0]


@pytest.mark.parametrize("kind", ["killed", "full"])
@pytest.mark.parametrize("doing", ["pack", "unpack"])
def test_nothing_is_lost_at_any_call(tmp_path: Path, doing: str, kind: str) -> None:
    """Each change fails once: a launch sees all of it, and the next run ends."""
    for at in range(1, 500):
        world = World(tmp_path / f"{at}")
        action = world.pack if doing == "pack" else world.unpack
        if doing == "unpack":
            world.pack()
        error = Killed() if kind == "killed" else OSError(errno.ENOSPC, "no space")
        world.fault = fault = Fault(at=at, error=error)
        with contextlib.suppress(Killed):
            action()
        world.fault = None
        assert world.seen() == world.before, at
        assert not any(action()), at
        assert world.seen() == world.before, at
        assert (world.env / PACK).exists() == (doing == "pack"), at
        assert len(view(world.env)) == (3 if doing == "pack" else len(world.before)), at
        assert not world.left(), at
        shutil.rmtree(tmp_path / f"{at}")
        if fault.count < at:
            assert at > 10
            return
    pytest.fail("the program never came to its end")


@pytest.mark.parametrize("change", ["more", "less", "bytes", "time", "mode", "link", "new"])
def test_a_tree_that_changes_meanwhile_is_not_packed(
    world: World, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.squash()
    one = world.env / "lib/python/sité-packages/one.py"
    if change == "more":
        one.with_name("three.py").write_text("")
    elif change == "less":
        one.unlink()
    elif change == "bytes":
        one.write_text("x = 7\n")
        os.utime(one, (1_600_000_000, 1_600_000_000))
    elif change == "time":
        one.touch()
    elif change == "mode":
        one.chmod(0o600)
    elif change == "link":
        (world.env / "bin/python").unlink()
        (world.env / "bin/python").symlink_to("/elsewhere")
    else:
        os.mkfifo(world.env / "pipe")
    assert world.run("verify", NEW) == 1
    assert "the file differs from the tree" in capsys.readouterr().err
    assert not (world.env / PACK).exists()


def test_what_was_changed_after_the_packing_stays(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.squash()
    assert world.run("verify", NEW) == 0
    tool = world.env / "bin/tool"
    tool.write_text("#!/bin/bash\n")
    assert world.run("finish") == 1
    assert "bin/tool" in capsys.readouterr().err
    assert tool.read_text() == "#!/bin/bash\n"
    # And no unpacking overwrites it.
    assert world.run("unpack") == 2
    assert tool.read_text() == "#!/bin/bash\n"
    tool.unlink()
    assert world.unpack() == [0, 0]


def test_byte_code_comes_at_any_time(world: World) -> None:
    """A program that runs in the tree writes it, beside the packing and after it."""
    code = world.env / "lib/python/sité-packages/__pycache__"
    world.squash()
    code.mkdir()
    (code / "one.pyc").write_bytes(b"1")
    assert world.run("verify", NEW) == 0
    (code / "two.pyc").write_bytes(b"2")
    assert world.run("finish") == 0
    assert len(view(world.env)) == 3
    assert world.unpack() == [0, 0]
    assert view(world.env) == world.before


def test_one_command_at_a_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.squash()
    with (world.env / ".environment.sqfs.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert world.run("verify", NEW) == 1
    assert "by another command" in capsys.readouterr().err
    assert world.run("verify", NEW) == 0


def test_the_tree_stays_while_jobs_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.squash()
    world.run("verify", NEW)
    assert world.run("finish", "jobs of yours run and may use it: 17") == 0
    said = capsys.readouterr().err
    assert "the tree beside it stays for now: jobs of yours run and may use it: 17" in said
    assert f"--pack --now '{world.env}'" in said
    assert view(world.env) == world.before
    assert world.run("finish") == 0
    assert len(view(world.env)) == 3
    assert world.run("unpack") == 0
    assert world.run("settled", "jobs of yours run and may use it: 17") == 0
    assert world.left() == [".environment.sqfs.old"]
    # Either of the two commands removes it.
    assert world.pack() == [0, 0]
    assert not world.left()
    assert world.run("unpack") == 0
    assert world.run("settled", "jobs of yours run and may use it: 17") == 0
    assert world.run("settled") == 0
    assert not world.left()


def test_another_python(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.env / "pyvenv.cfg").write_text("home = /x\nversion = 3.2.1\n")
    world.squash()
    assert world.run("verify", NEW) == 2
    assert f"was made with Python 3.2, and the image has Python {HERE}" in capsys.readouterr().err
    assert not (world.env / PACK).exists()


def test_the_file_is_no_more_open_than_what_it_holds(world: World) -> None:
    (world.env / "bin/tool").chmod(0o700)
    world.env.chmod(0o777)
    assert world.pack() == [0, 0]
    assert (world.env / PACK).stat().st_mode & 0o777 == 0o400
    assert world.env.stat().st_mode & 0o777 == 0o755


def test_a_link_in_the_way_is_not_followed(world: World, tmp_path: Path) -> None:
    assert world.pack() == [0, 0]
    (tmp_path / "elsewhere").mkdir()
    (world.env / "lib").symlink_to(tmp_path / "elsewhere")
    assert world.run("unpack") == 2
    assert not list((tmp_path / "elsewhere").iterdir())

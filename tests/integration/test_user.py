"""An ordinary user, without root, without subordinate ids, builds and validates."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system.workspace import PREFIX
from tests.integration import accounts
from tests.integration.accounts import NOBODY, given
from tests.integration.world import World, missing, write_bare, write_tiny, write_wheel


@pytest.fixture
def user(engine: Apptainer) -> Iterator[World]:
    """Give an ordinary user with a home; root becomes nobody, everybody else is one already."""
    with accounts.world_of(NOBODY, engine) as world:
        yield world


def test_doctor_is_content(user: World) -> None:
    done = user.run("doctor")
    lines = done.stdout.splitlines()
    assert lines[-1] == "this host can build and run images"
    assert not [line for line in lines if line.startswith("error")]
    assert any(line.startswith("ok       build: works in mode ") for line in lines)
    assert any(line.startswith("ok       run: works in mode ") for line in lines)


@pytest.mark.long
def test_user_builds_and_validates(user: World) -> None:
    wheels = write_wheel(user.folder / "wheels").parent
    recipe = given(NOBODY, write_tiny(user.folder / "a tiny recipe"))
    given(NOBODY, wheels)
    found = f"{user.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    built = user.having(PIP_FIND_LINKS=found).build(recipe, user.folder / "out")
    checks = user.checks(built.image)
    assert all(ok for ok, _ in checks.values())
    assert checks["verify"] == (True, "answer: answer 42")
    assert list(Path(user.environ["TMPDIR"]).iterdir()) == []


def test_output_that_can_not_be_written(user: World) -> None:
    recipe = given(NOBODY, write_bare(user.folder / "a recipe"))
    locked = user.folder / "locked"
    locked.mkdir()
    (user.folder / "locked").chmod(0o555)
    for output, says in ((locked, "cannot write to"), (locked / "out", "can't make")):
        done = user.run("build", recipe, "--site", "local", "-o", output, code=5)
        assert f"{says} {output}: Permission denied" in done.stderr
        assert "-o" in done.stderr.rpartition("next: ")[2]
    argv = ("build", recipe, "--site", "local", "-o", user.folder / "out", "--tmpdir", locked)
    assert f"cannot write to {locked}" in user.run(*argv, code=5).stderr
    locked.chmod(0o755)


def test_image_that_can_not_be_read(user: World) -> None:
    image = user.folder / "x.sif"
    image.write_bytes(b"x")
    image.chmod(0)
    assert f"can't read {image}: Permission denied" in user.run("validate", image, code=1).stderr


def test_a_leftover_that_can_not_be_removed_is_a_note(user: World) -> None:
    if os.getuid() != 0:
        missing("root, which puts a file of its own in the user's way")
    # Another's folder below: neither this user nor a user namespace may empty it.
    stays = Path(user.environ["TMPDIR"]) / f"{PREFIX}it's left"
    (stays / "below").mkdir(parents=True)
    (stays / "below/file").write_text("x")
    (stays / "lock").write_text("")
    for path in (stays, stays / "lock"):
        os.chown(path, NOBODY.uid, NOBODY.gid)
    done = user.run("lab", "count", "--with", "audit", "--", "/usr/bin/python3", "-c", "import os")
    assert "rank 0" in done.stdout
    assert f"note: cannot remove {stays}" in done.stderr
    command = done.stderr.partition("remove it by hand: ")[2].splitlines()[0]
    assert shlex.split(command)[-1] == str(stays)


def test_what_a_storm_can_not_read_is_said(user: World) -> None:
    locked, hidden = user.folder / "locked", user.folder / "environment"
    for folder in (locked / "environment/bin", hidden / "bin"):
        folder.mkdir(parents=True)
        (folder / "python").touch(mode=0o755)
    (hidden / "bin").chmod(0)
    locked.chmod(0)
    argv = ("--module", "os", "--site", "local", "--nodes", "2", "--ranks-per-node", "1")
    for folder, code, says in (
        (locked / "environment", 2, "or you may not read it"),
        (hidden, 7, "no bin/python in this folder that you may run"),
    ):
        done = user.run("lab", "storm", folder, *argv, code=code)
        assert f"{folder}: " in done.stderr
        assert says in done.stderr
    for folder in (locked, hidden / "bin"):
        folder.chmod(0o755)

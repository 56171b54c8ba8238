"""An ordinary user, without root, without subordinate ids, builds and validates."""

import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import dlcontainer
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.world import World, isolated, missing, write_bare, write_tiny, write_wheel

NOBODY = 65534


def as_nobody(*argv: str) -> list[str]:
    ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", *argv]


@pytest.fixture
def user(engine: Apptainer) -> Iterator[World]:
    """Give an ordinary user with a home; root becomes nobody, everybody else is one already."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-user-") as name:
        folder = Path(name)
        world = isolated(folder / "world", folder / "cache")
        # Not this user's variables, but the way to the outside.
        kept = ("PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "SSL_CERT_FILE", "no_proxy")
        environ = {
            key: value
            for key, value in world.environ.items()
            if key in kept or key.startswith(("PIP_", "http_", "https_", "HTTP_", "HTTPS_"))
        }
        world = replace(world, environ={**environ, "LANG": "C.UTF-8"})
        if os.getuid() != 0:
            yield world
            return
        for program in ("setpriv", "fakechroot", "fakeroot"):
            if shutil.which(program) is None:
                missing(program)
        for path in (str(engine.program), dlcontainer.__file__):
            if subprocess.run(as_nobody("test", "-r", path), check=False).returncode != 0:
                pytest.skip(f"an ordinary user can't read {path}")
        start, variables = entry(world)
        own(folder)
        yield replace(
            world,
            program=tuple(as_nobody(*start)),
            environ={**world.environ, **variables},
        )
        # Trees of a user namespace, should a test have failed in the middle.
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)


def entry(world: World) -> tuple[tuple[str, ...], dict[str, str]]:
    """Give a program that an ordinary user can run, and the variables that it needs.

    root's own Python may lie in root's home: the distribution's then runs the same packages.
    """
    # Through a shell: setpriv itself still has root's rights when it starts its command.
    runs = as_nobody("/bin/sh", "-c", '"$0" -c "import dlcontainer"', sys.executable)
    if subprocess.run(runs, check=False, capture_output=True, cwd="/").returncode == 0:
        return world.program, {}
    packages = [*site.getsitepackages(), str(Path(dlcontainer.__file__).parent.parent)]
    variables = {"PYTHONPATH": os.pathsep.join(packages)}
    start = ("/usr/bin/python3", "-c", "from dlcontainer.cli.main import run; run()")
    done = subprocess.run(
        as_nobody(*start, "--version"), env=variables, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"an ordinary user can run neither {sys.executable} nor {done.stderr[-200:]}")
    return start, variables


def own(folder: Path) -> None:
    folder.chmod(0o755)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)


def given(user: World, path: Path) -> Path:
    if os.getuid() == 0:
        own(path)
    return path


def test_doctor_is_content(user: World) -> None:
    done = user.run("doctor")
    lines = done.stdout.splitlines()
    assert lines[-1] == "images can be built and run here"
    assert not [line for line in lines if line.startswith("bad")]
    assert any(line.startswith("ok    build: works in mode ") for line in lines)
    assert any(line.startswith("ok    run: works in mode ") for line in lines)


@pytest.mark.long
def test_user_builds_and_validates(user: World) -> None:
    wheels = write_wheel(user.folder / "wheels").parent
    recipe = given(user, write_tiny(user.folder / "a tiny recipe"))
    given(user, wheels)
    found = f"{user.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    built = user.having(PIP_FIND_LINKS=found).build(recipe, user.folder / "out")
    checks = user.checks(built.image)
    assert all(ok for ok, _ in checks.values())
    assert checks["verify"] == (True, "answer: answer 42")
    assert list(Path(user.environ["TMPDIR"]).iterdir()) == []


def test_output_that_can_not_be_written(user: World) -> None:
    recipe = given(user, write_bare(user.folder / "a recipe"))
    locked = user.folder / "locked"
    locked.mkdir()
    (user.folder / "locked").chmod(0o555)
    for output, says in ((locked, "can't write in"), (locked / "out", "can't make")):
        done = user.run("build", recipe, "--site", "local", "-o", output, code=5)
        assert f"{says} {output}: Permission denied" in done.stderr
        assert "-o" in done.stderr.rpartition("next: ")[2]
    argv = ("build", recipe, "--site", "local", "-o", user.folder / "out", "--tmpdir", locked)
    assert f"can't write in {locked}" in user.run(*argv, code=5).stderr
    locked.chmod(0o755)


def test_image_that_can_not_be_read(user: World) -> None:
    image = user.folder / "x.sif"
    image.write_bytes(b"x")
    image.chmod(0)
    assert f"can't read {image}: Permission denied" in user.run("validate", image, code=1).stderr

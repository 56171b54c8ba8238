"""No engine, one that works in no mode, one that hangs: each is said, with what to type."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import dlcontainer
from dlcontainer.engines import capabilities
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.process import ProcessRunner
from tests.integration.world import World, isolated, write_bare

FAKES = Path(__file__).resolve().parents[1] / "fakebin"
CALL = "from dlcontainer.cli.main import run; run()"


def without_engine(tmp_path: Path, path: Sequence[Path | str]) -> World:
    """Give a world whose Python stands in a folder without any tools, with a PATH of its own."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    places = [str(Path(dlcontainer.__file__).parents[1]), *(place for place in sys.path if place)]
    world = isolated(tmp_path / "world", tmp_path / "cache").having(
        PATH=os.pathsep.join(map(str, path)), PYTHONPATH=os.pathsep.join(places)
    )
    return replace(world, program=(str(python), "-c", CALL))


def test_no_engine_says_how_to_get_one(tmp_path: Path) -> None:
    world = without_engine(tmp_path, [tmp_path])
    recipe = write_bare(tmp_path / "a recipe")
    done = world.run("build", recipe, "--site", "local", "-o", tmp_path / "out", code=4)
    assert "neither Apptainer nor Singularity is on PATH" in done.stderr
    assert "make setup" in done.stderr
    assert not (tmp_path / "out").exists()
    done = world.run("doctor", code=1)
    assert "error    engine: neither Apptainer nor Singularity is on PATH" in done.stdout
    assert "make setup" in done.stdout
    # Planning and rendering need none.
    assert world.run("render", recipe, "--site", "local").stdout


def test_no_engine_for_a_whole_image(tmp_path: Path) -> None:
    image = tmp_path / "x.sif"
    image.write_bytes(b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + b"01\0" + b"02\0")
    world = without_engine(tmp_path, [tmp_path])
    assert "make setup" in world.run("validate", image, code=4).stderr


def test_engine_without_a_working_mode(tmp_path: Path) -> None:
    world = without_engine(tmp_path, [FAKES / "no-mode", "/usr/bin", "/bin"])
    recipe = write_bare(tmp_path / "a recipe")
    done = world.run("build", recipe, "--site", "local", "-o", tmp_path / "out", code=4)
    assert f"{FAKES / 'no-mode/apptainer'} works in no mode here" in done.stderr
    assert "build plain: FATAL: no capability for you" in done.stderr
    assert "build fakeroot: FATAL: no user namespace for you" in done.stderr
    assert "dlcontainer doctor" in done.stderr
    done = world.run("doctor", code=1)
    assert "error    build: plain failed: no capability for you; fakeroot failed: " in (done.stdout)
    assert "Traceback" not in done.stderr


def test_running_is_tried_where_nothing_can_be_built(engine: Apptainer, tmp_path: Path) -> None:
    folder = tmp_path / "an engine"
    folder.mkdir()
    program = folder / "apptainer"
    no = "case \" $* \" in *' build --notest '*) echo 'FATAL:   no builds here' >&2; exit 255; esac"
    program.write_text(f'#!/bin/sh\n{no}\nexec "{engine.program}" "$@"\n')
    program.chmod(0o755)
    packer = machine.find_program("mksquashfs", os.environ)
    assert packer is not None
    world = without_engine(tmp_path, [folder, packer.parent, "/usr/sbin", "/usr/bin", "/bin"])
    done = world.run("doctor", code=1)
    assert "error    build: plain failed: no builds here; fakeroot failed: " in done.stdout
    assert "ok       run: works in mode " in done.stdout
    assert "can't build or run images here: build" in done.stderr


def test_engine_that_does_not_start(tmp_path: Path) -> None:
    world = without_engine(tmp_path, [FAKES / "broken", "/usr/bin", "/bin"])
    recipe = write_bare(tmp_path / "a recipe")
    done = world.run("build", recipe, "--site", "local", "-o", tmp_path / "out", code=4)
    assert "Traceback" not in done.stderr
    assert "libseccomp.so.2" in done.stderr
    done = world.run("doctor", code=1)
    assert "Traceback" not in done.stderr
    assert "libseccomp.so.2" in done.stdout


@pytest.mark.parametrize("text", ["", "\x7fELF not for this machine"])
def test_engine_that_is_no_program(tmp_path: Path, text: str) -> None:
    (tmp_path / "engine").mkdir()
    program = tmp_path / "engine" / "apptainer"
    program.write_text(text)
    program.chmod(0o755)
    world = without_engine(tmp_path, [program.parent, "/usr/bin", "/bin"])
    recipe = write_bare(tmp_path / "a recipe")
    done = world.run("build", recipe, "--site", "local", "-o", tmp_path / "out", code=4)
    assert "Traceback" not in done.stderr
    assert str(program) in done.stderr


def test_engine_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "TIMEOUT_S", 1.0)
    engine = Apptainer(program=FAKES / "hangs/apptainer")
    environ = isolated(tmp_path / "world", tmp_path / "cache").environ
    run = ProcessRunner(environ=environ)
    with pytest.raises(EngineError) as caught:
        capabilities.require(tmp_path / "cache", engine, machine.read_host(environ), run)
    assert caught.value.exit_code == 4
    assert "build plain: no answer in 1 s" in str(caught.value.why)
    assert "build fakeroot: no answer in 1 s" in str(caught.value.why)


def test_engine_that_hangs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "TIMEOUT_S", 1.0)
    (tmp_path / "apptainer").write_text("#!/bin/sh\nexec sleep 300\n")
    (tmp_path / "apptainer").chmod(0o755)
    engine = Apptainer(program=tmp_path / "apptainer")
    environ = isolated(tmp_path / "world", tmp_path / "cache").environ
    run = ProcessRunner(environ=environ)
    with pytest.raises(EngineError) as caught:
        capabilities.require(tmp_path / "cache", engine, machine.read_host(environ), run)
    assert "did not end within 1 s" in str(caught.value)


def test_the_real_engine_is_tried_once_and_remembered(
    fast: Path, bare: Path, tmp_path: Path
) -> None:
    # Their own cache: other users and hosts of the session leave trials in the shared one.
    own = isolated(tmp_path / "world", tmp_path / "cache").having(TMPDIR=fast)
    own.run("doctor")
    folder = Path(own.environ["XDG_CACHE_HOME"]) / "dlcontainer"
    (note,) = folder.glob("trial-*.json")
    before = note.stat().st_mtime_ns
    text = own.run("build", bare, "--site", "local", "--dry-run", "-v").stderr
    assert note.stat().st_mtime_ns == before
    assert "tiny.def" not in text
    plan = own.run("plan", bare, "--site", "local").stdout
    assert "not tried" not in plan

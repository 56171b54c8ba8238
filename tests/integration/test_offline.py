"""Builds from a lock: exactly its packages, and without any network."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.lockfile import Lock
from dlcontainer.system import machine
from tests.integration.test_lock import apt_world, fetched, locked
from tests.integration.world import World, missing
from tests.skips import skip

__all__ = ["apt_world", "fetched", "locked"]

pytestmark = pytest.mark.long


def cut_off(world: World, *words: str) -> World:
    """Give a world whose commands run without a network, not even a loopback device."""
    if machine.find_program("unshare", os.environ) is None:
        missing("unshare")
    how = ["unshare", "--net", *words]
    if subprocess.run([*how, "true"], capture_output=True, check=False).returncode != 0:
        skip("a network namespace needs root here", elsewhere="a run as root")
    return World(environ=world.environ, folder=world.folder, program=(*how, *world.program))


def test_a_build_without_a_network(
    apt_world: World,
    tiny: Path,
    fetched: Path,
    tmp_path: Path,
    engine: Apptainer,
    tried: EngineCapabilities,
) -> None:
    alone = cut_off(apt_world).having(XDG_CACHE_HOME=tmp_path / "an empty cache")
    output = tmp_path / "out"
    built = alone.build(tiny, output, "--offline", fetched)
    lock = locks.read(fetched / "lock.json")
    assert built.recorded()["lock"] == lock.digest
    assert packages(engine, tried, built.image, apt_world) == named(lock)
    checks = apt_world.checks(built.image)
    assert all(ok for ok, _ in checks.values())


def named(lock: Lock) -> set[str]:
    return {f"{pin.name} {pin.version}" for pin in lock.os_pins}


def packages(engine: Apptainer, tried: EngineCapabilities, image: Path, world: World) -> set[str]:
    spec = RunSpec(
        image=image,
        argv=("dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n"),
        mode=tried.run_mode or "userns",
    )
    done = subprocess.run(
        engine.run_argv(spec), env=dict(world.environ), capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


def test_a_locked_build_fetches_once(
    apt_world: World, tiny: Path, locked: Path, tmp_path: Path
) -> None:
    first = apt_world.build(tiny, tmp_path, "--locked", locked)
    done = apt_world.run(
        *("build", tiny, "--site", "local", "-o", tmp_path / "b", "--locked", locked)
    )
    assert "to fetch" not in done.stderr
    assert "taken from the cache" in done.stderr
    lock = locks.read(locked)
    assert first.recorded()["lock"] == lock.digest
    (wheel,) = first.recorded()["python_packages"]
    assert wheel["sha256"] == lock.wheels[0].sha256


def test_a_full_disk(apt_world: World, tiny: Path, locked: Path, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    script = (
        f"mount -t tmpfs -o size=20m none '{place}' || exit 99; \"$@\"; code=$?; ls -R '{place}'"
    )
    argv = ["fetch", str(tiny), "--site", "local", "--locked", str(locked), "-o", f"{place}/air"]
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f"{script}; exit $code",
            "sh",
            *apt_world.program,
            *argv,
        ],
        env=dict(apt_world.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode in (1, 99):
        skip("a mount of its own needs root here", elsewhere="a run as root")
    assert done.returncode == 5, done.stderr
    assert "MB free; the OS packages alone need" in done.stderr
    assert "lock.json" not in done.stdout
    assert json.loads(locked.read_text())["schema"] == "dlcontainer/lock/1"

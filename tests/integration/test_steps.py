"""Builds step by step, on the real engine: kept, resumed, explained, shared, damaged, pruned."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dlcontainer.system.machine import read_host
from tests.integration.world import STEPPED, World, write_bare
from tests.processes import files_below, poll


def ran(world: World, recipe: Path, output: Path, *more: str) -> list[str]:
    """Build, and name the steps that were run for it."""
    built = world.build(recipe, output, *more)
    return [step["name"] for step in built.recorded()["work"] if step["seconds"] is not None]


def reasons(world: World, recipe: Path, *more: str) -> dict[str, tuple[bool, str]]:
    argv = (str(recipe), "--site", "local", "--explain", "--json", *more)
    steps = json.loads(world.run("build", *argv).stdout)["steps"]
    return {step["step"]: (step["cached"], step["why"]) for step in steps}


def test_what_changed_is_built_and_nothing_else(
    alone: World, stepped: Path, tmp_path: Path
) -> None:
    output = tmp_path / "images"
    assert ran(alone, stepped, output) == ["first", "second", "third", "image"]
    said = alone.run("build", stepped, "--site", "local", "-o", output, "--json").stdout
    there = json.loads(said)
    assert there["found"] is True
    # Of what date that is, and what takes newer packages.
    assert there["age"]["base"] <= there["age"]["packages"]
    assert "--refresh os" in there["age"]["newer"][0]
    said = alone.run("build", stepped, "--site", "local", "-o", output).stderr
    assert f"there already, with a base of {there['age']['base']} and packages of " in said
    assert ran(alone, stepped, output, "--set", "versions.third=2") == ["third", "image"]
    change = ("--set", "versions.second=2")
    assert reasons(alone, stepped, *change) == {
        "first": (True, reasons(alone, stepped)["first"][1]),
        "second": (False, "its commands changed"),
        "third": (False, "the step 'second' before it changed"),
        "image": (False, "the step 'second' before it changed"),
    }
    assert ran(alone, stepped, output, *change) == ["second", "third", "image"]
    assert ran(alone, stepped, output, "--no-cache")[0] == "first"


@pytest.mark.long
def test_a_kept_step_gives_the_same_image(alone: World, stepped: Path, tmp_path: Path) -> None:
    whole = alone.build(stepped, tmp_path / "one", "--set", "versions.third=9")
    alone.build(stepped, tmp_path / "two")
    again = alone.build(stepped, tmp_path / "three", "--set", "versions.third=9")
    assert [one["seconds"] is None for one in again.recorded()["work"]] == [
        True,
        True,
        False,
        False,
    ]
    assert again.recorded()["digest"] == whole.recorded()["digest"]


def test_a_failed_step_is_where_the_next_build_goes_on(
    alone: World, stepped: Path, tmp_path: Path
) -> None:
    text = STEPPED.replace("echo {{ versions.third }}", "echo No space left on device; false; echo")
    (stepped / "recipe.yaml").write_text(text)
    argv = ("build", stepped, "--site", "local", "-o", tmp_path / "images")
    said = alone.run(*argv, code=5).stderr
    assert "the build failed in step 'third': the disk is full" in said
    assert "=> No space left on device" in said
    (stepped / "recipe.yaml").write_text(STEPPED)
    assert ran(alone, stepped, tmp_path / "images") == ["third", "image"]


# SIGINT, in each phase of a build: test_interrupt.py.
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL]
)
def test_after_a_signal_it_goes_on(
    alone: World, stepped: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (stepped / "recipe.yaml").write_text(
        STEPPED.replace("echo {{ versions.third }}", "sleep 600; echo")
    )
    argv = [*alone.program, "build", str(stepped), "--site", "local", "-o", str(tmp_path / "i")]
    argv.append("--json")
    kept = Path(alone.environ["XDG_CACHE_HOME"]) / "dlcontainer/steps"
    with subprocess.Popen(
        argv, env=dict(alone.environ), cwd=alone.folder, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "step third" in line:
                # The result of the step before is kept beside this one.
                is_kept = poll(lambda: len(files_below(kept, ".json")) == 2, 300)
                process.send_signal(number)
                break
        process.stderr.read()
    assert is_kept
    (stepped / "recipe.yaml").write_text(STEPPED)
    assert ran(alone, stepped, tmp_path / "i") == ["third", "image"]


@pytest.mark.long
def test_until_a_step_and_then_on(alone: World, stepped: Path, tmp_path: Path) -> None:
    argv = ("build", stepped, "--site", "local", "-o", tmp_path / "i")
    alone.run(*argv, "--until", "second")
    assert list((tmp_path / "i").glob("*.sif")) == []
    assert ran(alone, stepped, tmp_path / "i") == ["third", "image"]
    said = alone.run(*argv, "--until", "secnod", code=2).stderr
    assert "no step 'secnod'; did you mean 'second'?" in said


@pytest.mark.long
def test_a_damaged_entry_is_made_anew(alone: World, stepped: Path, tmp_path: Path) -> None:
    alone.build(stepped, tmp_path / "i")
    steps = Path(alone.environ["XDG_CACHE_HOME"]) / "dlcontainer/steps"
    for path in steps.glob("by-*/??/*.sqfs"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    change = ("--set", "versions.third=2")
    assert ran(alone, stepped, tmp_path / "i", *change) == ["first", "second", "third", "image"]
    assert ran(alone, stepped, tmp_path / "i", "--set", "versions.third=3") == ["third", "image"]


@pytest.mark.long
def test_two_builders_at_once(alone: World, stepped: Path, tmp_path: Path) -> None:
    argv = [*alone.program, "build", str(stepped), "--site", "local", "--json", "-o"]
    both = [
        subprocess.Popen(
            [*argv, str(tmp_path / "same")],
            env=dict(alone.environ),
            cwd=alone.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=500)
        assert process.returncode == 0, said.decode()
    names = sorted(path.suffix for path in (tmp_path / "same").iterdir())
    assert names == [".json", ".json", ".log", ".sif"]  # two: record and bill
    assert ran(alone, stepped, tmp_path / "same", "--set", "versions.third=2") == ["third", "image"]


def listed(world: World) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in json.loads(world.run("cache", "list", "--json").stdout)["entries"]:
        assert entry["size"] > 0
        found.setdefault(entry["kind"], []).append(entry["name"])
    return found


def pruned(world: World, *argv: str) -> list[str]:
    said = world.run("cache", "prune", "--json", *argv).stdout
    return sorted(entry["kind"] for entry in json.loads(said)["removed"])


def test_the_cache_can_be_seen_and_emptied(alone: World, stepped: Path, tmp_path: Path) -> None:
    alone.build(stepped, tmp_path / "i")
    kinds = ("bases", "locked", "notes", "steps", "twins")
    only = [word for kind in kinds for word in ("--kind", kind)]
    found = listed(alone)
    assert sorted(found["steps"]) == ["first", "second"]
    assert any(name.startswith(f"debian-{read_host({}).release}-") for name in found["bases"])
    assert any(name.startswith("trial-") for name in found["notes"])
    assert "inputs" in found["notes"]
    assert pruned(alone, "--max-size", "0", "--kind", "steps") == ["steps", "steps"]
    assert "steps" not in listed(alone)
    assert set(pruned(alone, "--max-size", "0", *only)) == {"bases", "notes"}
    cache = Path(alone.environ["XDG_CACHE_HOME"]) / "dlcontainer"
    assert [path.name for path in cache.iterdir() if not path.is_dir()] == ["in-use"]
    assert "not a size" in alone.run("cache", "prune", "--max-size", "much", code=2).stderr
    said = alone.run("cache", "list", "--kind", "step", code=2).stderr
    assert "no kind 'step'; did you mean 'steps'?" in said


def test_what_a_running_build_uses_is_not_pruned(
    alone: World, stepped: Path, tmp_path: Path
) -> None:
    text = STEPPED.replace("echo {{ versions.third }}", "sleep 20; echo")
    (stepped / "recipe.yaml").write_text(text)
    argv = [*alone.program, "build", str(stepped), "--site", "local", "-o", str(tmp_path / "i")]
    with subprocess.Popen(
        argv, env=dict(alone.environ), cwd=alone.folder, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "step third" in line)
        done = alone.run("cache", "prune", "--max-size", "0", "--json")
        process.stderr.read()
    assert process.returncode == 0
    assert "a build is running" in done.stderr
    # The steps are in the tree already: their kept results are not in use any more.
    gone = {entry["kind"] for entry in json.loads(done.stdout)["removed"]}
    assert gone == {"steps"}
    assert any(
        name.startswith(f"debian-{read_host({}).release}-") for name in listed(alone)["bases"]
    )


@pytest.mark.long
def test_a_clock_set_back_spoils_nothing(alone: World, stepped: Path, tmp_path: Path) -> None:
    alone.build(stepped, tmp_path / "i")
    steps = Path(alone.environ["XDG_CACHE_HOME"]) / "dlcontainer/steps"
    later = time.time() + 10 * 24 * 3600
    for path in steps.glob("by-*/??/*"):
        os.utime(path, (later, later))
    assert ran(alone, stepped, tmp_path / "i", "--set", "versions.third=2") == ["third", "image"]


def test_a_step_sees_nothing_of_the_host(alone: World, tmp_path: Path) -> None:
    # What it sees is what it writes down; the image is looked into afterwards.
    work = "env > /opt/seen; ls -A /tmp /var/tmp >> /opt/seen; cat /opt/seen"
    recipe = write_bare(tmp_path / "bare", work)
    spy = alone.having(AWS_SECRET_ACCESS_KEY="hush", SSH_AUTH_SOCK="/tmp/agent")
    log = spy.build(recipe, tmp_path / "i").log.read_text()
    seen = log.partition("==> step 2/3 work")[2].partition("==> step")[0]
    assert "HOME=/root" in seen
    for trace in ("hush", "agent", str(tmp_path), "pytest-of"):
        assert trace not in seen

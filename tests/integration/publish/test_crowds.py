"""Crowds on one tree: publishers of one version, and readers while it is switched to and fro."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.tools import clean_home, program
from tests.integration.world import Built, World
from tests.trees import hidden

PUBLISHERS = 8
SITE = """\
schema: 1
name: local
summary: a machine whose wrappers let {variable} in, for tests
facts: host
default_recipe: tiny
modules: {{pass_environment: [{variable}]}}
"""
# Each load is that of a new shell: what one has loaded is another test's (test_tree_modules).
READER = """\
. "$LMOD"
module use "$USE"
count=0
until [ -e "$END" ] && [ "$count" -ge 2 ]; do
    (
        module load tiny/1.0 || exit
        case $(type -P python) in "$ROOT"/releases/*/bin/python) ;; *) exit 1 ;; esac
        [ "$DO" = load ] || python -c pass
    ) || echo "FAILED $?"
    count=$((count + 1))
    sleep "$PAUSE"
done
echo "done $count"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crowd:
    """So many readers at once, half of whom also run, and so many switches meanwhile."""

    readers: int
    switches: int
    pause_s: float


def bound(count: int) -> float:
    """Give Clopper and Pearson's upper 95 % bound of a rate of which none of `count` was seen."""
    return float(1 - 0.025 ** (1 / count))


def sites(folder: Path) -> list[Path]:
    """Write two states of one site: each gives another release of the same version."""
    written = [folder / "one.yaml", folder / "other.yaml"]
    for path, variable in zip(written, ("ONE", "OTHER"), strict=True):
        path.write_text(SITE.format(variable=variable))
    return written


def publishing(world: World, image: Path, site: Path, root: Path) -> "subprocess.Popen[str]":
    argv = [*world.program, "publish", str(image), "-s", str(site), "--root", str(root), "--json"]
    return subprocess.Popen(
        argv,
        env=dict(world.environ),
        cwd=world.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# The same road without a real image is in the short set: test_tree_kills.test_eight_at_once.
@pytest.mark.long
def test_publishers_of_one_version_at_once(world: World, tiny_image: Built, tmp_path: Path) -> None:
    root, site = tmp_path / "root", sites(tmp_path)[0]
    started = [publishing(world, tiny_image.image, site, root) for _ in range(PUBLISHERS)]
    said = [process.communicate(timeout=world.patience_s) for process in started]
    assert [process.returncode for process in started] == [0] * PUBLISHERS, said
    bodies = [json.loads(stdout) for stdout, _ in said]
    assert sum(body["new"] for body in bodies) == 1
    assert len(list((root / "releases").iterdir())) == 1
    assert [path.name for path in (root / "generations").iterdir()] == ["1"]
    assert str((root / "current").readlink()) == "generations/1"
    (module,) = json.loads(world.run("modules", "list", "--root", root, "--json").stdout)["modules"]
    assert module["module"] == "tiny/1.0"
    lines = [json.loads(line) for line in (root / "journal.jsonl").read_text().splitlines()]
    assert [line["state"] for line in lines] == ["begin", "done"]
    assert hidden(root) == []
    world.run("modules", "audit", "--root", root, code=None)


def readers(crowd: Crowd, environ: Mapping[str, str]) -> "list[subprocess.Popen[str]]":
    # At the lowest priority: the switches must come between them.
    argv = [program("nice", "coreutils"), "-n19", program("bash", "bash"), "--norc", "-c", READER]
    return [
        subprocess.Popen(
            argv,
            env={**environ, "DO": "run" if number % 2 else "load"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(crowd.readers)
    ]


def switch(world: World, image: Path, site: Path, root: Path, count: int) -> None:
    """Go back to the first generation, then publish the other facts again, in turn."""
    for number in range(count):
        if number % 2:
            world.run("publish", image, "-s", site, "--root", root)
        else:
            world.run("modules", "rollback", "1", "--root", root)


def ended(crowd: Sequence["subprocess.Popen[str]"], timeout: float) -> list[str]:
    return [reader.communicate(timeout=timeout)[0] for reader in crowd]


@pytest.mark.timeout(3600)  # 25 publications, each with its checks, among a hundred readers
@pytest.mark.parametrize(
    "crowd",
    [
        Crowd(readers=6, switches=4, pause_s=0.1),
        pytest.param(Crowd(readers=100, switches=50, pause_s=15), marks=pytest.mark.long),
    ],
    ids=lambda crowd: f"{crowd.readers} readers",
)
def test_readers_through_switches(
    world: World,
    engine: Apptainer,
    tiny_image: Built,
    lmod: str,
    tmp_path: Path,
    crowd: Crowd,
) -> None:
    root, end = tmp_path / "root", tmp_path / "end"
    one, other = sites(tmp_path)
    for site in (one, other):
        world.run("publish", tiny_image.image, "-s", site, "--root", root)
    environ = {
        **clean_home(tmp_path),
        "LMOD": lmod.partition(" ")[2],
        "USE": f"{root}/modules/lmod",
        "ROOT": str(root),
        "END": str(end),
        "PAUSE": str(crowd.pause_s),
    }
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    reading = readers(crowd, environ)
    try:
        switch(world, tiny_image.image, other, root, crowd.switches)
    finally:
        end.touch()
        said = ended(reading, 900)
    assert {text.partition(" ")[0] for text in said} == {"done"}, said
    counts = [int(text.split()[1]) for text in said]
    runs, loads = sum(counts[1::2]), sum(counts)
    sys.stdout.write(
        f"{crowd.readers} readers, {crowd.switches} switches: 0 of {loads} loads failed (95 %: "
        f"below {bound(loads):.2%}), 0 of {runs} runs (below {bound(runs):.2%}); "
        f"load average {os.getloadavg()[0]:.0f}\n"
    )
    history = json.loads(world.run("modules", "history", "--root", root, "--json").stdout)
    assert len(history["switches"]) == 2 + crowd.switches
    assert len(list((root / "releases").iterdir())) == 2
    assert hidden(root) == []


def test_the_bound() -> None:
    from scipy.stats import binomtest

    for count in (12, 500, 10_000):
        wanted = binomtest(0, count).proportion_ci(method="exact").high
        assert bound(count) == pytest.approx(wanted)

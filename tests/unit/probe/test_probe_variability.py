"""The variability probe: each step checked, ranks at once, a rank that sleeps named."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, variability
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.bench.stats.scatter import stragglers
from tests.unit.probe.test_collectives import port
from tests.unit.probe.test_probe import copied

CELL = ProbeCell(
    values={"kernel": "hash", "device": "cpu", "timed": 100, "quick": False}, threads=1
)
# Appended to the probe: SLOW is a rank's number, WRONG the step that computes nothing.
FAULTY = """

class Faulty(Hash):
    count = 0

    def step(self):
        Faulty.count += 1
        if os.environ.get("SLOW") == os.environ.get("DLC_RANK", "0"):
            time.sleep(0.004)
        if os.environ.get("WRONG") != str(Faulty.count):
            Hash.step(self)


KERNELS["hash"] = Faulty
"""


def faulty(folder: Path) -> Path:
    code = copied(folder / "p")
    path = code / "probe_variability.py"
    path.write_text(path.read_text() + FAULTY)
    return code


def command(code: Path) -> list[str]:
    return [sys.executable, "-S", str(code), *PROBES["variability"].words(CELL)]


def alone(code: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more}
    return subprocess.run(
        [*command(code), *words], env=environment, capture_output=True, text=True, check=False
    )


def ranks(code: Path, folder: Path, count: int, **more: str) -> list[Any]:
    folder.mkdir()
    common = {"DLC_RANKS": str(count), "DLC_RANKS_RESULTS": str(folder)}
    common |= {"DLC_RANKS_MEET": f"127.0.0.1:{port()}", "DLC_RANKS_PATIENCE": "120", **more}
    started = [
        subprocess.Popen(
            command(code),
            env={**os.environ, **common, "DLC_RANK": str(rank), "DLC_LOCAL_RANK": str(rank)},
        )
        for rank in range(count)
    ]
    assert [one.wait() for one in started] == [0] * count
    names = [folder / f"rank-{rank:05d}.json" for rank in range(count)]
    return [json.loads(name.read_text()) for name in names]


def test_session_and_probe_have_the_same_kernels(probe: Any) -> None:
    assert set(probe("probe_variability").KERNELS) == set(variability.KERNELS)


@pytest.mark.usefixtures("real_processes")
def test_each_step_is_timed_and_the_node_attested(tmp_path: Path) -> None:
    done = alone(copied(tmp_path / "p"))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    plan = PROBES["variability"].rows(CELL)
    assert plan is not None
    (row,) = joining.read(said["rows"])
    assert agreement.problem(plan, [row]) == ""
    steps = said["steps_s"]
    assert len(steps) == row.n == 100
    assert row.best == pytest.approx(min(steps), abs=1e-9)
    assert row.median == pytest.approx(sorted(steps)[49], rel=0.5)
    assert said["counts"]["tail_ratio"] >= 1
    assert sum(steps) <= said["values"]["wall_s"]
    kind = said["stack"]["node_type"]
    assert set(kind) == {"cpu_model", "cpus", "memory_gib"}
    assert kind["cpus"] >= 1
    stamps = said["stamps_ns"]
    assert stamps["import"] <= stamps["warm"] <= stamps["steps"]


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("number", ["1", "60", "121"])
def test_one_wrong_step_ends_the_launch(tmp_path: Path, number: str) -> None:
    # Among the warm-up, the timed ones, and the last: 20, the one of the check, 100.
    done = alone(faulty(tmp_path), WRONG=number)
    assert done.returncode != 0
    assert "WrongError: hash: none is not the known digest" in done.stderr
    assert not done.stdout


@pytest.mark.usefixtures("real_processes")
def test_a_rank_that_sleeps_has_long_steps_of_its_own(tmp_path: Path) -> None:
    bodies = ranks(faulty(tmp_path), tmp_path / "results", 3, SLOW="1")
    medians = {body["place"]["rank"]: body["rows"][0]["median"] for body in bodies}
    # Nobody waits for it: the others are as quick as ever.
    assert medians[1] > 0.004
    verdict = stragglers.named({rank: [own] * 8 for rank, own in medians.items()})
    assert [one.rank for one in verdict.stragglers] == [1]
    assert [bool(body["stack"]) for body in bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("cpuinfo", "wanted"),
    [
        ("processor\t: 0\nmodel name\t: One CPU\n\nmodel name\t: another\n", "One CPU"),
        ("processor\t: 0\ncpu\t\t: POWER9\n", "POWER9"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "0x41 0xd0c"),
        ("", os.uname().machine),
    ],
)
def test_what_a_node_is(probe: Any, tmp_path: Path, cpuinfo: str, wanted: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(cpuinfo)
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\nMemTotal:  263456789 kB\n")
    found = probe("probe_variability").node_type(f"{tmp_path}/")
    assert (found["cpu_model"], found["memory_gib"]) == (wanted, 251)
    (tmp_path / "proc/meminfo").write_text("")
    assert probe("probe_variability").node_type(f"{tmp_path}/")["memory_gib"] is None


@pytest.mark.parametrize(("share", "value"), [(0.99, 99), (0.5, 50), (1.0, 100)])
def test_quantiles_by_nearest_rank(probe: Any, share: float, value: int) -> None:
    assert probe("probe_variability").quantile(list(range(1, 101)), share) == value


def test_steps_are_kept_to_the_nanosecond(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    module = probe("hand_over")
    monkeypatch.setattr(module, "calibrate", SimpleNamespace(alone=lambda _values: {}))
    monkeypatch.setattr(module.ranks, "say", said.append)
    monkeypatch.setattr(module.ranks, "attests", lambda: False)
    module.report("x", {}, {"wall_s": 1.0}, {}, steps_s=[0.1234567894])
    assert said[0]["steps_s"] == [0.123456789]

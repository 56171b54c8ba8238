"""Groups and launches side by side: what is declared of the launches, and what is printed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import beside_launches, session_rows
from benchmarks.one_image import File, Place
from dlcontainer.bench.probes.probe import ProbeCell
from tests import residents
from tests.residents import Truth


def test_the_launches_declare_their_core_and_groups_take_no_steps(tmp_path: Path) -> None:
    place = Place(
        image=tmp_path / "a.sif", site="local", recipe=None, folder=tmp_path, threads=1, group=2
    )
    cell = ProbeCell(values={"framework": "torch", "device": "cpu"}, threads=1)
    asked = {
        unit: beside_launches.asked(place, unit, File(path=tmp_path / unit), 60, (1,), 0)
        for unit in beside_launches.UNITS
    }
    probe, launches = asked["launches"]
    assert probe.declared(cell)["cpus"] == [1]
    assert (launches.values["steps"], launches.controls, launches.looks) == (60, "0", "8")
    probe, groups = asked["groups"]
    assert "cpus" not in probe.declared(cell)
    assert (groups.values.get("steps"), groups.controls, groups.looks) == (None, None, "8")
    # The same order of arms.
    assert groups.seed == launches.seed


def test_launches_are_bound_and_the_session_is_not() -> None:
    everywhere = os.sched_getaffinity(0)
    with beside_launches.bound_to((min(everywhere),)):
        assert os.sched_getaffinity(0) == {min(everywhere)}
    assert os.sched_getaffinity(0) == everywhere


def test_time_to_decide_is_printed_for_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = session_rows.of(residents.write(tmp_path / "groups-00.jsonl", Truth()))
    assert row is not None
    groups = replace(row, sd=0.014, seconds=160.0)
    launches = replace(row, file="launches-00.jsonl", sd=0.045, seconds=80.0)
    beside_launches.report([groups, launches])
    said = capsys.readouterr().out.splitlines()
    assert "groups: 1 sessions of 8, sd of one 1.40%, 20.0 s each" in said[0]
    assert "launches: 1 sessions of 8, sd of one 4.50%, 10.0 s each" in said[3]
    # The plan's own numbers: a smaller scatter takes fewer units, though each is longer.
    took = [float(line.split(", ")[1].split()[0]) for line in said if "within 2%" in line]
    assert took[0] < took[1]

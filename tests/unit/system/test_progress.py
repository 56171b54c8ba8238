"""How far something is: percent and time left where the end is known, else the amount."""

import time
from pathlib import Path

import pytest

from dlcontainer.system import progress
from dlcontainer.system.progress import Meter


def test_percent_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said: list[str] = []
    meter = Meter(tell=said.append, title="torch.whl", total=200_000_000, began=100.0)
    meter.at(1_000_000)
    now[0] += 0.1
    meter.at(2_000_000)  # too soon
    now[0] += 9.9
    meter.at(50_000_000)
    now[0] += 30
    meter.at(200_000_000)
    assert said == [
        "torch.whl: 1 of 200 MB, 0%",
        "torch.whl: 50 of 200 MB, 25%, about 30 s left",
        "torch.whl: 200 of 200 MB, 100%",
    ]


def test_the_amount_where_no_end_is_known() -> None:
    said: list[str] = []
    Meter(tell=said.append, title="pip").at(3_000_000)
    assert said == ["pip: 3 MB"]


def test_a_folder_that_another_program_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_TELL_EACH_S", 0.01)
    said: list[str] = []
    meter = Meter(tell=said.append, title="debs", total=4_000_000)
    with progress.watching(tmp_path, meter):
        (tmp_path / "a.deb").write_bytes(b"x" * 4_000_000)
        deadline = time.monotonic() + 60
        while "debs: 4 of 4 MB, 100%" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "debs: 4 of 4 MB, 100%" in said
    count = len(said)
    time.sleep(0.05)
    assert len(said) == count

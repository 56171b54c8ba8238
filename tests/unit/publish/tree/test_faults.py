"""An error at each call that changes a file system: all or nothing is seen, the next run works."""

import os
from pathlib import Path

import pytest

from tests.treefaults import SCENARIOS, Stage, with_fault

# no space, a disk error, quota, a file handle of NFS that is stale
CODES = (28, 5, 122, 116)


# The others take the same road through a transaction.
SHORT = {"facts", "rollback", "collect"}
ALL = [pytest.param(name, marks=[pytest.mark.long] * (name not in SHORT)) for name in SCENARIOS]


@pytest.mark.parametrize("name", ALL)
def test_an_error_at_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is shared
    stage = Stage(tmp_path, SCENARIOS[name])
    for at in range(1, 500):
        code = CODES[at % len(CODES)]

        def fail(code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        stage.reset()
        happened = with_fault(stage, at, fail)
        stage.require_whole((at, code))
        stage.require_next((at, code))
        if not happened:
            break
    assert 10 < at < 499

"""A publisher that is killed at each call that changes a file system: nothing half is visible."""

import os
import traceback
from pathlib import Path

import pytest

from tests.treefaults import SCENARIOS, Stage, with_fault
from tests.trees import both, hand, hidden, image_file, put, seen

# The others take the same road through a transaction.
SHORT = {"collect", "takeover"}
ALL = [pytest.param(name, marks=[pytest.mark.long] * (name not in SHORT)) for name in SCENARIOS]
KILLED, DONE = 9, 0


def killed_at(stage: Stage, at: int) -> int:
    """Change in a child that ends before its Nth such call, as SIGKILL would end it."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = KILLED if with_fault(stage, at, lambda: os._exit(KILLED)) else DONE
        except BaseException:
            traceback.print_exc()
            raise
        finally:  # never back into pytest
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", ALL)
def test_killed_at_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # It survives the end of a process, if not that of the host; the disk is shared.
    monkeypatch.setattr(os, "fsync", lambda number: None)
    stage = Stage(tmp_path, SCENARIOS[name])
    for at in range(1, 500):
        stage.reset()
        code = killed_at(stage, at)
        assert code in (KILLED, DONE), at
        stage.require_whole(at)
        stage.require_next(at)
        if code == DONE:
            break
    assert 10 < at < 499


def test_eight_at_once(tmp_path: Path) -> None:
    """Each waits for the others, and nobody's version is lost."""
    root, image = tmp_path / "root", image_file(tmp_path / "images")
    root.mkdir()
    versions = [f"{number}.0" for number in range(8)]
    children = []
    for version in versions:
        child = os.fork()
        if child == 0:
            code = 2
            try:
                put(root, image, version, by=hand(strict=False))
                code = DONE
            finally:  # never back into pytest
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [DONE] * 8
    assert seen(root) == both(*versions)
    assert str((root / "current").readlink()) == "generations/8"
    assert len({path.stat().st_ino for path in root.glob("releases/*/image.sif")}) == 1
    assert hidden(root) == []

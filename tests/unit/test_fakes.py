from pathlib import Path

import pytest

from dlcontainer.system.process import CommandFailedError, Runner
from tests.fakes import RecordingRunner, completed


def test_recording_runner_is_a_runner() -> None:
    said: list[str] = []
    fake = RecordingRunner([completed("a", stdout="x\ny\n"), completed("b", code=3)])
    run: Runner = fake
    assert run(["a", "1"], on_line=said.append).stdout == "x\ny\n"
    with pytest.raises(CommandFailedError):
        run(["b"])
    assert run(["c"], cwd=Path("/d")).returncode == 0
    assert fake.argvs == [("a", "1"), ("b",), ("c",)]
    assert (said, fake.calls[2].cwd) == (["x", "y"], Path("/d"))
    fake.strict = True
    with pytest.raises(AssertionError, match="no answer is left"):
        run(["d"])

"""A job directly on this node; its runner runs nothing."""

from pathlib import Path

from dlcontainer.bench.job.submit import LocalSubmitter
from dlcontainer.system.process import CommandTimeoutError
from tests.fakes import RecordingRunner, completed


def test_directly(tmp_path: Path) -> None:
    frame, log = tmp_path / "job.sh", tmp_path / "log"
    runner = RecordingRunner([completed("bash"), completed("bash", code=3)])
    direct = LocalSubmitter(runner=runner, limit_s=60.0)
    assert direct.run(frame, log).good
    done = direct.run(frame, log)
    assert (done.state, done.cause) == ("FAILED (exit code 3)", "job")
    late = CommandTimeoutError(completed("bash"), 60.0)
    done = LocalSubmitter(runner=RecordingRunner([late]), limit_s=60.0).run(frame, log)
    assert (done.state, done.cause) == ("TIMEOUT", "limit")
    assert runner.calls[0].argv == ("bash", str(frame))

"""A job at the scheduler's: submitted, followed, refused, cancelled; programs that only answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import pytest

from dlcontainer.bench.job import submit
from dlcontainer.bench.job.submit import Direct, Done, Queued
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from dlcontainer.schedulers.base import Queue
from dlcontainer.schedulers.slurm import SLURM
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Completed,
    RunOptions,
)
from tests.fakes import RecordingRunner, completed

assert SLURM.queue is not None
QUEUE: Queue = SLURM.queue


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_ASK_S", 0.0)
    monkeypatch.setattr(submit, "_PATIENCE_S", 0.05)


@dataclass(slots=True)
class Slurm:
    """Answers as Slurm's programs do: a job is there for so many questions."""

    state: str = "COMPLETED"
    questions: int = 3
    trouble: Callable[[str, int], Exception | None] = lambda _name, _number: None
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> Completed:
        self.calls.append(tuple(argv))
        name = argv[0]
        number = sum(call[0] == name for call in self.calls)
        trouble = self.trouble(name, number)
        if trouble is not None:
            raise trouble
        if name == "sbatch":
            return completed(*argv, stdout="4711;cluster\n")
        if name == "squeue":
            self.questions -= 1
            return completed(*argv, stdout="RUNNING\n" if self.questions > 0 else "")
        if name == "scancel":
            self.questions = 0
            return completed(*argv)
        return completed(*argv, stdout=f"JobId=4711 JobState={self.state} Reason=None\n")

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def run(slurm: Slurm, folder: Path) -> Done:
    return Queued(runner=slurm, queue=QUEUE).run(folder / "job.sh", folder / "job.log")


def failed(name: str, said: str) -> CommandFailedError:
    return CommandFailedError(completed(name, code=1, stderr=said))


def test_a_job_is_followed_by_a_name_of_its_own(tmp_path: Path) -> None:
    slurm = Slurm()
    done = run(slurm, tmp_path)
    assert (done.job, done.state, done.good, done.outside) == ("4711", "COMPLETED", True, False)
    assert slurm.names() == ["sbatch", "squeue", "squeue", "squeue", "scontrol"]
    name = next(word for word in slurm.calls[0] if word.startswith("--job-name=dlc-"))
    assert slurm.calls[1][3] == name.replace("--job-name", "--name")
    assert f"--output={tmp_path}/job.log" in slurm.calls[0]
    assert slurm.calls[0][-1] == str(tmp_path / "job.sh")


@pytest.mark.parametrize(
    ("state", "good", "outside"),
    [("FAILED", False, False), ("TIMEOUT", False, False), ("NODE_FAIL", False, True),
     ("PREEMPTED", False, True)],
)  # fmt: skip
def test_how_a_job_ended(tmp_path: Path, state: str, good: bool, outside: bool) -> None:
    done = run(Slurm(state=state), tmp_path)
    assert (done.state, done.good, done.outside) == (state, good, outside)


def test_a_job_that_is_forgotten_has_its_stamps(tmp_path: Path) -> None:
    slurm = Slurm(trouble=lambda name, _: failed(name, "?") if name == "scontrol" else None)
    done = run(slurm, tmp_path)
    assert (done.state, done.good) == ("UNKNOWN", True)


def test_a_refusal_is_in_the_schedulers_words(tmp_path: Path) -> None:
    words = "sbatch: error: invalid partition specified: none"
    slurm = Slurm(trouble=lambda name, _: failed(name, words))
    with pytest.raises(BenchDataError, match="the scheduler refused the job") as caught:
        run(slurm, tmp_path)
    assert caught.value.why == words
    assert slurm.names() == ["sbatch"]


def test_no_such_program(tmp_path: Path) -> None:
    slurm = Slurm(trouble=lambda name, _: CommandNotFoundError(name, "No such file"))
    with pytest.raises(BenchDataError, match="no sbatch here"):
        run(slurm, tmp_path)
    assert slurm.names() == ["sbatch"]


@pytest.mark.parametrize("where", ["sbatch", "squeue"])
def test_an_interruption_cancels_and_sees_it_gone(tmp_path: Path, where: str) -> None:
    def interrupt(name: str, number: int) -> Exception | None:
        return InterruptedByUserError("Ctrl-C") if (name, number) == (where, 1) else None

    slurm = Slurm(questions=9, trouble=interrupt)
    with pytest.raises(InterruptedByUserError):
        run(slurm, tmp_path)
    # Twice: a job may be known a moment after its submission was interrupted.
    assert slurm.names().count("scancel") == 2
    assert slurm.names()[-1] == "squeue"


def test_a_controller_that_is_away_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    def away(name: str, number: int) -> Exception | None:
        return failed(name, "Unable to contact") if (name, number) == ("squeue", 1) else None

    assert run(Slurm(trouble=away), tmp_path).good


def test_a_controller_that_stays_away_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "_CANCEL_S", 0.05)
    slurm = Slurm(trouble=lambda name, _: failed(name, "away") if name == "squeue" else None)
    with pytest.raises(BenchDataError, match="has failed for") as caught:
        run(slurm, tmp_path)
    assert caught.value.why == "away"
    assert "scancel" in slurm.names()


def test_directly(tmp_path: Path) -> None:
    frame, log = tmp_path / "job.sh", tmp_path / "log"
    runner = RecordingRunner([completed("bash"), completed("bash", code=3)])
    direct = Direct(runner=runner, limit_s=60.0)
    assert direct.run(frame, log).good
    done = direct.run(frame, log)
    assert (done.state, done.good) == ("FAILED (exit code 3)", False)
    late = CommandTimeoutError(completed("bash"), 60.0)
    done = Direct(runner=RecordingRunner([late]), limit_s=60.0).run(frame, log)
    assert (done.state, done.good, done.outside) == ("TIMEOUT", False, False)
    assert runner.calls[0].argv == ("bash", str(frame))

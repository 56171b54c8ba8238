"""A job at the scheduler's: submitted, followed, refused, cancelled; programs that only answer.

Slurm and Grid Engine are real in tests/integration; LSF and PBS are fakes everywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import pytest

from dlcontainer.bench.job import queued
from dlcontainer.bench.job.queued import QueueSubmitter
from dlcontainer.bench.job.submit import JobEnding
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.schedulers.scheduler import BatchQueue
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    RunOptions,
)
from tests.fakes import completed

XML = """\
<job_list state="x"><JB_job_number>4711</JB_job_number><JB_name>{name}</JB_name>
<state>{state}</state></job_list>
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a scheduler's programs print: of a submission, of a job, of its ends by their cause."""

    submitted: str
    listed: str
    running: str
    ends: Mapping[str, str]
    job: str = "4711"
    # Where none is listed, with an exit code of failure.
    none: str = ""


def _accounted(failed: str, code: int) -> str:
    return f"====\nfailed       {failed}\nexit_status  {code}\n"


SAID: Mapping[str, Said] = {
    "slurm": Said(
        submitted="4711;cluster\n",
        listed="4711 {state}\n",
        running="RUNNING",
        ends={
            cause: f"JobId=4711 JobState={state} Reason=None\n"
            for cause, state in {
                "none": "COMPLETED", "job": "FAILED", "limit": "TIMEOUT", "outside": "NODE_FAIL",
                "unknown": "OF_A_LATER_RELEASE",
            }.items()
        },
    ),
    "gridengine": Said(
        submitted="4711\n",
        listed=XML,
        running="r",
        ends={
            "none": _accounted("0", 0),
            "job": _accounted("0", 3),
            "limit": _accounted("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", 137),
            "outside": _accounted("19  : before writing exit_status", 0),
            "unknown": _accounted("77  : of a later release", 0),
        },
    ),
    "lsf": Said(
        submitted="Job <4711> is submitted to queue <normal>.\n",
        listed="4711 {state}\n",
        running="RUN",
        ends={
            "none": "DONE|-|-\n",
            "job": "EXIT|3|-\n",
            "limit": "EXIT|140|TERM_RUNLIMIT: job killed after reaching LSF run time limit\n",
            "outside": "EXIT|-|TERM_ZOMBIE: job exited while LSF is not available\n",
            "unknown": "EXIT|-|TERM_OF_A_LATER_RELEASE: who knows\n",
        },
        none="Job <dlc> is not found",
    ),
    "pbs": Said(
        submitted="4711.server\n",
        listed="4711.server\n",
        running="",
        job="4711.server",
        ends={
            cause: f"Job Id: 4711.server\n    job_state = F\n    substate = 93\n{status}"
            for cause, status in {
                "none": "    Exit_status = 0\n", "job": "    Exit_status = 1\n",
                "limit": "    Exit_status = -29\n", "outside": "",
                "unknown": "    Exit_status = -77\n",
            }.items()
        },
    ),
}  # fmt: skip
KINDS = list(SAID)
Trouble = Callable[[str, int], BaseException | None]


@dataclass(slots=True)
class Scheduler:
    """Answers as a scheduler's programs do: a job is there for so many questions."""

    kind: str
    cause: str = "none"
    questions: int = 3
    # Questions until the job is listed at all.
    hidden: int = 0
    state: str = ""
    away: bool = False
    trouble: Trouble = lambda _role, _number: None
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    stdin: str | None = None

    @property
    def queue(self) -> BatchQueue:
        found = SCHEDULERS[self.kind].queue
        assert found is not None
        return found

    def role(self, argv: Sequence[str]) -> str:
        """Tell for what a program was called: its fixed words say so."""
        known = {name: getattr(self.queue, name) for name in
                 ("submit", "listing", "away", "explain", "cancel", "ended")}  # fmt: skip
        fits = {
            name: sum("{" not in word for word in words)
            for name, words in known.items()
            if words and all("{" in word or word in argv for word in words)
        }
        return max(fits, key=lambda name: fits[name])

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        role = self.role(argv)
        self.calls.append((role, tuple(argv)))
        trouble = self.trouble(role, self.roles().count(role))
        if trouble is not None:
            raise trouble
        said = SAID[self.kind]
        if role == "submit":
            self.stdin = options.get("stdin")
            return completed(*argv, stdout=said.submitted)
        if role == "cancel":
            self.questions = 0
        if role == "ended":
            return completed(*argv, stdout=said.ends[self.cause] if self.questions <= 0 else "")
        if role == "explain":
            return completed(*argv, stdout="job_name: x\nerror reason 1: can't chdir to /no\n")
        if role in ("listing", "away"):
            return self._listed(role, argv)
        return completed(*argv)

    def _listed(self, role: str, argv: Sequence[str]) -> CompletedCommand:
        said = SAID[self.kind]
        self.hidden -= role == "listing"
        self.questions -= role == "listing" and self.hidden < 0
        if self.questions <= 0 or self.hidden >= 0:
            if said.none:
                raise CommandFailedError(completed(*argv, code=255, stderr=said.none))
            return completed(*argv)
        if role == "away" and not self.away:
            return completed(*argv)
        return completed(*argv, stdout=self._of(argv))

    def _of(self, argv: Sequence[str]) -> str:
        said, name = SAID[self.kind], named(self.calls[0][1])
        assert self.kind == "gridengine" or name in " ".join(argv)
        return said.listed.format(name=name, state=self.state or said.running)

    def roles(self) -> list[str]:
        return [role for role, _ in self.calls]


def named(argv: Sequence[str]) -> str:
    """Give the name that a job was submitted with."""
    [found] = [word.rpartition("=")[2] for word in argv if "dlc-" in word]
    return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued, "_ASK_S", 0.0)
    monkeypatch.setattr(queued, "_MOST_ASK_S", 0.0)
    monkeypatch.setattr(queued, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(queued, "_CANCEL_S", 0.05)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(scheduler: Scheduler, folder: Path, **changes: Any) -> JobEnding:
    (folder / "job.sh").write_text("#!/bin/bash\n#HEAD\n")
    own = QueueSubmitter(runner=scheduler, queue=replace(scheduler.queue, **changes))
    return own.run(folder / "job.sh", folder / "job.log")


def failed(said: str) -> CommandFailedError:
    return CommandFailedError(completed("program", code=1, stderr=said))


def test_a_job_is_followed_by_a_name_of_its_own(tmp_path: Path, kind: str) -> None:
    scheduler = Scheduler(kind=kind)
    done = run(scheduler, tmp_path)
    assert (done.job, done.cause) == (SAID[kind].job, "none")
    assert scheduler.roles() == ["submit", "listing", "listing", "listing", "ended"]
    argv = scheduler.calls[0][1]
    # The old limit of PBS.
    assert len(named(argv)) == 15
    assert any(word.endswith(f"{tmp_path}/job.log") for word in argv)
    if kind == "lsf":
        assert scheduler.stdin == "#!/bin/bash\n#HEAD\n"
    else:
        assert (argv[-1], scheduler.stdin) == (str(tmp_path / "job.sh"), None)
    other = Scheduler(kind=kind)
    run(other, tmp_path)
    assert named(other.calls[0][1]) != named(argv)


@pytest.mark.parametrize("cause", ["none", "job", "limit", "outside"])
def test_how_a_job_ended(tmp_path: Path, kind: str, cause: str) -> None:
    done = run(Scheduler(kind=kind, cause=cause), tmp_path)
    assert done.cause == cause
    assert (done.good, done.outside) == (cause == "none", cause == "outside")


def test_a_state_that_nobody_knows_is_the_jobs(tmp_path: Path, kind: str) -> None:
    done = run(Scheduler(kind=kind, cause="unknown"), tmp_path)
    assert done.cause == "job"
    assert "77" in done.state or "OF_A_LATER_RELEASE" in done.state


def test_a_job_that_is_forgotten_has_its_stamps(tmp_path: Path, kind: str) -> None:
    scheduler = Scheduler(
        kind=kind, trouble=lambda role, _: failed("?") if role == "ended" else None
    )
    done = run(scheduler, tmp_path, told_within_s=0.01 if scheduler.queue.told_within_s else 0)
    assert (done.state, done.good) == ("UNKNOWN", True)
    # Grid Engine's accounting is written now and then.
    assert (scheduler.roles().count("ended") > 1) == (kind == "gridengine")


def test_a_refusal_is_in_the_schedulers_words(tmp_path: Path, kind: str) -> None:
    words = "error: invalid partition specified: none"
    scheduler = Scheduler(
        kind=kind, questions=0, trouble=lambda role, _: failed(words) if role == "submit" else None
    )
    with pytest.raises(BenchDataError, match="the scheduler refused the job") as caught:
        run(scheduler, tmp_path)
    assert caught.value.why == words
    # Grid Engine has a job that it warns of, and Slurm may have one whose answer was lost.
    assert scheduler.roles()[-1] == "listing"


def test_no_such_program(tmp_path: Path, kind: str) -> None:
    scheduler = Scheduler(kind=kind, trouble=lambda _role, _: CommandNotFoundError("x", "No such"))
    with pytest.raises(BenchDataError, match=f"no {scheduler.queue.submit[0]} here"):
        run(scheduler, tmp_path)
    assert len(scheduler.calls) == 2


@pytest.mark.parametrize("where", ["submit", "listing"])
def test_an_interruption_cancels_and_sees_it_gone(tmp_path: Path, kind: str, where: str) -> None:
    def interrupt(role: str, number: int) -> BaseException | None:
        return InterruptedByUserError("Ctrl-C") if (role, number) == (where, 1) else None

    scheduler = Scheduler(kind=kind, questions=9, trouble=interrupt)
    with pytest.raises(InterruptedByUserError):
        run(scheduler, tmp_path)
    own = named(scheduler.calls[0][1])
    cancels = [argv for role, argv in scheduler.calls if role == "cancel"]
    assert all(own in " ".join(argv) or argv[-1] == "4711.server" for argv in cancels)
    # Twice: a job may be known a moment after its submission was interrupted. PBS cancels by
    # numbers, and so once.
    assert len(cancels) == (1 if kind == "pbs" else 2)
    assert scheduler.roles()[-2:].count("listing") == (2 if kind == "pbs" else 1)


def test_a_controller_that_is_away_for_a_moment_ends_nothing(tmp_path: Path, kind: str) -> None:
    def away(role: str, number: int) -> Exception | None:
        late = CommandTimeoutError(completed("program"), 60.0)
        return {1: failed("Unable to contact"), 2: late}.get(number) if role == "listing" else None

    assert run(Scheduler(kind=kind, trouble=away), tmp_path).good


def test_a_controller_that_stays_away_is_named(tmp_path: Path, kind: str) -> None:
    scheduler = Scheduler(
        kind=kind, trouble=lambda role, _: failed("away") if role == "listing" else None
    )
    with pytest.raises(BenchDataError, match="has failed for") as caught:
        run(scheduler, tmp_path)
    assert caught.value.why == "away"
    assert ("cancel" in scheduler.roles()) == (kind != "pbs")


def test_a_job_that_is_not_listed_yet_is_waited_for(tmp_path: Path, kind: str) -> None:
    """LSF's answers may be some seconds old; a short job may have ended before the first one."""
    scheduler = Scheduler(kind=kind, hidden=4)
    assert run(scheduler, tmp_path).good
    assert scheduler.roles().count("listing") == 7
    short = Scheduler(kind=kind, questions=0)
    assert run(short, tmp_path).good
    assert short.roles().count("listing") == 1


@pytest.mark.parametrize("state", ["Eqw", "Ehqw"])
def test_a_job_that_can_not_go_on_is_named_with_its_reason(tmp_path: Path, state: str) -> None:
    scheduler = Scheduler(kind="gridengine", state=state)
    with pytest.raises(BenchDataError, match=f"in state {state}") as caught:
        run(scheduler, tmp_path)
    assert caught.value.why == "error reason 1: can't chdir to /no"
    assert scheduler.roles()[-1] == "listing"
    assert "cancel" in scheduler.roles()


@pytest.mark.parametrize(("kind", "state"), [("gridengine", "r"), ("lsf", "UNKWN")])
def test_a_node_that_stays_away_is_an_outside_cause(
    tmp_path: Path, kind: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued, "_ASK_AWAY_S", 0.0)
    scheduler = Scheduler(kind=kind, state=state, away=True, questions=1_000_000)
    done = run(scheduler, tmp_path)
    assert (done.cause, done.state) == ("outside", "its node does not answer")
    assert "cancel" in scheduler.roles()


def test_a_node_that_comes_back_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queued, "_ASK_AWAY_S", 0.0)

    def back(role: str, number: int) -> None:
        scheduler.away = (role, number) < ("listing", 2)

    scheduler = Scheduler(kind="gridengine", questions=4, away=True, trouble=back)
    assert run(scheduler, tmp_path).good


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("gridengine", "a:b"),
        ("gridengine", "$HOME"),
        ("lsf", "50%"),
        ("pbs", "a,b"),
        ("slurm", "%j"),
    ],
)
def test_a_path_that_the_scheduler_reads_otherwise(tmp_path: Path, kind: str, path: str) -> None:
    scheduler = Scheduler(kind=kind)
    (tmp_path / path).mkdir()
    with pytest.raises(BenchDataError, match="can't write to a path that has"):
        run(scheduler, tmp_path / path)
    assert scheduler.calls == []


def test_a_submission_that_names_no_job(tmp_path: Path) -> None:
    queue = Scheduler(kind="lsf").queue

    def runner(argv: Sequence[str], **_: Unpack[RunOptions]) -> CompletedCommand:
        return completed(*argv, stdout="a banner\n" if argv[0] == "bsub" else "")

    (tmp_path / "job.sh").write_text("")
    with pytest.raises(BenchDataError, match="named no job") as caught:
        QueueSubmitter(runner=runner, queue=queue).run(tmp_path / "job.sh", tmp_path / "job.log")
    assert caught.value.why == "a banner"

"""What schedulers print of jobs, read. Grid Engine's texts are recorded; LSF's and PBS's written.

LSF's after its documentation and a project's recorded lines (EBI's pipelite), PBS's after the
documentation and source of OpenPBS: neither was run by us.
"""

import re
from collections.abc import Mapping

import pytest

from dlcontainer.schedulers import SCHEDULERS, gridengine, lsf, pbs
from dlcontainer.schedulers.scheduler import BatchQueue, Cause, QueuedJob, SchedulerEnding
from tests.values import ROOT

RECORDED = ROOT / "tests/recorded/gridengine"
QUEUES: Mapping[str, BatchQueue] = {
    name: batch.queue for name, batch in SCHEDULERS.items() if batch.queue is not None
}


def test_who_has_a_queue() -> None:
    assert set(QUEUES) == {"slurm", "lsf", "pbs", "gridengine"}


@pytest.mark.parametrize("name", list(QUEUES))
def test_a_queues_words_are_filled(name: str) -> None:
    """Each finds a job by the name that it was submitted with."""
    queue = QUEUES[name]
    values = {"name": "dlc-0", "log": "/l o/g", "job": "7"}
    submit = [word.format(**values) for word in queue.submit]
    assert any("dlc-0" in word for word in submit)
    assert any("/l o/g" in word for word in submit)
    listing = [word.format(**values) for word in queue.listing]
    assert "dlc-0" in " ".join(listing) or queue.read is gridengine.listed
    assert any("{name}" in word or "{job}" in word for word in queue.cancel)
    assert "7" in [word.format(**values) for word in queue.ended]
    assert bool(queue.stuck) == bool(queue.explain and queue.reason)


@pytest.mark.parametrize(
    ("text", "state", "cause"),
    [
        ("qacct-script-failed", "exit_status 3", "job"),
        (
            "qacct-time-limit",
            "failed 37: qmaster enforced h_rt, h_cpu, or h_vmem limit, exit_status 137",
            "limit",
        ),
        ("qacct-deleted", "failed 100: assumedly after job, exit_status 137", "job"),
        ("qacct-no-output", "failed 26: opening input/output file, exit_status 0", "job"),
        (
            "qacct-shepherd-killed",
            "failed 19: before writing exit_status, exit_status 0",
            "outside",
        ),
    ],
)
def test_how_a_job_of_grid_engine_ended(text: str, state: str, cause: Cause) -> None:
    said = (RECORDED / f"{text}.txt").read_text()
    assert gridengine.ending(said) == SchedulerEnding(state=state, cause=cause)
    # Of a job that was run again the last record holds.
    good = said.replace("failed       ", "failed 0 \nx").replace(
        "exit_status  ", "exit_status 0 \ny"
    )
    assert gridengine.ending(said + good) == SchedulerEnding(state="exit_status 0", cause="none")
    assert gridengine.ending("error: job id 7 not found\n") is None


def test_the_jobs_that_grid_engine_lists() -> None:
    text = (RECORDED / "qstat.xml").read_text()
    assert gridengine.listed(text, "dlc-away") == (QueuedJob(number="16", state="r"),)
    assert gridengine.listed(text, "dlc-abcdef01234") == (QueuedJob(number="17", state="Eqw"),)
    assert gridengine.listed(text, "dlc-a") == ()


@pytest.mark.parametrize(
    ("line", "state", "cause"),
    [
        ("DONE|-|-", "DONE", "none"),
        ("EXIT|3|-", "EXIT, exit code 3", "job"),
        (
            "EXIT|12|TERM_RUNLIMIT: job killed after reaching LSF run time limit",
            "EXIT, exit code 12, TERM_RUNLIMIT: job killed after reaching LSF run time limit",
            "limit",
        ),
        ("EXIT|143|TERM_OWNER: job killed by owner", None, "job"),
        ("EXIT|-|TERM_ZOMBIE: job exited while LSF is not available", None, "outside"),
        ("EXIT|-|TERM_PREEMPT: job killed after preemption", None, "outside"),
        ("EXIT|1|TERM_OF_A_LATER_RELEASE: who knows", None, "job"),
        ("ZOMBI|-|-", "ZOMBI", "outside"),
    ],
)
def test_how_a_job_of_lsf_ended(line: str, state: str | None, cause: Cause) -> None:
    found = lsf.ending(f"{line}\n")
    assert found is not None
    assert found.cause == cause
    assert state is None or found.state == state


def test_what_lsf_says_of_others() -> None:
    assert lsf.ending("RUN|-|-\n") is None
    assert lsf.ending("") is None
    text = "7 RUN\n8 ZOMBI\n9 UNKWN\n"
    assert [one.number for one in lsf.listed(text, "x")] == ["7", "9"]
    assert [one.number for one in lsf.unreachable(text, "x")] == ["9"]


def finished(*lines: str) -> str:
    return "Job Id: 7.server\n" + "".join(
        f"    {line}\n" for line in ("Job_Name = dlc-0", "job_state = F", *lines)
    )


@pytest.mark.parametrize(
    ("lines", "state", "cause"),
    [
        (("substate = 92", "Exit_status = 0"), "Exit_status 0", "none"),
        (("substate = 93", "Exit_status = 1"), "Exit_status 1", "job"),
        (("substate = 91", "Exit_status = 271"), "Exit_status 271", "job"),
        (
            ("substate = 93", "Exit_status = -29"),
            "Exit_status -29, JOB_EXEC_KILL_WALLTIME",
            "limit",
        ),
        (("Exit_status = -4",), "Exit_status -4, JOB_EXEC_INITABT", "outside"),
        (("Exit_status = -27",), "Exit_status -27", "job"),
        (("substate = 93",), "F without Exit_status: its node is down", "outside"),
        (("substate = 91",), "F without Exit_status: substate 91", "job"),
    ],
)
def test_how_a_job_of_pbs_ended(lines: tuple[str, ...], state: str, cause: Cause) -> None:
    # A user's variable is on a line that begins with a tab.
    text = finished("Variable_List = PBS_O_HOME=/h,", *lines).replace(
        ",\n", ",\n\tExit_status = 9\n"
    )
    assert pbs.ending(text) == SchedulerEnding(state=state, cause=cause)
    assert pbs.ending(text.replace("job_state = F", "job_state = R")) is None


@pytest.mark.parametrize(
    ("name", "said", "job"),
    [
        ("slurm", "4711;cluster\n", "4711"),
        ("gridengine", "4711\n", "4711"),
        ("lsf", "Job <4711> is submitted to default queue <normal>.\n", "4711"),
        ("pbs", "4711.pbs-1.example\n", "4711.pbs-1.example"),
    ],
)
def test_a_job_is_known_by_its_number(name: str, said: str, job: str) -> None:
    found = re.search(QUEUES[name].number, said)
    assert found is not None
    assert found["job"] == job

"""What a job script does at its scheduler's warning and at other signals, with its own shell.

Launchers, engine and the schedulers' commands are stand-ins: the real ones are in
tests/integration/slurm/test_warning.py.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import texts
from tests.jobs import BASH, Machine, plan_at
from tests.processes import MARK, files_below, kill_marked, left_of, new_mark, poll
from tests.values import TEMPLATES

# Becomes the one rank; scancel signals it as a node's daemon does.
LAUNCHER = """\
#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
echo $$ > "$FOLDER/rank.pid"
export SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=1
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=1
exec "$@"
"""
ENGINE = """\
#!/bin/sh
while :; do case $1 in *.sif) break ;; *) shift ;; esac; done
shift
case $2 in
    /opt/dlcontainer/probe) exec /bin/bash "$FOLDER/program" ;;
    -c) shift; PYTHONPATH=$FOLDER/torch exec /usr/bin/python3 "$@" ;;
esac
exec "$@"
"""
# PyTorch's own hands on nothing: its two ranks are its children.
TORCHRUN = """\
import subprocess, sys
words = sys.argv[sys.argv.index("/bin/bash"):]
ranks = [subprocess.Popen(words) for _ in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""
NOTES = 'printf "%s\\n" "${0##*/} $*" >> "$FOLDER/calls"\n'
SCANCEL = f'#!/bin/sh\n{NOTES}kill -s "${{1#--signal=}}" "$(cat "$FOLDER/rank.pid")"\n'
NOTED = (
    f'#!/bin/sh\n[ "$1" != show ] || exit 0\n{NOTES}case $FAILS in "${{0##*/}}") exit 1 ;; esac\n'
)
# Modules are slow: what comes meanwhile comes before the ranks.
MODULE = """\
#!/bin/sh
[ -n "${SLOW-}" ] || exit 0
: > "$FOLDER/ready"
until [ -e "$FOLDER/go" ]; do sleep 0.02; done
"""
READY = 'touch "$FOLDER/ready"; until [ -e "$FOLDER/go" ]; do sleep 0.02; done\n'
TOLD = 'echo told >> "$FOLDER/told"\n'
ENDS_DEADLINE_S = 60
FORM = {"summary": "f", "launcher": ["srun"], "ranks_per_node": 1}
PLACE = {"SLURM_NNODES": "1", "SLURM_JOB_ID": "7", "LSB_JOBID": "7", "NHOSTS": "1", "JOB_ID": "7"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a job ended, what it said, and how often its rank was told."""

    code: int
    out: str
    err: str
    told: int
    calls: list[str]


class RunningJob:
    """A job whose rank, or whose beginning, waits."""

    def __init__(
        self,
        folder: Path,
        program: str,
        *,
        proof: bool = False,
        site: dict[str, Any] | None = None,
        stdin: str = "",
        **environ: str,
    ) -> None:
        self.folder, self.stdin, self.mark = folder, stdin, new_mark()
        machine = Machine.made(folder / "machine")
        stubs = dict.fromkeys(("srun", "jsrun", "mpirun"), LAUNCHER)
        stubs |= dict.fromkeys(("scontrol", "brequeue"), NOTED)
        for name, text in {
            **stubs,
            "apptainer": ENGINE,
            "scancel": SCANCEL,
            "module": MODULE,
        }.items():
            self.program(machine, name, text)
        plan = plan_at(folder / "recipe", **(site or at()))
        machine.image(plan)
        torch = folder / "torch" / "torch" / "distributed"
        torch.mkdir(parents=True)
        (torch / "run.py").write_text(TORCHRUN)
        hosts, script = folder / "hosts", folder / "job.sh"
        hosts.write_text("n1\n")
        script.write_text(texts.text(plan, "job", [TEMPLATES]))
        (folder / "program").write_text(program)
        names = {"LSB_DJOB_HOSTFILE": str(hosts), "PE_HOSTFILE": str(hosts), MARK: self.mark}
        given = {"FOLDER": str(folder), "FAILS": "", "HOME": str(folder), "DLCONTAINER_KEEP": "0"}
        self.process = subprocess.Popen(
            [BASH, str(script), *(() if proof else (BASH, str(folder / "program")))],
            cwd=machine.here,
            env={
                "PATH": f"{machine.folder}/bin:/usr/bin:/bin",
                "SLURM_NODEID": "0",
                "FAKE_CALLS": str(folder / "modules"),
                "FAKE_ENVIRONMENT": str(folder / "seen"),
                **PLACE,
                **names,
                **given,
                **environ,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @staticmethod
    def program(machine: Machine, name: str, text: str) -> None:
        path = machine.folder / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def send(
        self, number: signal.Signals, *, to_all: bool = False, told: int | None = None
    ) -> None:
        """Signal the script, or with it all that it started; wait until its rank was told."""
        assert poll((self.folder / "ready").exists, ENDS_DEADLINE_S)
        (os.killpg if to_all else os.kill)(self.process.pid, number)
        if told is not None:
            assert poll(lambda: self.told() == told, ENDS_DEADLINE_S)

    def told(self) -> int:
        path = self.folder / "told"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def go_on(self) -> None:
        (self.folder / "go").touch()

    def end(self) -> Ended:
        out, err = self.process.communicate(self.stdin, timeout=ENDS_DEADLINE_S)
        calls = self.folder / "calls"
        assert left_of(self.mark) == {}
        return Ended(
            code=self.process.returncode,
            out=out,
            err=err,
            told=self.told(),
            calls=calls.read_text().splitlines() if calls.exists() else [],
        )


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    started: list[RunningJob] = []

    def start(*words: Any, **more: Any) -> RunningJob:
        started.append(RunningJob(tmp_path, *words, **more))
        return started[-1]

    yield start
    for job in started:
        kill_marked(job.mark)
        job.process.communicate()


def at(kind: str = "slurm", launcher: str = "srun", **jobs: Any) -> dict[str, Any]:
    """Give a site that warns its jobs."""
    warning: dict[str, Any] = {"signal": "USR1", "seconds": 300}
    if kind == "gridengine":
        warning = {"signal": "USR2"}
    form = {**FORM, "launcher": [launcher]}
    scheduler = {"kind": kind, "forms": {"a": form}}
    return {"scheduler": scheduler, "jobs": {"warning": warning, "requeue": True, **jobs}}


@pytest.mark.parametrize(
    ("ends", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)], ids=str
)
def test_the_ranks_are_told_and_their_exit_code_is_the_jobs(run: Any, ends: str, code: int) -> None:
    job = run(f"trap '{TOLD.strip()}; {ends}' USR1\n{READY}exit 9")
    job.send(signal.SIGUSR1)
    ended = job.end()
    assert (ended.code, ended.told) == (code, 1)
    assert "job: USR1: the time limit is near, the ranks are told\n" in ended.err
    assert ended.calls == ["scancel --signal=USR1 7"]


def test_each_signal_is_handed_on(run: Any) -> None:
    job = run(f"trap '{TOLD.strip()}' USR1\n{READY}exit 4")
    for count in (1, 2, 3):
        job.send(signal.SIGUSR1, told=count)
    job.go_on()
    ended = job.end()
    assert (ended.code, ended.told, len(ended.calls)) == (4, 3, 3)


@pytest.mark.parametrize(("trap", "code"), [("trap '' USR1\n", 0), ("", 128 + signal.SIGUSR1)])
def test_a_program_that_ignores_it_goes_on_and_one_without_a_handler_ends(
    run: Any, trap: str, code: int
) -> None:
    job = run(f"{trap}{READY}")
    job.send(signal.SIGUSR1)
    assert poll((job.folder / "calls").exists, ENDS_DEADLINE_S)
    if trap:
        job.go_on()
    assert job.end().code == code


def test_what_comes_before_the_ranks_is_not_handed_on(run: Any) -> None:
    site = at(modules=["load slow"])
    job = run(f"trap '{TOLD.strip()}' USR1\nexit 0\n", site=site, SLOW="1", DLCONTAINER_REQUEUE="1")
    job.send(signal.SIGUSR1)
    job.go_on()
    ended = job.end()
    assert (ended.code, ended.told, ended.calls) == (0, 0, [])
    assert "job: USR1 came before the ranks were started, which are not told\n" in ended.err


def test_a_program_reads_what_the_script_reads(run: Any) -> None:
    ended = run("cat\n", stdin="a line\n").end()
    assert (ended.code, ended.out) == (0, "a line\n")


@pytest.mark.parametrize(
    ("site", "number", "environ", "code", "calls"),
    [
        (at(), signal.SIGUSR1, {}, 0, ["scancel --signal=USR1 7", "scontrol requeue 7"]),
        (at(launcher="mpirun"), signal.SIGUSR1, {}, 0, ["scontrol requeue 7"]),
        (at("lsf", "jsrun"), signal.SIGUSR1, {}, 0, ["brequeue 7"]),
        (at("lsf", "jsrun"), signal.SIGUSR1, {"LSB_JOBINDEX": "0"}, 0, ["brequeue 7"]),
        (at("lsf", "jsrun"), signal.SIGUSR1, {"LSB_JOBINDEX": "3"}, 0, ["brequeue 7[3]"]),
        (at("gridengine", "mpirun"), signal.SIGUSR2, {}, 99, []),
        (at(requeue=False), signal.SIGUSR1, {}, 0, ["scancel --signal=USR1 7"]),
    ],
    ids=["slurm", "slurm-mpirun", "lsf", "lsf-no-array", "lsf-array", "gridengine", "forbidden"],
)
def test_a_job_that_was_told_and_ended_well_begins_again(
    run: Any,
    site: dict[str, Any],
    number: signal.Signals,
    environ: dict[str, str],
    code: int,
    calls: list[str],
) -> None:
    program = f"trap '{TOLD.strip()}; exit 0' USR1 USR2\n{READY}exit 9"
    job = run(program, site=site, DLCONTAINER_REQUEUE="1", **environ)
    job.send(number)
    ended = job.end()
    assert (ended.code, ended.told, ended.calls) == (code, 1, calls)


def test_a_program_that_failed_does_not_begin_again(run: Any) -> None:
    job = run(READY, DLCONTAINER_REQUEUE="1")
    job.send(signal.SIGUSR1)
    ended = job.end()
    assert (ended.code, ended.calls) == (138, ["scancel --signal=USR1 7"])
    assert "job: not requeued: the ranks were told, and ended with exit code 138\n" in ended.err


def test_a_job_that_no_one_told_does_not_begin_again(run: Any) -> None:
    assert run("exit 0\n", DLCONTAINER_REQUEUE="1").end().calls == []


def test_a_requeue_that_fails_is_said(run: Any) -> None:
    job = run(f"trap 'exit 0' USR1\n{READY}", DLCONTAINER_REQUEUE="1", FAILS="scontrol")
    job.send(signal.SIGUSR1)
    ended = job.end()
    assert ended.code == 3
    assert "job: the job can't be requeued, see above\n  next: submit it again" in ended.err


def test_a_wrong_wish_is_refused(run: Any) -> None:
    ended = run("exit 0\n", DLCONTAINER_REQUEUE="yes").end()
    assert (ended.code, "DLCONTAINER_REQUEUE is 'yes'" in ended.err) == (3, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_launcher_is_ended_with_the_script(run: Any, number: signal.Signals) -> None:
    job = run(f"trap '{TOLD.strip()}; exit 5' TERM\n{READY}", site=at(launcher="mpirun"))
    job.send(number)
    ended = job.end()
    assert (ended.code, ended.told) == (5, 1)


def test_where_the_scheduler_ends_the_ranks_the_script_waits_for_them(run: Any) -> None:
    job = run(f"trap '{TOLD.strip()}' TERM\n{READY}exit 6")
    job.send(signal.SIGTERM)
    job.send(signal.SIGTERM, to_all=True, told=1)
    job.go_on()
    ended = job.end()
    assert (ended.code, ended.told, ended.calls) == (6, 1, [])


def test_torchrun_hands_it_on(run: Any) -> None:
    site = at()
    site["scheduler"]["forms"] = {"b": {**FORM, "inside": "torchrun", "ranks_per_node": 2}}
    site["recipe"] = {"exposes": ["python", "torchrun"]}
    program = f"trap '{TOLD.strip()}; exit 5' USR1\ntouch \"$FOLDER/$$.rank\"\n{READY}"
    job = run(program, site=site)
    assert poll(lambda: len(files_below(job.folder, ".rank")) == 2, ENDS_DEADLINE_S)
    job.send(signal.SIGUSR1)
    ended = job.end()
    assert (ended.code, ended.told) == (5, 2)
    # The program stands in no log.
    assert "import runpy" not in ended.err


def test_a_proof_goes_on(run: Any) -> None:
    job = run(READY, proof=True, DLCONTAINER_REQUEUE="1")
    job.send(signal.SIGUSR1)
    job.go_on()
    ended = job.end()
    assert (ended.code, ended.calls) == (0, [])

"""Resident groups with real processes: of a stand-in for PyTorch, whose step has a known length."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlcontainer.bench.measure import arms
from dlcontainer.bench.measure.arms import Native, Workload
from dlcontainer.bench.measure.units import cpuset, group
from dlcontainer.bench.measure.units.group import GroupMeasurement, GroupSpace, LostProcessError
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples import continuation, contradictions, reader
from dlcontainer.bench.samples.resident import order
from dlcontainer.bench.samples.resident.balanced import Round
from dlcontainer.bench.samples.resident.order import GroupOrder
from dlcontainer.bench.samples.resident.resident_records import GroupPlan
from dlcontainer.config.resources import probe_files
from dlcontainer.system.process import ProcessRunner
from tests.integration import standin
from tests.integration.planting import planted_image
from tests.integration.truth import bench, mean, ratio_is_covered
from tests.integration.world import World
from tests.processes import MARK, command_lines, kill_marked, left_of, new_mark, poll

STEP_S = 0.01
ASLEEP = f"time.sleep({STEP_S})"
NAMES = order.names(2)
MEETING = """\
open(os.path.join({folder!r}, str(os.getpid())), "w").close()
while len(os.listdir({folder!r})) < {count}:
    time.sleep(0.05)
"""


@dataclass
class Groups:
    """Groups whose processes are this Python's, with a module in the place of PyTorch."""

    folder: Path
    rounds: tuple[Round, ...] = (Round(NAMES, NAMES), Round(NAMES, NAMES[::-1]))
    environment: dict[str, str] = field(default_factory=dict)

    def plan(self) -> GroupPlan:
        cpus = cpuset.choose(1)
        assert cpus is not None
        return GroupPlan(
            per_arm=2,
            rounds=len(self.rounds),
            turn_steps=4,
            renew_rounds=1,
            gap_s=0.01,
            cpus=cpus,
            lost_most=2,
        )

    def run(self, work: str) -> GroupMeasurement:
        torch = self.folder / "packages/torch"
        torch.mkdir(parents=True)
        text = standin.MODULE.replace("VERSION", standin.VERSION).replace("WORK", work)
        (torch / "__init__.py").write_text("import os\n" + text)
        prefix = self.folder / "native"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin/python").symlink_to(sys.executable)
        pipes = self.folder / "pipes"
        pipes.mkdir()
        probe = arms.probe_copy(probe_files(), self.folder)
        side = Native(prefix=prefix, probe=probe, home=self.folder)
        environment = {"PYTHONPATH": str(torch.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        cell = ProbeCell(values={"framework": "torch", "device": "cpu"}, threads=1)
        room = GroupSpace(
            work=Workload(
                probe=PROBES["train"], cell=cell, environment={**environment, **self.environment}
            ),
            runner=ProcessRunner(environ=os.environ),
            folder=pipes,
            timeout_s=60.0,
        )
        drawn = GroupOrder(start=NAMES[::-1], rounds=self.rounds)
        return group.run(dict.fromkeys(NAMES, side), drawn, self.plan(), room)

    def left(self) -> list[str]:
        """List the processes of this folder that still run."""
        return [words for words in command_lines() if f"{self.folder}/pipes" in words]


def test_a_group_of_real_processes(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    # An import ends once all have begun theirs: one after the other, none would.
    met = tmp_path / "met"
    met.mkdir()
    measured = groups.run(f"{ASLEEP}\n\n{MEETING.format(folder=str(met), count=len(NAMES))}")
    found = {name: outcome.residents[0] for name, outcome in measured.outcomes.items()}
    assert set(found) == set(NAMES)
    begun = sorted(found.values(), key=lambda one: one.started_s)
    assert [one.name for one in begun] == list(NAMES[::-1])
    # They import beside each other.
    assert begun[-1].started_s < min(one.started_s + one.ready_s for one in begun)
    turns = sorted((turn.start_s, name) for name, one in found.items() for turn in one.turns)
    assert [name for _, name in turns] == [*NAMES, *NAMES[::-1]]
    for name, one in found.items():
        assert [turn.trainer for turn in one.turns] == [1, 2]
        for turn in one.turns:
            assert all(step >= STEP_S for step in turn.steps_s)
            # Who waits for its turn costs nobody any processor time.
            assert turn.idle_cpu_s < 0.02
        outcome = measured.outcomes[name]
        assert outcome.stack["affinity"] == list(groups.plan().cpus)
        assert {"runtime", "import"} <= outcome.phases.keys()
        assert len(outcome.losses) == 5 + 1 + 4  # the warm-up, the dropped step, the first turn
    assert groups.left() == []


def test_a_process_that_is_killed_in_its_turn(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    # It is bound from its first trainer on: before that it rehearses.
    here = '"c1" in sys.argv and len(os.sched_getaffinity(0)) == 1'
    work = f"os.kill(os.getpid(), 9) if {here} else None"
    with pytest.raises(LostProcessError, match="process c1: ended by signal 9") as caught:
        groups.run(work)
    assert caught.value.name == "c1"
    assert groups.left() == []


def test_a_process_that_cannot_import(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    with pytest.raises(LostProcessError) as caught:
        groups.run('pass\n\nraise ImportError("nothing here")')
    assert caught.value.outcome is not None
    assert "nothing here" in "\n".join(caught.value.outcome.stderr)
    assert groups.left() == []


def test_threads_that_spin_are_seen(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    spin = (
        "pass\n\n"
        "import threading\n\n\n"
        "def _spin():\n    while True:\n        pass\n\n\n"
        "threading.Thread(target=_spin, daemon=True).start()"
    )
    with pytest.raises(LostProcessError, match="of processor time while others had their turn"):
        groups.run(spin)
    assert groups.left() == []


# Seconds that are planted in a step of 40 ms, and the share that an expected ratio may lie beside
# the interval: it has noise of its own.
PLANTED_S, SLACK = 0.004, 0.01
TRAIN = ("--unit", "groups", "--threads", "1", "--device", "cpu", "--pairs", "8")


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_sessions_whose_truth_is_known(world: World, tmp_path: Path) -> None:
    recipe, wheels = standin.write(tmp_path / "standin", standin.ASLEEP)
    own = world.having(PIP_FIND_LINKS=wheels)
    more = (*TRAIN, "--recipe", recipe, "--seed", 7)
    image = own.build(recipe, tmp_path / "image").image
    plain = bench(own, "train", image, tmp_path / "plain.jsonl", *more)
    assert plain.series.session.declared.version == 4
    assert not [item for item in plain.differences if item.refuses], plain.differences
    assert ratio_is_covered(plain, 1.0, SLACK), plain.verdict
    contradictions.refuse(plain.series, plain.traits.ends_at)
    # Processor time is an endpoint of its own, with a margin and a word.
    assert plain.family is not None
    endpoint = {reading.figure.metric: reading for reading in plain.family.readings}
    assert endpoint["cpu_s_per_step"].margin == plain.series.session.declared.margin
    assert {reading.kernel for reading in plain.calibration} >= {"integer", "bandwidth"}
    line = f"import sys; sys.planted_s = {PLANTED_S}"
    slow = planted_image(own, recipe, standin.PREFIX, tmp_path / "slow", line, standin.FILE)
    found = bench(own, "train", slow, tmp_path / "slow.jsonl", *more)
    assert not [item for item in found.differences if item.refuses], found.differences
    assert found.verdict.word == "SLOWER", found.verdict
    step = mean(found, 0) / found.series.session.declared.steps
    assert ratio_is_covered(found, 1 + PLANTED_S / step, SLACK), (found.verdict, step)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_killed_session_goes_on(world: World, tmp_path: Path) -> None:
    recipe, wheels = standin.write(tmp_path / "standin", standin.ASLEEP)
    mark, output = new_mark(), tmp_path / "x.jsonl"
    own = world.having(PIP_FIND_LINKS=wheels, **{MARK: mark})
    image = own.build(recipe, tmp_path / "image").image
    base = ("bench", "train", "--site", "local", "--image", image, "--recipe", recipe, *TRAIN)
    words = [*own.program, *map(str, base), "--seed", "3", "-o", str(output)]
    running = subprocess.Popen(
        words, env=dict(own.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        # The header, two stacks, two warm-up samples, the first group: in the second one now.
        assert poll(lambda: output.exists() and len(output.read_bytes().splitlines()) > 6, 300)
        os.kill(running.pid, signal.SIGKILL)
        running.wait(30)
        assert left_of(mark) == {}
    finally:
        running.kill()
        running.wait()
        kill_marked(mark)
    own.run(*base, "--resume", output, timeout=1500)
    series = reader.read(output)
    assert series.complete
    assert len(series.resumes) == 1
    contradictions.refuse(series, "")
    pairs = [(sample.pair, sample.position) for sample in continuation.used(series)]
    assert sorted(pairs) == [(pair, place) for pair in range(1, 9) for place in range(2)]

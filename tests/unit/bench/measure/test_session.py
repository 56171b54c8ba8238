"""A session with a runner that runs nothing: what is in its file, however it ends."""

import errno
import os
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.measure import outlook
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.errors import BenchDataError, ChecksFailedError, InterruptedByUserError
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError
from tests.benchrunner import Answer, Bench, ProbeRunner, said
from tests.fakes import completed
from tests.judging import analyse


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_whole_session(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner)
    series = bench.read()
    assert series.complete
    assert [sample.role for sample in series.samples[:2]] == ["warmup", "warmup"]
    roles = sorted(sample.role for sample in series.samples[2:])
    assert roles == ["control"] * 2 + ["pair"] * 4
    assert {stack.arm for stack in series.stacks} == {"native", "container"}
    assert {sample.mount for sample in series.samples if sample.arm == "container"} == {"first"}
    assert len(runner.launches) == 8


def test_the_load_is_said_before_anything_is_launched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (35.0, 30.0, 20.0))
    # Which cores are busy just now is the machine's own: without it the average decides.
    monkeypatch.setattr(outlook, "_processor_ticks", lambda stat: None)
    bench.run(ProbeRunner())
    first = bench.progress.said[0]
    assert first.startswith(f"warning: load 35.0 on {bench.host.cores} cores")
    assert bench.read().session.machine["load_1min"] == 35.0


def test_both_sides_run_the_same_command_but_for_the_engine(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner)
    native, container = runner.launches[0], runner.launches[1]
    tail = ("-S", "PROBE", "import", "--module", "torch")
    assert native[4:7] == container[-10:-7] == native[4:7]
    assert Path(native[-4]).name == "probe"
    assert native[-3:] == tail[2:]
    assert container[-5:] == ("-S", "/opt/dlcontainer/probe", *tail[2:])
    assert container[4:8] == ("/bin/apptainer", "--nocolor", "--quiet", "exec")


def test_steps_are_settled_before_the_first_sample(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner, probe="train")
    declared = bench.read().session.declared
    assert 215 < declared.steps < 225  # 10 s of 50 ms steps, and 10 %
    assert str(declared.steps) in runner.launches[-1]
    assert "30" in runner.launches[0]
    assert bench.read().samples[-1].values["loss"] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("modules", "framework"),
    [
        (("torch", "numpy"), "torch"),
        (("horovod", "tensorflow", "numpy"), "tensorflow"),
        (("mxnet", "torch"), "mxnet"),
    ],
)
def test_the_probe_trains_with_what_the_recipe_verifies(
    tmp_path: Path, modules: tuple[str, ...], framework: str
) -> None:
    bench, runner = Bench(tmp_path, modules), ProbeRunner()
    bench.run(runner, probe="train")
    assert bench.read().session.declared.workload["framework"] == framework
    # The probes of images from before there was a choice know torch alone, and no such option.
    chosen = [] if framework == "torch" else ["--framework", framework]
    for launch in runner.launches:
        words = list(launch[launch.index("train") :])
        assert words[-2:] == (chosen or ["--device", "cpu"])


def test_nothing_to_train_with(tmp_path: Path) -> None:
    bench, runner = Bench(tmp_path, ("numpy",)), ProbeRunner()
    with pytest.raises(ChecksFailedError, match="no framework to train with") as caught:
        bench.run(runner, probe="train")
    assert "verifies numpy" in str(caught.value)
    assert not runner.launches


def crash(number: int) -> Answer:
    error = CommandFailedError(completed("probe", code=-11, stderr="first\nSegmentation fault\n"))
    # A side that is broken: it fails each time that it is measured again.
    return lambda launch: error if launch >= number else None


@pytest.mark.parametrize("number", [0, 1, 4])
def test_one_arm_crashes(bench: Bench, number: int) -> None:
    with pytest.raises(BenchDataError, match="ended by signal 11") as caught:
        bench.run(ProbeRunner(odd=crash(number)))
    assert "Segmentation fault" in str(caught.value)
    assert caught.value.exit_code == 7
    series = bench.read()
    assert series.end is not None
    assert not series.complete
    assert "signal 11" in series.end.reason
    bad = series.samples[-1] if number else series.samples[0]
    assert (bad.returncode, bad.ok) == (-11, False)
    assert bad.values["stderr"] == ["first", "Segmentation fault"]


def test_a_rank_hangs(bench: Bench) -> None:
    late = CommandTimeoutError(completed("probe", code=-9), 60)
    with pytest.raises(BenchDataError, match="--timeout"):
        bench.run(ProbeRunner(odd=lambda launch: late if launch >= 3 else None))
    series = bench.read()
    assert "60 s" in str(series.samples[-1].error)
    assert series.end is not None
    assert "more launches were lost than the 2 that were declared" in series.end.reason


@pytest.mark.parametrize("number", [3, 4, 5, 7])
def test_a_pair_that_loses_a_launch_is_measured_again(bench: Bench, number: int) -> None:
    # Launches 0 and 1 are the warm-up; then three pairs, one of them a control.
    dead = CommandFailedError(completed("probe", code=-9))
    bench.run(ProbeRunner(odd=lambda launch: dead if launch == number else None))
    series = bench.read()
    assert series.complete
    (lost,) = series.lost
    bad = series.samples[number]
    assert (lost.arm, lost.group, lost.process) == (bad.arm, bad.pair, bad.role)
    assert lost.launches == tuple(range(number - bad.position, number + 1))
    assert "SIGKILL" in lost.reason or "signal 9" in lost.reason
    # Whole again, in the same order, and nothing of the first try is used.
    again = [s for s in series.samples if (s.role, s.pair) == (bad.role, bad.pair)][-2:]
    assert [s.order for s in again] == [bad.order] * 2
    assert all(s.ok and s.index > number for s in again)
    analysis = analyse(series)
    assert not [reason for reason in analysis.verdict.reasons if "failed" in reason]
    used = {i for pairs in analysis.pairs.values() for i in (*pairs.reference, *pairs.candidate)}
    assert not used & set(lost.launches)
    said_of_it = notes(analysis, standings([analysis])[series.seal])
    other = "native" if bad.arm == "container" else "container"
    counts = sorted([f"{bad.arm} 1", f"{other} 0"], reverse=True)
    line = f"1 pair lost a launch and had to be measured again ({', '.join(counts)}; lines "
    assert any(note.startswith(line) for note in said_of_it)


def test_a_side_that_attests_another_stack_is_not_measured_again(bench: Bench) -> None:
    other = completed(
        "probe", stdout=said(1.0, train=False).replace('"threads": 8', '"threads": 4')
    )
    with pytest.raises(BenchDataError, match="changed within the session"):
        bench.run(ProbeRunner(odd=lambda launch: other if launch == 4 else None))
    assert bench.read().lost == ()


def test_a_side_that_changes_within_the_session(bench: Bench) -> None:
    other = completed(
        "probe", stdout=said(1.0, train=False).replace('"threads": 8', '"threads": 4')
    )
    with pytest.raises(BenchDataError, match="changed within the session: threads"):
        bench.run(ProbeRunner(odd=lambda launch: other if launch == 5 else None))
    assert not bench.read().complete


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ('"cgroup": {"cpu_quota": 0.5}', "changed within the session: cgroup"),
        ('"clocks": {"scaling_governor": "powersave"}', "changed within the session: clocks"),
        ('"scheduling": {"nice": 19}', "changed within the session: scheduling"),
        ('"changed_within": {"clocks": [1, 2]}', "changed within the launch: clocks"),
    ],
)
def test_what_surrounds_a_side_changes(bench: Bench, facts: str, says: str) -> None:
    stated = said(1.0, train=False).replace('"threads": 8', f'"threads": 8, {facts}')
    other = completed("probe", stdout=stated)
    with pytest.raises(BenchDataError, match=says):
        bench.run(ProbeRunner(odd=lambda launch: other if launch == 5 else None))
    assert not bench.read().complete


def test_the_kernels_of_a_launch_are_kept_raw(bench: Bench) -> None:
    kernels = '"calibration": {"after": {"open_s": 2.0}}, "values": {"calibration_open_s": 2.0, '
    stated = said(1.0, train=False).replace('"values": {', kernels)
    other = completed("probe", stdout=stated)
    bench.run(ProbeRunner(odd=lambda launch: other if launch == 5 else None))
    (kept,) = (s.values for s in bench.read().samples if "calibration" in s.values)
    assert kept["calibration"] == {"after": {"open_s": 2.0}}
    assert kept["calibration_open_s"] == 2.0


def test_the_disk_is_full_of_samples(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, [6000]

    def write(file: int, data: bytes) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(BenchDataError, match="No space left"):
        bench.run(ProbeRunner(), looks=(50,))
    monkeypatch.undo()
    series = bench.read()
    assert series.samples
    assert series.end is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt(), InterruptedByUserError("SIGTERM")])
def test_interrupted_by_the_user(bench: Bench, kind: BaseException) -> None:
    def odd(launch: int) -> None:
        if launch == 4:
            raise kind

    with pytest.raises(type(kind)):
        bench.run(ProbeRunner(odd=odd))
    end = bench.read().end
    assert end is not None
    assert (end.complete, end.samples) == (False, 4)
    assert "interrupted" in end.reason


def test_a_file_that_is_there_is_kept_and_nothing_runs(bench: Bench) -> None:
    (bench.folder / "samples.jsonl").write_text("mine\n")
    runner = ProbeRunner()
    with pytest.raises(BenchDataError, match="this file already exists"):
        bench.run(runner)
    assert not runner.launches
    assert not runner.others


def test_an_image_without_the_probe(bench: Bench) -> None:
    with pytest.raises(ChecksFailedError, match="contains no probe") as caught:
        bench.run(ProbeRunner(stdout="dlc-no-probe\n"))
    assert "dlcontainer build" in str(caught.value.next_step)


def test_an_adopted_image_runs_contained(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.adopted = True
    bench.run(runner)
    launched = [argv for argv in runner.launches if any("apptainer" in word for word in argv)]
    assert launched
    for argv in launched:
        assert {"--no-privs", "none"} <= set(argv)


def test_an_adopted_image_has_no_twin(bench: Bench) -> None:
    bench.adopted = True
    with pytest.raises(BenchDataError, match="no native side is available") as caught:
        bench.run(ProbeRunner(), native=None)
    assert "recipe is unknown" in str(caught.value.why)


@pytest.mark.parametrize(("margin", "declared"), [(None, 0.02), (0.05, 0.05)])
def test_a_margin_is_declared_for_time_and_processor_time(
    bench: Bench, margin: float | None, declared: float
) -> None:
    bench.run(ProbeRunner(), probe="train", looks=(2,), margin=margin)
    session = bench.read().session
    assert session.declared.margin == session.declared.secondary["cpu_s_per_step"] == declared
    assert session.declared.secondary["step_p95_s"] == 0.05
    assert session.declared.secondary["counts.max_rss_mb"] == 0.05

"""A session with a runner that runs nothing: what is in its file, however it ends."""

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench import results, session
from dlcontainer.bench.declare import Wanted
from dlcontainer.bench.lab import Lab
from dlcontainer.bench.records import Series
from dlcontainer.bench.subject import Subject
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import BenchDataError, ChecksFailedError, InterruptedByUserError
from dlcontainer.resources import probe_files
from dlcontainer.shell import CommandFailedError, CommandTimeoutError, Completed
from tests.fakes import completed
from tests.values import HOST, TRIAL, folder_of, plan_of

Answer = Callable[[int], Completed | Exception | None]


def said(wall: float, train: bool) -> str:
    start = 1_700_000_000_000_000_000
    stamps = {"inside": start + 1000, "python": start + 2000, "site": start + 3000}
    stamps["import"] = start + int(wall * 1e9)
    body: dict[str, Any] = {
        "schema": "dlcontainer/probe/1",
        "probe": "train" if train else "import",
        "error": None,
        "module": "torch",
        "stamps_ns": {"inside": start, "python": start} if train else stamps,
        "values": {"wall_s": wall, "step_p50_s": 0.05} if train else {"import_cpu_s": wall},
        "counts": {"modules": 3},
        "stack": {"python": "3.11.2", "threads": 8},
    }
    if train:
        body |= {"losses": [2.0, 1.0], "steps_s": [0.05, 0.05], "workload": {"batch": 16}}
    return f"dlc-start {start}\n{json.dumps(body)}\n"


@dataclass(slots=True)
class ProbeRunner:
    """Answers launches of the probe; `odd` may answer one of them otherwise, by its number."""

    odd: Answer = lambda _: None
    stdout: str = ""
    launches: list[tuple[str, ...]] = field(default_factory=list)
    others: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        stdin: str | None = None,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
        log: Path | None = None,
    ) -> Completed:
        if not any("dlc-start" in word for word in argv):
            self.others.append(tuple(argv))
            return completed(*argv, stdout=self.stdout)
        odd = self.odd(len(self.launches))
        self.launches.append(tuple(argv))
        if isinstance(odd, Exception):
            raise odd
        return odd or completed(*argv, stdout=said(1.0, "train" in argv))


class Quiet:
    def step(self, title: str) -> None: ...
    def line(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass(slots=True)
class Bench:
    """A session's surroundings."""

    folder: Path
    modules: tuple[str, ...] = ("torch",)

    def run(self, runner: ProbeRunner, **changes: Any) -> Path:
        recipe = folder_of(self.folder / "recipe")
        native = self.folder / "native"
        wanted: dict[str, Any] = {
            "probe": "import",
            "question": "overhead",
            "looks": (2,),
            "controls": 1,
            "joiners": 0,
            "seed": 5,
            "output": self.folder / "samples.jsonl",
            "site": "demo",
            "module": "torch",
            "threads": 8,
            "steps": 0,
            "device": "cpu",
            "timeout_s": 60.0,
            "native": native,
            "probe_files": probe_files(),
            "gap_s": 0.0,
        }
        image = self.folder / "demo.sif"
        image.touch()
        subject = Subject(
            image=image,
            recipe="demo",
            sha256="ab" * 32,
            digest="cd" * 32,
            prefix="/opt/demo",
            modules=self.modules,
            environment={"LANG": "C.UTF-8"},
        )
        work = self.folder / "work"
        work.mkdir()
        lab = Lab(
            engine=Apptainer(program=Path("/bin/apptainer")),
            trial=TRIAL,
            host=HOST,
            runner=runner,
            cache=self.folder / "cache",
            templates=(),
            progress=Quiet(),
            work=work,
        )
        return session.run(Wanted(**{**wanted, **changes}), plan_of(recipe), subject, lab)

    def read(self) -> Series:
        return results.read(self.folder / "samples.jsonl")


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


def test_both_sides_run_the_same_command_but_for_the_engine(bench: Bench) -> None:
    runner = ProbeRunner()
    bench.run(runner)
    native, container = runner.launches[0], runner.launches[1]
    tail = ("-S", "PROBE", "import", "--module", "torch")
    assert native[4:7] == container[-10:-7] == native[4:7]
    assert native[-4:] == (str(bench.folder / "work/probe"), *tail[2:])
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
    with pytest.raises(ChecksFailedError, match="nothing to train with") as caught:
        bench.run(runner, probe="train")
    assert "verifies numpy" in str(caught.value)
    assert not runner.launches


def crash(number: int) -> Answer:
    error = CommandFailedError(completed("probe", code=-11, stderr="first\nSegmentation fault\n"))
    return lambda launch: error if launch == number else None


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
        bench.run(ProbeRunner(odd=lambda launch: late if launch == 3 else None))
    assert "60 s" in str(bench.read().samples[-1].error)


def test_a_side_that_changes_within_the_session(bench: Bench) -> None:
    other = completed(
        "probe", stdout=said(1.0, train=False).replace('"threads": 8', '"threads": 4')
    )
    with pytest.raises(BenchDataError, match="changed within the session: threads"):
        bench.run(ProbeRunner(odd=lambda launch: other if launch == 5 else None))
    assert not bench.read().complete


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
    with pytest.raises(BenchDataError, match="a file of this name"):
        bench.run(runner)
    assert not runner.launches
    assert not runner.others


def test_an_image_without_the_probe(bench: Bench) -> None:
    with pytest.raises(ChecksFailedError, match="carries no probe") as caught:
        bench.run(ProbeRunner(stdout="dlc-no-probe\n"))
    assert "dlcontainer build" in str(caught.value.next_step)

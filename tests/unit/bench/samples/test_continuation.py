"""A session that was cut goes on: no launch is lost, none counts twice."""

import errno
import fcntl
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError
from dlcontainer.system.process import CommandFailedError
from tests.benchrunner import Answer, Bench, ProbeRunner, said
from tests.fakes import completed
from tests.judging import analyse

LOOKS = (8, 12)
WARMUPS = 2


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def interrupted(launch: int) -> Answer:
    def odd(number: int) -> None:
        if number == launch:
            raise KeyboardInterrupt

    return odd


def begun(bench: Bench, launch: int, **changes: Any) -> Path:
    """Begin a session that Ctrl-C ends before this launch."""
    with pytest.raises(KeyboardInterrupt):
        bench.run(ProbeRunner(odd=interrupted(launch)), looks=LOOKS, controls=4, **changes)
    return bench.folder / "samples.jsonl"


def resumed(bench: Bench, runner: ProbeRunner | None = None, **changes: Any) -> Series:
    path = bench.folder / "samples.jsonl"
    bench.run(
        runner or ProbeRunner(), cut=continuation.read(path), looks=LOOKS, controls=4, **changes
    )
    return bench.read()


def places(series: Series) -> list[tuple[object, ...]]:
    return [(s.role, s.pair, s.position, s.arm, s.order) for s in continuation.used(series)]


@pytest.mark.parametrize("launch", [2, 3, 4, 7, 18, 25])
def test_the_whole_is_what_it_would_have_been(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, launch: int
) -> None:
    begun(bench, launch)
    series = resumed(bench)
    whole = Bench(tmp_path_factory.mktemp("whole"))
    whole.run(ProbeRunner(), looks=LOOKS, controls=4)
    assert places(series) == places(whole.read())
    assert series.complete
    # Nothing is lost: what was measured before is still the file's beginning.
    assert [s.index for s in series.samples] == list(range(len(series.samples)))
    assert len(series.resumes) == 1
    aside = series.resumes[0].aside
    assert len(aside) == (launch - WARMUPS) % 2
    extra = WARMUPS + len(aside)
    assert len(series.samples) == len(whole.read().samples) + extra
    assert analyse(series).verdict.word == analyse(whole.read()).verdict.word


def test_a_killed_session_with_half_a_line(bench: Bench) -> None:
    path = begun(bench, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:70])  # no end, the last launch cut
    assert reader.read(path).dropped == 70
    series = resumed(bench)
    (resume,) = series.resumes
    assert (resume.dropped_bytes, resume.aside) == (70, (4,))
    assert path.read_bytes().startswith(b"".join(lines[:-2]))
    analysis = analyse(series)
    said_of_it = " ".join(notes(analysis, standings([analysis])[series.seal]))
    assert f"went on at line {resume.line}; a half-written line of 70 bytes" in said_of_it
    assert f"Lines {resume.line - 1}: launches whose pairs were not completed" in said_of_it


def test_it_can_be_cut_again(bench: Bench) -> None:
    begun(bench, 5)
    for launch in (WARMUPS + 1, WARMUPS + 6):
        with pytest.raises(KeyboardInterrupt):
            resumed(bench, ProbeRunner(odd=interrupted(launch)))
    series = resumed(bench)
    assert series.complete
    assert len(series.resumes) == 3
    assert len(continuation.used(series)) == 2 * (12 + 4)


def test_after_a_full_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, [9000]

    def write(file: int, data: bytes) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(BenchDataError, match="--resume"):
        bench.run(ProbeRunner(), looks=LOOKS, controls=4)
    monkeypatch.undo()
    assert resumed(bench).complete


def test_a_session_cut_at_the_look_that_decided_is_not_extended(bench: Bench) -> None:
    path = bench.folder / "samples.jsonl"
    bench.run(ProbeRunner(), probe="train", looks=LOOKS, controls=4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    runner = ProbeRunner()
    series = resumed(bench, runner, probe="train")
    assert len(runner.launches) == WARMUPS
    assert series.complete
    assert max(s.pair for s in series.samples if s.role == "pair") == 8


def test_a_complete_session_is_not_extended(bench: Bench) -> None:
    bench.run(ProbeRunner(), looks=LOOKS, controls=4)
    with pytest.raises(BenchDataError, match="the session is complete"):
        continuation.read(bench.folder / "samples.jsonl")


def test_a_session_that_lost_too_many_launches_does_not_go_on(bench: Bench) -> None:
    dead = CommandFailedError(completed("probe", code=137))
    with pytest.raises(BenchDataError, match=r"exit code 137 \(SIGKILL; out of memory"):
        bench.run(ProbeRunner(odd=lambda n: dead if n >= 5 else None), looks=LOOKS)
    with pytest.raises(BenchDataError, match="lost more pairs than the 2") as caught:
        continuation.read(bench.folder / "samples.jsonl")
    assert "not extended" in str(caught.value)


def test_a_session_goes_on_after_a_pair_that_was_measured_again(bench: Bench) -> None:
    dead = CommandFailedError(completed("probe", code=137))

    def odd(number: int) -> Exception | None:
        if number == 9:
            raise KeyboardInterrupt
        return dead if number == 5 else None

    with pytest.raises(KeyboardInterrupt):
        bench.run(ProbeRunner(odd=odd), looks=LOOKS, controls=4)
    series = resumed(bench)
    assert series.complete
    assert len(series.lost) == 1
    assert not [r for r in analyse(series).verdict.reasons if "failed" in r]


def test_nothing_was_measured_yet(bench: Bench) -> None:
    dead = CommandFailedError(completed("probe", code=1))
    with pytest.raises(BenchDataError):
        bench.run(ProbeRunner(odd=lambda n: dead if n == 1 else None), looks=LOOKS)
    with pytest.raises(BenchDataError, match="nothing was measured yet"):
        continuation.read(bench.folder / "samples.jsonl")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seed": 6}, "seed: 5 in the file, now 6"),
        ({"threads": 4}, "workload.threads: 8 in the file, now 4"),
        ({"site": "other"}, "site: demo in the file, now other"),
        ({"question": "deployment"}, "question: overhead in the file, now deployment"),
    ],
)
def test_another_declaration_is_refused(bench: Bench, changes: dict[str, Any], says: str) -> None:
    path = begun(bench, 6)
    before, runner = path.read_bytes(), ProbeRunner()
    with pytest.raises(BenchDataError, match="differ from those of the session") as caught:
        resumed(bench, runner, **changes)
    assert says in str(caught.value)
    assert path.read_bytes() == before
    assert not runner.launches


@pytest.mark.parametrize(
    ("name", "value"), [("boot_id", "another"), ("node", "elsewhere"), ("kernel", "7.0")]
)
def test_another_boot_or_machine_is_refused(
    bench: Bench, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(bench, 6)
    from dlcontainer.bench.measure import declaration

    real = declaration.machine
    monkeypatch.setattr(declaration, "machine", lambda *a: {**real(*a), name: value})
    with pytest.raises(BenchDataError, match=f"machine.{name}: .* in the file, now {value}"):
        resumed(bench)


def test_the_load_may_have_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(bench, 6)
    monkeypatch.setattr(os, "getloadavg", lambda: (77.0, 1.0, 1.0))
    assert resumed(bench).complete


def test_another_stack_ends_it(bench: Bench) -> None:
    begun(bench, 6)
    other = completed("probe", stdout=said(1.0, train=False).replace("3.11.2", "3.11.9"))
    with pytest.raises(BenchDataError, match="changed within the session: python"):
        resumed(bench, ProbeRunner(odd=lambda n: other if n == 0 else None))
    assert resumed(bench).complete  # a warm-up launch decides nothing: it may be tried again


def test_an_edited_file_does_not_go_on(bench: Bench) -> None:
    path = begun(bench, 6)
    path.write_bytes(path.read_bytes().replace(b'"wall_s":1.0', b'"wall_s":1.1', 1))
    with pytest.raises(BenchDataError, match="hash chain is broken"):
        continuation.read(path)


def test_another_order_than_the_seeds_is_refused(bench: Bench) -> None:
    begun(bench, 8)
    series = continuation.read(bench.folder / "samples.jsonl")
    flipped = tuple(
        replace(s, order="cn" if s.order == "nc" else "nc") if s.pair == 1 else s
        for s in series.samples
    )
    from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages

    stages = plan_stages(looks=LOOKS, counts=LaunchCounts(controls=4), seed=5)
    schedule = [pair for stage in stages for pair in stage]
    assert continuation.groups_done(series, schedule) == 3
    with pytest.raises(BenchDataError, match="where the declared seed draws"):
        continuation.groups_done(replace(series, samples=flipped), schedule)


def test_a_running_session_is_left_alone(bench: Bench) -> None:
    path = begun(bench, 6)
    holder = os.open(path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    before = path.read_bytes()
    try:
        with pytest.raises(BenchDataError, match="another process is writing"):
            resumed(bench)
    finally:
        os.close(holder)
    assert path.read_bytes() == before


def test_a_tree_that_was_made_again_is_the_same_but_for_its_place() -> None:
    facts: dict[str, Any] = {
        "sys_prefix": "/tmp/a/native",
        "sys_path": ["/tmp/a/native/lib/python3.11", "/usr/lib/python3.11", "/tmp/a/native2"],
        "environment": {"PATH": "/tmp/a/native/bin", "HOME": "/tmp/a"},
        "threads": 8,
    }
    assert continuation.moved(facts, "/tmp/b/native") == {
        "sys_prefix": "/tmp/b/native",
        "sys_path": ["/tmp/b/native/lib/python3.11", "/usr/lib/python3.11", "/tmp/a/native2"],
        "environment": {"PATH": "/tmp/b/native/bin", "HOME": "/tmp/a"},
        "threads": 8,
    }
    assert continuation.moved({"threads": 8}, "/tmp/b") == {"threads": 8}

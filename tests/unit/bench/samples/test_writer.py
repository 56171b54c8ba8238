"""Whatever happens while a session is written, its file is valid, or is not there."""

import errno
import itertools
import os
import resource
import sys
from pathlib import Path
from types import FrameType

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import End, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from tests import benchseries
from tests.benchseries import Plan


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return benchseries.write(tmp_path / "a'; echo x\n.jsonl", Plan(pairs=4, control_pairs=2))


def test_an_existing_file_is_refused(written: Path) -> None:
    before = written.read_bytes()
    with (
        pytest.raises(BenchDataError, match="this file already exists") as caught,
        Writer(written, benchseries.session(Plan())),
    ):
        pass
    assert caught.value.exit_code == 7
    assert written.read_bytes() == before


def test_an_unwritable_place(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchDataError, match="cannot be written"),
        Writer(tmp_path / "no" / "a.jsonl", benchseries.session(Plan())),
    ):
        pass


def sample(index: int, **values: object) -> Sample:
    return Sample(
        index=index, role="warmup", arm="native", started="", returncode=0, wall_s=1.0,
        values={"loss": [2.0, float("nan"), float("inf")], "note": "x" * 200, **values},  # type: ignore[dict-item]
    )  # fmt: skip


def test_what_is_not_finite_is_kept_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan())) as out:
        out.sample(sample(0))
        out.end(complete=True)
    assert reader.read(path).samples[0].values["loss"] == [2.0, "NaN", "Infinity"]


def test_a_record_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan())) as out:
        out.sample(sample(0))
        with pytest.raises(BenchDataError, match="wall_s"):
            out.sample(Sample(
                index=1, role="warmup", arm="native", started="", returncode=0,
                wall_s=float("nan"),
            ))  # fmt: skip
        out.end(complete=True)
    assert len(reader.read(path).samples) == 1


class InterruptAt:
    """Interrupt the writer before one of its bytecodes, counted from 0, as a signal does."""

    def __init__(self, number: int) -> None:
        self.number, self.seen = number, 0

    def __call__(self, frame: FrameType, event: str, _: object) -> "InterruptAt | None":
        if not frame.f_code.co_filename.endswith(("samples/writer.py", "guarded_files.py")):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.seen += 1
            if self.seen == self.number + 1:
                raise InterruptedByUserError("interrupted by Ctrl-C")
        return self


def test_an_interrupt_anywhere_leaves_a_valid_file(tmp_path: Path) -> None:
    session, ends, before = benchseries.session(Plan()), set(), sys.gettrace()
    for number in itertools.count():
        path, interrupt = tmp_path / f"{number}.jsonl", InterruptAt(number)
        try:
            with Writer(path, session) as out:
                sys.settrace(interrupt)
                out.sample(sample(0))
                out.sample(sample(1))
                out.end(complete=True)
        except InterruptedByUserError:
            assert interrupt.seen == number + 1
        finally:
            sys.settrace(before)
        series = reader.read(path)
        assert series.end is not None
        assert series.end.samples == len(series.samples)
        ends.add((series.end.complete, series.end.reason, len(series.samples)))
        if interrupt.seen <= number:
            break
    reason = "interrupted by the user"
    assert ends == {(False, reason, 0), (False, reason, 1), (False, reason, 2), (True, "", 2)}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InterruptedByUserError("interrupted by SIGTERM"), "interrupted by the user"),
        (KeyboardInterrupt(), "interrupted by the user"),
        (RuntimeError("two\nlines"), "RuntimeError: two"),
    ],
)
def test_a_session_left_by_an_error_says_so(
    tmp_path: Path, error: BaseException, reason: str
) -> None:
    path = tmp_path / "a.jsonl"

    def run() -> None:
        with Writer(path, benchseries.session(Plan())) as out:
            out.sample(sample(0))
            raise error

    with pytest.raises(type(error)):
        run()
    assert reader.read(path).end == End(complete=False, samples=1, reason=reason)


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.jsonl", benchseries.session(Plan())) as out:
        out.end(complete=True)
        with pytest.raises(BenchDataError, match="has ended"):
            out.sample(sample(0))


def test_a_full_disk_leaves_a_valid_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def run() -> None:
        with Writer(path, benchseries.session(Plan())) as out:
            # A limit on the file's size cuts a write in its middle, as a full disk does.
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1500, hard))
            for index in range(10):
                out.sample(sample(index))

    try:
        with pytest.raises(BenchDataError, match="cannot be written") as caught:
            run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.strerror(errno.EFBIG) in str(caught.value)
    series = reader.read(path)
    assert not series.complete
    assert 0 < len(series.samples) < 10


def test_a_disk_that_is_full_from_the_start_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with (
            pytest.raises(BenchDataError, match="cannot be written"),
            Writer(path, benchseries.session(Plan())),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()

"""Work beside the work: results, errors, and that nothing of it outlives its end."""

import os
import signal
import threading
from types import FrameType

import pytest

from dlcontainer.system.background import beside
from dlcontainer.system.process import CommandEndedError, ProcessRunner, Runner
from tests.fakes import RecordingRunner


def test_what_is_started_gives_its_result_or_its_error() -> None:
    with beside(RecordingRunner()) as work:
        first = work.start(lambda _: 7)
        assert first.result() == 7
        assert not first.runs
        task = work.start(lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            task.result()


def test_it_is_ended_with_what_it_was_started_beside() -> None:
    ended = threading.Event()

    def wait(runner: Runner) -> None:
        assert isinstance(runner, ProcessRunner)
        assert runner.ending is not None
        os.read(runner.ending, 1)  # what a command's runner waits for too
        ended.set()
        raise CommandEndedError(["sleep"])

    before = threading.active_count()

    def build() -> None:
        with beside(ProcessRunner(environ={})) as work:
            work.start(wait)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert ended.is_set()
    assert threading.active_count() == before


def test_a_wait_that_a_signal_interrupts_is_waited_for_again() -> None:
    release, done = threading.Event(), threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise InterruptedError

    def slow(_runner: Runner) -> None:
        release.wait(60)
        done.set()

    def build() -> None:
        with beside(RecordingRunner()) as work:
            task = work.start(slow)
            # Once it is interrupted nobody is kept waiting; it itself needs a while to end.
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                task.join()
            finally:
                assert task.runs
                threading.Timer(0.3, release.set).start()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(InterruptedError):
            build()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert done.is_set()

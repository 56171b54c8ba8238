"""Work beside the work: results, errors, and that nothing of it outlives its end."""

import os
import threading

import pytest

from dlcontainer.beside import beside
from dlcontainer.shell import CommandEndedError, ProcessRunner, Runner
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

import os
import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest

from dlcontainer.system.process import ProcessRunner
from tests.processes import MARK, kill_marked, new_mark
from tests.skips import skip


@pytest.fixture
def real_processes() -> None:
    """Let this test start real processes."""


@pytest.fixture(autouse=True)
def no_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a real process an error, unless the test asks for `real_processes`."""
    if "real_processes" in request.fixturenames:
        return

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError(f"a unit test started a process: {args[1:]}")

    # The method, not the class: others subclass it and name it in annotations.
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    monkeypatch.setattr(os, "system", refuse)
    monkeypatch.setattr(os, "posix_spawn", refuse)


@pytest.fixture
def as_root() -> None:
    """Let this test run where files can be given to other users."""
    if os.getuid() != 0:
        skip("only root can give a file to another user", elsewhere="a run as root")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRunner]:
    """Give the real runner; what it leaves behind is killed after the test."""
    mark = new_mark()
    monkeypatch.setenv(MARK, mark)  # the supervisors have it from here, whatever `env` is
    yield ProcessRunner(environ={"PATH": os.environ["PATH"], MARK: mark})
    kill_marked(mark)

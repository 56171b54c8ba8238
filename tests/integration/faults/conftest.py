import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults import traced
from tests.faults.stage import Stage, Subject, environ
from tests.integration.publish.tools import program

# Pytest's record_property.
Recorded = Callable[[str, object], None]
Staged = Callable[[Subject], Stage]


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[Staged]:
    """Give what makes a stage of a command, with a zygote that ends after the test."""
    with ExitStack() as stack:

        def make(subject: Subject) -> Stage:
            folder = tmp_path / "stage"
            started = environ(folder / "state", os.environ)
            strace = program("strace", "strace")
            launcher = stack.enter_context(traced.launching(tmp_path / "launcher", started, strace))
            return Stage(folder, subject, launcher, stack)

        yield make

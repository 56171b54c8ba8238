"""What runs containers here: its modes are those that work."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engines import execution
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import EngineError
from tests.fakes import Quiet, RecordingRunner, completed
from tests.values import TRIAL, execution_of, host


def prepared(folder: Path, *answers: int) -> execution.Execution:
    """Make an execution ready whose engine answers its trials with these exit codes."""
    program = folder / "apptainer"
    program.write_text("#!/bin/sh\n")
    runner = RecordingRunner(
        [
            completed("version", stdout="apptainer version 1.4.5\n"),
            completed("help"),
            *(completed("trial", code=code, stderr="FATAL: no\n") for code in answers),
        ],
        strict=True,
    )
    engine = Apptainer(program=program)
    return execution.prepare(engine, host(), runner, folder / "cache", Quiet())


def test_modes_are_found_by_trying(tmp_path: Path) -> None:
    ready = prepared(tmp_path, 255, 0, 0, 0)
    assert (ready.build_mode, ready.run_mode) == ("fakeroot", "plain")
    assert ready.capabilities.version == "apptainer version 1.4.5"


def test_no_mode_works(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="works in no mode here"):
        prepared(tmp_path, *[255] * 10)


def test_a_mode_that_nobody_tried_is_plain(tmp_path: Path) -> None:
    untried = replace(TRIAL, build_mode=None, run_mode=None)
    ready = execution_of(tmp_path, RecordingRunner(), capabilities=untried)
    assert (ready.build_mode, ready.run_mode) == ("plain", "plain")

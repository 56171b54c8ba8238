"""A disk that is full or ill, once a kind of call and place: a clear error, and nothing half."""

import random

import pytest

from tests.faults.calls import Call, one_a_kind
from tests.faults.stage import Stage
from tests.faults.subjects import SUBJECTS
from tests.integration.faults.conftest import Recorded, Staged

SEED = 20261122
WRITING = ("ENOSPC", "EIO", "EDQUOT", "ESTALE")
READING = ("EIO", "ESTALE")
# How many errors of a command the short set draws; the long set has each of each command.
DRAWN = {"publish": 4, "gc": 3, "session": 3}


def faults(stage: Stage) -> list[tuple[Call, str]]:
    calls = one_a_kind(stage.calls())
    return [(call, error) for call in calls for error in (WRITING if call.changes else READING)]


@pytest.mark.parametrize("name", DRAWN)
def test_errors_that_are_drawn(staged: Staged, name: str) -> None:
    stage = staged(SUBJECTS[name])
    for call, error in random.Random(SEED).sample(faults(stage), DRAWN[name]):
        stage.failed(call, error)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUBJECTS)
def test_each_error(staged: Staged, name: str, record_property: Recorded) -> None:
    stage = staged(SUBJECTS[name])
    chosen = faults(stage)
    codes = [stage.failed(call, error).code for call, error in chosen]
    record_property("errors", len(codes))
    record_property("went on", codes.count(0))
    assert len(codes) >= 4

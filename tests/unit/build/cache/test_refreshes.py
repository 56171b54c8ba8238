"""Which refresh a later build goes on from."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build.cache import refreshes
from dlcontainer.build.context import BuildContext
from dlcontainer.image.record import RefreshProvenance
from dlcontainer.planning.plan import Plan
from tests.fakes import RecordingRunner
from tests.unit.build.cache.test_age import recorded
from tests.values import execution_of, folder_of, plan_of

OLD, NEW = "2026-11-01T08:00:00Z", "2026-11-20T08:00:00Z"


def refreshed(asked: str) -> RefreshProvenance:
    return RefreshProvenance(asked_at=asked, kind="os", steps={"system": "ab" * 32})


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    return BuildContext(execution=execution_of(tmp_path, RecordingRunner()), templates=())


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path))


def write(path: Path, asked: str | None) -> Path:
    written = recorded(refresh=refreshed(asked).model_dump() if asked else None)
    path.write_text(written.model_dump_json(by_alias=True))
    return path


def asked(plan: Plan, context: BuildContext, record: Path) -> Any:
    after = refreshes.recalled(plan, context, record).refreshed
    return after and after.asked_at


def test_the_latest_counts(plan: Plan, context: BuildContext, tmp_path: Path) -> None:
    record = tmp_path / "a.json"
    assert asked(plan, context, record) is None
    write(record, OLD)
    assert asked(plan, context, record) == OLD
    refreshes.note(plan, replace(context, refreshed=refreshed(NEW)))
    assert asked(plan, context, record) == NEW
    assert asked(plan, context, write(record, None)) == NEW


def test_one_under_way_stays(plan: Plan, context: BuildContext, tmp_path: Path) -> None:
    refreshes.note(plan, replace(context, refreshed=refreshed(NEW)))
    under_way = replace(context, refreshed=refreshed(OLD))
    assert refreshes.recalled(plan, under_way, tmp_path / "a.json") is under_way


@pytest.mark.parametrize("text", ["", "{", "[]", '{"asked_at": "x"}', '{"kind": 1}', "null"])
def test_a_spoilt_note_is_none(
    plan: Plan, context: BuildContext, tmp_path: Path, text: str
) -> None:
    refreshes.note(plan, replace(context, refreshed=refreshed(NEW)))
    (note,) = (context.execution.cache / "refreshed").iterdir()
    note.write_text(text)
    assert asked(plan, context, tmp_path / "none.json") is None


def test_a_key_that_is_no_digest_is_refused(
    plan: Plan, context: BuildContext, tmp_path: Path
) -> None:
    body = {"asked_at": NEW, "kind": "os", "steps": {"../up": "no digest"}}
    refreshes.note(plan, replace(context, refreshed=refreshed(NEW)))
    (note,) = (context.execution.cache / "refreshed").iterdir()
    note.write_text(json.dumps(body))
    assert asked(plan, context, tmp_path / "none.json") is None

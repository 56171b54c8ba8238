"""Of what date an image is that is there already, and what takes newer packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build.cache import age
from dlcontainer.build.context import BuildContext
from dlcontainer.image.record import Record
from dlcontainer.planning.plan import Plan
from tests.fakes import RecordingRunner
from tests.values import CONTENT, IMAGE_BASE, execution_of, folder_of, plan_of

MADE, KEPT, FINISHED = "2026-11-01T08:00:00Z", "2026-11-02T08:00:00Z", "2026-11-20T08:00:00Z"
TREE = {"sha256": "ab" * 32, "made": MADE}
WORK = [
    {"name": "first", "kept": {"maker": "ada", "made": KEPT}},
    {"name": "second", "kept": None},
]


def recorded(**changes: Any) -> Record:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "cd" * 32, "size": 1},
        "digest": "ab" * 32,
        "content": CONTENT,
        "base": TREE,
        "finished": FINISHED,
        "work": WORK,
    }
    return Record.model_validate_json(json.dumps({**body, **changes}))


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    return BuildContext(execution=execution_of(tmp_path, RecordingRunner()), templates=())


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path))


def test_a_kept_step_s_packages_are_of_its_day(plan: Plan, context: BuildContext) -> None:
    """The image itself was finished much later."""
    found = age.of(plan, recorded(), context)
    assert (found.base, found.packages, found.image, found.lock) == (MADE, KEPT, None, None)
    assert found.text == f"a base of {MADE} and packages of {KEPT} at the latest"
    assert found.newer == ("for newer packages, repeat the build with --refresh os",)


def test_all_steps_run_are_of_the_build_s_day(plan: Plan, context: BuildContext) -> None:
    ran = [{"name": "first", "kept": None}]
    assert age.of(plan, recorded(work=ran), context).packages == FINISHED


def test_an_image_of_a_registry_never_grows_old_by_itself(
    tmp_path: Path, context: BuildContext
) -> None:
    plan = plan_of(folder_of(tmp_path, base=IMAGE_BASE))
    base = {"image": "docker://r.example/os", "tag": "8", "digest": "sha256:" + "1" * 64}
    found = age.of(plan, recorded(base=base), context)
    assert (found.base, found.image) == (None, f"docker://r.example/os@sha256:{'1' * 64}")
    assert found.text.startswith(f"the base {found.image} and packages of ")
    assert (
        found.newer[1] == "for a newer base, run dlcontainer base pin demo --site demo, then build"
    )


def test_a_locked_image_has_the_lock_s_packages(plan: Plan, context: BuildContext) -> None:
    found = age.of(plan, recorded(lock="sha256:1"), context)
    assert found.text.endswith("and the packages of its lock")
    (line,) = found.newer
    assert "dlcontainer lock demo --site demo" in line


def test_a_base_that_was_given(plan: Plan, tmp_path: Path) -> None:
    execution = execution_of(tmp_path, RecordingRunner())
    given = BuildContext(execution=execution, templates=(), base=tmp_path / "base.sqfs")
    assert "dlcontainer base make demo --site demo" in age.of(plan, recorded(), given).newer[1]


def test_a_record_of_an_earlier_dlcontainer_says_less(plan: Plan, context: BuildContext) -> None:
    found = age.of(plan, recorded(base={"sha256": "ab"}, finished=None, work=[]), context)
    assert (found.base, found.packages) == (None, None)
    assert found.text == "a base and packages of unknown dates"

"""What a study will take, by the launches of its sessions."""

import pytest

from dlcontainer.bench.study import study_cost, study_points
from dlcontainer.bench.study.study_cost import NodeShape
from dlcontainer.bench.study.study_plan import StudyRequest
from tests import studies

SHAPE = NodeShape(devices=4, cores=64)
PLAN = studies.plan(StudyRequest(ranks=(1, 8), ranks_per_node=4, batch=2, looks=(8, 32), extras=()))
ONE, LAST = study_points.sessions(PLAN)


def test_a_point_of_few_pairs_has_one_cost() -> None:
    cost = study_cost.of_session(ONE, SHAPE)
    # Two warm-ups and eight pairs.
    assert cost.least_s == cost.most_s == 10 + 18 * study_cost.LAUNCH_S
    assert cost.most_hours == pytest.approx(cost.most_s / 3600 * 4)


def test_the_last_point_has_controls_and_may_end_at_its_first_look() -> None:
    cost = study_cost.of_session(LAST, SHAPE)
    assert cost.least_s == 10 + (2 + 2 * (8 + 8)) * study_cost.LAUNCH_S
    assert cost.most_s == 10 + (2 + 2 * (32 + 32)) * study_cost.LAUNCH_S
    # Two nodes.
    assert cost.most_hours == pytest.approx(cost.most_s / 3600 * 8)


def test_idle_nodes_of_one_allocation_count() -> None:
    own = study_cost.of_study([ONE, LAST], SHAPE, one_allocation=False)
    held = study_cost.of_study([ONE, LAST], SHAPE, one_allocation=True)
    assert held.most_s == own.most_s
    assert held.most_hours == pytest.approx(held.most_s / 3600 * 8)
    assert own.most_hours < held.most_hours


def test_without_devices_hours_are_of_cores() -> None:
    shape = NodeShape(devices=0, cores=2)
    assert (shape.unit, shape.count) == ("core", 2)
    assert (SHAPE.unit, SHAPE.count) == ("GPU", 4)

"""What each session of a study is measured with."""

from dataclasses import replace

from dlcontainer.bench.study import study_points
from dlcontainer.bench.study.study_plan import StudyRequest
from tests import studies

ASKED = StudyRequest(ranks=(1, 2, 8), ranks_per_node=4, batch=16, strategies=("dp", "fsdp", "tp2"))
PLAN = studies.plan(ASKED)


def test_sessions_come_by_ranks_and_extras_behind_their_points() -> None:
    titles = [one.title for one in study_points.sessions(PLAN)]
    assert titles == [
        "1-dp1",
        *("2-dp2", "2-fsdp2", "2-tp2", "2-collectives", "2-idle-neighbours"),
        *("8-dp8", "8-fsdp8", "8-dp4xtp2", "8-collectives", "8-idle-neighbours"),
    ]


def test_controls_are_those_of_the_last_point_alone() -> None:
    controls = {one.title: one.controls for one in study_points.sessions(PLAN)}
    assert {title for title, count in controls.items() if count is None} == {
        "8-dp8", "8-fsdp8", "8-dp4xtp2",
    }  # fmt: skip
    assert {count for count in controls.values() if count is not None} == {0}


def test_a_point_is_trained_by_its_strategy_with_the_batch_of_its_group() -> None:
    values = {one.title: one.values for one in study_points.sessions(PLAN)}
    named = {title: own.get("parallel") for title, own in values.items()}
    # Data parallel is what ranks do anyway, with any framework.
    assert (named["2-dp2"], named["2-fsdp2"], named["8-dp4xtp2"]) == (None, "fsdp2", "dp4xtp2")
    assert {values[title]["batch"] for title in values if "collectives" not in title} == {16}
    alone = values["2-idle-neighbours"]
    assert (alone["distributed"], alone["batch"], alone.get("parallel")) == ("none", 16, None)
    assert values["2-collectives"] == {
        "operations": "all_reduce,send_recv", "sizes": "4K,4M", "quick": True,
    }  # fmt: skip


def test_in_strong_scaling_the_batch_of_a_rank_shrinks() -> None:
    strong = studies.plan(replace(ASKED, scaling="strong"))
    values = {one.title: one.values for one in study_points.sessions(strong)}
    batches = [values[title]["batch"] for title in ("1-dp1", "2-dp2", "8-dp8", "8-dp4xtp2")]
    assert batches == [16, 8, 2, 4]


def test_ranks_lie_on_full_nodes() -> None:
    placed = {one.title: (one.nodes, one.ranks_per_node) for one in study_points.sessions(PLAN)}
    assert placed["2-dp2"] == (1, 2)
    assert placed["8-dp8"] == placed["8-collectives"] == (2, 4)


def test_a_quick_study_is_quick_in_all_of_its_sessions() -> None:
    quick = studies.plan(replace(ASKED, looks=(2,)))
    assert {one.looks for one in study_points.sessions(quick)} == {(2,)}


def test_options_of_training_reach_every_training() -> None:
    typed = {**PLAN.options, "optimizer": "lars", "steps": 5, "launcher": "mpirun"}
    sessions = study_points.sessions(studies.plan(ASKED, options=typed))
    for one in sessions:
        known = (one.values.get("optimizer"), one.values.get("steps"), one.values.get("launcher"))
        assert known == (("lars", 5, None) if one.probe == "train" else (None, None, None))


def test_more_ranks_than_cores_are_emulated() -> None:
    assert study_points.emulated(2, 2) == ""
    assert study_points.emulated(4, 2).startswith("emulated: 4 ranks on 2 cores")

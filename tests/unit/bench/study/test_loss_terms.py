"""Terms of a loss: what was planted comes back, and the terms add up to what is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.study import efficiency, loss_terms
from dlcontainer.bench.study.loss_terms import PointLoss
from tests import planted_studies as studies
from tests.planted_studies import Planted, StudyCase

PLACE = Path("nowhere")
# Seconds, of an own step of 0.03.
LAST = Planted(neighbours=0.0012, communication=0.002, waiting=0.001, input=0.0008)


def lost(case: StudyCase, file: str, micro_batches: int | None = None) -> PointLoss:
    study = studies.measured(PLACE, case)
    point = next(point for point in study.points if point.plan.file == file)
    loss = loss_terms.of(study, point, "container", micro_batches)
    assert loss is not None
    return loss


def shares(loss: PointLoss) -> dict[str, float]:
    return {term.name: term.share.share for term in loss.terms}


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (Planted(communication=0.002), {"exposed communication"}),
        (Planted(waiting=0.002), {"waiting"}),
        (Planted(neighbours=0.002), {"idle neighbours"}),
        (Planted(input=0.002), {"input"}),
        (Planted(), set()),
        (LAST, {"idle neighbours", "exposed communication", "waiting", "input"}),
    ],
)
def test_each_planted_term_comes_back_and_no_other(planted: Planted, told: set[str]) -> None:
    case = StudyCase(terms={1: Planted(), 4: planted}, sd=0.004, few=12, full=24)
    loss = lost(case, "4-dp4.jsonl")
    step = 0.03 + sum((planted.neighbours, planted.communication, planted.waiting, planted.input))
    truth = {
        "idle neighbours": planted.neighbours / step,
        "exposed communication": planted.communication / step,
        "waiting": planted.waiting / step,
        "input": planted.input / step,
    }
    for term in loss.terms:
        assert term.share.low - 1e-9 <= truth[term.name] <= term.share.high + 1e-9, term
    assert {term.name for term in loss.terms if term.share.low > 1e-9} == told
    assert loss.step_s == pytest.approx(step, rel=0.01)
    assert loss.input_share == pytest.approx(planted.input / step, rel=0.02)


@pytest.mark.parametrize("scaling", ["weak", "strong"])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize("strategies", [("dp",), ("tp2",), ("pp2",)])
def test_the_terms_add_up_to_what_is_lost(
    scaling: str, apart: bool, baseline: bool, strategies: tuple[str, ...]
) -> None:
    case = StudyCase(strategies=strategies, apart=apart, baseline=baseline, ratio=1.03)
    study = studies.measured(PLACE, replace(case, scaling=scaling))  # type: ignore[arg-type]
    for point in study.points[1:]:
        loss = loss_terms.of(study, point, "container", 4)
        reading = efficiency.of(study, point, "container")
        assert loss is not None
        assert reading is not None
        assert sum(shares(loss).values()) == pytest.approx(loss.total.share, abs=1e-12)
        assert loss.total.share == pytest.approx(1 - reading.efficiency.ratio, abs=1e-12)


def test_of_a_base_of_several_ranks_only_what_grows_is_lost() -> None:
    same = Planted(communication=0.003, waiting=0.001)
    loss = lost(StudyCase(terms={2: same, 4: same}, sd=0.001), "4-dp4.jsonl")
    assert all(abs(share) < 0.005 for share in shares(loss).values())


def test_ranks_that_cannot_train_apart_have_one_term_for_both() -> None:
    planted = Planted(neighbours=0.001, communication=0.004, waiting=0.002)
    case = StudyCase(terms={1: Planted(), 4: planted}, apart=False, sd=0.002, few=12, full=24)
    loss = lost(case, "4-dp4.jsonl")
    name = "idle neighbours, exposed communication and waiting"
    assert shares(loss)[name] == pytest.approx(0.007 / 0.037, abs=0.01)
    assert f"{name} are one term" in loss.remarks[0]
    told = lost(replace(case, baseline=True), "4-dp4.jsonl")
    assert shares(told)["idle neighbours"] == pytest.approx(0.001 / 0.037, abs=0.006)
    both = "exposed communication and waiting"
    assert shares(told)[both] == pytest.approx(0.006 / 0.037, abs=0.006)


def test_the_bubble_of_a_pipeline_is_computed_where_its_micro_batches_are_known() -> None:
    planted = Planted(communication=0.0075)
    case = StudyCase(terms={1: Planted(), 2: planted}, strategies=("pp2",), apart=False, sd=0.001)
    loss = lost(case, "2-pp2.jsonl", micro_batches=4)
    # A stage's own work is half of 0.03 s; one of 4 + 1 slots is idle: a quarter of the work.
    assert shares(loss)["pipeline bubble (computed)"] == pytest.approx(0.25 * 0.015 / 0.0225, 0.02)
    unknown = lost(case, "2-pp2.jsonl")
    assert "pipeline bubble (computed)" not in shares(unknown)
    assert "number of micro-batches" in " ".join(unknown.remarks)


def test_strong_scaling_names_the_smaller_batches() -> None:
    # A rank of 4 has a quarter of the batch, and takes more than a quarter of the time.
    terms = {1: Planted(), 4: Planted(neighbours=0.002)}
    loss = lost(StudyCase(terms=terms, scaling="strong", sd=0.002), "4-dp4.jsonl")
    name = "idle neighbours and smaller batches"
    assert shares(loss)[name] == pytest.approx(0.002 / 0.0095, abs=0.02)


@pytest.mark.parametrize(("batch", "scaling"), [(32, "weak"), (32, "strong"), (0, "weak")])
def test_efficiency_is_samples_a_rank_and_second(batch: int, scaling: str) -> None:
    case = StudyCase(terms={1: Planted(), 2: Planted(), 4: Planted()}, sd=0.001)
    study = studies.measured(PLACE, replace(case, scaling=scaling))  # type: ignore[arg-type]
    if not batch:
        # A user's own build() sets it, and the study does not know it.
        points = tuple(
            replace(point, plan=replace(point.plan, global_batch=0)) for point in study.points
        )
        study = replace(study, points=points)
    for point in study.points[1:]:
        reading = efficiency.of(study, point, "native")
        assert reading is not None
        assert reading.efficiency.ratio == pytest.approx(1.0, abs=0.01)
        steps = point.arms["native"].step_s
        expected = 0.03 / (point.plan.ranks if scaling == "strong" else 1)
        assert sum(steps) / len(steps) == pytest.approx(expected, rel=0.01)


def test_a_base_that_was_not_measured_gives_no_efficiency() -> None:
    study = studies.measured(PLACE, StudyCase())
    first = replace(study.points[0], arms={})
    study = replace(study, points=(first, *study.points[1:]))
    assert efficiency.of(study, study.points[1], "native") is None
    assert loss_terms.of(study, study.points[1], "native") is None

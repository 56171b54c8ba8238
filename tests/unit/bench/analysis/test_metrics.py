"""Several metrics together, against statsmodels; and a site's standing over sessions."""

import gc
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, json_report
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.bench.stats import paired, power
from tests import benchseries
from tests.benchseries import Plan
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.stats.test_paired import fit, normal

SECONDARY = {"step_p95_s": 0.05, "counts.max_rss_mb": 0.05}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    with pytest.MonkeyPatch.context() as patch:
        # It has Python look through all objects of the test run, on each call.
        patch.setattr(gc, "collect", lambda: None)
        wanted = multipletests(p_values, method="holm")[1]
    assert paired.holm(p_values) == pytest.approx(list(wanted))


def test_holm_of_nothing() -> None:
    assert paired.holm([]) == ()


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=30, unique=True))
def test_p_is_statsmodels_of_the_same_model(values: list[float]) -> None:
    import scipy.stats
    from statsmodels.api import OLS

    second = [-1.0 if index % 2 == 1 else 1.0 for index in range(len(values))]
    oracle = OLS(values, [[1.0, x] for x in second]).fit()
    fitted = fit(values)
    if fitted.se > 1e-9:
        inflated = math.sqrt((1 + fitted.lag) / (1 - fitted.lag))
        wanted = 2 * scipy.stats.t.sf(abs(oracle.tvalues[0]) / inflated, fitted.df)
        assert paired.p_value(fitted) == pytest.approx(float(wanted), abs=1e-7)


def test_p_of_what_cannot_be_fitted() -> None:
    assert paired.p_value(fit([0.1, 0.2])) == 1
    assert paired.p_value(fit([0.0] * 8)) == 1
    assert paired.p_value(fit([0.5] * 8)) == 0


@pytest.mark.parametrize("n", [3, 4, 10])
def test_the_interval_of_means_is_scipys(n: int) -> None:
    import scipy.stats

    values = normal(n, 0.02, 0.01, n)
    found = paired.mean_interval(values, 0.95)
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((low, high))
    assert paired.mean_interval(values[:1], 0.95).high == math.inf


def measured(folder: Path, factors: dict[str, float], plan: Plan | None = None) -> Analysis:
    """Write a session whose container's secondary figures are these times the native ones."""

    def change(sample: Sample) -> Sample:
        inside = sample.arm == "container"
        wobble = 1 + 0.002 * ((sample.index * 7) % 5)
        rss = 500.0 * wobble * (factors["counts.max_rss_mb"] if inside else 1.0)
        counts: dict[str, Json] = {"max_rss_mb": rss}
        p95 = 0.05 * wobble * (factors["step_p95_s"] if inside else 1.0)
        return replace(sample, values={**sample.values, "step_p95_s": p95, "counts": counts})

    plan = plan or Plan(change=change)
    session = benchseries.session(plan)
    session = replace(session, declared=replace(session.declared, secondary=SECONDARY))
    path = folder / "a.jsonl"
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=plan.reference))
        out.stack(AttestedStack(arm="container", facts=plan.candidate))
        for sample in benchseries.draw(plan):
            out.sample(sample)
        out.end(complete=True)
    return analyse(reader.read(path))


def test_the_same_on_all(tmp_path: Path) -> None:
    analysis = measured(tmp_path, {"step_p95_s": 1.0, "counts.max_rss_mb": 1.01})
    assert analysis.family is not None
    assert [r.figure.metric for r in analysis.family.readings] == ["steady_s", *SECONDARY]
    assert analysis.family.all_within
    page = html_report.html([analysis], TEMPLATES)
    assert "The same within their margins on all of them; that takes no correction." in page


def test_different_on_some_and_the_verdict_is_the_main_ones(tmp_path: Path) -> None:
    analysis = measured(tmp_path, {"step_p95_s": 1.0, "counts.max_rss_mb": 1.4})
    assert analysis.family is not None
    assert [r.figure.metric for r in analysis.family.different] == ["counts.max_rss_mb"]
    assert not analysis.family.all_within
    assert analysis.verdict.word == "EQUIVALENT"
    assert "Different on counts.max_rss_mb, by Holm" in html_report.html([analysis], TEMPLATES)
    found = json_report.session(analysis)["metrics"]
    assert isinstance(found, dict)
    assert [r["different"] for r in found["readings"]] == [False, False, True]


def test_a_metric_that_a_launch_lacks_is_named(tmp_path: Path) -> None:
    analysis = measured(tmp_path, {}, Plan())
    assert analysis.family is not None
    assert analysis.family.missing == tuple(SECONDARY)
    assert not analysis.family.all_within


def session_of(folder: Path, seed: int, **changes: object) -> Analysis:
    plan = replace(Plan(seed=seed, control_pairs=8, pairs=8, sd=0.01), **changes)  # type: ignore[arg-type]
    return analyse(reader.read(benchseries.write(folder / f"{seed}.jsonl", plan)))


def test_a_site_is_qualified_over_sessions(tmp_path: Path) -> None:
    # Its own controls tell whether the machine was steady; those of seed 1 and 2 don't.
    one = session_of(tmp_path, 3, sd=0.02)
    alone = standings([one])[one.series.seal]
    assert not alone.is_qualified
    assert (alone.sessions, alone.pairs) == (1, 8)
    assert alone.more
    assert 25 < alone.pairs + alone.more < 90
    many = [one, *(session_of(tmp_path, seed, sd=0.02) for seed in (1, 2, *range(4, 9)))]
    pooled = standings(many)
    assert {(s.sessions, s.pairs, s.is_qualified) for s in pooled.values()} == {(8, 64, True)}
    assert any("is qualified: A/A pooled over 8" in n for n in notes(one, pooled[one.series.seal]))
    assert any("is not qualified: A/A pooled over 1" in n for n in notes(one, alone))
    margin = pooled[one.series.seal].supported
    assert margin is not None
    assert power.equivalent(alone.planned, 0.02, margin, 0.05, 0.0) > power.POWER
    assert any(f"support is {100 * margin:.2g} %" in n for n in notes(one, pooled[one.series.seal]))


def test_other_sites_nodes_and_work_are_not_pooled(tmp_path: Path) -> None:
    one, other = session_of(tmp_path, 1), session_of(tmp_path, 2)
    session = other.series.session
    for changed in (
        replace(session, machine={**session.machine, "cpu_model": "another"}),
        replace(session, declared=replace(session.declared, site="another")),
        replace(session, declared=replace(session.declared, workload={"batch": 1})),
    ):
        apart = replace(other, series=replace(other.series, session=changed))
        assert {s.sessions for s in standings([one, apart]).values()} == {1}


def test_a_site_without_controls_is_an_open_question(tmp_path: Path) -> None:
    one = session_of(tmp_path, 1, control_pairs=0)
    found = standings([one])[one.series.seal]
    assert not found.is_qualified
    assert any("whether it is qualified is open: A/A pooled" in note for note in notes(one, found))
    assert json_report._standing(found)["qualified"] is None

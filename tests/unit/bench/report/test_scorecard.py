from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.report import inputs, scorecard
from dlcontainer.bench.report.scorecard import ByRatio, ByVerdict, Score
from dlcontainer.bench.samples import reader
from tests import findings as made
from tests import rowseries
from tests.judging import analyse
from tests.rowseries import Plant
from tests.unit.bench.analysis.test_session_analysis import recorded


def scores(*names: str, found: tuple[Path, ...] = ()) -> dict[str, Score]:
    given = [inputs.read(path) for path in found]
    return {s.claim.id: s for s in scorecard.scores([recorded(name) for name in names], given)}


def test_nothing_given_supports_nothing() -> None:
    assert {score.standing for score in scores().values()} == {"not testable here"}
    assert all(score.why and score.claim.source for score in scores().values())


@pytest.mark.parametrize(
    ("names", "claim", "standing"),
    [
        (("equal",), "summit-no-impact", "supported"),
        (("slower-3-percent",), "summit-no-impact", "not supported"),
        (("noisy",), "summit-no-impact", "not testable here"),
        (("other-torch",), "summit-no-impact", "not testable here"),
        (("as-shipped",), "summit-no-impact", "not testable here"),
        (("equal", "slower-3-percent"), "summit-no-impact", "not testable here"),
        (("equal", "noisy"), "summit-no-impact", "supported"),
        (("import",), "summit-faster-loading", "not supported"),
        (("equal",), "arm-ten-percent", "not testable here"),
        (("equal",), "knl-threads", "not testable here"),
    ],
)
def test_by_sessions(names: tuple[str, ...], claim: str, standing: str) -> None:
    assert scores(*names)[claim].standing == standing


def test_the_engine_s_part_of_a_cost_is_no_container_s_cost() -> None:
    session = recorded("equal")
    assert scorecard.scores([session], [])[0].standing == "supported"
    line = session.series.session
    declared = replace(line.declared, arms=("bare", "container"))
    series = replace(session.series, session=replace(line, declared=declared))
    engine = replace(session, series=series)
    assert {score.standing for score in scorecard.scores([engine], [])} == {"not testable here"}


@pytest.mark.parametrize(("ratio", "standing"), [(1.0, "supported"), (1.5, "not supported")])
def test_by_a_session_of_rows(ratio: float, standing: str, tmp_path: Path) -> None:
    planted = Plant(ratios=dict.fromkeys(("all_reduce", "send_recv", "barrier"), ratio))
    session = analyse(reader.read(rowseries.write(tmp_path / "a.jsonl", planted)))
    found = {s.claim.id: s for s in scorecard.scores([session], [])}
    assert found["summit-no-impact-collectives"].standing == standing
    # It says nothing of training.
    assert found["summit-no-impact"].standing == "not testable here"
    assert found["knl-pure-mpi"].why == "needs 768 nodes with Xeon Phi"


def test_a_ratio_needs_the_architecture_and_the_whole_interval() -> None:
    def standing(bound: float) -> str:
        (claim,) = (c for c in scorecard.claims() if c.id == "arm-ten-percent")
        analysis = recorded("slower-3-percent")
        machine = {**analysis.series.session.machine, "arch": "aarch64"}
        session = replace(analysis.series.session, machine=machine)
        analysis = replace(analysis, series=replace(analysis.series, session=session))
        judged = claim.judged.model_copy(update={"at_most": bound})
        changed = claim.model_copy(update={"judged": judged})
        return scorecard._score(changed, [analysis], ()).standing

    assert standing(1.10) == "supported"
    assert standing(1.026) == "not testable here"
    assert standing(1.01) == "not supported"


@pytest.mark.parametrize(
    ("pyc", "so", "standing"), [(690, 27, "supported"), (20, 27, "not supported")]
)
def test_by_counts(pyc: int, so: int, standing: str, tmp_path: Path) -> None:
    path = made.write(tmp_path / "a.json", made.count(pyc=pyc, so=so))
    found = scores(found=(path,))
    assert found["copper-byte-code"].standing == standing
    assert found["copper-failed-lookups"].standing == "supported"


def test_a_count_of_something_else_tells_nothing(tmp_path: Path) -> None:
    body = {**made.count(), "command": ["python", "-c", "import numpy"]}
    found = scores(found=(made.write(tmp_path / "a.json", body),))
    assert found["copper-byte-code"].standing == "not testable here"


@pytest.mark.parametrize(
    ("assumed", "launches", "standing"),
    [
        (False, 2, "supported"),
        (False, 1, "not supported"),
        (True, 2, "not testable here"),
        (False, None, "not testable here"),
    ],
)
def test_by_storms(assumed: bool, launches: int | None, standing: str, tmp_path: Path) -> None:
    body = made.storm(assumed=assumed, launches=launches)
    found = scores(found=(made.write(tmp_path / "a.json", body),))
    assert found["frontier-staging"].standing == standing


def test_no_claim_holds_an_outcome() -> None:
    claims = scorecard.claims()
    assert len({claim.id for claim in claims}) == len(claims) > 12
    text = Path(scorecard.__file__).with_name("claims.yaml").read_text()
    assert "standing" not in text


def test_claims_are_judged_by_probes_that_exist() -> None:
    rules = [claim.judged for claim in scorecard.claims()]
    named = {rule.probe for rule in rules if isinstance(rule, ByVerdict | ByRatio)}
    assert named
    assert named <= PROBES.keys()

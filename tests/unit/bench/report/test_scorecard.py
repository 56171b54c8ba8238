import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.report import inputs, scorecard
from dlcontainer.bench.report.scorecard import (
    ClaimScore,
    JudgedByNothing,
    JudgedByRatio,
    JudgedByVerdict,
)
from dlcontainer.bench.samples import reader
from tests import benchseries, kernelseries, rowseries
from tests import findings as made
from tests.judging import analyse
from tests.rowseries import Plant
from tests.unit.bench.analysis.test_session_analysis import recorded


def scores(*names: str, found: tuple[Path, ...] = ()) -> dict[str, ClaimScore]:
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
    assert found["knl-pure-mpi"].why == "not run: needs 768 nodes with Xeon Phi"


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
    assert standing(1.035) == "not testable here"
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
    named = {rule.probe for rule in rules if isinstance(rule, JudgedByVerdict | JudgedByRatio)}
    assert named
    assert named <= PROBES.keys()


def claim_of(*beside: dict[str, Any]) -> ClaimScore:
    rule = JudgedByNothing.model_validate({"by": "none", "needs": "a V100", "beside": beside})
    claim = scorecard.claims()[0].model_copy(update={"judged": rule})
    return scorecard._score(claim, [recorded("equal"), kernels()], ())


def kernels() -> Analysis:
    with tempfile.TemporaryDirectory() as folder:
        path = kernelseries.write(Path(folder) / "kernels.jsonl", kernelseries.Plant(ratio=2.0))
        return analyse(reader.read(path))


def test_the_best_row_stands_beside_a_claim() -> None:
    wanted = {"probe": "kernels", "figure": "rate", "rows": {"kernel": "gemm"}, "tell": ("shape",)}
    score = claim_of(wanted)
    assert (score.standing, score.why) == ("not testable here", "not run: needs a V100")
    found = re.fullmatch(
        r"kernels\.jsonl: gemm shape (\S+) rate: native (\S+), container (\S+) GFLOP/s", score.value
    )
    assert found, score.value
    # As it was planted: 50 GFLOP/s, and half of it in the container.
    assert float(found[2]) == pytest.approx(kernelseries.GIGAFLOPS, rel=0.1)
    assert float(found[3]) == pytest.approx(kernelseries.GIGAFLOPS / 2, rel=0.1)


@pytest.mark.parametrize("more", [{}, {"tell": ("kernel",)}])
def test_of_seconds_the_least_is_best(more: dict[str, Any]) -> None:
    score = claim_of({"probe": "kernels", "figure": "seconds", **more})
    assert ("kernel reduction" in score.value) == bool(more)
    assert score.value.endswith(" s")


def test_a_figure_of_launches_stands_beside_a_claim() -> None:
    assert re.fullmatch(
        r"equal\.jsonl: mean wall_s: native \S+, container \S+ s",
        claim_of({"probe": "train", "figure": "wall_s"}).value,
    )


def test_several_figures_stand_beside_one_claim() -> None:
    one = {"probe": "train", "figure": "wall_s"}
    rows = {"probe": "kernels", "figure": "seconds"}
    said = claim_of(one, {**rows, "figure": "no such"}, rows)
    assert [text.partition(":")[0] for text in said.value.split("; ")] == [
        "equal.jsonl",
        "kernels.jsonl",
    ]


@pytest.mark.parametrize(
    "wanted",
    [
        {"probe": "kernels", "figure": "rate", "rows": {"kernel": "no such"}},
        {"probe": "kernels", "figure": "no such"},
        {"probe": "collectives", "figure": "busbw"},
        # Copies have no operations.
        {"probe": "kernels", "figure": "rate", "rows": {"kernel": "copy"}},
    ],
)
def test_what_was_not_measured_stands_nowhere(wanted: dict[str, Any]) -> None:
    assert claim_of(wanted).value == "-"


def test_each_figure_beside_is_one_of_its_probe() -> None:
    """A row that names no probe's figure would stay empty for ever."""
    session = benchseries.session(benchseries.Plan()).declared
    for claim in scorecard.claims():
        for wanted in claim.judged.beside if isinstance(claim.judged, JudgedByNothing) else ():
            probe = PROBES[wanted.probe]
            names = {one.name for one in probe.metrics}
            names |= {one.name for one in probe.derived(session)} | {"seconds"}
            assert wanted.figure in names, claim.id

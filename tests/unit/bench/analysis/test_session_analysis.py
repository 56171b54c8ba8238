from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from tests import benchseries
from tests.benchseries import RECORDED, Plan
from tests.judging import analyse
from tests.values import ROOT

RECORDINGS = ROOT / "tests" / "recorded" / "bench"
WORDS = {
    "equal": "EQUIVALENT",
    "slower-3-percent": "SLOWER",
    "order-effect": "EQUIVALENT",
    "drift": "EQUIVALENT",
    "outlier": "INCONCLUSIVE",
    "noisy": "INCONCLUSIVE",
    "unsteady": "NOT COMPARABLE",
    "other-torch": "NOT COMPARABLE",
    "as-shipped": "FASTER",
    "import": "SLOWER",
    "interrupted": "INCONCLUSIVE",
}


def recorded(name: str) -> Analysis:
    return analyse(reader.read(RECORDINGS / f"{name}.jsonl"))


def analysed(folder: Path, plan: Plan) -> Analysis:
    return analyse(reader.read(benchseries.write(folder / "a.jsonl", plan)))


def changing(wanted: Callable[[Sample], bool], **changes: object) -> Callable[[Sample], Sample]:
    def change(sample: Sample) -> Sample:
        return replace(sample, **changes) if wanted(sample) else sample  # type: ignore[arg-type]

    return change


def test_every_recorded_session_has_its_verdict() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.jsonl")} == set(WORDS) == set(RECORDED)
    assert {name: recorded(name).verdict.word for name in WORDS} == WORDS


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_the_recordings_are_what_the_generator_draws(name: str, tmp_path: Path) -> None:
    again = benchseries.write(tmp_path / "a.jsonl", RECORDED[name])
    assert again.read_text() == (RECORDINGS / f"{name}.jsonl").read_text()


def test_the_planted_values_are_found() -> None:
    slower = recorded("slower-3-percent").verdict.difference
    assert slower is not None
    assert slower.low < 1.03 < slower.high
    order = recorded("order-effect")
    assert order.main is not None
    assert order.main.fitted.order_effect == pytest.approx(0.04, abs=0.01)
    assert recorded("outlier").verdict.tail == (7,)


def test_a_refusal_names_what_differs_with_both_values() -> None:
    reasons = recorded("other-torch").verdict.reasons
    assert "torch differs: native 2.5.1+cpu, container 2.4.0" in reasons
    assert "threads differs: native 2, container 1" in reasons


def test_as_shipped_differences_are_listed_and_do_not_refuse() -> None:
    shipped = recorded("as-shipped")
    assert {item.name for item in shipped.differences} >= {"torch", "framework"}
    assert not shipped.verdict.reasons


def test_import_has_first_ranks_and_joiners() -> None:
    analysis = recorded("import")
    assert analysis.main is not None
    assert analysis.joiner is not None
    assert analysis.main.interval.ratio > analysis.joiner.interval.ratio > 1
    assert {pair.candidate.mount for pair in analysis.pairs["pair"]} == {"first"}
    assert {pair.candidate.mount for pair in analysis.pairs["joiner"]} == {"joiner"}


def test_secondary_figures_have_no_part_in_the_verdict() -> None:
    assert [figure.metric for figure in recorded("equal").secondary] == [
        "cpu_s_per_step",
        "wall_s",
    ]


def test_a_failed_launch_holds_the_verdict_and_names_its_line(tmp_path: Path) -> None:
    change = changing(
        lambda s: s.role == "pair" and s.pair == 3 and s.arm == "container",
        returncode=-9,
        error="no end within 60 s: ended",
    )
    analysis = analysed(tmp_path, Plan(change=change))
    (failed,) = analysis.failed
    assert analysis.verdict.word == "INCONCLUSIVE"
    assert analysis.verdict.reasons == (f"1 launches failed (lines {failed.line})",)
    assert len(analysis.pairs["pair"]) == 11


def test_an_arm_that_always_fails_is_not_comparable(tmp_path: Path) -> None:
    change = changing(lambda s: s.arm == "container", returncode=139)
    analysis = analysed(tmp_path, Plan(change=change))
    assert analysis.verdict.word == "NOT COMPARABLE"
    assert "no launch of container succeeded: exit code 139 (line " in analysis.verdict.reasons[0]


def test_losses_that_differ_are_not_comparable(tmp_path: Path) -> None:
    change = changing(
        lambda s: s.arm == "container" and s.pair == 5,
        values={"steady_s": 12.0, "loss": [1.0] * 20},
    )
    analysis = analysed(tmp_path, Plan(change=change))
    assert analysis.verdict.word == "NOT COMPARABLE"
    assert "the losses differ at step 0" in analysis.verdict.reasons[0]


@pytest.mark.parametrize("pairs", [1, 2, 3, 7])
def test_few_pairs_are_inconclusive(pairs: int, tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Plan(pairs=pairs, control_pairs=0, ratio=1.5))
    assert analysis.verdict.word == "INCONCLUSIVE"
    assert analysis.verdict.more_pairs


def test_more_or_fewer_pairs_than_declared_are_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan(pairs=16))) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=benchseries.INSIDE))
        for sample in benchseries.draw(Plan(pairs=12, ratio=1.2)):
            out.sample(sample)
        out.end(complete=True)
    verdict = analyse(reader.read(path)).verdict
    assert verdict.word == "INCONCLUSIVE"
    assert verdict.reasons == ("12 whole pairs, where 16 were declared",)


def test_no_samples_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan())) as out:
        out.end(complete=False, reason="the image does not start")
    with pytest.raises(BenchDataError, match="no samples") as caught:
        analyse(reader.read(path))
    assert caught.value.why == "the image does not start"


def test_a_session_of_warm_ups_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan())) as out:
        out.sample(benchseries.draw(Plan())[0])
    analysis = analyse(reader.read(path))
    assert analysis.verdict.word == "NOT COMPARABLE"  # neither side has said what it is
    assert analysis.main is None


def test_a_session_interrupted_before_one_side_ran_is_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, benchseries.session(Plan())) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.sample(benchseries.draw(Plan())[0])
    verdict = analyse(reader.read(path)).verdict
    assert verdict.word == "INCONCLUSIVE"
    assert verdict.reasons[0].startswith("the session is incomplete")


def test_a_side_that_crashes_at_once_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, second, *_ = benchseries.draw(Plan())
    with Writer(path, benchseries.session(Plan())) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        native, container = sorted((first, second), key=lambda s: s.arm == "container")
        out.sample(native)
        out.sample(replace(container, arm="container", returncode=139, error="ended by signal 11"))
    verdict = analyse(reader.read(path)).verdict
    assert verdict.word == "NOT COMPARABLE"
    assert verdict.reasons == ("no launch of container succeeded: ended by signal 11 (line 4)",)


@pytest.mark.parametrize(
    ("wanted", "changes", "says"),
    [
        (
            lambda s: s.role == "pair" and s.pair == 2,
            {"position": 0},
            "two launches at the same position",
        ),
        (lambda s: s.role == "pair" and s.pair == 2, {"arm": "native"}, "belong together"),
        (lambda s: s.role == "pair" and s.pair == 2, {"order": None}, "belong together"),
        (lambda s: s.role == "control", {"arm": "container"}, "belong together"),
        (
            lambda s: s.role == "pair" and s.pair == 2 and s.position == 1,
            {"order": "cn"},  # it is nc
            "belong together",
        ),
    ],
)
def test_pairs_that_are_none(
    tmp_path: Path, wanted: Callable[[Sample], bool], changes: dict[str, object], says: str
) -> None:
    with pytest.raises(BenchDataError, match=says) as caught:
        analysed(tmp_path, Plan(seed=4, change=changing(wanted, **changes)))
    assert ".jsonl:" in str(caught.value.where)


@pytest.mark.parametrize(
    ("bound", "word", "reasons"),
    [
        ([0, 1], "SLOWER", ()),
        (
            [1],
            "NOT COMPARABLE",
            tuple(
                f"a rank of {arm} on this node could use 1 CPU of the 2 that the job asked for each"
                for arm in ("native", "container")
            ),
        ),
    ],
)
def test_ranks_with_fewer_cpus_than_asked_for_are_not_compared(
    tmp_path: Path, bound: list[JsonValue], word: str, reasons: tuple[str, ...]
) -> None:
    binding: dict[str, JsonValue] = {"binding": {"local rank 0": [0, 1], "local rank 1": bound}}
    plan = Plan(
        ratio=1.2,
        declared={"cpus_asked": 2},
        reference={**benchseries.FACTS, **binding},
        candidate={**benchseries.INSIDE, **binding},
    )
    verdict = analysed(tmp_path, plan).verdict
    assert verdict.word == word
    node = AttestedStack(arm="native", facts={}).node
    assert [one for one in verdict.reasons if "CPU" in one] == [
        reason.replace("this node", str(node)) for reason in reasons
    ]

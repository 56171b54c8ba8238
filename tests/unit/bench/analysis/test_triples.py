"""Sessions of three arms: their files, their contrasts, their reports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.contrasts import together
from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, json_report, markdown_report
from dlcontainer.bench.report.figures import launch_marks
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.report.text import scope_text
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.stats import paired
from dlcontainer.cli.bench import defaults, session_options
from dlcontainer.errors import BenchDataError, UsageError
from tests import benchtriples
from tests.benchrunner import Bench, ProbeRunner
from tests.benchseries import FACTS, INSIDE, OTHER_TORCH
from tests.benchtriples import Triples
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.samples.test_continuation import interrupted, places

THREE = {"arms": ("native", "unpacked", "container"), "looks": (12, 18), "controls": 6}
WARMUPS = 3


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def analysed(tmp_path: Path, plan: Triples) -> Analysis:
    return analyse(reader.read(benchtriples.write(tmp_path / "a.jsonl", plan)))


def words(analysis: Analysis) -> dict[str, str]:
    return {item.meaning: item.verdict.word for item in analysis.contrasts}


def run(bench: Bench, runner: ProbeRunner | None = None, **changes: Any) -> Series:
    bench.run(runner or ProbeRunner(), **{**THREE, **changes})
    return bench.read()


def test_a_session_of_three_arms(bench: Bench) -> None:
    runner = ProbeRunner()
    series = run(bench, runner, candidate_controls=12)
    declared = series.session.declared
    assert declared.arms == ("native", "unpacked", "container")
    assert (declared.pairs, declared.candidate_control_pairs, declared.warmups) == (18, 12, 3)
    assert set(series.session.arms) == set(declared.arms) == {s.arm for s in series.stacks}
    launched = [(s.role, s.arm) for s in series.samples]
    for arm in declared.arms:
        assert launched.count(("triple", arm)) == 18
    assert launched.count(("control", "native")) == 12
    assert launched.count(("candidate_control", "container")) == 24
    unpacked = [argv for argv in runner.launches if any("/unpacked" in word for word in argv)]
    assert len(unpacked) == 19
    assert series.end is not None
    assert series.end.reason == "ended at its look at 18 triples"
    assert analyse(series).alpha == 0.025


def test_it_ends_where_the_whole_decides(bench: Bench) -> None:
    series = run(bench, ProbeRunner(wall=lambda inside: 1.5 if inside else 1.0))
    assert len(series.samples) == WARMUPS + 12 * 3 + 4 * 2
    analysis = analyse(series)
    assert words(analysis) == {"the whole": "SLOWER", "build and namespaces": "SLOWER",
                               "image mount": "INCONCLUSIVE"}  # fmt: skip


def test_the_build_and_the_engine_are_held_apart(tmp_path: Path) -> None:
    stacks = {**Triples().stacks, "bare": FACTS}
    plan = Triples(between="bare", built=1.05, whole=1.1, stacks=stacks)
    analysis = analysed(tmp_path, plan)
    assert words(analysis) == {"the whole": "SLOWER", "build": "SLOWER", "engine": "SLOWER"}
    whole, build, engine = analysis.contrasts
    assert build.figure.interval.ratio == pytest.approx(1.05, rel=0.01)
    assert engine.figure.interval.ratio == pytest.approx(1.1 / 1.05, rel=0.01)
    # What the container costs is the whole.
    assert analysis.verdict.difference == whole.verdict.difference


@pytest.mark.parametrize("launch", [3, 4, 5, 6, 11, 20, 30, 47])
def test_a_cut_session_goes_on_with_its_triples(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, launch: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(bench, ProbeRunner(odd=interrupted(launch)))
    path = bench.folder / "samples.jsonl"
    before = path.read_bytes()
    series = run(bench, cut=continuation.read(path))
    assert path.read_bytes().startswith(before[:-1])
    whole = run(Bench(tmp_path_factory.mktemp("whole")))
    assert places(series) == places(whole)
    (resume,) = series.resumes
    assert len(resume.aside) < 3
    assert len(series.samples) == len(whole.samples) + WARMUPS + len(resume.aside)
    assert analyse(series).verdict.word == analyse(whole).verdict.word


def test_both_launches_of_a_cut_triple_are_set_aside(bench: Bench) -> None:
    whole = run(bench)
    (bench.folder / "samples.jsonl").unlink()
    third = next(s.index for s in whole.launches if s.role == "triple" and s.position == 2)
    with pytest.raises(KeyboardInterrupt):
        run(bench, ProbeRunner(odd=interrupted(third)))
    series = run(bench, cut=continuation.read(bench.folder / "samples.jsonl"))
    assert series.resumes[0].aside == (third - 2, third - 1)
    assert continuation.set_aside(series) == {third - 2, third - 1}


def test_a_host_without_the_recipes_packages(bench: Bench) -> None:
    status = bench.folder / "status"
    status.write_text("Package: libc6\nStatus: install ok installed\n")
    bench.host = replace(bench.host, dpkg_status=status)
    series = run(bench, arms=(), looks=(2,), native=None)
    assert series.session.declared.arms == ("unpacked", "container")
    why = (
        "no native twin: python3 is missing on this host "
        "(an administrator types: apt-get install python3)"
    )
    assert series.session.arms["unpacked"].why == why
    analysis = analyse(series)
    standing = standings([analysis])[series.seal]
    assert f"The reference is the unpacked image: {why}." in notes(analysis, standing)


def test_arms_without_a_container_or_a_twin(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    two = run(bench, arms=("unpacked", "container"), looks=(2,), native=None)
    assert two.session.declared.arms == ("unpacked", "container")
    assert two.session.arms["unpacked"].why == "asked for by --arms"
    assert "what differs is the image mount." in scope_text.scope(analyse(two))
    assert "not the container's cost" in scope_text.scope(analyse(two))
    (bench.folder / "samples.jsonl").unlink()
    built = run(bench, arms=("native", "unpacked"), looks=(2,))
    assert {s.arm for s in built.samples} == {"native", "unpacked"}
    (bench.folder / "samples.jsonl").unlink()
    monkeypatch.setattr(
        "dlcontainer.bench.measure.reference_arm.native_twin_reason", lambda *_: "no such"
    )
    with pytest.raises(BenchDataError, match="no native side") as caught:
        run(bench, native=None)
    assert "--arms unpacked,container" in str(caught.value)


@pytest.mark.parametrize(
    ("built", "whole", "expected"),
    [
        (1.0, 1.0, ("EQUIVALENT", "EQUIVALENT", "EQUIVALENT")),
        (1.0, 1.05, ("SLOWER", "EQUIVALENT", "SLOWER")),
        (0.95, 1.0, ("EQUIVALENT", "FASTER", "SLOWER")),
    ],
)
def test_each_contrast_has_its_verdict(
    tmp_path: Path, built: float, whole: float, expected: tuple[str, str, str]
) -> None:
    analysis = analysed(tmp_path, Triples(built=built, whole=whole, second=0.02))
    assert tuple(words(analysis).values()) == expected
    assert analysis.verdict.word == expected[0]
    assert analysis.main is not None
    assert analysis.main.fitted.order_effect == pytest.approx(0.02, abs=0.005)
    means = [item.figure.fitted.mean for item in analysis.contrasts]
    assert means[0] == pytest.approx(means[1] + means[2], abs=0.004)
    different = ", ".join(i.name for i in analysis.contrasts if i.verdict.word != "EQUIVALENT")
    said = together(analysis.contrasts)
    if different:
        assert said == f"Different on {different}, by Holm's correction over all of them."
    else:
        assert said.startswith("The same within the margin on all")


def test_holm_needs_more_than_one_contrast_alone(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Triples(built=1.02, sd=0.05, controls=0, seed=49))
    alone = [paired.p_value(item.figure.fitted) for item in analysis.contrasts]
    assert [item.p_holm for item in analysis.contrasts] == list(paired.holm(alone))
    assert not any(item.is_different for item in analysis.contrasts)
    assert "nor different on one" in together(analysis.contrasts)


def test_another_torch_between_refuses_its_contrasts_alone(tmp_path: Path) -> None:
    stacks = {**Triples().stacks, "unpacked": OTHER_TORCH}
    analysis = analysed(tmp_path, Triples(stacks=stacks))
    assert words(analysis) == {"the whole": "EQUIVALENT", "build and namespaces": "NOT COMPARABLE",
                               "image mount": "NOT COMPARABLE"}  # fmt: skip
    assert INSIDE["torch"] != OTHER_TORCH["torch"]


def test_a_steady_candidate_is_not_refused(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Triples(own_controls=12))
    assert analysis.verdict.word == "EQUIVALENT"
    assert analysis.candidate_control is not None
    assert analysis.candidate_control.fitted.n == 12


def test_a_candidate_that_differs_from_itself_is_refused(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Triples(own_controls=12, own_ratio=1.05))
    assert analysis.verdict.word == "NOT COMPARABLE"
    assert analysis.verdict.reasons[0].startswith("the control compared the candidate with itself")
    assert set(words(analysis).values()) == {"NOT COMPARABLE"}


def test_a_lost_launch_of_any_arm_holds_every_contrast(tmp_path: Path) -> None:
    def change(sample: Sample) -> Sample:
        lost = sample.role == "triple" and (sample.pair, sample.arm) == (3, "unpacked")
        return replace(sample, returncode=1, error="gone") if lost else sample

    analysis = analysed(tmp_path, Triples(change=change))
    assert set(words(analysis).values()) == {"INCONCLUSIVE"}
    assert "1 launches failed" in analysis.verdict.reasons[0]


@pytest.mark.parametrize("field", ["order", "arm", "position"])
def test_a_triple_that_does_not_belong_together(tmp_path: Path, field: str) -> None:
    def change(sample: Sample) -> Sample:
        if sample.role != "triple" or sample.pair != 2 or sample.position:
            return sample
        other: dict[str, Any] = {
            "order": "nc",
            "arm": "native" if sample.arm != "native" else "container",
            "position": 1,
        }
        return replace(sample, **{field: other[field]})

    with pytest.raises(BenchDataError, match="triple 2"):
        analysed(tmp_path, Triples(change=change))


def test_the_report_shows_all_three(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Triples(whole=1.05, own_controls=8))
    page = html_report.html([analysis], TEMPLATES)
    for words_ in ("native → unpacked", "unpacked → container", "image mount", "B/B control",
                   "running third", "Three arms"):  # fmt: skip
        assert words_ in page
    found = json_report.session(analysis)
    contrasts = found["contrasts"]
    assert isinstance(contrasts, list)
    assert [(c["reference"], c["candidate"], c["verdict"]) for c in contrasts] == [
        ("native", "container", "SLOWER"),
        ("native", "unpacked", "EQUIVALENT"),
        ("unpacked", "container", "SLOWER"),
    ]
    joined = [(one.index, two.index) for role, one, two in launch_marks.joined(analysis)
              if role == "pair"]  # fmt: skip
    assert len(joined) == 2 * 12
    assert "B/B: 8 pairs" in markdown_report.summary([analysis])


def test_what_was_asked_of_three_arms() -> None:
    assert session_options.arms("container, unpacked,native") == ("native", "unpacked", "container")
    assert session_options.arms(None) == ()
    for wrong in ("native", "native,native", "native,box", "", "native,,container"):
        with pytest.raises(UsageError, match="two or three different arms"):
            session_options.arms(wrong)
    assert session_options.arms("container,bare,native") == ("native", "bare", "container")
    for wrong in ("native,bare,unpacked", "native,bare,unpacked,container"):
        with pytest.raises(UsageError, match=r"two or three|three arms can't") as refused:
            session_options.arms(wrong)
        assert "native,unpacked,container" in str(refused.value.next_step)
    assert session_options.controls("8,4") == (8, 4)
    assert session_options.controls("8") == (8, 0)
    for wrong in ("-1", "8,4,2", "x", ""):
        with pytest.raises(UsageError, match="--controls"):
            session_options.controls(wrong)
    assert defaults.looks(12, None, triples=True) == (12,)
    assert defaults.looks(None, "12,18,36", triples=True) == (12, 18, 36)
    with pytest.raises(UsageError, match="a multiple of 6") as caught:
        defaults.looks(8, None, triples=True)
    assert "--pairs 12" in str(caught.value.next_step)
    for wrong in ("6,12", "12,16", "18,12"):
        with pytest.raises(UsageError, match="strictly increasing multiples of 6"):
            defaults.looks(None, wrong, triples=True)


def test_steady_sides_are_described(bench: Bench) -> None:
    series = run(bench, looks=(6,), controls=0)
    said = {name: arm.what for name, arm in series.session.arms.items()}
    assert said == {"native": "native side, given", "unpacked": "unpacked image",
                    "container": "image demo.sif"}  # fmt: skip
    assert analyse(series).verdict.reasons == ("6 triples, and a verdict takes at least 12",)

"""What a report says is true of the session: seconds, what differed, far launches, carry-over."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import machine_load
from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, inputs, markdown_report
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.report.text import cold_text, scope_text, seconds_text, verdict_text
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import (
    ArmDescription,
    AttestedStack,
    Json,
    Sample,
    SessionHeader,
)
from dlcontainer.bench.samples.writer import Writer
from tests import benchseries
from tests.benchseries import FACTS, INSIDE, Plan
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.scale import test_analysis as matrices

BUILT: dict[str, Json] = {
    **INSIDE,
    "executable": {"build": "main May 12 2026", "compiler": "GCC 12"},
    "system_library_builds": {"libc.so.6": "aa", "libm.so.6": "bb"},
}
HOST: dict[str, Json] = {
    **FACTS,
    "executable": {"build": "main Apr 28 2025", "compiler": "GCC 12"},
    "system_library_builds": {"libc.so.6": "cc", "libm.so.6": "dd"},
}


def analysed(folder: Path, plan: Plan, **changes: object) -> Analysis:
    session: SessionHeader = replace(benchseries.session(plan), **changes)  # type: ignore[arg-type]
    path = folder / f"{plan.pairs}.jsonl"
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=plan.reference))
        out.stack(AttestedStack(arm="container", facts=plan.candidate))
        for sample in benchseries.draw(plan):
            out.sample(sample)
        out.end(complete=True)
    return analyse(reader.read(path))


def said(analysis: Analysis) -> str:
    return "\n".join(notes(analysis, standings([analysis])[analysis.series.seal]))


def test_only_the_container_differs_where_nothing_else_does(tmp_path: Path) -> None:
    scope = scope_text.scope(analysed(tmp_path, Plan()))
    assert scope.endswith("Both sides ran the same bits, so what differs is the container.")
    assert "three sessions" in scope


def test_what_else_differs_is_named(tmp_path: Path) -> None:
    scope = scope_text.scope(analysed(tmp_path, Plan(reference=HOST, candidate=BUILT)))
    assert "the same bits" not in scope
    assert scope.endswith(
        "what differs is the container, together with the distribution's build of Python and "
        "the distribution's builds of 2 libraries."
    )


def test_a_native_folder_claims_no_same_bits(tmp_path: Path) -> None:
    given = {
        "native": ArmDescription(what="native side, given"),
        "container": ArmDescription(what="image"),
    }
    scope = scope_text.scope(analysed(tmp_path, Plan(), arms=given))
    assert "The native side was given with --native" in scope
    assert "Both sides ran" not in scope


@pytest.mark.parametrize(
    ("kind", "words"),
    [("ext4", "local disk (ext4)"), ("tmpfs", "in memory (tmpfs)"), ("lustre", "on lustre")],
)
def test_seconds_come_first_for_an_import(tmp_path: Path, kind: str, words: str) -> None:
    plan = Plan(probe="import", pairs=8, control_pairs=8, joiner_pairs=8)
    machine = {**benchseries.MACHINE, "image_on": kind}
    analysis = analysed(tmp_path, plan, machine=machine)
    headline = verdict_text.headline(analysis)
    assert headline.startswith("+1.1 s once a node, +0.2 s each further rank; warm, ")
    assert f"; warm, {words}; 0.03 % of a one-hour job; SLOWER by" in headline
    assert analysis.seconds is not None
    added = analysis.seconds
    # 0.62 + 0.05 + 0.06 + 1.68 s inside, 0.06 + 0.03 + 0.05 + 1.2 s outside.
    assert added.low < 1.07 < added.high
    assert seconds_text.interval(added).endswith(" s")


def test_a_training_s_headline_is_its_ratio(tmp_path: Path) -> None:
    headline = verdict_text.headline(analysed(tmp_path, Plan(ratio=1.05)))
    assert headline.startswith("SLOWER by ")
    assert headline.endswith(", in this session")


def test_far_launches_are_counted_by_arm_and_no_mean_hides_them(tmp_path: Path) -> None:
    def change(sample: Sample) -> Sample:
        if sample.role == "control" and sample.pair == 2 and sample.position == 1:
            return replace(sample, values={**sample.values, "steady_s": 30.0})
        return sample

    analysis = analysed(tmp_path, Plan(sd=0.002, change=change))
    counts = {item.arm: (len(item.lines), item.launches) for item in analysis.far}
    assert counts == {"native": (1, 12 + 16), "container": (0, 12)}
    assert "native 1 of 28 (lines " in said(analysis)
    assert "container 0 of 12" in said(analysis)


def test_equivalent_says_which_share_of_slow_launches_it_leaves_open(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Plan(sd=0.004, pairs=8))
    assert analysis.verdict.word == "EQUIVALENT"
    sentence = verdict_text.sentence(analysis)
    assert "of 8 launches in the container, none took far longer" in sentence
    assert "slow ones may still be up to 31 % of all" in sentence


def test_carry_over_is_said_with_its_interval(tmp_path: Path) -> None:
    text = said(analysed(tmp_path, Plan()))
    assert "Carry-over: a launch right after one of the container side takes " in text
    assert "The ratio is corrected for it." in text
    few = said(analysed(tmp_path, Plan(pairs=4, control_pairs=0)))
    assert "too few launches to estimate it" in few


BUSY = ". Others were at work: this is not a verdict about an idle machine."


@pytest.mark.parametrize(
    ("load", "busy", "says"),
    [
        # Older files have the average alone.
        (0.4, None, "load 0.4 on 2 cores."),
        (35.0, None, f"load 35.0 on 2 cores{BUSY}"),
        # An average that holds what came before: the session before this one, a build.
        (3.6, 0.05, "load 3.6 on 2 cores, 0.1 of them busy just then."),
        # And one that does not hold yet what has just begun.
        (0.2, 1.0, f"load 0.2 on 2 cores, 1.0 of them busy just then{BUSY}"),
    ],
)
def test_the_load_is_beside_the_verdict(
    tmp_path: Path, load: float, busy: float | None, says: str
) -> None:
    own: dict[str, Json] = {"load_1min": load}
    if busy is not None:
        own["busy_cores"] = busy
    analysis = analysed(tmp_path, Plan(), machine={**benchseries.MACHINE, **own})
    assert scope_text.scope(analysis).endswith(f"At the start: {says}")


@pytest.mark.parametrize(
    ("busy", "cores", "is_so"),
    [(0.2, 2, False), (0.3, 2, True), (0.5, 128, False), (1.0, 128, True)],
)
def test_a_core_that_is_busy_is_somebody_s(busy: float, cores: int, is_so: bool) -> None:
    assert machine_load.others_at_work(0.0, busy, cores) is is_so


@pytest.mark.parametrize(
    ("factor", "word"), [(1.0, "EQUIVALENT"), (1.1, "SLOWER"), (0.9, "FASTER")]
)
def test_processor_time_is_an_endpoint_of_its_own(tmp_path: Path, factor: float, word: str) -> None:
    def change(sample: Sample) -> Sample:
        cpu = sample.values["cpu_s_per_step"]
        assert isinstance(cpu, float)
        more = factor if sample.arm == "container" else 1.0
        return replace(sample, values={**sample.values, "cpu_s_per_step": cpu * more})

    plan = Plan(sd=0.004, change=change)
    declared = replace(benchseries.session(plan).declared, secondary={"cpu_s_per_step": 0.02})
    analysis = analysed(tmp_path, plan, declared=declared)
    assert analysis.verdict.word == "EQUIVALENT"
    assert f"Processor time per step: {word}, margin 2 %, ratio {factor:.2f}"[:-1] in said(analysis)
    assert "it says nothing of waiting" in said(analysis)


def test_a_report_says_how_to_ask_for_the_margin_that_is_supported(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, Plan(sd=0.03))
    standing = standings([analysis])[analysis.series.seal]
    assert standing.supported is not None
    asked = float(said(analysis).rpartition("--margin ")[2].partition("%")[0]) / 100
    assert standing.supported <= asked < standing.supported + 0.0011


def test_a_side_that_drifts_is_said(tmp_path: Path) -> None:
    def change(sample: Sample) -> Sample:
        steady = sample.values.get("steady_s")
        if sample.role != "pair" or sample.arm != "container" or not isinstance(steady, float):
            return sample
        return replace(sample, values={**sample.values, "steady_s": steady * 1.01**sample.pair})

    drifts = said(analysed(tmp_path, Plan(sd=0.002, pairs=16, change=change)))
    assert "Neighbouring pairs resemble each other (correlation 0." in drifts
    assert "one side may drift" in drifts
    assert "resemble" not in said(analysed(tmp_path, Plan(sd=0.002, pairs=12)))


def test_a_cold_import_stands_beside_the_warm_one(tmp_path: Path) -> None:
    warm = analysed(tmp_path, Plan(probe="import", pairs=8, control_pairs=8))
    assert "dlcontainer bench import-matrix measures it" in cold_text.beside(warm, [])
    matrix = inputs.read(matrices.write(tmp_path / "matrix.jsonl"))
    text = cold_text.beside(warm, [matrix])
    assert text.startswith("Cold, from the shared file system: native as files 1.0 s, 1 rank; ")
    assert "image as engine, a mount per rank 0.5 s, 1 rank" in text
    assert "2 ranks" not in text
    assert text.endswith("(matrix.jsonl).")
    page = html_report.page([warm], [matrix])
    assert page.sections[0].beside == text
    assert text in markdown_report.summary([warm], [matrix]).replace("\\", "")
    assert cold_text.beside(analysed(tmp_path, Plan(pairs=12)), [matrix]) == ""


def test_the_page_explains_its_words(tmp_path: Path) -> None:
    page = html_report.html([analysed(tmp_path, Plan())], TEMPLATES)
    assert page.count('href="#words"') == 2
    assert page.count('id="words"') == 1
    for word in ("EQUIVALENT", "margin", "carry-over", "A/A, B/B", "seal"):
        assert f">{word}</td>" in page

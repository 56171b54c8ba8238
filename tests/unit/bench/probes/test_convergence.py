"""`bench convergence`: what is declared and lent, and what a report makes of trainings."""

import csv
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.convergence import DATA, RULES, SHA256
from dlcontainer.bench.probes.lending import SharedStorage
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.report import csv_report, html_report, json_report
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.encoding import declared_sha256
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import SampleRow
from dlcontainer.bench.samples.traits import ROWS_METRIC
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.cli.bench import probe_command
from dlcontainer.errors import ChecksFailedError, UsageError
from tests import benchseries, rowseries
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
PROBE = PROBES["convergence"]
Outcome = dict[str, Json]


def settled(**typed: Any) -> ProbeCell:
    return ProbeCell(values=PROBE.values(typed, ParameterContext(contents=TORCH)), threads=2)


def test_each_optimizer_batch_and_seed_is_a_row() -> None:
    plan = PROBE.rows(settled())
    assert plan is not None
    assert len(plan.rows) == len({json.dumps(row) for row in plan.rows}) == 2 * 5 * 8
    assert {row["batch"] for row in plan.rows} == {32, 128, 512, 1024, 1437}
    few = PROBE.rows(settled(optimizers="lars", batches="full,7", seeds=9))
    assert few is not None
    assert [(row["batch"], row["seed"]) for row in few.rows] == [
        (batch, seed) for batch in (7, 1437) for seed in range(1, 10)
    ]


def test_rules_and_margins_are_declared() -> None:
    declared = PROBE.declared(settled(optimizers="sgd"))
    assert declared["rules"] == {"sgd": dict(RULES["sgd"])}
    assert declared["data"] == SHA256 == hashlib.sha256(DATA.read_bytes()).hexdigest()
    assert (declared["accuracy_margin_points"], declared["steps_margin"]) == (1.0, 0.25)
    assert (declared["accuracy"], declared["most_steps"], declared["every"]) == (97.0, 500, 20)
    # Hashed: another margin is another declaration.
    base = rowseries.session(rowseries.Plant()).declared
    hashes = {
        declared_sha256(replace(base, workload={**declared, "accuracy_margin_points": margin}))
        for margin in (1.0, 1.0, 2.0)
    }
    assert len(hashes) == 2


def test_the_arms_are_called_with_what_is_declared() -> None:
    words = PROBE.words(settled(batches="64"))
    given = dict(zip(words[1::2], words[2::2], strict=True))
    assert json.loads(given["--rules"]) == {name: dict(rule) for name, rule in RULES.items()}
    assert (given["--batches"], given["--seeds"], given["--steps"]) == ("64", "8", "500")
    assert (given["--target"], given["--sha256"]) == ("97.0", SHA256)


def test_the_data_are_lent_to_both_sides(tmp_path: Path) -> None:
    def runner(*_: object, **__: object) -> Any:
        raise AssertionError

    lending = SharedStorage(work=tmp_path, runner=runner, note=lambda _: None)
    with PROBE.lends(settled().values, lending) as (one,):
        assert (one.option, one.inside) == ("data", "/mnt")
        assert (one.source / "digits.npz").read_bytes() == DATA.read_bytes()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"optimizers": "sgd,adam"}, "unknown optimizer 'adam'"),
        ({"batches": "0"}, "numbers of samples from 1 to 1437"),
        ({"batches": "32,1438"}, "numbers of samples from 1 to 1437"),
        ({"batches": "32,"}, "numbers of samples from 1 to 1437"),
        ({"accuracy": 100.5}, "a percentage from 20 to 100"),
        ({"accuracy": float("nan")}, "a percentage from 20 to 100"),
    ],
)
def test_what_can_not_be_trained(typed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settled(**typed)


def test_images_and_ranks_that_can_not() -> None:
    with pytest.raises(UsageError, match="bench convergence: one process computes"):
        PROBE.values({}, ParameterContext(contents=TORCH, ranks=2))
    none = ProbeSubject(image="x.sif", recipe="demo", modules=("mxnet",))
    with pytest.raises(ChecksFailedError, match=r"x\.sif has no framework to compute with"):
        PROBE.values({}, ParameterContext(contents=none))


def test_there_is_no_quick_session(tmp_path: Path) -> None:
    command = probe_command.make(PROBE, PROBES, lambda *_: None)
    nothing = {option.name: None for probe in PROBES.values() for option in probe.options}
    with pytest.raises(UsageError, match=r"--quick applies to .* only"):
        command(site="local", image=tmp_path, **{**nothing, "quick": True})


def trained(row: Any, arm: str) -> Outcome:
    """Plant what a training comes to: at 1,024 nothing reaches it, at 32 seed 3 does not."""
    seed, batch = int(row["seed"]), int(row["batch"])
    right = 350 + seed % 3
    outcome: Outcome = {"right": right, "tested": 360, "curve": [180, 300, right]}
    if batch == 1024 or (batch == 32 and seed == 3):
        return {**outcome, "reached": "not reached within 60 steps"}
    return {**outcome, "reached": "yes", "steps": 10 + seed, "seconds": 0.01 * (10 + seed)}


def write(path: Path, plant: Callable[[Any, str], Outcome] = trained) -> Path:
    """Write a session of eight pairs whose trainings come to what is planted."""
    cell = settled(batches="32,128,1024", most_steps=60)
    plan, base = PROBE.rows(cell), rowseries.session(rowseries.Plant())
    assert plan is not None
    declared = replace(
        base.declared, probe="convergence", rows=plan,
        workload={**PROBE.declared(cell), "every": 20},
    )  # fmt: skip

    def changed(sample: Sample) -> Sample:
        rows = tuple(
            SampleRow(
                parameters=row, n=1, best=0.5, median=0.5, cpu_s=0.5, steal_s=0.0, checked=1,
                outcome=plant(row, sample.arm),
            )
            for row in plan.rows
        )  # fmt: skip
        values = {**sample.values, ROWS_METRIC: agreement.mean(rows)}
        return replace(sample, rows=rows, values=values, wall_s=60.0 + sample.wall_s)

    with Writer(path, replace(base, declared=declared)) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=benchseries.INSIDE))
        for sample in rowseries.draw(rowseries.Plant()):
            out.sample(changed(sample))
        out.end(complete=True)
    return path


def judged(folder: Path, plant: Callable[[Any, str], Outcome] = trained) -> Analysis:
    return analyse(reader.read(write(folder / "a.jsonl", plant)))


def table(analysis: Analysis) -> dict[tuple[str, str], dict[str, str]]:
    section = analysis.traits.section
    assert section is not None
    lines = [dict(zip(section.head, row, strict=True)) for row in section.rows]
    return {(line["optimizer"], line["batch"]): line for line in lines}


def test_sides_that_train_alike(tmp_path: Path) -> None:
    found = table(judged(tmp_path))
    assert len(found) == 2 * 3
    line = found["sgd", "128"]
    # Seeds 1 to 8 take 11 to 18 steps.
    assert line["steps, native"] == line["steps, container"] == "14.5 (11 to 18)"
    assert (line["ratio of steps"], line["steps are"]) == ("1.000", "equivalent")
    # 350, 351 or 352 of 360: three seeds have one more, three have two more.
    mean = 100 * (8 * 350 + 3 * 1 + 3 * 2) / 8 / 360
    assert line["accuracy at the end, native, %"] == f"{mean:.2f}"
    assert (line["difference, points"], line["accuracies are"]) == ("+0.00", "equivalent")
    assert line["between launches, points"] == "0.00"


def test_what_is_not_reached_is_words_and_never_a_number(tmp_path: Path) -> None:
    found = table(judged(tmp_path))
    for arm in ("native", "container"):
        assert found["lars", "1,024"][f"steps, {arm}"] == "not reached within 60 steps"
        some = found["lars", "32"][f"steps, {arm}"]
        assert some == "7 of 8 seeds, the others not reached within 60 steps"
    for batch in ("32", "1,024"):
        line = found["lars", batch]
        # Of those that reached it alone a ratio would say what is not so.
        assert (line["ratio of steps"], line["steps are"]) == ("-", "-")
        assert line["accuracies are"] == "equivalent"


def test_a_container_that_learns_less_is_told(tmp_path: Path) -> None:
    def worse(row: Any, arm: str) -> Outcome:
        outcome = trained(row, arm)
        if arm == "container" and row["optimizer"] == "lars":
            # Two points of 360 are 7.2 images; twice the steps.
            outcome["right"] = int(str(outcome["right"])) - 8
            if "steps" in outcome:
                outcome["steps"] = 2 * int(str(outcome["steps"]))
        return outcome

    found = table(judged(tmp_path, worse))
    line = found["lars", "128"]
    assert (line["difference, points"], line["accuracies are"]) == ("-2.22", "different")
    assert (line["ratio of steps"], line["steps are"]) == ("2.000", "different")
    assert found["sgd", "128"]["accuracies are"] == "equivalent"


def test_scatter_between_seeds_shows_nothing(tmp_path: Path) -> None:
    def scattered(row: Any, arm: str) -> Outcome:
        outcome = trained(row, arm)
        if arm == "container":
            outcome["right"] = 351 + (9 if int(row["seed"]) % 2 else -9)
        return outcome

    assert table(judged(tmp_path, scattered))["sgd", "128"]["accuracies are"] == "not shown"


def test_launches_of_one_seed_that_differ_are_shown(tmp_path: Path) -> None:
    count = iter(range(10_000))

    def drifting(row: Any, arm: str) -> Outcome:
        # One image more in the first launch alone, which is that of 48 rows.
        return {**trained(row, arm), "right": 350 + (next(count) < 48)}

    found = table(judged(tmp_path, drifting))
    assert {line["between launches, points"] for line in found.values()} == {"0.28"}


@pytest.mark.parametrize(
    "outcome",
    [
        {},
        {"right": "350", "tested": 360},
        {"right": 361, "tested": 360},
        {"right": -1, "tested": 1},
    ],
)
def test_a_file_with_no_outcomes_has_no_table(tmp_path: Path, outcome: Outcome) -> None:
    analysis = judged(tmp_path, lambda _row, _arm: outcome)
    assert analysis.traits.section is None
    assert [line for chart in analysis.traits.charts for line in chart.lines if line.points] == []


def test_the_curves(tmp_path: Path) -> None:
    charts = {chart.title: chart for chart in judged(tmp_path).traits.charts}
    assert list(charts) == [
        "Accuracy over steps, SGD",
        "Accuracy over steps, LARS",
        "Steps to 97 %, by batch",
        "Seconds to 97 %, by batch",
    ]
    accuracy = charts["Accuracy over steps, LARS"]
    assert len(accuracy.lines) == 3 * 2
    assert [point.x for point in accuracy.lines[0].points] == [20, 40, 60]
    assert accuracy.lines[0].points[0].y == 50.0
    steps = charts["Steps to 97 %, by batch"]
    assert "SGD, batch 32; SGD, batch 1,024" in steps.caption
    assert [(point.x, point.y) for point in steps.lines[0].points] == [(128, 14.5)]


def test_report_csv_and_json(tmp_path: Path) -> None:
    analysis = judged(tmp_path)
    page = html_report.render(html_report.page([analysis]), TEMPLATES)
    assert "Accuracy over steps, SGD" in page
    assert "Trainings to 97 %" in page
    assert "not reached within 60 steps" in page
    out = io.StringIO(newline="")
    csv_report.write([analysis.series], out)
    lines = [line for line in csv.DictReader(io.StringIO(out.getvalue())) if line["row.n"]]
    assert len(lines) == 16 * 48
    never = [line for line in lines if line["row.outcome.reached"] != "yes"]
    assert {line["row.outcome.steps"] for line in never} == {""}
    assert len(never) == 16 * 2 * 9
    said = json.loads(json.dumps(json_report.session(analysis)))
    assert [chart["title"] for chart in said["charts"]][:1] == ["Accuracy over steps, SGD"]
    assert said["section"]["rows"][0]["optimizer"] == "sgd"

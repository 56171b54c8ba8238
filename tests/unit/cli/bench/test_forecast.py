"""`bench forecast` as it is typed: texts whole, JSON, files, and what is refused."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dlcontainer.bench.study.advice import facts_file
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.bench.trace.trace_records import SideName, SideTrace
from dlcontainer.cli import main
from tests import forecast_traces, forecasts, publishing, studies
from tests.values import GOLDEN, ROOT

DOCS = ROOT / "docs/measure"


def run(*words: str) -> int:
    return main._run(["bench", "forecast", *words], as_json="--json" in words)


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    forecasts.write(tmp_path)
    return tmp_path


def held(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Hold a text against the golden one; trailing blanks of tables do not count."""
    said = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    golden = GOLDEN / name
    if request.config.getoption("--update-golden"):
        golden.write_text(said)
    assert said == golden.read_text()


def test_the_answers_from_facts(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--nodes", "4", "--budget", "1000", "--parallel", "dp,fsdp,dp3", "--goal", "85%")
    assert run("facts.yaml", *words) == 0
    held("forecast-facts.txt", capsys.readouterr().out, request)


def test_the_answers_from_a_study(
    there: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    studies.write(there / "study", studies.plan(workload="alexnet"))
    assert run("study", "-o", "f.json") == 0
    text = re.sub(r"frozen as [0-9a-f]{12}", "frozen as DIGEST", capsys.readouterr().out)
    held("forecast-study.txt", text, request)
    assert json.loads(Path("f.json").read_text())["subject"]["kind"] == "study"


def test_json_is_the_file(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("facts.yaml", "--nodes", "1", "-o", "f.json", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body == json.loads(Path("f.json").read_text())
    assert body["schema"] == "dlcontainer/forecast/1"
    assert re.fullmatch("[0-9a-f]{64}", body["frozen"])
    assert {"subject", "inputs", "fit", "speed", "many", "next_step"} <= body.keys()
    assert all(one["source"] for one in body["inputs"])


def test_a_frozen_forecast_is_scored(
    there: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    request_of = partial(StudyRequest, ranks_per_node=16, batch=16, looks=(8,))
    first = studies.plan(request_of(ranks=(1, 2, 4)), workload="alexnet")
    studies.write(there / "first", first, studies.Planted(cores=64))
    assert run("first", "-o", "f.json") == 0
    later = studies.plan(
        request_of(ranks=(4, 8, 16)),
        workload="alexnet", created="2099-01-01T00:00:00Z",
    )  # fmt: skip
    studies.write(there / "later", later, studies.Planted(cores=64))
    capsys.readouterr()
    assert run("f.json", "--held-out", "later") == 0
    held("forecast-score.txt", capsys.readouterr().out, request)
    assert run("f.json", "--held-out", "later", "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "dlcontainer/forecast-score/1"
    # Changed afterwards, and held against the study that it was made of.
    assert run("f.json", "--held-out", "first") == 7
    Path("f.json").write_text(Path("f.json").read_text().replace('"goal": 0.85', '"goal": 0.5'))
    assert run("f.json", "--held-out", "later") == 7
    assert "changed after it was frozen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("facts.yaml", "--memory", "40"), 2, "--memory 40: no size of a device's memory"),
        (("facts.yaml", "--memory", "-1GB"), 2, "no size"),
        (("facts.yaml", "--budget", "0"), 2, "no number of hours above 0"),
        (("facts.yaml", "--budget", "nan"), 2, "no number of hours above 0"),
        (("facts.yaml", "--budget", "inf"), 2, "no number of hours above 0"),
        (("facts.yaml", "--goal", "85"), 2, "no efficiency between 0 and 1"),
        (("facts.yaml", "--goal", "nan"), 2, "no efficiency between 0 and 1"),
        (("facts.yaml", "--parallel", "dp,zz"), 2, "unknown term 'zz'"),
        (("facts.yaml", "--arm", "native"), 2, "--arm takes a study"),
        (("facts.yaml", "--nodes", "4", "--held-out", "study"), 2, "--held-out takes no --nodes"),
        (("facts.yaml", "--held-out", "study"), 7, "not a forecast"),
        (("facts.yaml", "-o", "no/f.json"), 7, "cannot be written"),
        (("facts.yaml", "--image", "no.sif", "--script", "a.py:b"), 2, "can't read no.sif"),
        (("nothing.yaml",), 3, "cannot be read"),
        ((".",), 7, "this is no scaling study"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == code
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_forecast_is_no_study(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("facts.yaml", "--nodes", "1", "-o", "f.json") == 0
    assert run("f.json") == 2
    assert "score it with --held-out STUDY2" in capsys.readouterr().err


def test_another_image_than_the_study_s_is_refused(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies.write(there / "study", studies.plan(workload="alexnet"))
    image = publishing.image_of(there / "images")
    assert run("study", "--image", str(image)) == 2
    assert "the study is of another image" in capsys.readouterr().err


def test_two_sessions_mixed_are_refused(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = studies.write(there / "study", studies.plan(workload="alexnet"))
    (study / "2-dp2.jsonl").write_bytes((study / "4-dp4.jsonl").read_bytes())
    assert run("study") == 7


def test_the_facts_of_the_docs_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    example = DOCS / "forecast-facts.yaml"
    assert facts_file.read(example).goal.strategies == ("dp", "fsdp")
    assert run(str(example), "--nodes", "16") == 0
    assert "use " in capsys.readouterr().out


def test_the_build_of_the_page_is_the_file_that_is_run() -> None:
    page = (DOCS / "forecast.md").read_text()
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert block
    file = (DOCS / "forecast_build.py").read_text()
    assert file.endswith(block[1].partition("import torch")[2])


def test_a_trace_tells_the_bytes_of_facts(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forecast_traces.write(there, forecast_traces.side("native"), forecast_traces.side())
    assert run("facts.yaml", "--nodes", "2", "--trace", "trace.json", "-o", "f.json") == 0
    said = capsys.readouterr().out
    assert "gradients of dp: 80 MB a step in 4 messages, of which computing can hide" in said
    assert "by trace.json, side container, 10 steps" in said
    assert "the facts state 100 MB of gradients, and the trace has 80 MB" in said
    body = json.loads(Path("f.json").read_text())
    named = body["subject"]["trace"]
    assert (named["origin"], named["side"], named["ranks"]) == ("trace.json", "container", 2)
    assert re.fullmatch("[0-9a-f]{64}", named["sha256"])
    # It is frozen with it.
    text = Path("f.json").read_text()
    Path("f.json").write_text(text.replace(named["sha256"], "ab" * 32))
    assert run("f.json", "--held-out", "study") == 7
    assert "changed after it was frozen" in capsys.readouterr().err


def test_facts_may_name_their_trace(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in forecasts.FACTS.splitlines() if "gradient_bytes" not in line]
    (there / "of").mkdir()
    forecasts.write(
        there / "of",
        "\n".join([*lines, ""]).replace("  name: a network", "  name: n\n  trace: trace.json"),
    )
    forecast_traces.write(there / "of")
    assert run("of/facts.yaml", "--nodes", "2") == 0
    assert "80 MB a step in 4 messages" in capsys.readouterr().out
    (there / "of/trace.json").unlink()
    assert run("of/facts.yaml", "--nodes", "2") == 7
    assert "of/trace.json: not a trace" in capsys.readouterr().err


def test_facts_without_bytes_and_trace_are_refused(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in forecasts.FACTS.splitlines() if "gradient_bytes" not in line]
    forecasts.write(there, "\n".join([*lines, ""]))
    assert run("facts.yaml") == 3
    assert "network: gradient_bytes is missing, and so is a trace" in capsys.readouterr().err


def test_a_trace_that_cost_much_is_used_and_said(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dear = replace(forecast_traces.side(waiting=0.5), overhead=forecast_traces.DEAR)
    forecast_traces.write(there, dear)
    assert run("facts.yaml", "--nodes", "2", "--trace", "trace.json") == 0
    said = capsys.readouterr().out
    assert "the trace: tracing adds +20.0 % to a step [+10.0, +30.0], by 9 steps: ABOVE" in said
    assert "the trace's ranks wait for each other 31% of a step" in said
    forecast_traces.write(there, forecast_traces.killed(forecast_traces.side()))
    assert run("facts.yaml", "--nodes", "2", "--trace", "trace.json") == 0
    assert "the trace has no rank 1" in capsys.readouterr().out


def test_of_a_trace_without_operations_bytes_are_taken(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forecast_traces.write(there, replace(forecast_traces.side(), is_computing_known=False))
    assert run("facts.yaml", "--nodes", "2", "--trace", "trace.json") == 0
    said = capsys.readouterr().out
    assert "80 MB a step in 4 messages; by" in said
    assert "the trace has no operations: it does not tell what computing hides" in said


@pytest.mark.parametrize(
    ("sides", "words", "code", "says"),
    [
        ((forecast_traces.side("native"),), (), 2, "it has no container side"),
        ((forecast_traces.side(ranks=3),), (), 7, "of 3 ranks under dp, and no point of the study"),
        ((forecast_traces.side(sent={}),), (), 7, "it has no collectives"),
        (
            (forecast_traces.side(sent=forecast_traces.SCATTERED),), (), 7,
            "of 2 ranks under fsdp, and no point of the study is why: none is fsdp",
        ),
        ((forecast_traces.side(),), ("--held-out", "study"), 2, "--held-out takes no --trace"),
    ],
)  # fmt: skip
def test_a_trace_that_is_not_the_study_s_is_refused(
    there: Path,
    sides: tuple[SideTrace, ...],
    words: tuple[str, ...],
    code: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    studies.write(there / "study", studies.plan(workload="alexnet"))
    forecast_traces.write(there, *sides)
    assert run("study", "--trace", "trace.json", *words) == code
    assert says in " ".join(capsys.readouterr().err.split())


def test_one_side_serves_its_arm(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = studies.plan(workload="alexnet")
    studies.write(there / "study", declared)
    native = forecast_traces.side("native")
    forecast_traces.write(there, native, site=declared.site)
    assert run("study", "--arm", "native", "--trace", "trace.json") == 0
    said = capsys.readouterr().out
    assert "by trace.json, side native, 10 steps" in said
    # As far as it can be told: the bytes are not those of the study's network.
    assert '"python train.py" sends 1.31 bytes a step for each of the 61,100,840' in said
    forecast_traces.write(there, native, site="elsewhere")
    assert run("study", "--arm", "native", "--trace", "trace.json") == 0
    assert "trace.json is of site elsewhere, the study of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arm", "sha256", "says"),
    [
        ("container", studies.SHA256, ""),
        (
            "container",
            "cd" * 32,
            "another image than the study (SHA-256 cdcdcdcdcdcd, the study's abababababab): it may",
        ),
        ("container", None, "trace.json does not say whether it is of the study's image"),
        # No image counts for a native side.
        ("native", None, ""),
    ],
)
def test_a_trace_of_another_image_is_used_and_said(
    there: Path,
    arm: SideName,
    sha256: str | None,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    declared = studies.plan(workload="alexnet")
    studies.write(there / "study", declared)
    side = forecast_traces.side(arm, image_sha256=sha256)
    forecast_traces.write(there, side, site=declared.site)
    assert run("study", "--arm", arm, "--trace", "trace.json") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"by trace.json, side {arm}, 10 steps" in said
    assert says in said
    assert ("trace.json is of" in said or "trace.json does not" in said) == bool(says)


def test_an_image_s_sha256_is_a_sha256(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forecast_traces.write(there, forecast_traces.side(image_sha256="\x1b[2J"))
    assert run("facts.yaml", "--nodes", "2", "--trace", "trace.json") == 7
    said = capsys.readouterr().err
    assert "trace.json: not a trace" in said
    assert "\x1b" not in said


def test_no_trace_is_refused_by_its_name(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("facts.yaml", "--trace", "facts.yaml") == 7
    said = capsys.readouterr().err
    assert "facts.yaml: not a trace" in said
    assert "next: give the trace.json that `dlcontainer bench trace` wrote" in said

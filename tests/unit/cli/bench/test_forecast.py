"""`bench forecast` as it is typed: texts whole, JSON, files, and what is refused."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from dlcontainer.bench.study.advice import facts_file
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.cli import main
from tests import forecasts, publishing, studies
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

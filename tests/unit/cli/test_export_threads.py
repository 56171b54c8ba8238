"""`export threads`: the number of threads that was measured as best becomes a site file."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject, Value
from dlcontainer.bench.probes.threads import ThreadChoice
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.cli import export_threads, main
from dlcontainer.cli.context import here
from dlcontainer.sites.site import SiteTarget
from tests import kernelseries
from tests.kernelseries import Plant
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS

VARIABLE = "OMP_NUM_THREADS"


def session(path: Path, counts: str = "1,2,4", **plant: Any) -> Path:
    """Write a session in which twice the threads take half the time."""
    contents = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
    typed: dict[str, Value] = {"counts": counts, "quick": True}
    values = PROBES["threads"].values(typed, ParameterContext(contents=contents))
    plan = PROBES["threads"].rows(ProbeCell(values=values, threads=4))
    assert plan is not None
    return kernelseries.write(path, Plant(plan=plan, probe="threads", **plant))


def export(*words: Path | str) -> int:
    argv = ["export", "threads", *map(str, words)]
    return main._run(argv, as_json="--json" in argv)


def test_the_best_number_is_the_site_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, target = session(tmp_path / "a b.jsonl"), tmp_path / "quick.yaml"
    assert export(samples, "-o", target, "--site", "local") == 0
    said = capsys.readouterr().out
    assert f"wrote {target}: local with 4 threads a process: the best of 4 kernels" in said
    assert "(others: 1, 2; 2 takes 2.000 [2.000, 2.000] times as long; sure)" in said
    site = here().site(str(target)).value
    assert (site.name, site.extends) == ("quick", "local")
    assert site.environment[VARIABLE] == site.jobs.environment[VARIABLE] == "4"
    assert site.sources["bench threads"].startswith("a b.jsonl, sha256 ")
    assert site.jobs.sources == ("bench threads",)


@pytest.mark.parametrize(
    ("name", "usual", "own"),
    [
        ("stampede2", {"environment"}, "66"),
        ("stampede2:skx", {"environment"}, "46"),
        ("vista", {"environment"}, "72"),
        ("perlmutter:gpu", set(), None),
        ("example-slurm", set(), None),
    ],
)
def test_a_node_type_has_its_own(
    name: str, usual: set[str], own: str | None, tmp_path: Path
) -> None:
    target = tmp_path / "quick.yaml"
    before = here().site(name).value
    assert before.environment.get(VARIABLE) == own
    assert export(session(tmp_path / "a.jsonl"), "-o", target, "--site", name) == 0
    site = here().site(str(target)).value
    assert (site.node_type, site.epoch) == (before.node_type, before.epoch)
    assert site.environment == {**before.environment, VARIABLE: "4"}
    assert site.jobs.environment == {**before.jobs.environment, VARIABLE: "4"}
    assert set(before.jobs.sources) < set(site.jobs.sources)
    for other in before.node_types.keys() - {before.node_type}:
        there = SiteTarget(node_type=other)
        bare = name.partition(":")[0]
        kept = here().site(bare, there).value.environment
        assert here().site(str(target), there).value.environment == kept


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, target = session(tmp_path / "a.jsonl"), tmp_path / "quick.yaml"
    assert export(samples, "-o", target, "--site", "local", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["threads"], said["next"], said["not_told_apart"]) == (4, 2, [])
    assert said["next_over_best"] == pytest.approx(2)
    assert (said["operations"], said["launches"]) == (4, 8)


def test_what_is_not_told_apart_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However many threads there are, the time is that of one.
    plain = kernelseries.truth
    monkeypatch.setattr(kernelseries, "truth", lambda row: plain({**row, "threads": 1}))
    samples, target = session(tmp_path / "a.jsonl", counts="2,4"), tmp_path / "quick.yaml"
    assert export(samples, "-o", target, "--site", "local") == 1
    said = capsys.readouterr().err
    assert "2 threads can't be told apart from 4: nothing was written" in said
    assert "(--pairs 16), or write 2 anyway with --unsure" in said
    assert not target.exists()
    assert export(samples, "-o", target, "--site", "local", "--unsure") == 0
    assert "not told apart from 4)" in here().site(str(target)).value.summary


def test_one_launch_has_no_interval() -> None:
    behind = Interval(ratio=1.869, low=0.0, high=float("inf"), level=0.95)
    one = ThreadChoice(
        threads=2, measured=(1,), tied=(1,), next=1, behind=behind, kernels=4, launches=1
    )
    said = str(export_threads._unsure(one).why)
    assert said == (
        "time of the next best / the best: 1.869 (too few launches for an interval); "
        "from 1 launches and 4 kernels"
    )


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (("--site", "nowhere"), 3, "nowhere"),
        (("--site", "./x.yaml"), 2, "takes a site's name, not a path"),
    ],
)
def test_a_site_that_none_can_extend(
    words: tuple[str, ...],
    code: int,
    wanted: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "quick.yaml"
    assert export(session(tmp_path / "a.jsonl"), "-o", target, *words) == code
    assert wanted in capsys.readouterr().err
    assert not target.exists()


@pytest.mark.parametrize("name", ["a b.yaml", "Quick.yaml", "x'\"$(touch y).yaml"])
def test_a_name_that_is_none_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(session(tmp_path / "a.jsonl"), "-o", tmp_path / name, "--site", "local") == 3
    assert "name" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_no_site_file_is_replaced_or_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples, target = session(tmp_path / "a.jsonl"), tmp_path / "quick.yaml"
    target.write_text("written by hand")
    assert export(samples, "-o", target, "--site", "local") == 2
    assert "a site file is never overwritten" in capsys.readouterr().err
    assert target.read_text() == "written by hand"
    assert export(samples, "-o", tmp_path / "local.yaml", "--site", "local") == 2
    assert "-o local-threads.yaml" in capsys.readouterr().err
    assert not (tmp_path / "local.yaml").exists()


def test_an_override_that_would_win_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "config" / "dlcontainer"
    folder.mkdir(parents=True)
    (folder / "overrides.yaml").write_text(
        "sites: {quick: {environment: {OMP_NUM_THREADS: '8'}}}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    target = tmp_path / "quick.yaml"
    assert export(session(tmp_path / "a.jsonl"), "-o", target, "--site", "local") == 3
    assert "overrides.yaml" in capsys.readouterr().err
    assert not target.exists()


def test_another_probe_s_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(RECORDINGS / "equal.jsonl", "-o", tmp_path / "quick.yaml") == 7
    assert "is not a session of `bench threads`" in capsys.readouterr().err


def test_one_number_alone_is_no_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = session(tmp_path / "a.jsonl", counts="2")
    assert export(samples, "-o", tmp_path / "quick.yaml") == 7
    assert "fewer than two numbers of threads" in capsys.readouterr().err

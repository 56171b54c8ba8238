"""What is kept of launches says the same as the launches themselves, read whole from the file."""

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import interim, pairing
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Evidence, judge
from dlcontainer.bench.report.figures import ecdf, session_plots
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.records import Json, Role, Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.stats import regression
from dlcontainer.bench.stats.differences import PairDifference
from dlcontainer.bench.stats.regression import RegressionFit
from dlcontainer.errors import BenchDataError
from tests import benchseries, benchtriples
from tests.benchrunner import Bench, ProbeRunner
from tests.benchseries import Plan, losses_of
from tests.benchtriples import Triples
from tests.judging import analyse, rules
from tests.values import ROOT

RECORDED = sorted((ROOT / "tests/recorded").glob("bench*/*.jsonl"))


def ranked(sample: Sample) -> Sample:
    ranks: list[dict[str, Json]] = [
        {"rank": 0, "wall_s": sample.wall_s, "phases": {"runtime": 0.5, "import": sample.wall_s}},
        {"rank": 1, "values": {"wall_s": 1.0, "steady_s": 2.0}},
        {"rank": 2},
    ]
    return replace(sample, ranks=tuple(ranks[: 3 - sample.index % 2]))


def failed(sample: Sample) -> Sample:
    bad = sample.pair == 3 and sample.arm == "container" and sample.role in {"pair", "triple"}
    return replace(sample, returncode=-9, error="ended") if bad else sample


def odd(sample: Sample) -> Sample:
    """Give figures that some launches lack, nested ones, a clock that is set back."""
    values: dict[str, Json] = {**sample.values, "counts": {"max_rss_mb": 100 + sample.index % 5}}
    if sample.index > 5:
        values["peak"] = sample.index % 3 or "NaN"
    if sample.role == "control" and sample.pair == 2:
        values["steady_s"] = 0
    started = "2026-01-05T08:00:00" if sample.index == 7 else sample.started
    return replace(sample, values=values, wall_s=1.5, started=started, phases={"import": 0.5})


def resumed(path: Path) -> Path:
    def stop(number: int) -> None:
        if number == 9:
            raise KeyboardInterrupt

    bench = Bench(path.parent)
    with pytest.raises(KeyboardInterrupt):
        bench.run(ProbeRunner(odd=stop), looks=(8, 12), controls=4)
    file = bench.folder / "samples.jsonl"
    bench.run(ProbeRunner(), cut=continuation.read(file), looks=(8, 12), controls=4)
    assert continuation.set_aside(reader.read(file))
    return file


Make = Callable[[Path], Path]
MADE: dict[str, Make] = {
    "ranks": lambda path: benchseries.write(path, Plan(change=ranked)),
    "ranks that import": lambda path: benchseries.write(
        path, Plan(probe="import", joiner_pairs=8, change=ranked)
    ),
    "failed": lambda path: benchseries.write(path, Plan(change=failed)),
    "odd": lambda path: benchseries.write(path, Plan(change=odd)),
    "triples": lambda path: benchtriples.write(path, Triples(whole=1.1, own_controls=8)),
    "failed triple": lambda path: benchtriples.write(path, Triples(change=failed)),
    "resumed": resumed,
    **{str(file.relative_to(file.parents[1])): lambda _, file=file: file for file in RECORDED},  # type: ignore[misc]
}


@pytest.fixture(params=list(MADE), scope="module")
def analysis(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    # Nothing changes it: one is made for all tests of a series.
    folder = tmp_path_factory.mktemp("series")
    return analyse(reader.read(MADE[request.param](folder / "a.jsonl")))


Whole = tuple[int, Sample, Sample]


def joined(series: Series, role: Role) -> list[Whole]:
    """Join whole records, as the protocol says: what is set aside or has no time is left out."""
    declared, aside = series.session.declared, continuation.set_aside(series)
    groups: dict[int, list[Sample]] = {}
    wanted = "triple" if declared.is_triple and role == "pair" else role
    for sample in series.samples:
        if sample.role == wanted and sample.index not in aside:
            groups.setdefault(sample.pair, []).append(sample)
    found = []
    for number, group in sorted(groups.items()):
        letters = {(s.order or "")[s.position]: s for s in group}
        timed = all(s.figure(declared.metric) for s in group)
        if timed and len(group) == (3 if wanted == "triple" else 2):
            found.append((number, letters["n"], letters["c"]))
    return found


def carried(series: Series, ours: Sample, theirs: Sample) -> tuple[int, ...]:
    """Say which further arm ran just before each of two launches."""
    every = series.samples
    before = [every[s.index - 1].arm if s.index else "" for s in (theirs, ours)]
    arms = series.session.declared.arms[1:]
    return tuple((before[0] == arm) - (before[1] == arm) for arm in arms)


def fitted(
    series: Series, metric: str, pairs: list[Whole], *controls: list[Whole]
) -> RegressionFit | None:
    found, *beside = (_differences(series, metric, one) for one in (pairs, *controls))
    return regression.fit(found, *beside) if found else None


def _differences(series: Series, metric: str, pairs: list[Whole]) -> list[PairDifference]:
    found = []
    for number, ours, theirs in pairs:
        one, other = ours.figure(metric), theirs.figure(metric)
        if one is None or other is None:
            return []
        at = ours.position, theirs.position
        in_triple = at if len(ours.order or "") == 3 else None
        found.append(
            PairDifference(
                number=number, d=math.log(other / one), candidate_first=at[1] < at[0],
                places=in_triple, carry=carried(series, ours, theirs),
            )
        )  # fmt: skip
    return found


def test_pairs_figures_and_verdict(analysis: Analysis) -> None:
    series = analysis.series
    metric = series.session.declared.metric
    pairs = {role: joined(series, role) for role in analysis.pairs}
    controls = {role: pairs[role] for role in pairing.CONTROLS}
    fits = {
        role: fitted(series, metric, found, *(() if role in controls else controls.values()))
        for role, found in pairs.items()
    }
    for role, found in analysis.pairs.items():
        lines = [(pair.number, pair.reference.line, pair.candidate.line) for pair in found]
        assert lines == [(number, one.line, other.line) for number, one, other in pairs[role]]
        # To the last bit, as text: what could not be fitted is not a number.
        beside = () if role in controls else pairing.controls_of(analysis.pairs)
        assert repr(found.fit(metric, *beside)) == repr(fits[role])
    evidence = Evidence(
        pairs=fits["pair"],
        control=fits["control"],
        candidate_control=fits["candidate_control"],
        refusals=interim.gates(series).refusals,
        holds=interim.holds(series, rules(series), analysis.pairs, interim.gates(series).refusals),
    )
    assert analysis.verdict == judge(rules(series), evidence)
    assert analysis.failed.lines() == [s.line for s in series.samples if not s.ok]


def test_other_figures_and_phases(analysis: Analysis) -> None:
    series = analysis.series
    declared, pairs = series.session.declared, joined(series, "pair")
    controls = [joined(series, role) for role in pairing.CONTROLS]
    names = dict.fromkeys(
        name for _, one, other in pairs for s in (one, other) for name in s.values
    )
    wanted = {}
    for name in (*declared.secondary, *names, *(["wall_s"] if pairs else [])):
        fit = fitted(series, name, pairs, *controls) if name != declared.metric else None
        if fit is not None:
            wanted[name] = fit
    assert [f.metric for f in analysis.secondary] == list(wanted)
    assert [repr(f.fitted) for f in analysis.secondary] == [repr(fit) for fit in wanted.values()]
    for figure in analysis.secondary:
        theirs = [other.figure(figure.metric) or 0.0 for _, _, other in pairs]
        assert figure.means[1] == sum(theirs) / len(theirs)
    means = dict(session_plots.phase_means(analysis))
    for name, own in {declared.sides.reference: 1, declared.sides.candidate: 2}.items():
        samples = [s for pair in pairs for s in pair[1:] if s is pair[own]]
        phases = dict.fromkeys(phase for s in samples for phase in s.phases)
        assert means.get(name, {}) == {
            phase: sum(s.phases.get(phase, 0.0) for s in samples) / len(samples) for phase in phases
        }


def test_each_launch_is_its_sample(analysis: Analysis) -> None:
    series = analysis.series
    samples = list(series.samples)
    assert len(samples) == len(series.launches) == len(series.samples)
    for launch, sample in zip(series.launches, samples, strict=True):
        assert series.samples[sample.index] == sample
        for name in ("index", "line", "role", "arm", "pair", "position", "order", "mount", "ok"):
            assert getattr(launch, name) == getattr(sample, name)
        for name in (*sample.values, "wall_s", series.session.declared.metric, "no such"):
            assert launch.figure(name) == sample.figure(name)


def test_losses_and_ranks(analysis: Analysis) -> None:
    series = analysis.series
    declared = series.session.declared
    if declared.probe == "train":
        used = [
            s
            for s in series.samples
            if s.ok and s.role != "warmup" and s.arm in declared.sides.names
        ]
        tolerance = declared.loss_tolerance or 0.0
        assert analysis.losses == losses_of(used, tolerance)
    for arm in ecdf.ready(analysis):
        assert list(arm.points) == sorted(arm.points)
        if arm.name in declared.sides.names:
            side = declared.sides.names.index(arm.name)
            own = [(one, other)[side] for _, one, other in joined(series, "pair")]
            each = 2 if arm.unit == "ranks" else 1
            assert {line for _, line in arm.points} == {s.line for s in own}
            assert len(arm.points) == each * len(own)


def test_a_clock_that_is_set_back(tmp_path: Path) -> None:
    series = reader.read(MADE["odd"](tmp_path / "a.jsonl"))
    assert list(series.launches.set_back) == [series.samples[7].line]


def test_a_file_that_changes_under_its_reader(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "a.jsonl", Plan(complete=False))
    series, whole = reader.read(path), path.read_bytes()
    path.write_bytes(whole + b"what is appended is not looked at")
    assert len(list(series.samples)) == len(series.launches)
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    with pytest.raises(BenchDataError, match="changed while it was read"):
        list(series.samples)
    with pytest.raises(BenchDataError, match="changed while it was read"):
        series.samples[-1]
    other = benchseries.write(tmp_path / "b.jsonl", Plan(complete=False, seed=2)).read_bytes()
    path.write_bytes(other)
    with pytest.raises(BenchDataError):
        list(series.samples)
    path.write_bytes(whole.replace(b'"wall_s":1', b'"wall_s":2', 1))
    with pytest.raises(BenchDataError, match="hash chain is broken"):
        list(series.samples)


def test_a_launch_keeps_a_few_dozen_bytes(tmp_path: Path) -> None:
    def kept(pairs: int) -> tuple[int, int]:
        plan = Plan(pairs=pairs, control_pairs=pairs)
        path = benchseries.write_quickly(tmp_path / f"{pairs}.jsonl", plan)
        reader.read(path)
        tracemalloc.start()
        series = reader.read(path)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return len(series.launches), size

    few, many = kept(100), kept(1100)
    # Three figures and three phases of eight bytes each, and 28 of the launch; arrays grow ahead.
    assert (many[1] - few[1]) / (many[0] - few[0]) < 100

"""What tests of forecasts share: files of facts, studies whose messages fit their steps."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dlcontainer.bench.samples.parallel_strategy import parse
from dlcontainer.bench.study.advice import facts_file, facts_ground, forecast_run, study_ground
from dlcontainer.bench.study.advice.facts_ground import ForecastSource
from dlcontainer.bench.study.advice.forecast_records import FitAnswer, Forecast
from dlcontainer.bench.study.advice.forecast_run import ForecastStamp
from dlcontainer.bench.study.advice.ground import ForecastQuestion
from dlcontainer.bench.study.advice.study_ground import StudyWords
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
)
from tests import planted_studies as studies
from tests.planted_studies import Planted, StudyCase

FACTS = """\
schema: dlcontainer/facts/1
network:
  name: a network
  gradient_bytes: {value: 100, unit: MB, source: "25 million parameters in fp32", independent: yes}
machine:
  name: a machine
  device: gpu
  algorithm: ring
  samples_per_s: {range: [340, 380], unit: samples/s, source: "one GPU, 27 Nov", independent: yes}
  ranks_per_node: {value: 4, unit: ranks, source: "the centre's guide", independent: yes}
  in_node:
    latency: {value: 10, unit: us, source: "guess", independent: assumed}
    bandwidth: {range: [20, 60], unit: GB/s, source: "data sheet", independent: yes}
  between_nodes:
    latency: {value: 20, unit: us, source: "guess", independent: assumed}
    bandwidth: {choices: [3, 12.5], unit: GB/s, source: "one port or four", independent: no}
goal:
  batch: {value: 128, unit: samples, source: "my script", independent: yes}
"""


def write(folder: Path, text: str = FACTS) -> Path:
    """Write a file of facts."""
    path = folder / "facts.yaml"
    path.write_text(text)
    return path


def source(folder: Path, text: str = FACTS, strategies: tuple[str, ...] = ()) -> ForecastSource:
    """Read a file of facts as a forecast's ground, by the name `facts.yaml`."""
    read = facts_file.read(write(folder, text))
    return facts_ground.of_facts(Path("facts.yaml"), read, "", strategies)


def study(case: StudyCase | None = None, digest: str = "ab" * 32) -> MeasuredStudy:
    """Draw a study whose messages are those of a quick network."""
    drawn = studies.measured(Path("study"), case or StudyCase())
    return replace(drawn, messages=tuple(_messages()), backend="gloo", digest=digest)


def _messages() -> Iterator[Message]:
    for ranks, nodes in ((2, 1), (4, 1), (2, 2), (4, 2)):
        for size in (4096, 4 << 20):
            byte_s = 5e-12 if nodes == 1 else 1e-11
            seconds = 2 * (ranks - 1) * 1e-5 + 2 * (ranks - 1) / ranks * size * byte_s
            yield Message(
                operation="all_reduce", ranks=ranks, nodes=nodes, bytes=size, arm="container",
                least_s=seconds, median_s=1.05 * seconds,
            )  # fmt: skip


def later(seconds: dict[int, float], created: str = "2026-12-01T00:00:00Z") -> MeasuredStudy:
    """Return a study of `study()`'s machine and work, with a step of so many seconds at ranks."""
    first = study(StudyCase(terms={ranks: Planted() for ranks in seconds}), digest="cd" * 32)
    points = tuple(_point(first.points[0].plan, ranks, step) for ranks, step in seconds.items())
    return replace(first, points=points, plan=replace(first.plan, created=created))


def _point(like: PointPlan, ranks: int, step: float) -> MeasuredPoint:
    plan = replace(like, ranks=ranks, nodes=-(-ranks // 4), strategy=parse("dp", ranks),
                   global_batch=32 * ranks)  # fmt: skip
    steps = ArmSteps(step_s=(step, 1.01 * step, 0.99 * step), apart_s=(), input_s=())
    return MeasuredPoint(plan=plan, arms={"native": steps, "container": steps}, complete=True)


def of_study(
    measured: MeasuredStudy, words: StudyWords | None = None, nodes: int | None = None
) -> Forecast:
    """Forecast from a study."""
    given = study_ground.of_study(measured, words or StudyWords(origin="study"))
    return made(given, nodes=nodes)


def made(
    given: ForecastSource,
    nodes: int | None = None,
    fit: FitAnswer | None = None,
    budget: float | None = None,
) -> Forecast:
    """Forecast from a ground; without a limit of memory."""
    question = ForecastQuestion(nodes=nodes, goal=given.goal, budget_hours=budget)
    stamp = ForecastStamp(created="2026-11-27T08:00:00Z", version="0.11.0")
    return forecast_run.complete(given.ground, question, fit or FitAnswer(limit=None), stamp)

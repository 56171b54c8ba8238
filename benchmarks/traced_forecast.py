#!/usr/bin/env python3
"""Whether a trace helps a forecast: steps of 3 and 4 ranks, with and without a trace of 2.

Hosts of `lab slownet`, one rank each, gloo; data parallel. Computing is a sleep (emulated): this
tells of communication alone. A study of 1 and 2 ranks (steps, all-reduces at 2) and a file of the
same facts (one rank's speed, the link, parameters x 4 bytes, nothing of the overlap) are each
forecast by `bench forecast`'s own code without a trace, with its bytes and messages alone, and with
all of it. Declared before the run that docs/measurements/scaling.md has: a step is the slowest
rank's, its statistic the median of the steps; the score is that of held-out points, the width of
the 90 % interval and 20 times what lies outside, as shares of the median. A benchmark, not a test.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean, median

from benchmarks import held_out_steps
from benchmarks.sampling import describe, machine_facts
from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.step_events import EVENTS, HOOK, HOOK_FILES
from dlcontainer.bench.job.trace_hook import TraceSchedule
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice import facts_file, facts_ground, speed_rows, study_ground
from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.advice.facts_ground import ForecastSource
from dlcontainer.bench.study.advice.forecast_records import TraceSource
from dlcontainer.bench.study.advice.ground import ForecastQuestion
from dlcontainer.bench.study.advice.study_ground import StudyWords
from dlcontainer.bench.study.advice.traced_traffic import TracedTraffic
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
    StudyPlan,
)
from dlcontainer.bench.trace import gradient_traffic, trace_analysis
from dlcontainer.bench.trace.trace_records import SideName, SideTrace

PROGRAM = HERE / "planted" / "traced_program.py"
ARM: SideName = "native"
PORT = 29541
TRACED = TraceSchedule(warm_up=3, steps=6)
# Of a trace: blocks before, with and after the profiler, and what Chakra takes.
TRACE_STEPS = TRACED.warm_up + 3 * TRACED.steps + 4
MB = 1 << 20
WAYS = ("without", "bytes", "trace")


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedProgram:
    """A program to forecast: what it sends, and how."""

    name: str
    rank_s: float
    bytes: int
    bucket_mb: float = 25
    packed: bool = False
    frozen: int = 0
    passes: int = 1
    # Gradients are averaged behind the backward pass.
    behind: bool = False


PROGRAMS = (
    TracedProgram(name="as it comes", rank_s=0.3, bytes=2 * MB),
    TracedProgram(name="small buckets", rank_s=0.3, bytes=3 * MB, bucket_mb=0.5),
    TracedProgram(name="sent as fp16", rank_s=0.25, bytes=4 * MB, bucket_mb=0.5, packed=True),
    TracedProgram(name="half frozen", rank_s=0.25, bytes=4 * MB, frozen=4),
    TracedProgram(name="two passes a step", rank_s=0.4, bytes=3 * MB, bucket_mb=1, passes=2),
    TracedProgram(name="behind the pass", rank_s=0.3, bytes=2 * MB, behind=True),
)
TINY = (TracedProgram(name="tiny", rank_s=0.05, bytes=MB // 4, bucket_mb=0.05),)


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedRow:
    """A held-out step: measured, and forecast from a study or facts in one of the ways."""

    program: str
    source: str
    way: str
    ranks: int
    measured_s: float
    forecast: Spread

    @property
    def error(self) -> float:
        """Return the middle's error, as a share of what was measured."""
        return self.forecast.middle / self.measured_s - 1

    @property
    def width(self) -> float:
        """Return the interval's width, as a share of what was measured."""
        return self.forecast.width / self.measured_s

    @property
    def score(self) -> float:
        """Return the width and 20 times what lies outside; low is good."""
        low, high = self.forecast.low, self.forecast.high
        outside = max(low - self.measured_s, self.measured_s - high, 0.0)
        return self.width + 20 * outside / self.measured_s


def main() -> None:
    """Measure, trace, forecast; print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--python", required=True, help="a Python with torch 2.4 or later")
    parser.add_argument("--rate", default="150Mbit", help="of each link (default 150Mbit)")
    parser.add_argument("--by", choices=["tun", "tbf"], default="tbf")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--tiny", action="store_true", help="one small program: a test")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw seconds")
    options = parser.parse_args()
    messages = held_out_steps.run(options, 2, ())
    rows = list[TracedRow]()
    raw = list[Mapping[str, Any]]()
    for program in TINY if options.tiny else PROGRAMS:
        seconds = {ranks: measured(options, program, ranks) for ranks in (1, 2, 3, 4)}
        traced = trace(options, program)
        raw.append({"program": asdict(program), "seconds": seconds, "trace": asdict(traced)})
        rows += compared(program, seconds, traced, messages)
    load, facts = os.getloadavg(), machine_facts()
    if options.json:
        body = {"machine": facts, "load": load, "rate": options.rate, "messages": messages}
        shown = [{**asdict(row), "score": row.score} for row in rows]
        schema = "dlcontainer/benchmark-traced-forecast/1"
        print(json.dumps({"schema": schema, **body, "rows": shown, "measured": raw}))
        return
    print(describe(facts))
    print(f"load {load[0]:.1f}, {load[1]:.1f}; links of {options.rate}; emulated compute (sleep)")
    show(rows)


def measured(options: argparse.Namespace, program: TracedProgram, ranks: int) -> list[float]:
    """Return the slowest rank's seconds of each step."""
    return _started(options, program, ranks, options.steps, [])


def trace(options: argparse.Namespace, program: TracedProgram) -> SideTrace:
    """Return a trace of two ranks, by the hook of `bench trace`."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-traced-") as name:
        folder = Path(name)
        for part in (EVENTS, HOOK):
            (folder / part).mkdir()
        for file, source in HOOK_FILES.items():
            (folder / HOOK / file).write_text(source.read_text())
        trace_hook.write(folder, TRACED)
        environ = [f"PYTHONPATH={folder / HOOK}", f"DLCONTAINER_EVENTS={folder / EVENTS}"]
        _started(options, program, 2, TRACE_STEPS, environ)
        return trace_analysis.read(folder / trace_hook.TRACE, ARM, 2, "ended")


def _started(
    options: argparse.Namespace,
    program: TracedProgram,
    ranks: int,
    steps: int,
    environ: Sequence[str],
) -> list[float]:
    settings = json.dumps({**asdict(program), "port": PORT, "steps": steps})
    with tempfile.TemporaryDirectory(prefix="dlcontainer-traced-") as name:
        output = Path(name, "steps.json")
        # A lab has two hosts at least.
        network = ["--by", options.by, "--rate", options.rate, "--hosts", str(max(ranks, 2))]
        # The ranks must not find this checkout's packages.
        launch = ["env", "-u", "PYTHONPATH", "OMP_NUM_THREADS=1", *environ]
        launch += ["dlc-launch", str(ranks), "1", options.python, str(PROGRAM), settings]
        lab = [sys.executable, "-c", held_out_steps.START, "lab", "slownet", *network, "--"]
        held_out_steps.started(
            [*lab, *launch, str(output)], {**os.environ, "PYTHONPATH": str(HERE.parent)}
        )
        seconds: list[float] = json.loads(output.read_text())
    return seconds


def compared(
    program: TracedProgram,
    seconds: Mapping[int, Sequence[float]],
    traced: SideTrace,
    messages: Mapping[str, Any],
) -> Iterator[TracedRow]:
    """Forecast the steps of 3 and 4 ranks in each way."""
    study = _study(program, seconds, messages)
    source = TraceSource(origin="trace.json", sha256="", side=ARM, steps=traced.steps, ranks=2)
    whole = TracedTraffic(source=source, step=gradient_traffic.of(traced, "trace.json"))
    ways = {"without": None, "bytes": replace(whole, is_elsewhere=True), "trace": whole}
    words = StudyWords(origin="study", arm=ARM)
    parameters = float(program.bytes)
    for way, traffic in ways.items():
        sources = {
            "study": study_ground.of_study(study, words, parameters, traffic),
            "facts": _facts(program, study, traffic),
        }
        for name, ground in sources.items():
            for ranks, spread in _forecast(ground).items():
                yield TracedRow(
                    program=program.name, source=name, way=way, ranks=ranks,
                    measured_s=median(seconds[ranks]), forecast=spread,
                )  # fmt: skip


def _forecast(source: ForecastSource) -> Mapping[int, Spread]:
    from dlcontainer.bench.study.advice.candidates import StrategyCandidate
    from dlcontainer.bench.study.forecast.step_terms import StrategyChoice

    question = ForecastQuestion(nodes=4, goal=0.85)
    candidates = [
        StrategyCandidate(
            typed="dp", ranks=ranks, nodes=ranks,
            choice=StrategyChoice(strategy=ParallelStrategy(dp=ranks), global_batch=ranks),
        )
        for ranks in (3, 4)
    ]  # fmt: skip
    answer = speed_rows.answer(source.ground, question, candidates)
    return {row.ranks: row.step_s for row in answer.rows}


def _study(
    program: TracedProgram, seconds: Mapping[int, Sequence[float]], messages: Mapping[str, Any]
) -> MeasuredStudy:
    """Return the study of 1 and 2 ranks: a launch is a step."""
    points = tuple(
        MeasuredPoint(
            plan=PointPlan(
                ranks=ranks, nodes=ranks, strategy=ParallelStrategy(dp=ranks), global_batch=ranks,
                looks=(7,), file="",
            ),
            arms={ARM: ArmSteps(step_s=tuple(seconds[ranks]), apart_s=(), input_s=())},
            complete=True,
        )
        for ranks in (1, 2)
    )  # fmt: skip
    rows = tuple(
        Message(
            operation=row["operation"], ranks=2, nodes=2, bytes=row["bytes"], arm=ARM,
            least_s=min(row["seconds"]), median_s=median(row["seconds"]),
        )
        for row in messages["rows"]
    )  # fmt: skip
    plan = StudyPlan(
        site="slownet", image_sha256="", recipe="", workload=program.name, precision="fp32",
        scaling="weak", one_allocation=True, points=tuple(point.plan for point in points),
        extras=(), created="", version="", options={"ranks_per_node": 1, "workload": "sleep"},
    )  # fmt: skip
    return MeasuredStudy(
        folder=Path("study"), plan=plan, points=points, messages=rows, idle_neighbours=(),
        digest="", backend="gloo",
    )  # fmt: skip


def _facts(
    program: TracedProgram, study: MeasuredStudy, traffic: TracedTraffic | None
) -> ForecastSource:
    """Return a file of the same facts: the speed of one rank, the link; nothing of the overlap."""
    from dlcontainer.bench.study.forecast import calibration

    links = calibration.from_study(study, ARM).estimates
    latency = links["latency between nodes"].interval()
    bandwidth = [1 / end for end in reversed(links["bandwidth between nodes"].interval())]
    alone = [1 / step for step in study.points[0].arms[ARM].step_s]

    def figure(ends: Sequence[float], unit: str) -> str:
        shown = ", ".join(f"{end:.9g}" for end in ends)
        # JSON is YAML.
        return f'{{range: [{shown}], unit: {unit}, source: "measured", independent: yes}}'

    def counted(count: float, unit: str) -> str:
        return f'{{value: {count:g}, unit: {unit}, source: "known", independent: yes}}'

    text = f"""\
schema: dlcontainer/facts/1
network: {{name: emulated, gradient_bytes: {counted(program.bytes, "B")}}}
machine:
  name: slownet
  device: cpu
  algorithm: ring
  samples_per_s: {figure((min(alone), max(alone)), "samples/s")}
  ranks_per_node: {counted(1, "ranks")}
  between_nodes: {{latency: {figure(latency, "s")}, bandwidth: {figure(bandwidth, "B/s")}}}
goal: {{batch: {counted(1, "samples")}}}
"""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-traced-") as name:
        path = Path(name, "facts.yaml")
        path.write_text(text)
        facts = facts_file.read(path)
        return facts_ground.with_trace(facts_ground.of_facts(path, facts), facts, traffic)


def show(rows: Sequence[TracedRow]) -> None:
    """Print each program's rows, and the means of each way."""
    print("\n| program, ranks | measured, s | from | without: s, error | bytes | trace |")
    print("|---|---|---|---|---|---|")
    keys = dict.fromkeys((row.program, row.ranks, row.source) for row in rows)
    for program, ranks, source in keys:
        three = [
            next(
                row
                for row in rows
                if (row.program, row.ranks, row.source, row.way) == (program, ranks, source, way)
            )
            for way in WAYS
        ]
        cells = " | ".join(
            f"{row.forecast.middle:.3f} [{row.forecast.low:.3f}, {row.forecast.high:.3f}]"
            f" {row.error:+.1%}"
            for row in three
        )
        print(f"| {program}, {ranks} | {three[0].measured_s:.3f} | {source} | {cells} |")
    print("\n| from | way | mean error | worst | mean width | holds it | mean score |")
    print("|---|---|---|---|---|---|---|")
    for source in ("study", "facts"):
        for way in WAYS:
            own = [row for row in rows if (row.source, row.way) == (source, way)]
            errors = [abs(row.error) for row in own]
            inside = sum(row.forecast.low <= row.measured_s <= row.forecast.high for row in own)
            print(
                f"| {source} | {way} | {fmean(errors):.1%} | {max(errors):.1%} | "
                f"{fmean(row.width for row in own):.1%} | {inside} of {len(own)} | "
                f"{fmean(row.score for row in own):.2f} |"
            )


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How well the step model forecasts steps that it never saw: emulated compute, real messages.

Hosts of `lab slownet`, one rank each, gloo. Calibrated by all_reduce and send_recv of two sizes at
2 and 3 ranks and by a sleep alone; held out: steps of 3 and 4 ranks. Compute is a sleep (emulated):
this tells of communication alone. Declared before the runs that docs/measurements/scaling.md has:
calibration by least times, of the smallest size by the geometric mean of least and median; a step
is the slowest rank's, its statistic the median of 7 repetitions (least times beside it); aims: mean
error at most 10 %, worst at most 25 %. fsdp is shown beside, not judged: the model takes its link
from all-reduces. The model's digest is printed first. A benchmark, not a test.
"""

import argparse
import hashlib
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

from statistics import mean, median

from benchmarks.sampling import describe, machine_facts
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study import forecast
from dlcontainer.bench.study.forecast import calibration, step_forecast, step_model
from dlcontainer.bench.study.forecast.calibration import CalibratedMachine
from dlcontainer.bench.study.forecast.estimates import Estimate
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    Schedule,
    StepTerms,
    StrategyChoice,
    TrainedNetwork,
)
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
    StudyPlan,
)
from dlcontainer.system.process import CommandFailedError, ProcessRunner

START = "from dlcontainer.cli.main import run; run()"
RANKS = HERE / "emulated_steps.py"
MODEL = (
    *("step_terms", "step_model", "pipeline_graph", "placement", "collective_times"),
    *("estimates", "link_fit", "calibration", "step_forecast"),
)
ARM = "emulated"
MEAN_AIM, WORST_AIM = 0.10, 0.25
# The network that "the study" trained: a sleep of this long, 1 FLOP a second.
ALONE_S = 0.25
CALIBRATION_BYTES = (4096, 1 << 22)
TRIES = 3
KB, MB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class EmulatedStep:
    """A step to emulate: `rank_s` seconds of sleep of each rank, over all its micro-batches."""

    axes: tuple[str, ...]
    rank_s: float
    gradient_bytes: int = 0
    buckets: int = 1
    activation_bytes: int = 0
    layers: int = 1
    micro_batches: int = 1
    schedule: Schedule = "1f1b"

    def strategy(self, ranks: int) -> ParallelStrategy:
        """Return the strategy: all ranks along one axis, or two along each of two."""
        size = ranks if len(self.axes) == 1 else 2
        return ParallelStrategy(**dict.fromkeys(self.axes, size))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOut:
    """A held-out step: measured and forecast, seconds."""

    name: str
    ranks: int
    step: EmulatedStep
    judged: bool
    median_s: float
    least_s: float
    forecast_s: float
    low_s: float
    high_s: float
    terms: StepTerms

    @property
    def error(self) -> float:
        """Return the forecast's error, as a share of the median."""
        return self.forecast_s / self.median_s - 1

    @property
    def least_error(self) -> float:
        """Return the forecast's error, as a share of the least time."""
        return self.forecast_s / self.least_s - 1

    @property
    def inside(self) -> bool:
        """Whether the 90 % interval holds the median."""
        return self.low_s <= self.median_s <= self.high_s


# For 3 and for 4 ranks each; sizes that no earlier trial had.
STEPS = (
    EmulatedStep(axes=("dp",), rank_s=0.45, gradient_bytes=3 * MB // 2, buckets=3),
    EmulatedStep(axes=("dp",), rank_s=0.2, gradient_bytes=5 * MB // 2, buckets=5),
    EmulatedStep(axes=("dp",), rank_s=0.7, gradient_bytes=3 * MB, buckets=1),
    EmulatedStep(axes=("tp",), rank_s=0.35, activation_bytes=96 * KB, layers=5),
    EmulatedStep(axes=("tp",), rank_s=0.15, activation_bytes=192 * KB, layers=3),
    EmulatedStep(axes=("tp",), rank_s=0.5, activation_bytes=40 * KB, layers=8),
    EmulatedStep(axes=("pp",), rank_s=0.24, activation_bytes=96 * KB, micro_batches=8),
    EmulatedStep(axes=("pp",), rank_s=0.3, activation_bytes=256 * KB, micro_batches=4),
    EmulatedStep(
        axes=("pp",), rank_s=0.2, activation_bytes=160 * KB, micro_batches=5, schedule="gpipe"
    ),
    EmulatedStep(
        axes=("pp",), rank_s=0.35, activation_bytes=80 * KB, micro_batches=7, schedule="gpipe"
    ),
)
HYBRIDS = (
    EmulatedStep(
        axes=("dp", "pp"), rank_s=0.3, gradient_bytes=3 * MB // 2, activation_bytes=192 * KB,
        micro_batches=6,
    ),
    EmulatedStep(
        axes=("dp", "pp"), rank_s=0.18, gradient_bytes=3 * MB, activation_bytes=96 * KB,
        micro_batches=3, schedule="gpipe",
    ),
    EmulatedStep(
        axes=("tp", "pp"), rank_s=0.32, activation_bytes=64 * KB, layers=4, micro_batches=4
    ),
    EmulatedStep(
        axes=("tp", "pp"), rank_s=0.2, activation_bytes=128 * KB, layers=2, micro_batches=3
    ),
    EmulatedStep(
        axes=("dp", "tp"), rank_s=0.4, gradient_bytes=2 * MB, buckets=2, activation_bytes=96 * KB,
        layers=4,
    ),
    EmulatedStep(
        axes=("dp", "tp"), rank_s=0.25, gradient_bytes=3 * MB, buckets=4,
        activation_bytes=64 * KB, layers=6,
    ),
)  # fmt: skip
BESIDE = (
    EmulatedStep(axes=("fsdp",), rank_s=0.4, gradient_bytes=2 * MB, layers=4),
    EmulatedStep(axes=("fsdp",), rank_s=0.2, gradient_bytes=3 * MB, layers=3),
)
# What a test runs.
TINY = (
    EmulatedStep(axes=("dp",), rank_s=0.05, gradient_bytes=128 * KB, buckets=2),
    EmulatedStep(axes=("tp",), rank_s=0.05, activation_bytes=16 * KB, layers=2),
    EmulatedStep(axes=("pp",), rank_s=0.05, activation_bytes=16 * KB, micro_batches=3),
)


def main() -> None:
    """Calibrate, measure, compare; print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--python", required=True, help="a Python with torch")
    parser.add_argument("--rate", default="150Mbit", help="of each link (default 150Mbit)")
    parser.add_argument("--by", choices=["tun", "tbf"], default="tbf")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--bytes", type=float, default=1, help="times the sizes: a fresh set")
    parser.add_argument("--compute", type=float, default=1, help="times the sleeps: a fresh set")
    parser.add_argument("--tiny", action="store_true", help="three small steps of 3 ranks: a test")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw seconds")
    options = parser.parse_args()
    frozen = digest()
    if not options.json:
        print(f"the model's SHA-256: {frozen}, load {os.getloadavg()[0]:.1f}", flush=True)
    sets: Mapping[int, Sequence[EmulatedStep]] = {
        3: TINY if options.tiny else (*STEPS, *BESIDE),
        **({} if options.tiny else {4: (*STEPS, *HYBRIDS, *BESIDE)}),
    }
    steps = {ranks: [fresh(step, options) for step in each] for ranks, each in sets.items()}
    measured = {ranks: run(options, ranks, steps.get(ranks, ())) for ranks in (2, *steps)}
    calibrated = calibrated_by({ranks: measured[ranks] for ranks in (2, 3)})
    rows = [row for ranks in steps for row in compared(calibrated, ranks, measured[ranks])]
    load, facts = os.getloadavg(), machine_facts()
    if options.json:
        body = {
            "digest": frozen, "machine": facts, "load": load, "rate": options.rate,
            "rows": [asdict(row) for row in rows], "measured": measured,
            "estimates": [asdict(one) for one in calibrated.estimates.values()],
        }  # fmt: skip
        print(json.dumps({"schema": "dlcontainer/benchmark-held-out-steps/1", **body}))
        return
    print(describe(facts))
    print(f"load {load[0]:.1f}, {load[1]:.1f}; links of {options.rate}; emulated compute (sleep)")
    show(calibrated, rows)


def fresh(step: EmulatedStep, options: argparse.Namespace) -> EmulatedStep:
    """Return a step with other sizes and sleeps."""
    return replace(
        step,
        rank_s=round(step.rank_s * options.compute, 4),
        gradient_bytes=round(step.gradient_bytes * options.bytes),
        activation_bytes=round(step.activation_bytes * options.bytes),
    )


def digest() -> str:
    """Return the SHA-256 of the model's files, in their order."""
    folder = Path(forecast.__file__).parent
    whole = hashlib.sha256()
    for name in MODEL:
        whole.update((folder / f"{name}.py").read_bytes())
    return whole.hexdigest()


def run(
    options: argparse.Namespace, ranks: int, steps: Sequence[EmulatedStep]
) -> Mapping[str, Any]:
    """Run ranks, one on each host; return their rows."""
    calibrating = ranks < 4
    operations = [
        {"operation": operation, "bytes": size}
        for operation in ("all_reduce", "send_recv")
        for size in CALIBRATION_BYTES
    ]
    with tempfile.TemporaryDirectory(prefix="dlcontainer-held-out-") as name:
        settings, output = Path(name, "settings.json"), Path(name, "rows.json")
        body = {
            "port": 29531, "repetitions": options.repetitions, "alone_s": ALONE_S,
            "operations": operations if calibrating else [], "steps": [asdict(s) for s in steps],
        }  # fmt: skip
        settings.write_text(json.dumps(body))
        network = ["--by", options.by, "--rate", options.rate, "--hosts", str(ranks)]
        # The ranks must not find this checkout's packages.
        launch = ["env", "-u", "PYTHONPATH", "OMP_NUM_THREADS=1", "dlc-launch", str(ranks), "1"]
        words = [*launch, options.python, str(RANKS), str(settings), str(output)]
        lab = [sys.executable, "-c", START, "lab", "slownet", *network, "--", *words]
        environ = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        started(lab, environ)
        rows: Mapping[str, Any] = json.loads(output.read_text())
    return rows


def started(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run it; a network that others' work has slowed is refused, and tried again."""
    for left in reversed(range(TRIES)):
        try:
            ProcessRunner(environ=environ)(words)
        except CommandFailedError as error:
            text = error.completed.stderr
            if not left or "the network does not behave as requested" not in text:
                raise SystemExit(text[-2000:]) from None
        else:
            return


def calibrated_by(measured: Mapping[int, Mapping[str, Any]]) -> CalibratedMachine:
    """Calibrate as a study would: by messages at the first two points, and a rank alone."""
    messages = [
        Message(
            operation=row["operation"], ranks=ranks, nodes=ranks, bytes=row["bytes"], arm=ARM,
            least_s=min(row["seconds"]), median_s=median(row["seconds"]),
        )
        for ranks, body in measured.items()
        for row in body["rows"]
        if "operation" in row
    ]  # fmt: skip
    alone = ArmSteps(
        step_s=tuple(own for row in measured[2]["apart_s"] for own in row), apart_s=(), input_s=()
    )
    pair = ArmSteps(step_s=(), apart_s=tuple(map(tuple, measured[2]["apart_s"])), input_s=())
    points = (_point(1, alone), _point(2, pair))
    plan = StudyPlan(
        site="slownet", image_sha256="", recipe="", workload="sleep", precision="fp32",
        scaling="weak", one_allocation=True, points=tuple(point.plan for point in points),
        extras=(), created="", version="",
    )  # fmt: skip
    study = MeasuredStudy(
        folder=Path("held-out"), plan=plan, points=points, messages=tuple(messages),
        idle_neighbours=(), digest="", backend="gloo",
    )  # fmt: skip
    calibrated = calibration.from_study(study, ARM)
    sleeps = Estimate(
        name="overlap", value=1.0, se=0.0, df=1.0, source="a sleep leaves the processor to gloo"
    )
    return replace(calibrated, estimates={**calibrated.estimates, "overlap": sleeps})


def _point(ranks: int, steps: ArmSteps) -> MeasuredPoint:
    plan = PointPlan(
        ranks=ranks, nodes=ranks, strategy=ParallelStrategy(dp=ranks), global_batch=ranks,
        looks=(7,), file="",
    )  # fmt: skip
    return MeasuredPoint(plan=plan, arms={ARM: steps}, complete=True, emulated="sleep")


def compared(
    calibrated: CalibratedMachine, ranks: int, body: Mapping[str, Any]
) -> Iterator[HeldOut]:
    """Forecast each measured step."""
    studied = TrainedNetwork(flops=ALONE_S, gradient_bytes=0)
    centre, drawn = calibrated.machine(studied), calibrated.draws(studied)
    for row in body["rows"]:
        if "operation" in row:
            continue
        own = {name: row[name] for name in EmulatedStep.__dataclass_fields__}
        step = EmulatedStep(**{**own, "axes": tuple(own["axes"])})
        terms = forecast_of(step, ranks, centre)
        steps = sorted(forecast_of(step, ranks, machine).step_s for machine in drawn)
        yield HeldOut(
            name=step.strategy(ranks).name, ranks=ranks, step=step, judged="fsdp" not in step.axes,
            median_s=median(row["seconds"]), least_s=min(row["seconds"]), forecast_s=terms.step_s,
            low_s=step_forecast.quantile(steps, 0.05), high_s=step_forecast.quantile(steps, 0.95),
            terms=terms,
        )  # fmt: skip


def forecast_of(step: EmulatedStep, ranks: int, machine: Machine) -> StepTerms:
    """Forecast a step by the step model, of one sample for each data-parallel rank and micro-batch.

    A rank sleeps `rank_s`: the network's work is that times the ranks that divide it.
    """
    strategy = step.strategy(ranks)
    choice = StrategyChoice(
        strategy=strategy,
        global_batch=strategy.batches * step.micro_batches,
        micro_batches=step.micro_batches,
        schedule=step.schedule,
    )
    network = TrainedNetwork(
        flops=step.rank_s * strategy.tp * strategy.pp / step.micro_batches,
        # A rank sends its own part.
        gradient_bytes=step.gradient_bytes * strategy.tp * strategy.pp,
        layers=step.layers,
        activation_bytes=step.activation_bytes,
    )
    bucket = step.gradient_bytes / step.buckets or 1.0
    if strategy.pp > 1:
        bucket = float(step.gradient_bytes or 1)
    return step_model.step(network, replace(machine, bucket_bytes=bucket), choice)


def show(calibrated: CalibratedMachine, rows: Sequence[HeldOut]) -> None:
    """Print the constants, the rows and the figures that were declared."""
    for one in calibrated.estimates.values():
        low, high = one.interval()
        print(f"{one.name}: {one.value:.4g} [{low:.4g}, {high:.4g}], {one.source}")
    print("\n| strategy | ranks | compute s | measured s (least) | forecast s [90 %] | error |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.name} {row.step.schedule if 'pp' in row.step.axes else ''} | {row.ranks}"
            f" | {row.step.rank_s} | {row.median_s:.3f} ({row.least_s:.3f}) | {row.forecast_s:.3f}"
            f" [{row.low_s:.3f}, {row.high_s:.3f}] | {row.error:+.1%} |"
        )
    judged = [row for row in rows if row.judged]
    kinds = {"x".join(row.step.axes): None for row in rows}
    print()
    for kind in kinds:
        line([row for row in rows if "x".join(row.step.axes) == kind], kind)
    line(judged, f"all judged ({len(judged)})")
    worst = max(abs(row.error) for row in judged)
    met = mean(abs(row.error) for row in judged) <= MEAN_AIM and worst <= WORST_AIM
    word = "met" if met else "NOT met"
    print(f"aims (mean {MEAN_AIM:.0%}, worst {WORST_AIM:.0%} of medians): {word}")
    print(f"90 % intervals that hold the median: {sum(row.inside for row in judged)}")


def line(rows: Sequence[HeldOut], name: str) -> None:
    """Print the mean and the worst error of some rows."""
    errors, least = ([abs(row.error) for row in rows], [abs(row.least_error) for row in rows])
    print(
        f"{name}: mean {mean(errors):.1%}, worst {max(errors):.1%} of medians;"
        f" {mean(least):.1%}, {max(least):.1%} of least times"
    )


if __name__ == "__main__":
    main()

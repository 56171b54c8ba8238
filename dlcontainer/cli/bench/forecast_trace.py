"""`bench forecast --trace`: the trace that gradients' bytes and their overlap are taken from."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dlcontainer.bench.samples.step_traffic import StepTraffic, TrafficAxis
    from dlcontainer.bench.study.advice.facts_file import ForecastFacts
    from dlcontainer.bench.study.advice.forecast_records import TraceSource
    from dlcontainer.bench.study.advice.traced_traffic import TracedTraffic
    from dlcontainer.bench.study.study_records import MeasuredStudy
    from dlcontainer.bench.trace.trace_records import JobTrace, SideTrace

# A parameter's gradient, where it is sent as it is computed.
_FP32 = 4
# Buffers and a loss are sent as well.
_SAME = 0.02
_MOST_COMMAND = 80
# Waiting below this share of a step is not worth a line.
_WORTH = 0.05
_DIGITS = 12


def of_facts(
    path: Path, facts: "ForecastFacts", typed: Path | None, strategies: tuple[str, ...] = ()
) -> "TracedTraffic | None":
    """Return what the trace says that was typed, else the one that the facts name; None for none.

    The container's side counts where the trace has both.
    """
    stated = path.parent / facts.network.trace if facts.network.trace else None
    file = typed or stated
    if file is None:
        return None
    trace, sha256 = _read(file)
    side = trace.sides[-1]
    step = _step(file, side)
    names = strategies or facts.goal.strategies
    _require_strategy(file, step, [name.rstrip("0123456789") for name in names])
    remarks = (*_remarks(side, step), *_stated(facts, step))
    return _traffic(_source(file, sha256, side), step, remarks)


def of_study(file: Path | None, study: "MeasuredStudy", arm: str | None) -> "TracedTraffic | None":
    """Return what a trace says of an arm of a study; None where none was typed.

    Raises UsageError for a side that the trace has not, BenchDataError for another number of ranks
    or strategy than any point of the study.
    """
    from dlcontainer.bench.study.advice import study_ground

    if file is None:
        return None
    trace, sha256 = _read(file)
    side = _side(file, trace, study_ground.arm_of(study, arm or ""))
    step = _step(file, side)
    ranks = len(side.ranks) + len(side.missing)
    _require_point(file, study, step.axis, ranks)
    remarks = (
        *_remarks(side, step),
        *_differences(file, trace, study, step),
        *_other_image(file, side, study),
    )
    is_elsewhere = trace.site != study.plan.site
    return _traffic(_source(file, sha256, side), step, remarks, is_elsewhere=is_elsewhere)


def _read(file: Path) -> "tuple[JobTrace, str]":
    from dlcontainer.bench.report import inputs
    from dlcontainer.bench.trace.trace_records import JobTrace
    from dlcontainer.errors import BenchDataError

    next_step = "give the trace.json that `dlcontainer bench trace` wrote"
    try:
        finding = inputs.read(file)
    except BenchDataError as error:
        raise BenchDataError(
            "not a trace", where=str(file), why=error.why, next_step=next_step
        ) from None
    if not isinstance(finding.finding, JobTrace):
        raise BenchDataError("not a trace", where=str(file), next_step=next_step)
    return finding.finding, finding.sha256


def _side(file: Path, trace: "JobTrace", arm: str) -> "SideTrace":
    from dlcontainer.errors import UsageError

    names = [side.side for side in trace.sides]
    if arm not in names:
        raise UsageError(
            f"--trace {file}: it has no {arm} side, which the forecast is of",
            next_step=f"forecast the arm that was traced: --arm {names[0]}; or trace the other "
            "one: bench trace --image IMAGE, or --native FOLDER",
        )
    return trace.sides[names.index(arm)]


def _step(file: Path, side: "SideTrace") -> "StepTraffic":
    from dlcontainer.bench.trace import gradient_traffic

    return gradient_traffic.of(side, str(file))


def _require_strategy(file: Path, step: "StepTraffic", names: list[str]) -> None:
    from dlcontainer.errors import BenchDataError

    if step.axis not in names:
        raise BenchDataError(
            "no strategy of the forecast is the trace's",
            where=str(file),
            why=f"its collectives are those of {step.axis}; forecast: {', '.join(names)}",
            next_step=f"forecast it too: --parallel {step.axis}, or leave --trace out",
        )


def _require_point(file: Path, study: "MeasuredStudy", axis: "TrafficAxis", ranks: int) -> None:
    from dlcontainer.errors import BenchDataError

    points = [point.plan for point in study.points if point.plan.ranks > 1]
    like = [point for point in points if point.strategy.size(axis) == point.ranks]
    if ranks not in [point.ranks for point in like]:
        numbers = ", ".join(str(point.ranks) for point in like)
        raise BenchDataError(
            f"the trace is of {ranks} ranks under {axis}, and no point of the study is",
            where=str(file),
            why=f"{axis} was measured at {numbers} ranks" if like else f"none is {axis}",
            next_step=f"trace as many ranks as a point has: bench trace --ranks {like[0].ranks}"
            if like
            else "forecast without --trace",
        )


def _source(file: Path, sha256: str, side: "SideTrace") -> "TraceSource":
    from dlcontainer.bench.study.advice.forecast_records import TraceSource

    return TraceSource(
        origin=str(file),
        sha256=sha256,
        side=side.side,
        steps=side.steps,
        ranks=len(side.ranks) + len(side.missing),
    )


def _traffic(
    source: "TraceSource",
    step: "StepTraffic",
    remarks: "Iterable[str]",
    *,
    is_elsewhere: bool = False,
) -> "TracedTraffic":
    from dlcontainer.bench.study.advice.traced_traffic import TracedTraffic

    return TracedTraffic(
        source=source, step=step, is_elsewhere=is_elsewhere, remarks=tuple(remarks)
    )


def _remarks(side: "SideTrace", step: "StepTraffic") -> "Iterator[str]":
    """Yield what a reader must know of a trace: what it cost, what is missing, who waited."""
    from dlcontainer.bench.trace import overhead

    cost = side.overhead
    if cost.low is None or cost.high is None or cost.high > 1 + overhead.MOST:
        yield f"the trace: {overhead.words(cost)}"
    if not side.is_computing_known:
        yield "the trace has no operations: it does not tell what computing hides"
    if side.missing:
        numbers = ", ".join(str(rank.rank) for rank in side.missing)
        yield f"the trace has no rank {numbers}"
    if step.waiting >= _WORTH:
        yield f"the trace's ranks wait for each other {step.waiting:.0%} of a step"


def _stated(facts: "ForecastFacts", step: "StepTraffic") -> "Iterator[str]":
    from dlcontainer.bench.study.advice import facts_file

    stated = facts.network.gradient_bytes
    if stated is None:
        return
    ends = [facts_file.in_si("network.gradient_bytes", stated, end) for end in stated.figures]
    low, high = min(ends), max(ends)
    if not low * (1 - _SAME) <= step.gradient_bytes <= high * (1 + _SAME):
        yield (
            f"the facts state {low / 1e6:.4g} MB of gradients, and the trace has "
            f"{step.gradient_bytes / 1e6:.4g} MB: is it of the same network?"
        )


def _differences(
    file: Path, trace: "JobTrace", study: "MeasuredStudy", step: "StepTraffic"
) -> "Iterator[str]":
    """Yield how a trace may be of another program or machine than a study, as far as it shows."""
    plan, command = study.plan, shlex.join(trace.command)
    if len(command) > _MOST_COMMAND:
        command = f"{command[:_MOST_COMMAND]} …"
    if trace.site != plan.site:
        yield (
            f"{file} is of site {trace.site}, the study of {plan.site}: bytes are taken from it, "
            "and not what computing hides"
        )
    if study.parameters is None:
        yield f'nothing tells whether "{command}" trains the study\'s {plan.workload}'
        return
    ratio = step.gradient_bytes / study.parameters
    if abs(ratio / _FP32 - 1) > _SAME:
        yield (
            f'"{command}" sends {ratio:.3g} bytes a step for each of the {study.parameters:,} '
            f"parameters of {plan.workload}, not {_FP32}: frozen, packed, summed over several "
            "passes, or another network"
        )


def _other_image(file: Path, side: "SideTrace", study: "MeasuredStudy") -> "Iterator[str]":
    """Yield that a container's side ran in another image than the study, or does not say in which.

    Other libraries pack gradients and overlap them in their own way.
    """
    study_sha256 = study.plan.image_sha256
    if side.side == "native" or side.image_sha256 == study_sha256:
        return
    if side.image_sha256 is None:
        yield f"{file} does not say whether it is of the study's image"
        return
    yield (
        f"{file} is of another image than the study (SHA-256 {side.image_sha256[:_DIGITS]}, the "
        f"study's {study_sha256[:_DIGITS]}): it may send, and hide, otherwise"
    )

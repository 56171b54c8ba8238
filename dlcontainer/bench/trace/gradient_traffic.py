"""What a rank sends in a step of a trace, and what of it computing hides: for a forecast. Pure."""

from collections.abc import Sequence
from statistics import fmean

from dlcontainer.bench.samples.step_traffic import RankTraffic, StepTraffic, TrafficAxis
from dlcontainer.bench.trace.trace_records import CollectiveRow, SideTrace
from dlcontainer.errors import BenchDataError

# Smaller ones, by bytes against the largest, carry no gradients: a loss, a norm.
_LEAST = 0.01
_NOTHING_TOLD = ("send", "recv", "send_recv", "all_to_all")


def of(side: SideTrace, where: str) -> StepTraffic:
    """Return the traffic of a side's traced steps.

    Raises BenchDataError where collectives are missing, or tell of no strategy that is forecast.
    """
    if not side.steps:
        raise _unfit(where, "its ranks have no step in common", "trace again, of more steps")
    rows = [row for row in side.collectives if row.bytes != 0 and row.calls > 0]
    axis = _axis(rows, len(side.ranks), where)
    scattered = [row for row in rows if "reduce_scatter" in row.kind]
    gradients = _large(scattered or [row for row in rows if row.kind == "all_reduce"], where)
    calls = sum(row.calls for row in gradients) / side.steps
    return StepTraffic(
        axis=axis,
        gradient_bytes=sum((row.bytes or 0) * row.calls for row in gradients) / side.steps,
        messages=max(round(calls), 1),
        ranks=tuple(
            RankTraffic(
                computing_s=row.computing_s / side.steps,
                transfer_s=(row.exposed_s + row.hidden_s) / side.steps,
                exposed_s=row.exposed_s / side.steps,
            )
            for row in side.ranks
            if side.is_computing_known
        ),
        waiting=fmean(
            sum(row.waiting_for.values()) / row.total_s if row.total_s else 0.0
            for row in side.ranks
        ),
    )


def _axis(rows: Sequence[CollectiveRow], ranks: int, where: str) -> TrafficAxis:
    kinds = sorted({row.kind for row in rows})
    scattered = [row for row in rows if "reduce_scatter" in row.kind]
    reduced = [row for row in rows if row.kind == "all_reduce"]
    if not rows or not (scattered or reduced):
        raise _unfit(
            where,
            f"no gradients are sent in it: {', '.join(kinds) or 'it has no collectives'}",
            "trace a command that trains on two ranks or more",
        )
    foreign = [kind for kind in kinds if kind in _NOTHING_TOLD]
    # A norm or a loss is reduced under fsdp too; gradients that are, are those of both.
    is_hybrid = scattered and _bytes(reduced) > _LEAST * _bytes(scattered)
    if foreign or is_hybrid:
        raise _unfit(
            where,
            f"a trace tells the gradients of data parallel or of fsdp; this has {', '.join(kinds)}",
            "forecast without --trace",
        )
    # gloo scatters by reducing all of it; parameters are gathered in both passes, a shard a rank.
    gathered = _bytes([row for row in rows if "gather" in row.kind])
    return "fsdp" if scattered or ranks * gathered > _bytes(reduced) else "dp"


def _bytes(rows: Sequence[CollectiveRow]) -> float:
    return sum((row.bytes or 0) * row.calls for row in rows)


def _large(rows: Sequence[CollectiveRow], where: str) -> list[CollectiveRow]:
    if any(row.bytes is None for row in rows):
        raise _unfit(where, "the sizes of its messages are not told", "forecast without --trace")
    most = max(row.bytes or 0 for row in rows)
    return [row for row in rows if (row.bytes or 0) >= _LEAST * most]


def _unfit(where: str, why: str, next_step: str) -> BenchDataError:
    return BenchDataError(
        "the trace tells nothing for a forecast", where=where, why=why, next_step=next_step
    )

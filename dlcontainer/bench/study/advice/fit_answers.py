"""Does it fit: what is asked of the memory forecast, and its rows for all candidates. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice.candidates import StrategyCandidate
from dlcontainer.bench.study.advice.forecast_records import FitAnswer, FitRow, LeftOutStrategy
from dlcontainer.bench.study.advice.ground import ForecastGround
from dlcontainer.bench.study.forecast import memory_fit
from dlcontainer.bench.study.forecast.memory_records import (
    MemoryForecast,
    MemoryQuestion,
    RankMemory,
)

# Of the facts, where somebody states it.
RANK_BYTES = "network.rank_bytes"
_PARTS = ("parameters", "gradients", "optimizer", "activations", "inputs", "temporary")


def questions(
    candidates: Sequence[StrategyCandidate], about: MemoryQuestion
) -> tuple[MemoryQuestion, ...]:
    """Return what to ask: one question for each batch of a data-parallel group.

    Copies hold the same, however many there are: of data parallelism two ranks are asked.
    """
    by_batch: dict[int, dict[ParallelStrategy, None]] = {}
    for candidate in candidates:
        batch = candidate.choice.global_batch // candidate.choice.strategy.batches
        by_batch.setdefault(batch, {})[_asked(candidate.choice.strategy)] = None
    return tuple(
        replace(about, strategies=tuple(strategies), batch=batch)
        for batch, strategies in by_batch.items()
    )


def _asked(strategy: ParallelStrategy) -> ParallelStrategy:
    return replace(strategy, dp=min(strategy.dp, 2))


def of_memory(
    candidates: Sequence[StrategyCandidate], forecasts: Sequence[MemoryForecast], limit: int | None
) -> FitAnswer:
    """Return the rows of all candidates, and those that the network can't be trained with."""
    whys: Mapping[ParallelStrategy, str] = {
        refusal.strategy: refusal.why for forecast in forecasts for refusal in forecast.refusals
    }
    rows, refused = [], []
    for candidate in candidates:
        memory, question = _row(candidate, forecasts), _asked(candidate.choice.strategy)
        if memory is not None:
            rows.append(fit_row(candidate, memory, limit, forecasts[0].torch))
        elif question in whys:
            name = candidate.choice.strategy.name
            refused.append(
                LeftOutStrategy(strategy=name, ranks=candidate.ranks, why=whys[question])
            )
    return FitAnswer(limit=limit, rows=tuple(rows), refused=tuple(refused))


def _row(candidate: StrategyCandidate, forecasts: Sequence[MemoryForecast]) -> RankMemory | None:
    batch = candidate.choice.global_batch // candidate.choice.strategy.batches
    rows = (
        forecast.of(_asked(candidate.choice.strategy))
        for forecast in forecasts
        if forecast.question.batch == batch
    )
    return next((row for row in rows if row is not None), None)


def fit_row(
    candidate: StrategyCandidate, memory: RankMemory, limit: int | None, torch: str
) -> FitRow:
    """Return one candidate's row."""
    fit = memory_fit.judge(memory, limit) if limit is not None else None
    return FitRow(
        strategy=candidate.choice.strategy.name,
        ranks=candidate.ranks,
        parts={name: float(getattr(memory, name)) for name in _PARTS},
        reserve=float(fit.reserve) if fit else 0.0,
        word=fit.word if fit else "",
        source=f"tensors by torch {torch} in the image, without data or device; reserve "
        f"{memory_fit.DECLARED.source}",
    )


def known_without_image(
    ground: ForecastGround, candidates: Sequence[StrategyCandidate], limit: int | None
) -> FitAnswer | None:
    """Return the answer that takes no image: not asked, or stated in the facts; None for others."""
    stated = next(
        (rank_bytes for rank_bytes in ground.inputs if rank_bytes.key == RANK_BYTES), None
    )
    if stated is None:
        return FitAnswer(limit=None) if limit is None else None
    rows = tuple(
        FitRow(
            strategy=candidate.choice.strategy.name,
            ranks=candidate.ranks,
            parts={"stated": stated.low},
            reserve=0.0,
            word="" if limit is None else "fits" if stated.low <= limit else "does not fit",
            source=f"{RANK_BYTES}: {stated.source}",
        )
        for candidate in candidates
        # It is of data parallelism, whose copies are all alike.
        if candidate.choice.strategy.dp == candidate.choice.strategy.ranks
    )
    # Of the others an image can tell.
    return FitAnswer(limit=limit, rows=rows) if len(rows) == len(candidates) else None


def question(ground: ForecastGround, script: str) -> MemoryQuestion | None:
    """Return what to ask an image; None where nothing names the network."""
    subject = ground.subject
    if not script and subject.workload not in NETWORKS:
        return None
    return MemoryQuestion(
        strategies=(),
        script=script,
        workload="" if script else subject.workload,
        micro_batches=ground.work.micro_batches,
        optimizer="adamw" if ground.optimizer == "adamw" else "sgd",
        precision="bf16" if subject.precision == "bf16" else "fp32",
        device="cuda" if subject.device == "gpu" else "cpu",
    )


def not_known(ground: ForecastGround, limit: int | None, *, has_image: bool) -> FitAnswer:
    """Return the answer where nothing tells the memory, with the command that would."""
    network = "" if ground.subject.workload in NETWORKS else " --script FILE:build"
    why = "" if has_image else "its PyTorch tells it: give --image"
    if network:
        why += f"{'; ' if why else ''}nothing names the network: give --script"
    return FitAnswer(
        limit=limit,
        unknown=why,
        command=f"dlcontainer bench forecast {ground.subject.origin} --image IMAGE{network}"
        + (f" --memory {limit / 1e9:g}GB" if limit is not None else ""),
    )

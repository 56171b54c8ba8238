"""By which strategy ranks share a training (`--parallel`): options, refusals, the declaration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.probe import Option, ParameterContext, Values
from dlcontainer.bench.samples import parallel_strategy
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json

# The probe's words, which a test holds against these.
WAY, APART_WAY = "parallel", "none"
_FRAMEWORK, _OWN_WAY = "torch", "ddp"
# Micro-batches of a pipeline are so many a stage, unless a number was given.
PER_STAGE = 2

PARALLEL = Option(
    name="parallel",
    metavar="STRATEGY",
    help="How ranks share the training: dp, fsdp, tp2, pp2, or joined by x, e.g. dp2xpp2 "
    "(PyTorch). Default: each way's own data parallelism.",
)
MICRO_BATCHES = Option(
    name="micro_batches",
    kind=int,
    metavar="M",
    least=1,
    help="With pipeline stages: number of micro-batches in a batch. Default: two a stage.",
)
APART = Option(
    name="apart",
    kind=int,
    metavar="K",
    least=1,
    help="After the timed steps, time K steps of each rank on its own, at the same time (data "
    "parallelism). A scaling study asks for it. Default: none.",
)
OPTIONS = (PARALLEL, MICRO_BATCHES, APART)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkCut:
    """What must divide: the heads of a tensor group, the blocks of a pipeline."""

    heads: int
    blocks: int


# Networks with a plan; the numbers are those of the probe's own networks.
CUTS: Mapping[str, NetworkCut] = {"transformer": NetworkCut(heads=8, blocks=6)}


def strategy(values: Values, setting: ParameterContext) -> ParallelStrategy | None:
    """Read what was asked for, else what a session that goes on has; None: no strategy.

    Raises UsageError for what is none, or needs other ranks.
    """
    begun = setting.begun
    text = values.get(PARALLEL.name) or (begun and begun.workload.get(PARALLEL.name))
    if not text:
        for option in (MICRO_BATCHES,):
            if values.get(option.name) is not None:
                raise UsageError(
                    f"{option.flag} requires {PARALLEL.flag}",
                    next_step=f"name a strategy with pipeline stages: {PARALLEL.flag} pp2",
                )
        return None
    if not setting.is_ranked:
        raise UsageError(
            f"{PARALLEL.flag} requires --ranks", next_step="set the number of ranks: --ranks R"
        )
    return parallel_strategy.parse(str(text), setting.ranks)


def way(chosen: ParallelStrategy, typed: str | None, usual: str, framework: str) -> str:
    """Name the way by which a strategy is trained: `usual` where ranks only average gradients.

    Raises UsageError for what no way has.
    """
    plain = chosen.dp == chosen.ranks
    native = framework == _FRAMEWORK and typed in (None, _OWN_WAY)
    if native and (not plain or usual == _OWN_WAY):
        return WAY
    if plain and usual != APART_WAY:
        return usual
    name = typed or framework
    raise UsageError(
        f"{PARALLEL.flag} {chosen.name}: {name} has data parallelism only",
        why=f"fsdp, tp and pp are made by {_FRAMEWORK}'s own process groups",
        next_step=f"use {PARALLEL.flag} dp"
        + (", or leave out --distributed" if typed else f", or measure an image with {_FRAMEWORK}"),
    )


def settled(chosen: ParallelStrategy | None, values: Values, setting: ParameterContext) -> Values:
    """Settle a strategy; `values` have the network, its batch, its precision and optimizer.

    Raises UsageError for what the network doesn't divide by, or has no plan for.
    """
    apart = values.get(APART.name)
    if apart is not None and not setting.is_ranked:
        raise UsageError(
            f"{APART.flag} requires --ranks", next_step="set the number of ranks: --ranks R"
        )
    if chosen is None:
        return {PARALLEL.name: None, MICRO_BATCHES.name: None, APART.name: apart}
    if values.get("distributed") == WAY:
        _require_parts(chosen, values)
        _require_cut(chosen, values)
    return {
        PARALLEL.name: chosen.name,
        MICRO_BATCHES.name: _micro_batches(chosen, values),
        APART.name: apart,
    }


def _require_parts(chosen: ParallelStrategy, values: Values) -> None:
    """Refuse what isn't written for networks that are cut."""
    flag, plain = f"{PARALLEL.flag} {chosen.name}", chosen.dp == chosen.ranks
    precision, optimizer = values.get("precision"), values.get("optimizer")
    if precision == "fp16" and not plain:
        raise UsageError(
            f"{flag}: the probe has no loss scaling for it",
            next_step="use --precision bf16, or --parallel dp",
        )
    if optimizer not in (None, choices.OPTIMIZERS[0]) and max(chosen.tp, chosen.fsdp) > 1:
        raise UsageError(
            f"{flag}: {optimizer} is not available with it",
            why=f"{optimizer} takes the length of a whole layer, and ranks hold parts of layers",
            next_step="use --optimizer sgd, or a strategy of dp and pp",
        )
    if values.get("input") and max(chosen.tp, chosen.pp) > 1:
        raise UsageError(
            f"{flag}: --input is not available with it",
            why="ranks of a tensor or pipeline group would each read the same samples",
            next_step="leave out --input, or use a strategy of dp and fsdp",
        )


def _require_cut(chosen: ParallelStrategy, values: Values) -> None:
    if max(chosen.tp, chosen.pp) == 1 or values.get("script"):
        return
    name = str(values.get("workload"))
    cut, flag = CUTS.get(name), f"{PARALLEL.flag} {chosen.name}"
    if cut is None:
        kind = "tensor" if chosen.tp > 1 else "pipeline"
        raise UsageError(
            f"{flag}: the network {name} has no plan for {kind} parallelism",
            why=f"networks with a plan: {', '.join(CUTS)}; or your own, with --script",
            next_step=f"use dp or fsdp, or --workload {next(iter(CUTS))}",
        )
    for ranks, number, what in (
        (chosen.tp, cut.heads, "heads"),
        (chosen.pp, cut.blocks, "layers"),
    ):
        if number % ranks:
            fits = [str(divisor) for divisor in range(1, number + 1) if number % divisor == 0]
            axis = "tp" if what == "heads" else "pp"
            raise UsageError(
                f"{flag}: the {number} {what} of {name} can't be divided by {axis}{ranks}",
                next_step=f"use {axis} of {', '.join(fits)}",
            )


def _micro_batches(chosen: ParallelStrategy, values: Values) -> int | None:
    micro, batch = values.get(MICRO_BATCHES.name), values.get("batch")
    if chosen.pp == 1:
        if micro is not None:
            raise UsageError(
                f"{MICRO_BATCHES.flag} {micro}: {PARALLEL.flag} {chosen.name} has no pipeline",
                next_step=f"leave out {MICRO_BATCHES.flag}, or use a strategy with pp",
            )
        return None
    count = int(micro or PER_STAGE * chosen.pp)
    if count < chosen.pp:
        raise UsageError(
            f"{MICRO_BATCHES.flag} {count}: {chosen.pp} pipeline stages need as many or more",
            next_step=f"use {MICRO_BATCHES.flag} {PER_STAGE * chosen.pp}",
        )
    if batch and int(batch) % count:
        fits = -(-int(batch) // count) * count
        raise UsageError(
            f"{PARALLEL.flag} {chosen.name}: a batch of {batch} can't be divided by {count} "
            "micro-batches",
            next_step=f"use --batch {fits}, or other {MICRO_BATCHES.flag}",
        )
    return count


def arguments(values: Values, *, is_warmup: bool) -> dict[str, Any]:
    """Return what a launch is called with; the gate is passed in the warm-up."""
    named: dict[str, Any] = {APART.name: values.get(APART.name)}
    if values.get("distributed") == WAY:
        # The probe knows the way by the strategy.
        named |= {name: values.get(name) for name in (PARALLEL.name, MICRO_BATCHES.name)}
        named |= {"distributed": None, "gate": is_warmup}
    return named


def declared(values: Values) -> "Mapping[str, Json]":
    """Return what is declared; nothing where there is no strategy, as before there was one."""
    names = (PARALLEL.name, MICRO_BATCHES.name, APART.name)
    return {name: values[name] for name in names if values.get(name)}


def named(workload: "Mapping[str, Json]") -> str:
    """Return how ranks share: " by dp2xtp2"; or nothing."""
    name = workload.get(PARALLEL.name)
    if not name:
        return ""
    count = workload.get(MICRO_BATCHES.name)
    return f" by {name}" + (f" with {count} micro-batches" if count else "")

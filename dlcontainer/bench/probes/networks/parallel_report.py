"""How a strategy's training was held against one process, as the report shows it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.networks.parallel import PARALLEL
from dlcontainer.bench.samples.traits import ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series

# Under the workload that a process attests: its compute takes turns on cores.
EMULATED = "emulated"


def section(series: "Series") -> ProbeTable | None:
    """Make the table of the warm-ups' gates; None without a strategy."""
    if not series.session.declared.workload.get(PARALLEL.name):
        return None
    rows = tuple(_rows(series))
    if not rows:
        return None
    crowd = emulated(series)
    return ProbeTable(
        title="Held against one process",
        head=("arm", "checked", "loss differs by", "weights differ by", "allowed", "reference"),
        rows=rows,
        note="In the warm-up launch, before a time counts: steps of SGD with momentum in fp32 from "
        "the same weights on the same samples, by all ranks and by one process. A launch that "
        "differs by more is refused; running statistics of normalizations are not compared."
        + (f" These times are emulated ({crowd}): they tell of communication alone." * bool(crowd)),
    )


def emulated(series: "Series") -> str:
    """Return why compute was emulated, in the ranks' words; empty where it was not."""
    for stack in series.stacks:
        work = stack.facts.get("workload")
        if isinstance(work, Mapping) and work.get(EMULATED):
            return str(work[EMULATED])
    return ""


def _rows(series: "Series") -> Iterator[tuple[str, ...]]:
    shown_gates: set[str] = set()
    for sample in series.samples:
        gate = next((rank.get("gate") for rank in sample.ranks if rank.get("gate")), None)
        if not isinstance(gate, Mapping) or sample.arm in shown_gates:
            continue
        shown_gates.add(sample.arm)
        if gate.get("checked") == "nothing":
            yield (sample.arm, f"NOT CHECKED: {gate.get('why')}", "-", "-", "-", "-")
            continue
        figures = [_figure(gate.get(key)) for key in ("loss", "weights", "tolerance")]
        text = f"{gate.get('steps')} steps, {gate.get('reference')}"
        yield (sample.arm, str(gate.get("checked")), *figures, text)


def _figure(value: object) -> str:
    # Files come from anybody.
    return f"{value:.1e}" if isinstance(value, int | float) else "-"

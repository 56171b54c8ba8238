"""What the tiers supply: each format's best row, what was read for it, when copying pays."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.samples.traits import ProbeTable

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import Parameters
    from dlcontainer.bench.samples.series import Series

# 4 TB/s over 27,000 GPUs, the example of docs/measure/input.md: our division.
EXAMPLE_MB_S = 148
_HEAD = (
    *("tier", "shuffle", "format", "readers", "samples/s", "MB/s", "enough", "calls a sample"),
    *("bytes a byte", "from the device, %", "major faults a sample", "mixing", "reading"),
    *("converting pays after", "staging pays after"),
)
_FEWEST = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochWork:
    """The samples of an epoch, their bytes together, and what a step takes; 0: not known."""

    samples: int
    total: int
    demand: int

    @classmethod
    def of(cls, declared: "SessionDeclaration") -> "EpochWork":
        """Read a declaration; files come from anybody."""
        numbers = {
            name: value if isinstance(value := declared.workload.get(name), int) else 0
            for name in ("samples", "sample_bytes", "total", "demand")
        }
        total = numbers["total"] or numbers["samples"] * numbers["sample_bytes"]
        return cls(samples=numbers["samples"], total=total, demand=numbers["demand"])


@dataclass(frozen=True, kw_only=True, slots=True)
class SupplyRow:
    """A row on one side: the epochs' medians of all launches, s, and what an epoch has read."""

    parameters: "Parameters"
    seconds: tuple[float, ...]
    counts: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean of the launches' medians, s."""
        return math.fsum(self.seconds) / len(self.seconds)

    def is_of(self, *names: str) -> tuple[str, ...]:
        """Return some of its parameters as words."""
        return tuple(str(self.parameters.get(name, "")) for name in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What was paid once: seconds to write and to stage each format; how orders mix."""

    write: Mapping[str, float]
    stage: Mapping[str, float]
    mixing: Mapping[str, float]


def section(series: "Series") -> ProbeTable | None:
    """Return the candidate's supply by tier: what users of the image have."""
    declared = series.session.declared
    arm = declared.sides.candidate
    used = [s for s in series.samples if s.ok and s.arm == arm and s.role in {"pair", "triple"}]
    counts = [_mapping(sample.values.get("counts")) for sample in used]
    rows = list(_rows(series, counts))
    if not rows:
        return None
    best, costs, work = _best(rows), _costs(counts), EpochWork.of(declared)
    lines = tuple(_lines(best, rows, costs, work))
    return ProbeTable(
        title=f"Supply by tier ({arm})",
        head=_HEAD,
        rows=lines,
        note=f"{_advice(best)} {_demand(work)} {_NOTE}{_left_out(declared)}",
    )


_NOTE = (
    "Of each format the number of readers with the quickest epoch. samples/s, MB/s and mixing: "
    "more is better; all others: less. Bytes a byte: the bytes that read calls gave for a byte of "
    "a sample; a format that reads mapped files has major faults in place of calls. From the "
    "device: 0 is the page cache, or a file system that the kernel does not count. Mixing: the "
    "entropy of shards within a stretch of the order, 1 the most; only rows of like mixing are "
    "alike. Reading: against the quickest of the same tier and shuffle, over the launches. "
    "Converting pays after so many epochs of this format, one reading of the single files and the "
    "writing included; staging after so many, the copy included. Both times of writing are without "
    "the wait for the disk."
)


def _rows(series: "Series", counts: Sequence[Mapping[str, Any]]) -> Iterator[SupplyRow]:
    plan, launches = series.session.declared.rows, series.launches
    arm = series.session.declared.sides.candidate
    used = launches.where(
        lambda kind: kind.ok and kind.arm == arm and kind.role in {"pair", "triple"}
    )
    counted = [body.get("rows") for body in counts]
    for number, parameters in enumerate(plan.rows if plan and used else ()):
        seconds = tuple(launches.column(f"rows.{number}.median", used))
        if any(math.isnan(second) for second in seconds):
            continue
        rows = [_at(body, number) for body in counted]
        yield SupplyRow(parameters=parameters, seconds=seconds, counts=_means(rows))


def _at(listed: object, number: int) -> Mapping[str, Any]:
    if not isinstance(listed, list) or number >= len(listed):
        return {}
    return _mapping(listed[number])


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _means(bodies: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of each number that all of them have."""
    names = [
        name
        for name in (bodies[0] if bodies else {})
        if all(_number(body, name) for body in bodies)
    ]
    return {name: math.fsum(body[name] for body in bodies) / len(bodies) for name in names}


def _number(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    return isinstance(value, int | float) and math.isfinite(value)


def _costs(counts: Sequence[Mapping[str, Any]]) -> Costs:
    formats = [_mapping(body.get("formats")) for body in counts]
    orders = [_mapping(body.get("orders")) for body in counts]
    return Costs(
        write=_inner(formats, "write_s"),
        stage=_means([_mapping(body.get("stage_s")) for body in counts]),
        mixing=_inner(orders, "mixing"),
    )


def _inner(bodies: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    return _means([{name: _mapping(body[name]).get(key) for name in body} for body in bodies])


def _best(rows: Sequence[SupplyRow]) -> list[SupplyRow]:
    """Return the quickest number of readers of each tier, shuffle and format, quickest first."""
    by_place: dict[tuple[str, ...], SupplyRow] = {}
    for row in rows:
        key = row.is_of("tier", "shuffle", "format")
        if key not in by_place or row.mean < by_place[key].mean:
            by_place[key] = row
    places = list(dict.fromkeys(row.is_of("tier", "shuffle") for row in rows))
    return sorted(
        by_place.values(), key=lambda row: (places.index(row.is_of("tier", "shuffle")), row.mean)
    )


def _lines(
    best: Sequence[SupplyRow], rows: Sequence[SupplyRow], costs: Costs, work: EpochWork
) -> Iterator[tuple[str, ...]]:
    readings = _readings(best)
    for row, reading in zip(best, readings, strict=True):
        tier, shuffle, name, readers = row.is_of("tier", "shuffle", "format", "readers")
        per_s = work.samples / row.mean
        counts, samples = row.counts, max(1, work.samples)
        mixing = costs.mixing.get(f"{shuffle} {readers}")
        yield (
            tier, shuffle, name, readers, f"{per_s:,.0f}", f"{work.total / row.mean / 1e6:.3g}",
            ("yes" if per_s >= work.demand else "no") if work.demand else "-",
            _shown(counts.get("calls"), samples), _shown(counts.get("bytes"), work.total),
            _shown(counts.get("device_bytes"), work.total / 100),
            _shown(counts.get("major_faults"), samples),
            "-" if mixing is None else f"{mixing:.2f}", reading,
            _converting(row, best, costs), _staging(row, rows, costs),
        )  # fmt: skip


def _shown(value: float | None, of: float) -> str:
    return "-" if value is None or not of else f"{value / of:.3g}"


def _readings(best: Sequence[SupplyRow]) -> list[str]:
    """Hold each format against the quickest of its tier and shuffle, launch by launch."""
    from dlcontainer.bench.stats import paired

    lines, quickest = [], best[0]
    for row in best:
        place = row.is_of("tier", "shuffle")
        if place != quickest.is_of("tier", "shuffle") or row is quickest:
            quickest = row
            lines.append("quickest")
            continue
        rivals = sum(row.is_of("tier", "shuffle") == place for row in best) - 1
        logs = [math.log(a / b) for a, b in zip(row.seconds, quickest.seconds, strict=True)]
        if len(logs) < _FEWEST:
            lines.append("-")
            continue
        # Bonferroni over the formats of the tier.
        interval = paired.mean_interval(logs, 1 - 0.05 / max(1, rivals))
        ratio = f"{interval.ratio:.3g}x" if interval.excludes_one() else "not told apart"
        lines.append(ratio)
    return lines


def _converting(row: SupplyRow, best: Sequence[SupplyRow], costs: Costs) -> str:
    """Return after how many epochs writing a format has paid, against single files of the tier."""
    tier, shuffle, name = row.is_of("tier", "shuffle", "format")
    files = next((r for r in best if r.is_of("tier", "shuffle", "format")[:2] == (tier, shuffle)
                  and r.is_of("format") == ("files",)), None)  # fmt: skip
    written = costs.write.get(name)
    if files is None or written is None or name == "files":
        return "-"
    return _epochs(files.mean + written, files.mean - row.mean)


def _staging(row: SupplyRow, rows: Sequence[SupplyRow], costs: Costs) -> str:
    """Return after how many epochs staging a format has paid, against the folder itself."""
    tier, name = row.is_of("tier")[0], row.is_of("format")[0]
    copied = costs.stage.get(name)
    if tier != "folder" or copied is None:
        return "-"
    same = row.is_of("format", "shuffle", "readers")
    staged = [
        row.mean
        for row in rows
        if row.is_of("tier") == ("staged",) and row.is_of("format", "shuffle", "readers") == same
    ]
    return _epochs(copied, row.mean - staged[0]) if staged else "-"


def _epochs(cost: float, gain: float) -> str:
    return f"{math.ceil(cost / gain):,}" if gain > 0 else "never"


def _advice(best: Sequence[SupplyRow]) -> str:
    """Name the formats to take in each tier; no format is the best of all tiers."""
    by_place: dict[tuple[str, ...], list[str]] = {}
    for row, reading in zip(best, _readings(best), strict=True):
        if reading in {"quickest", "not told apart", "-"}:
            by_place.setdefault(row.is_of("tier", "shuffle"), []).append(row.is_of("format")[0])
    sentences = [
        f"{tier}, {shuffle}: {names[0]}" + (f" (or {', '.join(names[1:])})" if names[1:] else "")
        for (tier, shuffle), names in by_place.items()
    ]
    return f"By tier, no format is best for all: {'; '.join(sentences)}."


def _demand(work: EpochWork) -> str:
    example = "4 TB/s over 27,000 of them, the example of docs/measure/input.md"
    text = f"{EXAMPLE_MB_S} MB/s a GPU is {example}."
    if not work.demand or not work.samples:
        return text
    needed = work.demand * work.total / work.samples / 1e6
    return f"A step that takes {work.demand:,} samples/s needs {needed:.3g} MB/s. {text}"


def _left_out(declared: "SessionDeclaration") -> str:
    omitted = declared.workload.get("left_out")
    if not isinstance(omitted, str) or not omitted:
        return ""
    names = omitted.replace(",", ", ")
    return (
        f" Left out, since the image has no module for them: {names}; an image of the recipe "
        "pytorch, variant io, has all."
    )

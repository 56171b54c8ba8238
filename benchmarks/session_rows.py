"""Sessions as lines of one file: what was judged, with the figures that counts are made of."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean

from dlcontainer.bench.analysis import resident_groups
from dlcontainer.bench.analysis.session_analysis import Analysis, analyse
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.samples import contradictions, reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files, digests

CPU = "cpu_s_per_step"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A session's line: by `n` groups a ratio (with the interval that must exclude 1) and a word.

    `cpu_ratio` and `cpu_word` are those of processor time per step; `between` and `turns` scatters
    of processes and of their turns, in logs; `seconds` those of its samples, and `warmup_s` those
    before them.
    """

    file: str
    sha256: str
    image_sha256: str
    cpu_model: str
    cores: int
    started: str
    load_1min: float
    complete: bool
    word: str
    reasons: tuple[str, ...]
    n: int
    ratio: float
    low: float
    high: float
    sd: float
    cpu_ratio: float
    cpu_word: str
    between: float
    turns: float
    lost: int
    seconds: float
    warmup_s: float

    @property
    def unit_s(self) -> float:
        """The seconds of one group, or of one pair."""
        return self.seconds / self.n if self.n else 0.0


def read(path: Path) -> list[Row]:
    """Read the lines of a file; none where there is no such file."""
    text = path.read_text() if path.exists() else ""
    found = [json.loads(line) for line in text.splitlines()]
    return [Row(**{**each, "reasons": tuple(each["reasons"])}) for each in found]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write the lines, by the names of their files."""
    ordered = sorted(rows, key=lambda row: row.file)
    atomic_files.write(path, "".join(json.dumps(asdict(row)) + "\n" for row in ordered))


def of(path: Path) -> Row | None:
    """Judge a session by its file, as a report does; None where nothing of it can be judged."""
    try:
        series = reader.read(path)
        found = _judged(series)
    except BenchDataError as error:
        print(f"{path.name}: {error}", flush=True)
        return None
    machine, interval = series.session.machine, found.verdict.difference
    parts = resident_groups.of(series)
    cpu = (
        next((one for one in found.family.readings if one.figure.metric == CPU), None)
        if found.family
        else None
    )
    return Row(
        file=path.name,
        sha256=digests.of_file(path),
        image_sha256=series.session.declared.image_sha256,
        cpu_model=str(machine.get("cpu_model") or ""),
        cores=int(str(machine.get("cores") or 0)),
        started=series.session.started,
        load_1min=float(str(machine.get("load_1min") or 0.0)),
        complete=series.complete,
        word=found.verdict.word,
        reasons=found.verdict.reasons,
        n=found.main.fitted.n if found.main else 0,
        ratio=interval.ratio if interval else 0.0,
        low=interval.low if interval else 0.0,
        high=interval.high if interval else 0.0,
        sd=found.main.fitted.sd if found.main else 0.0,
        cpu_ratio=cpu.figure.interval.ratio if cpu else 0.0,
        cpu_word=cpu.word if cpu else "",
        between=pooled([parts.reference.between, parts.candidate.between]) if parts else 0.0,
        turns=pooled([parts.reference.turns, parts.candidate.turns]) if parts else 0.0,
        lost=len(series.lost),
        seconds=round(seconds_of(series, {"pair"}), 1),
        warmup_s=round(seconds_of(series, {"warmup"}), 1),
    )


def _judged(series: Series) -> Analysis:
    """Judge a session as `report` does."""
    traits = PROBES[series.session.declared.probe].traits(series)
    contradictions.refuse(series, traits.ends_at)
    return analyse(series, traits)


def seconds_of(series: Series, roles: Collection[str]) -> float:
    """Return the time that samples took: both arms of a group at once."""
    took: dict[tuple[str, str], float] = {}
    for sample in series.samples:
        if sample.role not in roles:
            continue
        elapsed = sample.figure("elapsed_s") or sample.wall_s
        if series.session.declared.groups:
            key = (sample.role, sample.started)
            took[key] = max(took.get(key, 0.0), elapsed)
        else:
            took[(sample.role, str(sample.index))] = elapsed
    return sum(took.values())


def pooled(scatters: Sequence[float]) -> float:
    """Return the root of the mean square."""
    return sqrt(fmean(one**2 for one in scatters))

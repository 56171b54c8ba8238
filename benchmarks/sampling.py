"""Interleaved samples, ratios within a round with an interval, and facts about the machine.

On shared cores a time says little and a ratio of neighbours much: all commands are run once a
round, in an order drawn again for each round, and compared with the others of the same round.
"""

import json
import math
import os
import platform
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

Samples = dict[str, list[float]]

_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A median and the interval that holds the true one, of `coverage` or as near as n allows."""

    median: float
    low: float
    high: float
    coverage: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.3g}"
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the report; `target` is an upper limit."""

    what: str
    ours: str
    theirs: str
    value: Interval
    target: float | None = None
    unit: str = "x"

    @property
    def met(self) -> str:
        """Whether the median keeps to the target, and whether the interval does too."""
        if self.target is None:
            return "-"
        word = "yes" if self.value.median <= self.target else "NO"
        straddles = self.value.low <= self.target < self.value.high
        return f"{word}, within noise" if straddles else word


def interleave(actions: Mapping[str, Callable[[], float]], *, rounds: int, seed: int) -> Samples:
    """Run each action once a round, in a shuffled order; one round before them is thrown away."""
    order = random.Random(seed)
    samples: Samples = {name: [] for name in actions}
    for number in range(rounds + 1):
        names = list(actions)
        order.shuffle(names)
        for name in names:
            value = actions[name]()
            if number:
                samples[name].append(value)
    return samples


def command(argv: Sequence[str], environ: Mapping[str, str]) -> Callable[[], float]:
    """Return an action that runs a command to its end and tells its seconds."""

    def action() -> float:
        start = time.perf_counter()
        done = subprocess.run(
            argv, check=False, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            raise SystemExit(f"`{' '.join(argv)}` ended with {done.returncode}:\n{said}")
        return seconds

    return action


def spread(values: Sequence[float]) -> Interval:
    """Return the median with its distribution-free interval, by order statistics."""
    ordered, n = sorted(values), len(values)
    # The chance that the median lies below the k-th smallest of n samples is binomial.
    below = [sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(n + 1)]
    k = max((k for k in range(1, n // 2 + 1) if 1 - 2 * below[k] >= _CONFIDENCE), default=1)
    return Interval(
        median=median(ordered), low=ordered[k - 1], high=ordered[n - k], coverage=1 - 2 * below[k]
    )


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Compare within rounds: the median of the rounds' ratios."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def table(rows: Sequence[Row], *, sides: tuple[str, str] = ("ours", "theirs")) -> str:
    """Set the report in columns."""
    head = ("what", *sides, "ratio or value [interval]", "target", "met")
    cells = [head, *((r.what, r.ours, r.theirs, _value(r), _target(r), r.met) for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _value(row: Row) -> str:
    return f"{row.value}{row.unit}"


def _target(row: Row) -> str:
    return "-" if row.target is None else f"<= {row.target:g}{row.unit}"


def _of_row(row: Row) -> dict[str, object]:
    """Return a row as plain data."""
    return {**asdict(row), "met": row.met}


def as_json(name: str, facts: Mapping[str, object], rows: Sequence[Row], **more: object) -> str:
    """Return a benchmark's outcome for programs: machine, rows, and `more` with the raw samples."""
    body = {
        "schema": f"dlcontainer/benchmark-{name}/1",
        "machine": facts,
        **more,
        "rows": [_of_row(row) for row in rows],
    }
    return json.dumps(body, indent=1)


def machine_facts() -> dict[str, object]:
    """Return what the figures were measured on; no host name, no path."""
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    models = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return {
        "cpu": models[0] if models else platform.machine(),
        "arch": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def describe(facts: Mapping[str, object]) -> str:
    """Set the machine's facts on one line."""
    load = os.getloadavg()[0]
    return (
        f"{facts['cores']} cores of {facts['cpu']} ({facts['arch']}), Python {facts['python']}, "
        f"load average {load:.1f}"
    )

"""A suite: one session of each probe in one folder; what of it is there, and what is to be done."""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dlcontainer.bench.probes.probe import QUICK, Probe
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.config.suggestions import suggest
from dlcontainer.errors import BenchDataError, UsageError

# whole: it is complete. cut: it can go on. begun: it was cut before anything was measured.
State = Literal["new", "whole", "cut", "begun"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteSubject:
    """What all sessions of a suite are about."""

    image_sha256: str
    site: str
    quick: bool


def chosen(probes: Sequence[Probe], only: str | None, *, quick: bool) -> tuple[Probe, ...]:
    """Return the probes of a suite, in their order; raises UsageError for names that are none."""
    fitting = [probe for probe in probes if probe.in_suite.quick or not quick]
    if only is None:
        return tuple(fitting)
    words = [word.strip() for word in only.split(",")]
    names = [probe.name for probe in probes]
    for word in words:
        if word not in names:
            raise UsageError(
                f"--only {only}: unknown probe '{word}'{suggest(word, names)}",
                next_step=f"choose from: {', '.join(names)}",
            )
        if word not in {probe.name for probe in fitting}:
            raise UsageError(
                f"--only {only}: '{word}' takes too long for a quick suite",
                next_step="leave out --quick, or the probe",
            )
    return tuple(probe for probe in fitting if probe.name in words)


def file_of(folder: Path, probe: Probe) -> Path:
    """Return where a probe's session lies in a suite's folder."""
    return folder / f"{probe.name}.jsonl"


def state(path: Path, probe: Probe, subject: SuiteSubject) -> State:
    """Return how far a session got; raises BenchDataError for a session of something else."""
    if not path.exists():
        return "new"
    if path.stat().st_size == 0:
        return "begun"
    series = reader.read(path)
    _require_same(series, probe, subject)
    if series.complete:
        return "whole"
    try:
        continuation.read(path)
    except BenchDataError:
        if _has_measured(series):
            raise
        return "begun"
    return "cut"


def set_aside(path: Path) -> Path:
    """Move a file that was hardly begun to a new name beside it, and give that one."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}.begun-{number}")
        try:
            # Unlike a rename, a link replaces nothing.
            os.link(path, aside)
        except FileExistsError:
            continue
        path.unlink()
        return aside
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _has_measured(series: Series) -> bool:
    return any(sample.role != "warmup" for sample in series.samples)


def _require_same(series: Series, probe: Probe, subject: SuiteSubject) -> None:
    declared = series.session.declared
    facts = (
        ("the probe", declared.probe, probe.name),
        ("the image's SHA-256", declared.image_sha256, subject.image_sha256),
        ("the site", declared.site, subject.site),
        ("--quick", bool(declared.workload.get(QUICK.name)), subject.quick),
    )
    for what, recorded, current in facts:
        # Of probes without a small set only the looks are fewer.
        if what == "--quick" and QUICK not in probe.options:
            continue
        if recorded != current:
            raise BenchDataError(
                "this session does not belong to this suite",
                where=str(series.path),
                why=f"{what}: {recorded} in the file, now {current}",
                next_step="give each suite a folder of its own with -o",
            )

"""One launch: start the probe in an arm, wait for it, take what it says."""

import math
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dlcontainer.bench.probes.probe import Probe
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.resident.resident_records import ResidentProcess
from dlcontainer.bench.samples.rows import joining
from dlcontainer.bench.samples.rows.row_records import SampleRow
from dlcontainer.system import foreign_files
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    Runner,
)

Status = Literal["ok", "failed", "timeout"]

SCHEMA = "dlcontainer/probe/1"
START = "dlc-start "

# The clock is read where the command itself begins, after the supervisor's own start. `date` costs
# about a millisecond, the same in every arm.
_STAMPED = f'printf "{START}%s\\n" "$(date +%s%N)"; exec "$@"'
# The first instruction inside: a shell's, in every arm.
_INSIDE = 'DLC_PROBE_INSIDE=$(date +%s%N); export DLC_PROBE_INSIDE; exec "$@"'

CLOCK_SET = "the system's clock was set during the launch"
_LAST_LINES = 8
_LINE_WIDTH = 300
# stamp -> the phase that it ends, before those of the probe itself
_PHASES = {
    "launcher": "launcher",
    "inside": "runtime",
    **{name: name for name in ("python", "site", "calibration", "barrier")},
}
# The clock of the stamps can be set while a session runs; the monotonic one can't.
_CLOCK_STEP_S = 0.002
_CLOCK_LOOKS = 5

# PyTorch's words on a device that takes one process and has one.
_BUSY = "busy or unavailable"
_ONE_PROCESS = (
    "a device in exclusive-process mode takes one process: start one rank a device, or ask for the "
    "default mode"
)


def stamped(argv: Sequence[str]) -> list[str]:
    """Wrap a command so that it says when it starts."""
    return ["/bin/sh", "-c", _STAMPED, "sh", *argv]


def inside(argv: Sequence[str]) -> list[str]:
    """Wrap the command that runs inside an arm so that it says when that is reached."""
    return ["/bin/sh", "-c", _INSIDE, "sh", *argv]


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchCommand:
    """A command to start, with its whole environment, and the probe that it runs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    probe: Probe


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchOutcome:
    """How a launch went; times in s, what was said last where it went wrong."""

    status: Status
    returncode: int
    elapsed_s: float
    values: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, Json] = field(default_factory=dict)
    # The runs of the calibration kernels, raw; their means are among the values.
    calibration: Mapping[str, Json] = field(default_factory=dict)
    losses: tuple[float, ...] = ()
    steps_s: tuple[float, ...] = ()
    workload: Mapping[str, Json] = field(default_factory=dict)
    stack: Mapping[str, Json] = field(default_factory=dict)
    # Of ranks: what each node attests, and what each rank says, raw.
    nodes: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    ranks: tuple[Mapping[str, Json], ...] = ()
    # Of a group's processes: every turn.
    residents: tuple[ResidentProcess, ...] = ()
    rows: tuple[SampleRow, ...] = ()
    reason: str = ""
    stderr: tuple[str, ...] = ()


def perform(launch: LaunchCommand, runner: Runner, timeout: float) -> LaunchOutcome:
    """Start a probe and wait for its end; what goes wrong is an outcome, not an error.

    After `timeout` s the launch and all that came of it is ended.
    """
    offset = clock_lead()
    try:
        done = runner(launch.argv, env=launch.environment, timeout=timeout)
    except CommandTimeoutError as error:
        reason = f"no end within {timeout:g} s: ended"
        return went_wrong("timeout", reason, error.completed)
    except CommandFailedError as error:
        body = _result(error.completed.stdout)
        reason = str(body.get("error") or "") if body else ""
        return went_wrong("failed", reason or how(error.completed.returncode), error.completed)
    except CommandNotFoundError as error:
        return LaunchOutcome(status="failed", returncode=127, elapsed_s=0.0, reason=str(error))
    return _judged(launch.probe, done, offset)


def _judged(probe: Probe, done: CompletedCommand, offset: float) -> LaunchOutcome:
    body = _result(done.stdout)
    if body is None:
        return went_wrong("failed", "the probe printed no result", done)
    if was_set(offset):
        return went_wrong("failed", CLOCK_SET, done)
    try:
        return taken(probe, body, start_of(done.stdout), done.elapsed)
    except (KeyError, TypeError, ValueError) as error:
        return went_wrong("failed", f"the probe's result is not whole: {error!r}", done)


def clock_lead() -> float:
    """Return the lead of the stamps' clock over the monotonic one, s."""
    looks = []
    # On a busy machine others run between two looks at clocks: of several the quickest counts.
    for _ in range(_CLOCK_LOOKS):
        before, now, after = time.monotonic(), time.time(), time.monotonic()
        looks.append((after - before, now - before))
    return min(looks)[1]


def was_set(offset: float) -> bool:
    """Return whether the clock of the stamps was set since its lead was `offset`."""
    return abs(clock_lead() - offset) > _CLOCK_STEP_S


def how(code: int) -> str:
    """Return how a process ended."""
    # A launcher or an engine reports the death of what it started as 128 + the signal.
    if code < 0:
        return f"ended by signal {-code}{_named(-code)}"
    return f"exit code {code}{_named(code - 128)}"


def _named(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    return f" ({name}; out of memory?)" if name == "SIGKILL" else f" ({name})"


def last_lines(text: str) -> list[str]:
    """Return the last lines of what was said, cut where they are long."""
    return [line[:_LINE_WIDTH] for line in text.splitlines() if line.strip()][-_LAST_LINES:]


def went_wrong(status: Status, reason: str, done: CompletedCommand) -> LaunchOutcome:
    """Return the outcome of a launch that is no measurement."""
    if _BUSY in reason or _BUSY in done.stderr:
        reason = f"{reason}; {_ONE_PROCESS}"
    return LaunchOutcome(
        status=status,
        returncode=done.returncode,
        elapsed_s=done.elapsed,
        reason=reason,
        stderr=tuple(last_lines(done.stderr)),
    )


def _result(stdout: str) -> dict[str, Any] | None:
    # A framework may print on import: what counts is the last line.
    for line in reversed(stdout.splitlines()):
        if line.strip():
            try:
                body = foreign_files.loads(line, nan=True)
            except ValueError:
                return None
            return body if isinstance(body, dict) and body.get("schema") == SCHEMA else None
    return None


def start_of(stdout: str) -> int | None:
    """Return the stamp, ns, that a launch began with."""
    first = stdout.partition("\n")[0]
    digits = first.removeprefix(START)
    return int(digits) if first.startswith(START) and digits.isdigit() else None


def taken(
    probe: Probe, body: Mapping[str, Any], start: int | None, elapsed: float
) -> LaunchOutcome:
    """Read what a probe said; raises KeyError, TypeError or ValueError where it is not whole."""
    stamps = {"start": start} | dict(body["stamps_ns"])
    phases = _phases(stamps, probe.phases(stamps))
    values = {str(name): float(value) for name, value in body["values"].items()}
    if probe.ends_at is not None:
        values["wall_s"] = (int(stamps[probe.ends_at] or 0) - int(stamps["start"] or 0)) / 1e9
        if not start:
            raise ValueError("no stamp of its start")
    if not 0 < values.get("wall_s", 0.0) < math.inf:
        raise ValueError(f"implausible wall time: {values.get('wall_s')} s")
    if any(length < 0 for length in phases.values()):
        raise ValueError(f"stamps out of order: {stamps}")
    return LaunchOutcome(
        status="ok",
        returncode=0,
        elapsed_s=elapsed,
        values=values,
        phases=phases,
        counts=dict(body["counts"]),
        calibration=dict(body.get("calibration", {})),
        losses=tuple(float(loss) for loss in body.get("losses", ())),
        steps_s=tuple(float(step) for step in body.get("steps_s", ())),
        workload=dict(body.get("workload", {"module": body.get("module")})),
        stack=dict(body["stack"] or {}),
        rows=joining.read(body.get("rows", ())),
    )


def _phases(stamps: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Return each phase's length: it ends at the stamp of its name, begins at the one before."""
    lengths: dict[str, float] = {}
    before = stamps["start"]
    for stamp, phase in (*_PHASES.items(), *((name, name) for name in names)):
        now = stamps.get(stamp)
        if now is None:
            continue
        if before is not None:
            lengths[phase] = (int(now) - int(before)) / 1e9
        before = now
    return lengths

"""A launch of several ranks: start them, collect what each wrote, name those that gave nothing."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlcontainer.bench.measure import launch
from dlcontainer.bench.measure.launch import SCHEMA, LaunchCommand, LaunchOutcome, Status
from dlcontainer.bench.measure.ranks import RankLaunch
from dlcontainer.bench.probes.probe import Probe
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.rows import joining
from dlcontainer.system import foreign_files
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    Runner,
)

_FILE = re.compile(r"rank-(\w+)\.(json|err|exit)")
# A rank that another's end has stopped says so; it is not what went wrong.
_WAITING = "RanksError: waiting for "
_MOST_NAMED = 8
_MOST_BYTES = 64_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RankResult:
    """What is known of one rank: what it said, how it ended; its number where that is known."""

    name: str
    body: Mapping[str, Any] | None = None
    code: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """What went wrong, empty where nothing did."""
        if self.body is not None and self.body.get("error"):
            return str(self.body["error"])
        if self.code:
            return launch.how(self.code)
        ended = "it ended with 0 and " if self.code == 0 else "it "
        return "" if self.body is not None else f"{ended}gave no result"

    @property
    def is_waiting(self) -> bool:
        """Whether it only waited for others."""
        return self.error.startswith(_WAITING)


def perform(
    started: LaunchCommand, gathering: RankLaunch, runner: Runner, timeout: float
) -> LaunchOutcome:
    """Start the ranks and wait for their end; what goes wrong is an outcome, not an error.

    After `timeout` s the launch and all that came of it is ended. The folder is removed.
    """
    offset = launch.clock_lead()
    status: Status = "ok"
    try:
        done = runner(started.argv, env=started.environment, timeout=timeout)
    except CommandTimeoutError as error:
        status, done = "timeout", error.completed
    except CommandFailedError as error:
        status, done = "failed", error.completed
    except CommandNotFoundError as error:
        return LaunchOutcome(status="failed", returncode=127, elapsed_s=0.0, reason=str(error))
    try:
        results = read(gathering.folder)
    finally:
        shutil.rmtree(gathering.folder, ignore_errors=True)
    problem = _problem(results, gathering.rank_group.ranks, done)
    if status == "timeout":
        late = f"no end within {timeout:g} s: ended"
        return _lost(status, f"{late}; {problem}" if problem else late, results, done)
    if problem or status != "ok":
        return _lost("failed", problem or launch.how(done.returncode), results, done)
    bad = launch.CLOCK_SET if launch.was_set(offset) else started.probe.gate(_said(results))
    bad = bad or few_cpus(gathering.rank_group.cpus, _said(results))
    if bad:
        return _lost("failed", bad, results, done)
    try:
        return merged(started.probe, results, launch.start_of(done.stdout), done.elapsed)
    except (KeyError, TypeError, ValueError) as error:
        return _lost("failed", f"the ranks' results are not whole: {error!r}", results, done)


def read(folder: Path) -> list[RankResult]:
    """Read what the ranks of a launch have left, in the order of their numbers."""
    parts: dict[str, dict[str, str]] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if match:
            parts.setdefault(match[1], {})[match[2]] = _text(path)
    return [_told(name, files) for name, files in sorted(parts.items())]


def _text(path: Path) -> str:
    # Of what a rank printed without end the last is wanted.
    with foreign_files.opened(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
        return file.read(_MOST_BYTES).decode(errors="replace")


def _told(name: str, files: Mapping[str, str]) -> RankResult:
    try:
        body = foreign_files.loads(files.get("json", "null"), nan=True)
    except ValueError:
        body = None
    whole = isinstance(body, dict) and body.get("schema") == SCHEMA
    code = files.get("exit", "").strip()
    return RankResult(
        name=str(int(name)) if name.isdecimal() else name,
        body=body if whole else None,
        code=int(code) if code.isdecimal() else None,
        lines=tuple(launch.last_lines(files.get("err", ""))),
    )


def _problem(results: list[RankResult], ranks: int, done: CompletedCommand) -> str:
    """Return which ranks gave no result and why, what went wrong first; empty where all did."""
    bad = [rank for rank in results if rank.error]
    names = {rank.name for rank in results}
    absent = [str(number) for number in range(ranks) if str(number) not in names]
    if not bad and not absent:
        return "" if len(results) == ranks else f"{len(results)} ranks in place of {ranks}"
    if not results:
        how = launch.how(done.returncode) if done.returncode else "it ended"
        return f"the launcher started none of the {ranks} ranks: {how}"
    # Who ended by itself comes before who was ended, or waited for it.
    bad.sort(key=lambda rank: (rank.is_waiting, rank.error == "it gave no result"))
    texts = [f"rank {rank.name}: {rank.error}" for rank in bad[:_MOST_NAMED]]
    if absent:
        texts.append(f"never begun: {', '.join(absent[:_MOST_NAMED])}")
    lost = len([rank for rank in bad if rank.body is None]) + len(absent)
    return f"{lost} of {ranks} ranks gave no result; " * bool(lost) + "; ".join(texts)


def few_cpus(cpus: int | None, bodies: list[Mapping[str, Any]]) -> str:
    """Return which rank has fewer CPUs than were asked for; empty where all have enough.

    A launcher that does not hand them on leaves both sides on one core: they agree, and the verdict
    is one of a core that nobody asked for.
    """
    for body in bodies:
        bound = body.get("affinity")
        if cpus is not None and isinstance(bound, list) and len(bound) < cpus:
            place = body["place"]
            return (
                f"rank {place['rank']} on {place['node']} may use {len(bound)} of the {cpus} CPUs "
                "that the job asked for each: its launcher did not hand them on"
            )
    return ""


def _said(results: list[RankResult]) -> list[Mapping[str, Any]]:
    return [rank.body for rank in results if rank.body is not None]


def _lost(
    status: Status, reason: str, results: list[RankResult], done: CompletedCommand
) -> LaunchOutcome:
    went = launch.went_wrong(status, reason, done)
    first = next(
        (rank for rank in results if rank.error and not rank.is_waiting and rank.lines), None
    )
    lines = tuple(f"rank {first.name}: {line}" for line in first.lines) if first else went.stderr
    ranks: list[Mapping[str, Json]] = [
        {
            "rank": int(rank.name) if rank.name.isdecimal() else rank.name,
            "error": rank.error or None,
            "exit_code": rank.code,
            "stderr": list(rank.lines),
        }
        for rank in results
    ]
    return replace(went, stderr=lines, ranks=tuple(ranks))


def merged(
    probe: Probe, results: list[RankResult], start: int | None, elapsed: float
) -> LaunchOutcome:
    """Make one outcome of all ranks': time and phases are those of the slowest one.

    Other values and counts are the largest of any rank, rates those of all ranks over the slowest
    one's time, losses the mean of all ranks. Raises as `launch.taken`.
    """
    bodies = _said(results)
    outcomes = [launch.taken(probe, body, start, elapsed) for body in bodies]
    slowest = max(outcomes, key=lambda outcome: outcome.values["wall_s"])
    values = {name: max(outcome.values[name] for outcome in outcomes) for name in slowest.values}
    counts = {
        name: _largest([outcome.counts.get(name) for outcome in outcomes])
        for name in slowest.counts
    }
    for name in _rates(probe) & counts.keys():
        # A rank's own work is its rate times its time.
        work = sum(float(str(o.counts[name])) * o.values["wall_s"] for o in outcomes)
        counts[name] = work / slowest.values["wall_s"]
    curves = {len(outcome.losses) for outcome in outcomes}
    if len(curves) > 1:
        raise ValueError("ranks report loss curves of different lengths")
    losses = tuple(
        sum(step) / len(outcomes) for step in zip(*(o.losses for o in outcomes), strict=True)
    )
    nodes = _attested(bodies)
    ranks = [_raw(body, outcome) for body, outcome in zip(bodies, outcomes, strict=True)]
    return replace(
        slowest,
        values=values,
        counts=counts,
        losses=losses,
        stack=next(iter(nodes.values())),
        nodes=nodes,
        ranks=tuple(ranks),
        rows=joining.merged([outcome.rows for outcome in outcomes]),
    )


def _rates(probe: Probe) -> set[str]:
    """Name the counts that are rates."""
    rates = [metric.name for metric in probe.metrics if metric.statistic == "rate"]
    return {name.removeprefix("counts.") for name in rates if name.startswith("counts.")}


def _attested(bodies: list[Mapping[str, Any]]) -> dict[str, dict[str, Json]]:
    """Return what each node's first rank says of it, and where all ranks of it are bound."""
    nodes: dict[str, dict[str, Json]] = {}
    for body in bodies:
        node, bound = str(body["place"]["node"]), nodes.setdefault(str(body["place"]["node"]), {})
        if body["stack"]:
            nodes[node] = {**body["stack"], **bound}
            if body.get("transport"):
                nodes[node]["transport"] = body["transport"]
        binding = nodes[node].setdefault("binding", {})
        if isinstance(binding, dict):
            binding[f"local rank {body['place']['local_rank']}"] = body.get("affinity")
    mute = [node for node, facts in nodes.items() if "python" not in facts]
    if mute:
        raise ValueError(f"no attestation from {', '.join(mute)}")
    return nodes


def _largest(counts: list[Json]) -> Json:
    numbers = [value for value in counts if isinstance(value, int | float)]
    return max(numbers) if numbers else None


def _raw(body: Mapping[str, Any], outcome: LaunchOutcome) -> Mapping[str, Json]:
    place = body["place"]
    return {
        "rank": place["rank"],
        "local_rank": place["local_rank"],
        "node": place["node"],
        "phases": dict(outcome.phases),
        "values": dict(outcome.values),
        "counts": dict(outcome.counts),
        "calibration": dict(outcome.calibration),
        "losses": list(outcome.losses),
        "steps_s": list(outcome.steps_s),
        "affinity": body.get("affinity"),
        "transport": body.get("transport"),
        "moved": body.get("moved"),
        **({"gate": body["gate"]} if body.get("gate") else {}),
        **({"row_medians_s": [row.median for row in outcome.rows]} if outcome.rows else {}),
    }

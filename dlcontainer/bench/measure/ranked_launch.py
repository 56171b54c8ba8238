"""A launch of several ranks: start them, collect what each wrote, name those that gave nothing."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlcontainer.bench.measure import launch
from dlcontainer.bench.measure.launch import SCHEMA, Launch, Outcome, Status
from dlcontainer.bench.measure.ranks import Gathering
from dlcontainer.bench.probes.base import Probe
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.rows import joining
from dlcontainer.system import foreign_files
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Completed,
    Runner,
)

_FILE = re.compile(r"rank-(\w+)\.(json|err|exit)")
# A rank that another's end has stopped says so; it is not what went wrong.
_WAITING = "RanksError: waiting for "
_MOST_NAMED = 8
_MOST_BYTES = 64_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What is known of one rank: what it said, how it ended; its number where that is known."""

    name: str
    said: Mapping[str, Any] | None = None
    code: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """What went wrong, empty where nothing did."""
        if self.said is not None and self.said.get("error"):
            return str(self.said["error"])
        if self.code:
            return launch.how(self.code)
        ended = "it ended with 0 and " if self.code == 0 else "it "
        return "" if self.said is not None else f"{ended}gave no result"

    @property
    def is_waiting(self) -> bool:
        """Whether it only waited for others."""
        return self.error.startswith(_WAITING)


def perform(started: Launch, gathering: Gathering, runner: Runner, timeout: float) -> Outcome:
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
        return Outcome(status="failed", returncode=127, elapsed_s=0.0, reason=str(error))
    try:
        told = read(gathering.folder)
    finally:
        shutil.rmtree(gathering.folder, ignore_errors=True)
    problem = _problem(told, gathering.rank_group.ranks, done)
    if status == "timeout":
        late = f"no end within {timeout:g} s: ended"
        return _lost(status, f"{late}; {problem}" if problem else late, told, done)
    if problem or status != "ok":
        return _lost("failed", problem or launch.how(done.returncode), told, done)
    bad = launch.CLOCK_SET if launch.was_set(offset) else started.probe.gate(_said(told))
    bad = bad or few_cpus(gathering.rank_group.cpus, _said(told))
    if bad:
        return _lost("failed", bad, told, done)
    try:
        return merged(started.probe, told, launch.start_of(done.stdout), done.elapsed)
    except (KeyError, TypeError, ValueError) as error:
        return _lost("failed", f"the ranks' results are not whole: {error!r}", told, done)


def read(folder: Path) -> list[Told]:
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


def _told(name: str, files: Mapping[str, str]) -> Told:
    try:
        said = foreign_files.loads(files.get("json", "null"), nan=True)
    except ValueError:
        said = None
    whole = isinstance(said, dict) and said.get("schema") == SCHEMA
    code = files.get("exit", "").strip()
    return Told(
        name=str(int(name)) if name.isdecimal() else name,
        said=said if whole else None,
        code=int(code) if code.isdecimal() else None,
        lines=tuple(launch.last_lines(files.get("err", ""))),
    )


def _problem(told: list[Told], ranks: int, done: Completed) -> str:
    """Say which ranks gave no result and why, what went wrong first; empty where all did."""
    bad = [one for one in told if one.error]
    known = {one.name for one in told}
    absent = [str(number) for number in range(ranks) if str(number) not in known]
    if not bad and not absent:
        return "" if len(told) == ranks else f"{len(told)} ranks in place of {ranks}"
    if not told:
        how = launch.how(done.returncode) if done.returncode else "it ended"
        return f"the launcher started none of the {ranks} ranks: {how}"
    # Who ended by itself comes before who was ended, or waited for it.
    bad.sort(key=lambda one: (one.is_waiting, one.error == "it gave no result"))
    texts = [f"rank {one.name}: {one.error}" for one in bad[:_MOST_NAMED]]
    if absent:
        texts.append(f"never begun: {', '.join(absent[:_MOST_NAMED])}")
    lost = len([one for one in bad if one.said is None]) + len(absent)
    return f"{lost} of {ranks} ranks gave no result; " * bool(lost) + "; ".join(texts)


def few_cpus(asked: int | None, said: list[Mapping[str, Any]]) -> str:
    """Say which rank has fewer CPUs than were asked for; empty where all have enough.

    A launcher that does not hand them on leaves both sides on one core: they agree, and the verdict
    is one of a core that nobody asked for.
    """
    for body in said:
        bound = body.get("affinity")
        if asked is not None and isinstance(bound, list) and len(bound) < asked:
            place = body["place"]
            return (
                f"rank {place['rank']} on {place['node']} may use {len(bound)} of the {asked} CPUs "
                "that the job asked for each: its launcher did not hand them on"
            )
    return ""


def _said(told: list[Told]) -> list[Mapping[str, Any]]:
    return [one.said for one in told if one.said is not None]


def _lost(status: Status, reason: str, told: list[Told], done: Completed) -> Outcome:
    went = launch.went_wrong(status, reason, done)
    first = next((one for one in told if one.error and not one.is_waiting and one.lines), None)
    lines = tuple(f"rank {first.name}: {line}" for line in first.lines) if first else went.stderr
    ranks: list[Mapping[str, Json]] = [
        {
            "rank": int(one.name) if one.name.isdecimal() else one.name,
            "error": one.error or None,
            "exit_code": one.code,
            "stderr": list(one.lines),
        }
        for one in told
    ]
    return replace(went, stderr=lines, ranks=tuple(ranks))


def merged(probe: Probe, told: list[Told], start: int | None, elapsed: float) -> Outcome:
    """Make one outcome of all ranks': time and phases are those of the slowest one.

    Other values and counts are the largest of any rank, rates those of all ranks over the slowest
    one's time, losses the mean of all ranks. Raises as `launch.taken`.
    """
    bodies = _said(told)
    each = [launch.taken(probe, body, start, elapsed) for body in bodies]
    slowest = max(each, key=lambda outcome: outcome.values["wall_s"])
    values = {name: max(one.values[name] for one in each) for name in slowest.values}
    counts = {name: _largest([one.counts.get(name) for one in each]) for name in slowest.counts}
    for name in _rates(probe) & counts.keys():
        # A rank's own work is its rate times its time.
        work = sum(float(str(o.counts[name])) * o.values["wall_s"] for o in each)
        counts[name] = work / slowest.values["wall_s"]
    curves = {len(one.losses) for one in each}
    if len(curves) > 1:
        raise ValueError("ranks report loss curves of different lengths")
    losses = tuple(sum(step) / len(each) for step in zip(*(o.losses for o in each), strict=True))
    nodes = _attested(bodies)
    ranks = [_raw(body, outcome) for body, outcome in zip(bodies, each, strict=True)]
    return replace(
        slowest,
        values=values,
        counts=counts,
        losses=losses,
        stack=next(iter(nodes.values())),
        nodes=nodes,
        ranks=tuple(ranks),
        rows=joining.merged([one.rows for one in each]),
    )


def _rates(probe: Probe) -> set[str]:
    """Name the counts that are rates."""
    rates = [metric.name for metric in probe.metrics if metric.statistic == "rate"]
    return {name.removeprefix("counts.") for name in rates if name.startswith("counts.")}


def _attested(bodies: list[Mapping[str, Any]]) -> dict[str, dict[str, Json]]:
    """Give what each node's first rank says of it, and where all ranks of it are bound."""
    found: dict[str, dict[str, Json]] = {}
    for body in bodies:
        node, bound = str(body["place"]["node"]), found.setdefault(str(body["place"]["node"]), {})
        if body["stack"]:
            found[node] = {**body["stack"], **bound}
            if body.get("transport"):
                found[node]["transport"] = body["transport"]
        binding = found[node].setdefault("binding", {})
        if isinstance(binding, dict):
            binding[f"local rank {body['place']['local_rank']}"] = body.get("affinity")
    mute = [node for node, facts in found.items() if "python" not in facts]
    if mute:
        raise ValueError(f"no attestation from {', '.join(mute)}")
    return found


def _largest(found: list[Json]) -> Json:
    numbers = [value for value in found if isinstance(value, int | float)]
    return max(numbers) if numbers else None


def _raw(body: Mapping[str, Any], outcome: Outcome) -> Mapping[str, Json]:
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
        **({"row_medians_s": [row.median for row in outcome.rows]} if outcome.rows else {}),
    }

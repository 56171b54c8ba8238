"""A first site file of a machine as detected: each value with how it was read, none guessed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from dlcontainer.config.field_types import ARCHES
from dlcontainer.detection import runtimes_here
from dlcontainer.detection.fact import FactValue, NodeFact
from dlcontainer.detection.node_report import Detection
from dlcontainer.errors import ConfigError
from dlcontainer.sites.engine import EngineConfig
from dlcontainer.sites.facts import Accelerator, Cpu, FileSystem, Memory, Network, Os, Scheduler
from dlcontainer.sites.groups import SiteFacts
from dlcontainer.sites.modules import Modules
from dlcontainer.system.visible_text import visible

SOURCE = "machine"
# Each group with the keys that facts of the same name fill.
_GROUPS: Mapping[str, tuple[type[SiteFacts], tuple[str, ...]]] = {
    "os": (Os, ("distribution", "release", "glibc", "kernel")),
    "cpu": (Cpu, ("model", "cores", "threads_per_core", "target")),
    "memory": (Memory, ("gb",)),
    "accelerator": (
        Accelerator,
        ("vendor", "model", "per_node", "memory_gb", "target", "driver", "toolkit"),
    ),
    "network": (Network, ("kind", "model")),
    "scheduler": (Scheduler, ("kind", "launcher")),
    "modules": (Modules, ("kind",)),
    "engine": (EngineConfig, ("runtime", "version")),
}
# Said as well, since a person decides what they mean for a site.
_REMARKS = (
    *("mpi.name", "mpi.libraries", "scheduler.partitions", "network.interfaces", "engine.setuid"),
    *("engine.user_namespaces", "filesystems.shared", "filesystems.scratch_candidates"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyReading:
    """A key's value as a site file has it, and how it was read."""

    content: FactValue | list[str]
    how: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupReading:
    """The keys of a group that are known; and what is missing, with the reason."""

    keys: dict[str, KeyReading] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def text(name: str, detection: Detection) -> str:
    """Write the site file; raises ConfigError for a machine that no site can be."""
    facts = detection.named()
    arch = facts.get("arch")
    if arch is None or arch.value not in ARCHES:
        raise ConfigError(
            f"a site's arch is one of {', '.join(ARCHES)}",
            why=f"the machine says: {arch.text if arch else 'nothing'}",
        )
    groups = {key: _group(key, facts) for key in _GROUPS}
    lines = [*_head(name, detection, groups), f"arch: {arch.value}  # {_remark(arch.how)}"]
    for key, reading in groups.items():
        lines += _written(key, reading)
    lines += _filesystems(facts)
    lines += ["default_recipe: pytorch", ""]
    lines += [f"# {name_}: {_remark(facts[name_].text)}" for name_ in _REMARKS if name_ in facts]
    return "\n".join([*lines, ""])


def _head(name: str, detection: Detection, groups: Mapping[str, GroupReading]) -> Iterator[str]:
    facts = {fact.name: fact for fact in detection.compute}
    host = _remark(facts["host"].text) if "host" in facts else "a node"
    day = _remark(detection.taken)[:10]
    where = "in a job" if detection.of_compute_node else "outside of any job"
    gpu = groups["accelerator"].keys
    what = f"{gpu['per_node'].content} x {gpu['model'].content}" if gpu else "no accelerator known"
    yield f"# Written by `dlcontainer site new {name} --from-machine`: what a node says of itself."
    yield "# Behind each value stands how it was read; what is unknown is left out."
    if not detection.of_compute_node and groups["scheduler"].keys.get("launcher"):
        yield "# Asked outside of jobs. For a compute node: `dlcontainer site detect --job -o"
        yield f"# FILE`, then `dlcontainer site new {name} --from-machine --detected FILE`."
    yield "schema: 1"
    yield f"name: {name}"
    yield f"summary: {_quoted(f'{host} as detected on {day}: {what}')}"
    yield "sources:"
    yield f"  {SOURCE}: {_quoted(f'dlcontainer site detect on {host}, {where} ({day})')}"
    yield f"source: {SOURCE}"
    missing = _reasons(groups.values())
    if missing:
        yield "unknown:"
        yield from (f"  - {_quoted(_remark(line))}" for line in missing)
    yield ""


def _reasons(readings: Iterable[GroupReading]) -> tuple[str, ...]:
    """List what is missing, the keys of one reason together."""
    keys: dict[str, list[str]] = {}
    for reading in readings:
        for line in reading.missing:
            name, _, reason = line.partition(": ")
            keys.setdefault(reason, []).append(name)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in keys.items())


def _quoted(content: object) -> str:
    # JSON is YAML too, and quotes whatever a machine may say.
    return json.dumps(content, ensure_ascii=True)


def _remark(words: str) -> str:
    """Return words as a comment or a line may have them."""
    return visible(" ".join(words.split()))[:200]


def _group(key: str, facts: Mapping[str, NodeFact]) -> GroupReading:
    model, names = _GROUPS[key]
    reading = GroupReading()
    for name in names:
        fact = _fact(key, name, facts)
        if fact is None:
            continue
        if fact.value is None:
            reading.missing.append(f"{key}.{name}: {fact.why}")
        elif fact.value:
            content = [str(fact.value)] if name == "launcher" else fact.value
            reading.keys[name] = KeyReading(content=content, how=fact.how)
    return _fitting(key, model, reading)


def _fact(key: str, name: str, facts: Mapping[str, NodeFact]) -> NodeFact | None:
    if key != "engine":
        return facts.get(f"{key}.{name}")
    engines = (facts.get(f"engine.{runtime}") for runtime in runtimes_here.RUNTIMES)
    fact = next((engine for engine in engines if engine and engine.value is not None), None)
    if fact is None:
        why = f"none of {', '.join(runtimes_here.RUNTIMES)} is on PATH"
        return (
            NodeFact(name="engine", value=None, how="PATH", why=why) if name == "runtime" else None
        )
    runtime = fact.name.removeprefix("engine.")
    content = runtime if name == "runtime" else runtimes_here.version(str(fact.value))
    return NodeFact(name=f"engine.{name}", value=content, how=fact.how)


def _fitting(key: str, model: type[SiteFacts], reading: GroupReading) -> GroupReading:
    """Leave out what a site file can't hold: first single keys, then a group that is not whole."""
    keys, missing = dict(reading.keys), list(reading.missing)
    while keys:
        try:
            plain = {name: part.content for name, part in keys.items()}
            model.model_validate_json(json.dumps(plain))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            bad = str(first["loc"][0]) if first["loc"] else ""
            if bad not in keys:
                if len(keys) > 1 or key != "scheduler":
                    missing.append(f"{key}: {bad or 'a key'} is not known: {first['msg']}")
                return GroupReading(missing=missing)
            missing.append(f"{key}.{bad}: {keys.pop(bad).content}: {first['msg']}")
        else:
            return GroupReading(keys=keys, missing=missing)
    return GroupReading(missing=missing)


def _written(key: str, reading: GroupReading) -> Iterator[str]:
    if reading.keys:
        yield f"{key}:"
        for name, part in reading.keys.items():
            yield f"  {name}: {_quoted(part.content)}  # {_remark(part.how)}"


def _filesystems(facts: Mapping[str, NodeFact]) -> Iterator[str]:
    """Yield the file systems of homes and of scratch, where each is a mount of its own."""
    points: dict[str, str] = {}
    for purpose in ("home", "scratch"):
        kind, point = facts.get(f"filesystems.{purpose}"), facts.get(f"filesystems.{purpose}_mount")
        if kind is None or point is None or not kind.value or point.value in (None, "/"):
            continue
        system = {"path": point.value, "kind": kind.value, "purpose": purpose}
        try:
            FileSystem.model_validate_json(json.dumps(system))
        except ValidationError:
            continue
        words = ", ".join(f"{name}: {_quoted(part)}" for name, part in system.items())
        points.setdefault(str(point.value), f"  - {{{words}}}  # {_remark(point.how)}")
    if points:
        yield "filesystems:"
        yield from points.values()


def unknowns(detection: Detection) -> tuple[str, ...]:
    """List the keys of a site file that the machine did not tell, each with the reason."""
    facts = detection.named()
    return _reasons(_group(key, facts) for key in _GROUPS)


def is_name(name: str) -> bool:
    """Return whether a site can have the name."""
    return re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", name) is not None

"""Site and image -> ReFrame: a test that runs our benchmark, and the site's settings.

Source: reframe-hpc 4.10 (its manual, and the backends that it has).
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer import schedulers
from dlcontainer.config import templating
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import job_head
from dlcontainer.schedulers.scheduler import ReframeBackend
from dlcontainer.sites.site import Site

# The programming environment that ReFrame has without a word of the site's.
ENVIRONMENT = "builtin"
# What the test gives, with its unit. Times are means over the pairs.
UNITS: Mapping[str, str] = {
    "verdict": "verdict",
    "ratio": "1",
    "ratio_low": "1",
    "ratio_high": "1",
    "native": "s",
    "container": "s",
    "steps_per_s": "steps/s",
    "pairs": "pairs",
}
# ReFrame takes numbers only.
VERDICTS: Mapping[str, int] = {
    "FASTER": -1,
    "EQUIVALENT": 0,
    "SLOWER": 1,
    "INCONCLUSIVE": 2,
    "NOT COMPARABLE": 3,
}
_MODULES = {"none": "nomod", "lmod": "lmod", "tcl": "tmod4"}


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricReference:
    """A centre's own value of a figure; bounds are shares of it, None is no bound."""

    value: float
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tasks:
    """What a job must hold: the ranks of the session's launches, 0 for single processes."""

    ranks: int = 0
    per_node: int = 1
    nodes: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ReframeRequest:
    """The test that is asked for; `site` as the command line takes it, `words` of `bench`."""

    site: str
    image: Path
    probes: tuple[str, ...]
    words: tuple[str, ...]
    references: Mapping[str, Mapping[str, MetricReference]]
    # The probes whose launches are steps: the others have no steps a second.
    stepped: tuple[str, ...]
    tasks: Tasks = Tasks()
    # By probe: further figures, each with its name in the report and its unit.
    metrics: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    executable: str = "dlcontainer"


def literal(value: object) -> str:
    """Write a value as Python: text is quoted and printable, whatever stands in it."""
    if isinstance(value, Text):
        return value
    if isinstance(value, str):
        # As ruff writes it: the quotes that need less escaping.
        mark = "'" if '"' in value and "'" not in value else '"'
        return mark + "".join(_escaped(character, mark) for character in value) + mark
    if isinstance(value, Mapping):
        return _laid("{", (f"{literal(k)}: {literal(v)}" for k, v in value.items()), "}")
    if isinstance(value, list):
        return _laid("[", map(literal, value), "]")
    if isinstance(value, MetricReference):
        return f"({value.value!r}, {value.lowest!r}, {value.highest!r})"
    return repr(value)


def _escaped(character: str, mark: str) -> str:
    if character in (mark, "\\"):
        return "\\" + character
    if " " <= character <= "~":
        return character
    return f"\\U{ord(character):08x}"


def _laid(begin: str, items: Iterable[str], end: str) -> str:
    """Write a collection with a line for each item, as ruff does where it ends in a comma."""
    lines = [f"    {line}" for item in items for line in f"{item},".split("\n")]
    return "\n".join([begin, *lines, end]) if lines else begin + end


def system(site: Site) -> str:
    """Return the system's name in ReFrame, which takes letters, digits, '_' and '-'."""
    return _name(site.name)


def partition(site: Site) -> str:
    """Return the partition's name in ReFrame: the node type's."""
    return _name(site.node_type or "default")


def _name(text: str) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", text)
    return plain if plain[0].isalpha() else f"_{plain}"


def test(site: Site, request: ReframeRequest, templates: list[Path]) -> str:
    """Render the test; raises ConfigError where ReFrame can't start jobs of the site."""
    backend = _backend(site)
    _require_tasks(site, request.tasks, backend)
    either = "|".join(request.probes)
    values = {
        "title": _comment(f"What {request.image.name} costs at {request.site}, by ReFrame."),
        "head": [Text(line) for line in _head(site)],
        "site": request.site,
        "image": str(request.image),
        "either": Text(either),
        "not_stepped": Text(_is_none_of(request.stepped)),
        "words": list(request.words),
        "references": {probe: dict(references) for probe, references in request.references.items()},
        "units": dict(UNITS),
        "metrics": {probe: dict(metrics) for probe, metrics in request.metrics.items()},
        "tasks": request.tasks.ranks or 1,
        "per_node": request.tasks.per_node,
        "verdicts": dict(VERDICTS),
        "probes": Text("[" + ", ".join(map(literal, request.probes)) + "]"),
        "descr": f"cost of {request.image.name} at {site.target}",
        "system": f"{system(site)}:{partition(site)}",
        "environment": ENVIRONMENT,
        # It stands in a shell's script, as ReFrame writes it.
        "executable": shlex.quote(request.executable),
        "on_node": backend.script_on_compute_node,
    }
    return templating.render_template(templates, "reframe/test.py.j2", values, finalize=literal)


def _require_tasks(site: Site, tasks: Tasks, backend: ReframeBackend) -> None:
    """Refuse ranks that the session in the job's script could not start; raises ConfigError."""
    why = ""
    if tasks.ranks and not backend.script_on_compute_node:
        why = (
            f"{site.scheduler.kind} runs job scripts on a batch node, so ReFrame would start "
            "the session with the launcher, and a launcher cannot start ranks inside itself"
        )
    elif tasks.nodes > 1 and backend.name == "local":
        why = "this site has no scheduler, so a job has one node"
    if why:
        raise ConfigError(
            f"site {site.name}: cannot write a ReFrame test with {tasks.ranks} ranks on "
            f"{tasks.nodes} nodes",
            why=why,
            next_step="run `dlcontainer bench` in a job script: dlcontainer render --format job",
        )


def _is_none_of(names: Sequence[str]) -> str:
    """Write the comparison that holds for any other name."""
    if len(names) == 1:
        return f"!= {literal(names[0])}"
    return f"not in [{', '.join(map(literal, names))}]"


def settings(sites: Sequence[Site], templates: list[Path]) -> str:
    """Render one site's settings, a partition for each of its node types."""
    site = sites[0]
    values = {
        "title": _comment(f"the site {site.name}."),
        "head": [Text(line) for line in _head(site)],
        "system": system(site),
        "descr": site.summary,
        "modules": _MODULES[site.modules.kind],
        "environment": ENVIRONMENT,
        "jsrun": any(_launcher(site) == "jsrun" for site in sites),
        "partitions": [_partition(site) for site in sites],
    }
    return templating.render_template(templates, "reframe/settings.py.j2", values, finalize=literal)


def _partition(site: Site) -> Mapping[str, object]:
    node_type = site.node_types.get(site.node_type or "")
    return {
        "name": partition(site),
        "descr": node_type.summary if node_type else site.summary,
        "scheduler": _backend(site).name,
        "launcher": _launcher(site),
        "access": _deep(_access(site)),
        "prepare": _deep(_prepare(site)),
    }


def _deep(values: list[str]) -> Text:
    # No text in it has a line break: only the list's own lines are moved in.
    return Text(literal(values).replace("\n", "\n" + " " * 20))


def _backend(site: Site) -> ReframeBackend:
    backend = schedulers.SCHEDULERS[site.scheduler.kind].reframe
    if backend is None:
        raise ConfigError(
            f"site {site.name}: ReFrame cannot submit jobs to {site.scheduler.kind}",
            why="ReFrame has no backend for this scheduler",
            next_step="run `dlcontainer bench` in a job script: dlcontainer render --format job",
        )
    return backend


def _launcher(site: Site) -> str:
    words = site.scheduler.launcher
    launcher = schedulers.launcher(words[0], site.scheduler.kind) if words else None
    return launcher.reframe if launcher else "local"


def _access(site: Site) -> list[str]:
    """Return the options of every job: the site's directives that ReFrame doesn't write itself."""
    written = re.compile(_backend(site).written_options)
    options = [line.partition(" ")[2].strip() for line in job_head.lines(site)]
    return [option for option in options if option and not written.match(option)]


def _prepare(site: Site) -> list[str]:
    """Return what a job's shell does before all else: the site's modules, and the engine's."""
    engine = site.engine.module
    modules = list(site.jobs.modules)
    loads = [f"load {engine}"] if engine and f"load {engine}" not in modules else []
    return [" ".join(["module", *map(shlex.quote, line.split())]) for line in [*modules, *loads]]


def _head(site: Site) -> list[str]:
    lines = ["Account, queue and partition are yours to change."] if job_head.lines(site) else []
    if site.never_run:
        lines.append("Never run by us at this site: only rendered.")
    if site.engine.runtime not in {"apptainer", "singularity"}:
        lines.append(
            f"Jobs of this site start images with {site.engine.runtime}; the benchmark starts "
            "them with Apptainer."
        )
    return [_comment(line) for line in lines]


def _comment(text: str) -> Text:
    # It stands in a docstring, which nothing in it may end.
    return Text(re.sub(r'[\\"]|[^ -~]', "?", text))

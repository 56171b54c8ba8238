"""What jobs ask of a node against what it has: CPUs, accelerators, memory, threads. Pure.

A scheduler turns down, or never starts, what no node has; more threads than CPUs only run slowly.
CPUs are the cores that a job can use, times `threads_per_core`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.config import KeyPath
from dlcontainer.planning.conflicts.model import Contradiction, FactConflict
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.schedulers.scheduler import TASKS, BatchSystem, MemoryWords
from dlcontainer.sites.facts import LaunchForm
from dlcontainer.sites.site import Site

SOURCE = "sbatch(1), srun(1), pbs_resources(7B): a request that no node meets does not start"
_THREADS = "OMP_NUM_THREADS"
# As `on_launcher` of schedulers names it.
_CPUS = "--cpus-per-task"
THREADS_SOURCE = "OpenMP 5.2, OMP_NUM_THREADS: threads of each process"
_AMOUNT = re.compile(r"(?P<number>\d+)(?P<unit>[A-Za-z]*)")
# In bytes: schedulers count in powers of 1024 (sbatch(1), pbs_resources(7B)).
_SIZES = {"bytes": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40, "PB": 2**50}
_MOST_DIGITS = 12
_MORE = "request less, or correct the node's facts"


@dataclass(frozen=True, kw_only=True, slots=True)
class _DirectiveLine:
    """A line of a job's head that its scheduler reads, and the key that it stands at."""

    text: str
    place: KeyPath


def _batch(site: Site) -> BatchSystem:
    return SCHEDULERS[site.scheduler.kind]


def _lines(site: Site) -> Iterator[_DirectiveLine]:
    directive = _batch(site).directive
    for index, line in enumerate(site.scheduler.directives):
        if directive and line.startswith(f"{directive} "):
            text = line.removeprefix(directive).partition(" #")[0]
            yield _DirectiveLine(text=text, place=("scheduler", "directives", index))


def _value(pattern: str, text: str) -> int | None:
    match = re.search(rf"(?<!\S){pattern}", text) if pattern else None
    return _number(match["value"]) if match else None


def _number(digits: str) -> int:
    # No node has as many of anything; Python reads no number of thousands of digits.
    return int(digits[:_MOST_DIGITS])


def _cpus(site: Site) -> int | None:
    """Return the CPUs of a node; None where they are not known."""
    if site.cpu is None:
        return None
    pattern = _batch(site).held_back
    held_back = max((_value(pattern, line.text) or 0 for line in _lines(site)), default=0)
    return (site.cpu.cores + held_back) * site.cpu.threads_per_core


def rank_cpus(site: Site) -> Iterator[FactConflict]:
    """Refuse a form whose ranks ask for more CPUs than a node has."""
    has = _cpus(site)
    for name, form in site.scheduler.forms.items():
        cpus_per_rank = _of_each(site, form)
        started = 1 if form.inside else form.ranks_per_node
        if cpus_per_rank and has and cpus_per_rank * started > has:
            yield FactConflict(
                what=f"form {name} requests {cpus_per_rank * started} CPUs of a node ({started} x "
                f"{cpus_per_rank}), which has {has}",
                why=SOURCE,
                first=("scheduler", "forms", name, "launcher"),
                second=("cpu", "cores"),
                way_out=f"{_MORE}: cpu.cores, cpu.threads_per_core",
            )


def _of_each(site: Site, form: LaunchForm) -> int | None:
    """Return the CPUs that each task of a form gets, by its words, else by the lines.

    None where nothing says it, or where the scheduler's table does not read its launcher's words.
    """
    batch = _batch(site)
    pattern = batch.on_launcher.get(_CPUS, "")
    if form.launcher[0].rpartition("/")[2] not in batch.launchers:
        return None
    cpus = _value(pattern, " ".join(form.launcher))
    if cpus is None:
        count = _first_count(pattern, list(_lines(site)))
        cpus = count.number if count else None
    return cpus


def line_counts(site: Site) -> Iterator[FactConflict]:
    """Refuse lines of a job's head that ask for more CPUs or accelerators than a node has."""
    gpu = site.accelerator
    has: Mapping[str, tuple[int | None, KeyPath]] = {
        "CPUs": (_cpus(site), ("cpu", "cores")),
        "accelerators": (gpu.per_node if gpu else None, ("accelerator", "per_node")),
    }
    for line in _lines(site):
        for what, pattern in _batch(site).of_node.items():
            requested, (available, key) = _value(pattern, line.text), has[what]
            if requested and available and requested > available:
                yield FactConflict(
                    what=f"the directives request {requested} {what} of a node, which has "
                    f"{available}",
                    why=SOURCE,
                    first=line.place,
                    second=key,
                    way_out=_MORE,
                )


def line_ranks(site: Site) -> Iterator[FactConflict]:
    """Refuse lines whose tasks together ask for more CPUs than a node has."""
    has, patterns = _cpus(site), _batch(site).on_launcher
    lines = list(_lines(site))
    tasks = _first_count(patterns.get(TASKS, ""), lines)
    cpus_per_task = _first_count(patterns.get(_CPUS, ""), lines)
    if has and tasks and cpus_per_task and tasks.number * cpus_per_task.number > has:
        yield FactConflict(
            what=f"the directives request {tasks.number * cpus_per_task.number} CPUs of a node "
            f"({tasks.number} x {cpus_per_task.number}), which has {has}",
            why=SOURCE,
            first=cpus_per_task.place,
            second=("cpu", "cores"),
            way_out=f"{_MORE}: cpu.cores, cpu.threads_per_core",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _LineCount:
    """A number that the lines say, and where."""

    number: int
    place: KeyPath


def _first_count(pattern: str, lines: Sequence[_DirectiveLine]) -> _LineCount | None:
    counts = (
        _LineCount(number=number, place=line.place)
        for line in lines
        if (number := _value(pattern, line.text)) is not None
    )
    return next(counts, None)


def line_memory(site: Site) -> Iterator[FactConflict]:
    """Refuse lines of a job's head that ask for more memory than a node has."""
    gb = site.memory.gb if site.memory else None
    for line in _lines(site) if gb else ():
        for words in _batch(site).memory:
            requested = _bytes(words, line.text)
            # As written: GB of a data sheet may be of 1024 or of 1000.
            if requested and gb and requested > gb * 2**30:
                yield FactConflict(
                    what=f"the directives request {requested / 2**30:.0f} GB of memory of a "
                    f"node, which has {gb} GB",
                    why=SOURCE,
                    first=line.place,
                    second=("memory", "gb"),
                    way_out=_MORE,
                )


def _bytes(words: MemoryWords, text: str) -> int | None:
    """Return the memory of one node that a line asks for; None where it does not, or is not
    read.
    """
    if not words.per_node or not re.search(rf"(?<!\S){words.per_node}", text):
        return None
    match = re.search(rf"(?<!\S){words.written}", text)
    amount = _AMOUNT.fullmatch(match["value"]) if match else None
    if amount is None or match is None or match["value"] in words.special:
        return None
    unit = amount["unit"]
    names = (words.units.get(spelling) for spelling in (unit, unit.upper(), unit.lower()))
    size = _SIZES.get(next(filter(None, names), ""))
    return _number(amount["number"]) * size if size else None


def ranks_of_gpus(site: Site) -> Iterator[FactConflict]:
    """Note a form with more ranks than a node has accelerators: ranks share them.

    Of forms whose ranks take an accelerator each: the usual one, and those of torchrun.
    """
    gpu = site.accelerator
    for index, (name, form) in enumerate(site.scheduler.forms.items()):
        if gpu and form.ranks_per_node > gpu.per_node and (not index or form.inside):
            yield FactConflict(
                what=f"form {name} starts {form.ranks_per_node} ranks per node, which has "
                f"{gpu.per_node} accelerators",
                why="ranks would share accelerators, and NCCL and RCCL refuse two ranks on "
                "one device",
                first=("scheduler", "forms", name, "ranks_per_node"),
                second=("accelerator", "per_node"),
            )


def ranks_of_cpus(site: Site) -> Iterator[FactConflict]:
    """Note a form that starts more ranks than a node has CPUs."""
    has = _cpus(site)
    for name, form in site.scheduler.forms.items():
        if has and form.ranks_per_node > has:
            yield FactConflict(
                what=f"form {name} starts {form.ranks_per_node} ranks per node, which has "
                f"{has} CPUs",
                why="srun refuses this without --overcommit; other launchers let ranks share CPUs",
                first=("scheduler", "forms", name, "ranks_per_node"),
                second=("cpu", "cores"),
            )


def job_threads(site: Site) -> Iterator[FactConflict]:
    """Note jobs whose ranks together have more threads than a node has CPUs."""
    for path in (("jobs", "environment"), ("jobs", "inside")):
        environment = getattr(site.jobs, path[1])
        problem = _too_many(site, environment.get(_THREADS))
        if problem:
            yield FactConflict(
                what=problem, why=THREADS_SOURCE, first=(*path, _THREADS), second=("cpu", "cores")
            )


def image_threads(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    """Note an image whose ranks together have more threads than a node has CPUs."""
    places: dict[KeyPath, str | None] = {
        ("environment", _THREADS): recipe.environment.get(_THREADS)
    }
    for index, step in enumerate(recipe.steps):
        places["steps", index, "environment", _THREADS] = step.environment.get(_THREADS)
    for path, text in places.items():
        problem = _too_many(site, text)
        if problem:
            yield Contradiction(
                what=problem,
                why=THREADS_SOURCE,
                in_site=("cpu", "cores"),
                in_recipe=path,
                way_out="set fewer threads: --set environment.OMP_NUM_THREADS=N",
            )


def _too_many(site: Site, text: str | None) -> str | None:
    has = _cpus(site)
    if has is None or text is None or not text.isascii() or not text.isdigit():
        return None
    form = next(iter(site.scheduler.forms.values()), None)
    ranks = form.ranks_per_node if form else 1
    threads = _number(text) * ranks
    if threads <= has:
        return None
    per_rank = f" ({ranks} ranks x {_number(text)})" if ranks > 1 else ""
    return f"{threads} threads on a node{per_rank}, which has {has} CPUs"

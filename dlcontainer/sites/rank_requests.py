"""What the lines of a job ask for a rank, against what the launcher of each form asks for. Pure.

The lines make the allocation and the launcher starts ranks in it: where both say a number, and not
the same, ranks have other CPUs or GPUs than the job was charged for, and no word is said.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.schedulers.scheduler import TASKS, BatchSystem
from dlcontainer.sites.facts import LaunchForm
from dlcontainer.sites.site import Site

# What a task gets: where a form starts fewer tasks a node, each must get more.
_EACH = {"--cpus-per-task": "CPUs", "--gpus-per-task": "GPUs"}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """One form, and what its launcher and the lines say."""

    name: str
    form: LaunchForm
    batch: BatchSystem
    lines: str

    @property
    def started(self) -> int:
        """The processes that the launcher starts on a node."""
        return 1 if self.form.inside else self.form.ranks_per_node

    @property
    def words(self) -> str:
        """The launcher's words, those that the job fills in as it would."""
        ranks = str(self.started)
        return " ".join(word.replace("{ranks_per_node}", ranks) for word in self.form.launcher)

    def asked(self, word: str) -> int | None:
        """Return the number that the lines say."""
        return self.batch.number(word, self.lines)

    def said(self, word: str) -> int | None:
        """Return the number that the launcher says."""
        return self.batch.number(word, self.words)

    @property
    def counts_ranks(self) -> bool:
        """Whether the launcher says how many it starts."""
        ranks = self.batch.resources.get("ranks")
        total = re.search(r"(?<!\S)(?:-n ?|--ntasks[= ])\S", self.words) if ranks else None
        return total is not None or self.said(TASKS) is not None


def disagreements(site: Site) -> tuple[str, ...]:
    """Return a note of each form where the lines and its launcher ask for different things."""
    return tuple(note for form in _forms(site) for note in _of(form))


def cpus(site: Site, name: str) -> int | None:
    """Return the CPUs that each task of a form gets by its words; None where they do not say."""
    form = next(candidate for candidate in _forms(site) if candidate.name == name)
    count = form.said("--cpus-per-task")
    return form.asked("--cpus-per-task") if count is None else count


def _forms(site: Site) -> Iterator[_Form]:
    scheduler = site.scheduler
    batch = SCHEDULERS[scheduler.kind]
    lines = batch.options(scheduler.directives)
    for name, form in scheduler.forms.items():
        # The words of another launcher (ibrun's -n) are none of this scheduler's.
        if PurePath(form.launcher[0]).name in batch.launchers and batch.on_launcher:
            yield _Form(name=name, form=form, batch=batch, lines=lines)


def _of(form: _Form) -> Iterator[str]:
    yield from _tasks(form)
    for word, things in _EACH.items():
        yield from _each(form, word, things)
    threads = "--threads-per-core"
    requested, stated = form.asked(threads), form.said(threads)
    if None not in (requested, stated) and requested != stated:
        yield f"form {form.name}: the lines say {threads}={requested}, its launcher {stated}"


def _tasks(form: _Form) -> Iterator[str]:
    requested, stated = form.asked(TASKS), form.said(TASKS)
    if requested is None:
        return
    if stated is not None and stated > requested:
        yield (
            f"form {form.name}: the lines have {requested} tasks a node, its launcher starts "
            f"{stated}"
        )
    elif stated is None and not form.counts_ranks and requested != form.started:
        yield (
            f"form {form.name}: its launcher says no number and starts the {requested} tasks a "
            "node of "
            f"the lines, where the form has {form.started}: add {TASKS}={form.started}"
        )


def _each(form: _Form, word: str, things: str) -> Iterator[str]:
    requested, stated = form.asked(word), form.said(word)
    if requested is None:
        return
    tasks = form.asked(TASKS) or form.started
    on_node = requested * tasks
    if stated is None:
        if form.started < tasks:
            yield (
                f"form {form.name}: its {form.started} process a node gets {requested} of the "
                f"{on_node} {things} that the lines ask for: add {word}={on_node // form.started} "
                "to its launcher"
            )
    elif stated * form.started != on_node:
        yield (
            f"form {form.name}: the lines ask for {on_node} {things} on a node ({tasks} x "
            f"{requested}), its launcher for {stated * form.started} ({form.started} x {stated})"
        )

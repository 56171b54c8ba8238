"""The time and the memory that a site's jobs ask for, in full, as its scheduler reads them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer.formats import job_head
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS, time_limits
from dlcontainer.schedulers.scheduler import MemoryWords

_AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]*)!?")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetting:
    """One thing that a job asks for: what it means, how it is written, and where."""

    name: str
    meant: str
    written: str
    where: str


def asked(plan: Plan) -> tuple[JobSetting, ...]:
    """Return what the jobs of a plan's site ask for; what its lines leave out is the queue's."""
    return (*_time(plan), *_memory(plan))


def _time(plan: Plan) -> Iterator[JobSetting]:
    scheduler = plan.site.scheduler
    batch = SCHEDULERS[scheduler.kind]
    text, where = scheduler.resources.time, str(plan.place_in_site("scheduler", "resources"))
    written = f"time: {text}"
    if text is not None:
        where = str(plan.place_in_site("scheduler", "resources", "time"))
    elif "time" in batch.resources:
        pattern = batch.resources["time"].written
        for line in _lines(plan):
            match = re.search(rf"(?<!\S){pattern}", line.text)
            if match:
                text, written, where = match["value"], line.text, line.where
                break
    if text is None:
        return
    try:
        meant = time_limits.shown(batch.read_time(text))
    except ValueError as error:
        # The scheduler reads its own lines: it may know more of them.
        meant = f"not read by us: {error}"
    yield JobSetting(name="time", meant=meant, written=written, where=where)


def _memory(plan: Plan) -> Iterator[JobSetting]:
    for line in _lines(plan):
        for words in SCHEDULERS[plan.site.scheduler.kind].memory:
            match = re.search(rf"(?<!\S){words.written}", line.text)
            if match:
                meant = f"{_amount(match['value'], words)} for {words.of}"
                yield JobSetting(name="memory", meant=meant, written=line.text, where=line.where)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RequestLine:
    text: str
    where: str


def _lines(plan: Plan) -> Iterator[_RequestLine]:
    """Yield the lines that the scheduler reads, and where each stands."""
    directive = SCHEDULERS[plan.site.scheduler.kind].directive
    written = plan.site.scheduler.directives
    for line in job_head.lines(plan.site):
        if directive and line.startswith(f"{directive} "):
            key = ("scheduler", "directives", written.index(line)) if line in written else None
            where = plan.written.origin(key).where if key else plan.place_in_site("scheduler")
            yield _RequestLine(text=line, where=str(where))


def _amount(text: str, words: MemoryWords) -> str:
    if text in words.special:
        return words.special[text]
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return text
    written = match["unit"]
    factors = (words.units.get(unit) for unit in (written, written.upper(), written.lower()))
    unit = next(filter(None, factors), f"{written}, a unit that we do not know here")
    return f"{match['number']} {unit}"

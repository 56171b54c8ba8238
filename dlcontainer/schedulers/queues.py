"""How a program submits a job, follows it and cancels it: words, and readers of what is printed."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

# Whose doing an end is: nobody's (it ended well), the job's own, its time limit's, or the system's
# alone. What ended for the last is measured again.
Cause = Literal["none", "job", "limit", "outside"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A job that has not ended, and its state in the scheduler's words, where it tells one."""

    number: str
    state: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a job ended, in the scheduler's words, and whose doing that is."""

    state: str
    cause: Cause


def lines(text: str, _name: str) -> tuple[Listed, ...]:
    """Read a job a line: its number, and its state where there is a second word."""
    found = [line.split() for line in text.splitlines() if line.strip()]
    return tuple(Listed(number=one[0], state="".join(one[1:2])) for one in found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """How a program submits a job, follows it and cancels it.

    Words may hold {name}, a name that no other job has, {log}, where the job's output goes, and
    {job}, the job's number.
    """

    submit: tuple[str, ...]
    # Whether `submit` reads the script from its standard input; else it is the last word.
    script_on_stdin: bool = False
    # Finds the number, the group `job`, in what `submit` prints.
    number: str
    # Characters to which the scheduler gives a meaning of their own in {log}.
    unfit_in_log: str = ""
    # Prints the jobs of that name that have not ended; how that is read, the name with it; and a
    # pattern of what it says where there is none and its exit code is that of a failure.
    listing: tuple[str, ...]
    read: Callable[[str, str], tuple[Listed, ...]] = lines
    none_listed: str = ""
    # States which no job leaves by itself; what prints why, and the pattern of that.
    stuck: frozenset[str] = frozenset()
    explain: tuple[str, ...] = ()
    reason: str = ""
    # Prints the jobs whose node does not answer, which may come back; how that is read.
    away: tuple[str, ...] = ()
    read_away: Callable[[str, str], tuple[Listed, ...]] = lines
    # By {name}, or by {job} for each job listed.
    cancel: tuple[str, ...]
    # Prints how a job ended, and how that is read: None where it does not tell.
    ended: tuple[str, ...]
    ending: Callable[[str], Ending | None]
    # How long after a job's end that may take to be told, s.
    told_within_s: float = 0.0
    # The words of a job's head for {count} ranks on each node.
    per_node: str = ""


def by_state(
    pattern: str, *, good: str, limit: Iterable[str], outside: Iterable[str]
) -> Callable[[str], Ending | None]:
    """Read an ending whose state, the group of a pattern, says all; an unknown one is the job's."""
    causes: dict[str, Cause] = dict.fromkeys(outside, "outside")
    causes |= {**dict.fromkeys(limit, "limit"), good: "none"}

    def read(text: str) -> Ending | None:
        found = re.search(pattern, text)
        if found is None:
            return None
        return Ending(state=found["state"], cause=causes.get(found["state"], "job"))

    return read

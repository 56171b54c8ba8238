"""Time limits, read as their scheduler reads them: 30:00 is 30 minutes for one, 30 h for another.

All readers give seconds, and raise ValueError where a text is none or may be two. Three fields are
hours, minutes and seconds everywhere: for LSF too, whose own grammar has two.
"""

import re
from dataclasses import dataclass

_WRITTEN = re.compile(r"(?:(?P<days>[0-9]+)-)?(?P<numbers>[0-9]+(?::[0-9]+){0,2})")
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60
# How many numbers stand between colons.
_ONE, _TWO, _THREE = 1, 2, 3


def shown(seconds: int) -> str:
    """Write a time in full, for people: H:MM:SS."""
    return f"{seconds // _HOUR}:{seconds // _MINUTE % 60:02}:{seconds % 60:02}"


def minutes(seconds: int) -> str:
    """Write a time in minutes, of which one that has begun counts."""
    return str(-(-seconds // _MINUTE))


def slurm(text: str) -> int:
    """Read M, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Source: sbatch(1), "--time"."""
    written = _read(text, "M, M:S, H:M:S, D-H, D-H:M or D-H:M:S")
    if written.days is not None:
        return written.total(_HOUR, least=written.days * _DAY, most=24)
    return written.total(_HOUR if written.count == _THREE else _MINUTE)


def lsf(text: str) -> int:
    """Read [H:]M, with minutes above 59 too. Source: IBM Spectrum LSF 10.1, bsub -W."""
    written = _read(text, "[H:]M", has_days=False)
    if written.count == _TWO:
        hours, mins = written.numbers
        return _positive(text, hours * _HOUR + mins * _MINUTE)
    return written.total(_HOUR if written.count == _THREE else _MINUTE)


def pbs(text: str) -> int:
    """Read [[H:]M:]S. Source: PBS Professional, Reference Guide, "Formats": Duration."""
    written = _read(text, "[[H:]M:]S", has_days=False)
    return written.total({_ONE: 1, _TWO: _MINUTE, _THREE: _HOUR}[written.count])


def grid_engine(text: str) -> int:
    """Read seconds, or H:M:S of which numbers may be left out. Source: sge_types(5).

    A number of seconds with a 0 before it is octal there, and with one colon none is known.
    """
    filled = text
    if text.count(":") == _TWO:
        filled = ":".join(part or "0" for part in text.split(":"))
    written = _read(filled, "seconds, or H:M:S", has_days=False)
    if written.count == _ONE and re.match("0.", text):
        raise ValueError(f"{text}: Grid Engine reads a number that begins with 0 as octal")
    written.refuse_two("seconds, or H:M:S")
    return written.total(1 if written.count == _ONE else _HOUR)


def cobalt(text: str) -> int:
    """Read M or H:M:S. Source: ALCF, "Cobalt Job Control" (-t 5, -t 01:10:20)."""
    return local(text)


def local(text: str) -> int:
    """Read M or H:M:S: of a job that no scheduler ends. Two numbers may be either's."""
    written = _read(text, "M or H:M:S", has_days=False)
    written.refuse_two("M or H:M:S")
    return written.total(_MINUTE if written.count == _ONE else _HOUR)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TimeLimit:
    """A time limit as it was written: days before a dash, and the numbers between colons."""

    text: str
    days: int | None
    numbers: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.numbers)

    def total(self, unit: int, *, least: int = 0, most: int | None = None) -> int:
        """Add up numbers of which the first counts units, each later one the next smaller."""
        first, *later = self.numbers
        if any(number > 59 for number in later) or (most is not None and first >= most):
            raise ValueError(
                f"{self.text} has more than 59 minutes or seconds, or more than 23 hours in a day"
            )
        seconds = least
        for number in self.numbers:
            seconds += number * unit
            unit //= 60
        return _positive(self.text, seconds)

    def refuse_two(self, grammar: str) -> None:
        """Refuse two numbers, which are minutes and seconds, or hours and minutes."""
        if self.count != _TWO:
            return
        first, second = self.numbers
        short = shown(first * _MINUTE + second)
        long = shown(first * _HOUR + second * _MINUTE)
        raise ValueError(
            f"{self.text} is {short} to Slurm and PBS, and {long} to LSF; this scheduler's "
            f"form is {grammar}: write {short} or {long}"
        )


def _read(text: str, grammar: str, *, has_days: bool = True) -> _TimeLimit:
    match = _WRITTEN.fullmatch(text)
    if match is None or (match["days"] is not None and not has_days):
        raise ValueError(f"{text} is not a time limit of this scheduler, whose form is {grammar}")
    days = None if match["days"] is None else int(match["days"])
    return _TimeLimit(text=text, days=days, numbers=tuple(map(int, match["numbers"].split(":"))))


def _positive(text: str, seconds: int) -> int:
    if seconds == 0:
        raise ValueError(f"{text} is not a time; remove it to use the limit of the queue")
    return seconds

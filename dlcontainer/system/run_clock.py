"""The clock of one run, which the commands that it starts go on with."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# In the environment of commands that a longer run starts: when it began (s of the machine's
# monotonic clock), and which of its steps the command is.
HANDED = "DLCONTAINER_RUN"
_HANDED = re.compile(r"(\d{1,12}\.\d{1,6})(?: (\d{1,3}/\d{1,3} [A-Za-z0-9 -]{1,40}))?")


def _now() -> float:
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of what was typed: its clock, which starts once, and the place in a longer run.

    `began` is the monotonic clock's, s; `place` is the step that this is of the longer run, as
    `6/12 build`, or empty.
    """

    began: float = field(default_factory=_now)
    place: str = ""
    now: Callable[[], float] = _now

    def elapsed(self) -> float:
        """Return the time since the run began, s."""
        return max(0.0, self.now() - self.began)

    @staticmethod
    def of(environ: Mapping[str, str], now: Callable[[], float] = _now) -> "Run":
        """Go on with the run that started this one, if one did; else begin.

        The variable is our own: one that is wrong, or of a clock that is not this machine's,
        counts as none.
        """
        match = _HANDED.fullmatch(environ.get(HANDED, ""))
        if match is None or float(match[1]) > now():
            return Run(began=now(), now=now)
        return Run(began=float(match[1]), place=match[2] or "", now=now)

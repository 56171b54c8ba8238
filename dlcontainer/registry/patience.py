"""How long a registry is waited for: an end for an answer, a least rate for what may be large.

A socket's own timeout begins again with each byte. So a registry that sends one byte now and then
is within it for ever: in the status line and the headers, in a redirect's, and in a layer.
Only waiting counts, not what is done with the bytes here.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class TooSlowError(TimeoutError):
    """The bytes came, or went, too slowly."""


@dataclass(slots=True, kw_only=True)
class Rate:
    """At least so many bytes a second, over each stretch of waiting of `over_s`."""

    least: float
    over_s: float
    _bytes: int = 0
    _waited: float = 0.0

    @property
    def left_s(self) -> float:
        """Time until the next look, s."""
        return self.over_s - self._waited

    def came(self, count: int, waited_s: float) -> None:
        """Note bytes and the wait for them; raises TooSlowError."""
        self._bytes += count
        self._waited += waited_s
        if self._waited < self.over_s:
            return
        if self._bytes < self.least * self._waited:
            raise TooSlowError(f"{self._bytes} bytes in {self._waited:.0f} s")
        self._bytes, self._waited = 0, 0.0


@dataclass(slots=True, kw_only=True)
class TimeAllowance:
    """What is left of the time for one request's answers, all redirects together.

    `over` says what was too slow, once it was.
    """

    silence_s: float
    clock: Callable[[], float] = time.monotonic
    over: str | None = None
    _answer_s: float = 0.0
    _waited: float = 0.0
    _rate: Rate | None = field(default=None)

    def begin(self, answer_s: float) -> None:
        """Begin a request: its answers have so much time together."""
        self.over, self._rate = None, None
        self._answer_s, self._waited = answer_s, 0.0

    def flow(self, rate: Rate, most_s: float | None) -> None:
        """Go on to a body that may be large: from now on its rate counts, and `most_s`, if any."""
        self._rate = rate
        self._answer_s = math.inf if most_s is None else most_s

    @property
    def left_s(self) -> float:
        """Time that the next wait may take, s, beside silence."""
        remaining_s = self._answer_s - self._waited
        return min(remaining_s, self._rate.left_s) if self._rate else remaining_s

    def read(self, receive: Callable[[], int], set_timeout: Callable[[float], None]) -> int:
        """Wait for the next bytes; raises TimeoutError for silence, TooSlowError for the rest."""
        silent = 0.0
        while True:
            if self.left_s <= 0:
                self._end(f"did not send everything within {self._answer_s:g} s")
            set_timeout(max(0.001, min(self.silence_s - silent, self.left_s)))
            began = self.clock()
            try:
                count = receive()
            except TimeoutError:
                waited = self.clock() - began
                self._came(0, waited)
                silent += waited
                if silent >= self.silence_s:
                    raise
                continue
            self._came(count, self.clock() - began)
            return count

    def _came(self, count: int, waited_s: float) -> None:
        self._waited += waited_s
        if self._rate is None:
            return
        try:
            self._rate.came(count, waited_s)
        except TooSlowError as error:
            self._end(f"sends less than {self._rate.least:g} bytes a second: {error}")

    def _end(self, why: str) -> None:
        self.over = why
        raise TooSlowError(why)

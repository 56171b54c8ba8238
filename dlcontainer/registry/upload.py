"""A file on its way to a registry: read once, told of, never held in memory."""

import time
from dataclasses import dataclass
from typing import BinaryIO

from dlcontainer.registry.patience import Rate, TooSlowError
from dlcontainer.system.progress import Meter


@dataclass(kw_only=True, slots=True)
class Upload:
    """An open file as the HTTP library sends it; `size` bytes of it, from its start.

    `rate` bounds the time between two reads, in which the bytes of the one before are sent.
    """

    file: BinaryIO
    size: int
    meter: Meter | None = None
    done: int = 0
    rate: Rate | None = None
    # What was too slow, once it was.
    over: str | None = None
    _given: int = 0
    _at: float | None = None

    def __len__(self) -> int:
        return self.size

    def read(self, amount: int = -1) -> bytes:
        """Return the next bytes; raises TooSlowError where those before went too slowly."""
        if self.rate is not None and self._at is not None:
            try:
                self.rate.came(self._given, time.monotonic() - self._at)
            except TooSlowError as error:
                self.over = f"takes less than {self.rate.least:g} bytes a second: {error}"
                raise
        remaining = self.size - self.done
        data = self.file.read(remaining if amount < 0 else min(amount, remaining))
        self.done += len(data)
        if self.meter is not None:
            self.meter.at(self.done)
        self._given, self._at = len(data), time.monotonic()
        return data

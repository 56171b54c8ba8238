"""A file on its way to a registry: read once, told of, never held in memory."""

from dataclasses import dataclass
from typing import BinaryIO

from dlcontainer.system.progress import Meter


@dataclass(kw_only=True, slots=True)
class Upload:
    """An open file as the HTTP library sends it; `size` bytes of it, from its start."""

    file: BinaryIO
    size: int
    meter: Meter | None = None
    done: int = 0

    def __len__(self) -> int:
        return self.size

    def read(self, amount: int = -1) -> bytes:
        """Give the next bytes."""
        left = self.size - self.done
        data = self.file.read(left if amount < 0 else min(amount, left))
        self.done += len(data)
        if self.meter is not None:
            self.meter.at(self.done)
        return data

"""A blob on its way from a registry into a file: bounded and hashed as it comes."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass(slots=True, kw_only=True)
class Taking:
    """A blob on its way into a file; past `most` bytes no more of it is taken."""

    file: BinaryIO
    most: int
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def take(self, chunks: Iterable[bytes]) -> None:
        """Write chunks, and take their digest."""
        for chunk in chunks:
            self.size += len(chunk)
            if self.size > self.most:
                return
            self.file.write(chunk)
            self.digest.update(chunk)

"""A blob on its way from a registry to its reader: bounded and hashed as it comes."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class BlobReader:
    """A blob on its way to `read`; past `most` bytes no more of it is taken."""

    read: Callable[[Iterator[bytes]], object]
    most: int
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def take(self, chunks: Iterable[bytes]) -> None:
        """Hand chunks on, and take their digest; of those that the reader leaves too."""
        counted = self._counted(chunks)
        self.read(counted)
        for _ in counted:
            pass

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.size += len(chunk)
            if self.size > self.most:
                return
            self.digest.update(chunk)
            yield chunk

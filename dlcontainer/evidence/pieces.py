"""Pieces of evidence, offered one by one: anybody may have put them where they lie.

So nothing of a piece is read before it is asked for, a file not before its envelope was believed;
one that can't be read stops no other; and no number of strangers' pieces ends the look at the
others, only time does.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dlcontainer.errors import ChecksFailedError, DlcontainerError
from dlcontainer.evidence.kinds import FORMS, MOST_BYTES, Kind

ENVELOPE = ".dsse.json"
# Of all evidence of one image that is kept: it is held in memory.
MOST_TOGETHER = 512_000_000
# For all that is offered of one image.
MOST_S = 600.0
_SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One piece of evidence: its file's bytes and the envelope's."""

    kind: Kind
    data: bytes
    envelope: bytes

    @property
    def stem(self) -> str:
        """Name it; the same file has the same name."""
        return f"{self.kind}-{hashlib.sha256(self.data).hexdigest()[:12]}"

    @property
    def file(self) -> str:
        """Name its file."""
        return f"{self.stem}{FORMS[self.kind].suffix}"

    @property
    def files(self) -> dict[str, bytes]:
        """Return both files by their names; the envelope last."""
        return {self.file: self.data, f"{self.stem}{ENVELOPE}": self.envelope}

    @property
    def offer(self) -> "EvidenceOffer":
        """Offer it as what lies elsewhere is offered."""
        return EvidenceOffer(
            kind=self.kind,
            name=self.file,
            envelope=lambda: self.envelope,
            file=lambda _: self.data,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceLimit:
    """A piece's file: at most so many bytes, and of this SHA-256 where it is known.

    Another one may be refused unread; its digest is looked at all the same.
    """

    most: int
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceOffer:
    """A piece that lies somewhere, not read yet.

    `envelope` reads its envelope, `file` its file; both raise OSError or an error of ours.
    """

    kind: Kind
    name: str
    envelope: Callable[[], bytes]
    file: Callable[[PieceLimit], bytes]


@dataclass(slots=True, kw_only=True)
class RefusalNotes:
    """What is said of pieces that don't count: the first, then their number."""

    tell: Callable[[str], None]
    _count: int = 0

    def add(self, text: str) -> None:
        """Say it, unless enough was said."""
        self._count += 1
        if self._count <= _SHOWN:
            self.tell(text)

    def end(self) -> None:
        """Say how many more there were."""
        if self._count > _SHOWN:
            self.tell(f"and {self._count - _SHOWN} more")


@dataclass(slots=True, kw_only=True)
class ByteAllowance:
    """What is left for the evidence of one image, in bytes."""

    remaining: int = MOST_TOGETHER

    def take(self, size: int) -> None:
        """Take room; raises ChecksFailedError where there is none."""
        if size > self.remaining:
            raise ChecksFailedError(
                f"the image's evidence is larger than {MOST_TOGETHER // 1_000_000} MB in total"
            )
        self.remaining -= size


@dataclass(slots=True, kw_only=True)
class Deadline:
    """The end of the time for all that is offered of one image."""

    clock: Callable[[], float] = time.monotonic
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._end = self.clock() + MOST_S

    @property
    def is_over(self) -> bool:
        """Return whether no more is looked at."""
        return self.clock() > self._end


OVER = f"the rest was not read: the limit of {MOST_S:g} s was reached"


def in_time(
    offers: Iterable[EvidenceOffer], deadline: Deadline, refuse: Callable[[str], None]
) -> Iterator[EvidenceOffer]:
    """Yield offers until the time is over, or their place can't be read on; say so then."""
    offers_left = iter(offers)
    while True:
        try:
            offer = next(offers_left, None)
        except (OSError, DlcontainerError) as error:
            refuse(said(error))
            return
        if offer is None:
            return
        if deadline.is_over:
            refuse(OVER)
            return
        yield offer


def loaded(
    offers: Iterable[EvidenceOffer], notes: RefusalNotes, deadline: Deadline | None = None
) -> Iterator[Piece]:
    """Read all pieces that can be read, whoever signed them."""
    room = ByteAllowance()
    for offer in in_time(offers, deadline or Deadline(), notes.add):
        try:
            sealed = offer.envelope()
            data = offer.file(PieceLimit(most=min(MOST_BYTES, room.remaining)))
            room.take(len(data) + len(sealed))
        except (OSError, DlcontainerError) as error:
            notes.add(f"{offer.name}: {said(error)}")
            continue
        yield Piece(kind=offer.kind, data=data, envelope=sealed)
    notes.end()


def said(error: OSError | DlcontainerError) -> str:
    """Return one line that says why a piece does not count."""
    if isinstance(error, DlcontainerError):
        return f"{error.what} ({error.why})" if error.why else error.what
    return error.strerror or str(error)

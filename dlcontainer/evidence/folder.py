"""The evidence beside an image: NAME.evidence, each file with the envelope that speaks of it.

NAME.evidence/bench-0123456789ab.jsonl        what was found out
NAME.evidence/bench-0123456789ab.dsse.json    who says so, of which image
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import envelope
from dlcontainer.evidence.kinds import FORMS, KINDS, MOST_BYTES, Kind
from dlcontainer.system import atomic_files, foreign_files

SUFFIX = ".evidence"
_ENVELOPE = ".dsse.json"
_NAME = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{12}}")
_MOST_PIECES = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One piece of evidence, not yet judged: its file's bytes and the envelope's."""

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
        """Give both files by their names; the envelope last."""
        return {self.file: self.data, f"{self.stem}{_ENVELOPE}": self.envelope}


def beside(image: Path) -> Path:
    """Name the folder of an image's evidence; of a link, of the image that it leads to."""
    return (image.resolve() if image.is_symlink() else image).with_suffix(SUFFIX)


def read(folder: Path) -> tuple[Piece, ...]:
    """Read all evidence in a folder; without one there is none. Raises ChecksFailedError."""
    try:
        return tuple(_pieces(folder))
    except FileNotFoundError as error:
        if not folder.exists():
            return ()
        raise _unreadable(folder, error) from None
    except OSError as error:
        raise _unreadable(folder, error) from None


def _pieces(folder: Path) -> Iterator[Piece]:
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_ENVELOPE))
    if len(names) > _MOST_PIECES:
        raise ChecksFailedError(
            f"{folder} holds more than {_MOST_PIECES} pieces of evidence",
            next_step="remove those that are of no use",
        )
    for name in names:
        stem = name.removesuffix(_ENVELOPE)
        match = _NAME.fullmatch(stem)
        if match is None:
            continue
        kind = next(one for one in KINDS if one == match[1])
        yield Piece(
            kind=kind,
            data=_content(folder / f"{stem}{FORMS[kind].suffix}", MOST_BYTES),
            envelope=_content(folder / name, envelope.MOST_BYTES),
        )


def _content(path: Path, most: int) -> bytes:
    with foreign_files.opened(path, follow=False) as file:
        return foreign_files.content(file, most)


def write(folder: Path, piece: Piece) -> None:
    """Put a piece of evidence beside an image; its envelope last. Raises ChecksFailedError."""
    try:
        folder.mkdir(exist_ok=True)
        for name, data in piece.files.items():
            atomic_files.write(folder / name, data)
    except OSError as error:
        raise ChecksFailedError(
            f"can't write in {folder}: {error.strerror}",
            next_step="copy the image, with what lies beside it, to a folder of your own",
        ) from None


def _unreadable(folder: Path, error: OSError) -> ChecksFailedError:
    return ChecksFailedError(
        f"can't read {error.filename or folder}: {error.strerror}",
        next_step="take the evidence from its source again",
    )

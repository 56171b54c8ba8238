"""The evidence beside an image: NAME.evidence, each file with the envelope that speaks of it.

NAME.evidence/bench-0123456789ab.jsonl        what was found out
NAME.evidence/bench-0123456789ab.dsse.json    who says so, of which image
"""

import re
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import envelope
from dlcontainer.evidence.kinds import FORMS, KINDS, Kind
from dlcontainer.evidence.pieces import ENVELOPE, EvidenceOffer, Piece
from dlcontainer.system import atomic_files, foreign_files

SUFFIX = ".evidence"
_NAME = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{12}}")


def beside(image: Path) -> Path:
    """Name the folder of an image's evidence; of a link, of the image that it leads to."""
    return (image.resolve() if image.is_symlink() else image).with_suffix(SUFFIX)


def offers(folder: Path) -> Iterator[EvidenceOffer]:
    """Yield the evidence in a folder; without one there is none. Raises ChecksFailedError."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(ENVELOPE))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {folder}: {error.strerror}",
            next_step="copy the evidence from its source again",
        ) from None
    for name in names:
        stem = name.removesuffix(ENVELOPE)
        match = _NAME.fullmatch(stem)
        if match is not None:
            kind = next(kind for kind in KINDS if kind == match[1])
            yield _offer(folder, stem, kind)


def _offer(folder: Path, stem: str, kind: Kind) -> EvidenceOffer:
    file = f"{stem}{FORMS[kind].suffix}"
    return EvidenceOffer(
        kind=kind,
        name=file,
        envelope=lambda: _content(folder / f"{stem}{ENVELOPE}", envelope.MOST_BYTES),
        file=lambda limit: _content(folder / file, limit.most),
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
            f"can't write to {folder}: {error.strerror}",
            next_step="copy the image and the files beside it to a folder that you can write to",
        ) from None

"""Export scikit-learn's digits once: `python -m tools.make_digits FILE` (needs scikit-learn).

The file is a NumPy archive that takes no zlib to read, the same bytes whenever and with whatever
versions it is made: header, dates and attributes are fixed here.
"""

import io
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SAMPLES, SIDE, CLASSES, LEVELS = 1797, 8, 10, 17
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o100644 << 16
# NumPy's format 1.0: magic, version, length of the header, header; data begin at a multiple of 64.
_MAGIC, _ALIGNED = b"\x93NUMPY\x01\x00", 64


def array(values: bytes, shape: Sequence[int]) -> bytes:
    """Write bytes as an array of uint8 in NumPy's format 1.0."""
    sizes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({sizes}), }}".encode()
    before = len(_MAGIC) + 2
    header += b" " * (-(before + len(header) + 1) % _ALIGNED) + b"\n"
    return _MAGIC + len(header).to_bytes(2, "little") + header + values


def packed(images: bytes, labels: bytes) -> bytes:
    """Return the archive of all images (one byte a pixel, row by row) and labels.

    Raises ValueError where they are not the digits.
    """
    if len(labels) != SAMPLES or len(images) != SAMPLES * SIDE * SIDE:
        raise ValueError(f"{len(labels)} labels and {len(images)} pixels are not the digits")
    if max(images) >= LEVELS or set(labels) != set(range(CLASSES)):
        raise ValueError("pixels are 0 to 16, labels 0 to 9")
    return _archived(
        {
            "images.npy": array(images, (SAMPLES, SIDE, SIDE)),
            "labels.npy": array(labels, (SAMPLES,)),
        }
    )


def _archived(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            archive.writestr(entry, data)
    return out.getvalue()


def main(target: Path) -> None:
    """Write the archive; needs scikit-learn, which nothing else here does."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images, labels = found.images.astype("uint8"), found.target.astype("uint8")
    if (images != found.images).any():
        raise ValueError("a pixel is no whole number")
    target.write_bytes(packed(images.tobytes(), labels.tobytes()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

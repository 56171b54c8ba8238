"""zstd, where this Python can read it: its own module (3.14), or the package `zstandard`."""

import importlib
from types import ModuleType
from typing import BinaryIO, cast

MAGIC = b"\x28\xb5\x2f\xfd"
MISSING = "zstd can't be read here; pip install 'dlcontainer[zstd]'"
# The largest window that zstd's own program takes without being asked to.
_MOST_WINDOW = 1 << 27


class ZstdError(ValueError):
    """Data that is no zstd, is damaged, or can't be read here."""


def head(data: bytes, most: int) -> bytes:
    """Return up to `most` bytes that data unpacks to; raises ZstdError."""
    standard = _module("compression.zstd")
    try:
        if standard is not None:
            return cast("bytes", standard.ZstdDecompressor().decompress(data, most))
        with _decompressor().stream_reader(data) as stream:
            return cast("bytes", stream.read(most))
    except Exception as error:
        if isinstance(error, (ZstdError, MemoryError)):
            raise
        raise ZstdError(f"damaged zstd data: {error}") from None


def opened(file: BinaryIO) -> BinaryIO:
    """Return a stream of what a stream unpacks to; raises ZstdError where nothing here can."""
    standard = _module("compression.zstd")
    if standard is not None:
        return cast("BinaryIO", standard.ZstdFile(file))
    return cast("BinaryIO", _decompressor().stream_reader(file, read_across_frames=True))


def errors() -> tuple[type[Exception], ...]:
    """Name what a stream of damaged data raises."""
    modules = [_module("compression.zstd"), _module("zstandard")]
    return (ZstdError, *(module.ZstdError for module in modules if module is not None))


def _decompressor() -> "ModuleType":
    package = _module("zstandard")
    if package is None:
        raise ZstdError(MISSING)
    return cast("ModuleType", package.ZstdDecompressor(max_window_size=_MOST_WINDOW))


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None

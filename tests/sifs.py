"""SIF files made by hand, with real descriptors and made-up parts."""

import struct
from collections.abc import Sequence
from pathlib import Path

LAUNCH = b"#!/usr/bin/env run-singularity\n\0"
SLOTS = 8
DESCRIPTORS = 4096
DATA = 32768
# (kind, name, content, extra)
Given = tuple[int, str, bytes, bytes]
TREE: Given = (0x4004, "tree.sqfs", b"hsqs", struct.pack("<2i3s", 1, 2, b"02\0"))
BILL: Given = (0x4009, "sbom.cdx.json", b"{}", struct.pack("<i", 1))


def descriptor(kind: int, number: int, place: int, name: str, size: int, extra: bytes) -> bytes:
    numbers = struct.pack("<i?3I", kind, True, number, 0xF0000001, 0)
    numbers += struct.pack("<3q4q", place, size, size, 11, 12, 0, 0)
    return numbers + name.encode().ljust(128, b"\0") + extra.ljust(384, b"\0")


def write_sif(path: Path, parts: Sequence[Given] = (TREE, BILL)) -> Path:
    """Write a SIF of x86_64; what it leaves free lies between the parts' descriptors."""
    place, data, listed = DATA, b"", b""
    for number, (kind, name, content, extra) in enumerate(parts, start=1):
        listed += descriptor(kind, number, place, name, len(content), extra)
        if number == 1:
            listed += bytes(585)  # one that was deleted
        data += content
        place += len(content)
    head = LAUNCH + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(range(16))
    free = SLOTS - len(parts)
    head += struct.pack("<8q", 1, 2, free, SLOTS, DESCRIPTORS, SLOTS * 585, DATA, len(data))
    body = head.ljust(DESCRIPTORS, b"\0") + listed
    path.write_bytes(body.ljust(DATA, b"\0") + data)
    return path


def read_sif(path: Path) -> list[Given]:
    """Read the parts of a SIF, as `write_sif` takes them."""
    data = path.read_bytes()
    total, start = struct.unpack_from("<2q", data, 88)
    found: list[Given] = []
    for number in range(total):
        at = start + number * 585
        kind, used = struct.unpack_from("<i?", data, at)
        place, size = struct.unpack_from("<2q", data, at + 17)
        name, extra = data[at + 73 : at + 201], data[at + 201 : at + 585]
        if used:
            content = data[place : place + size]
            found.append((kind, name.rstrip(b"\0").decode(), content, extra))
    return found

"""How a program of an unpacked tree finds its loader and its libraries in that tree."""

import struct
from collections.abc import Iterator
from pathlib import Path

# Of the ELF format, gABI 4.1: offsets in the head of a file of 64 bits, and in a program header.
_HEAD, _ENTRY, _INTERPRETER = 64, 56, 3
_TABLE, _COUNTS, _WHERE, _LENGTH = 32, 54, 8, 32
_LONGEST = 4096
_USUAL = ("lib64", "usr/lib64", "lib", "usr/lib")
_DEEPEST = 4


def of_program(program: Path) -> str | None:
    """Name the loader that a program asks for; None where it needs none.

    Raises ValueError for what is no ELF program of 64 bits, OSError where it can't be read.
    """
    with program.open("rb") as file:
        head = file.read(_HEAD)
        if len(head) < _HEAD or head[:5] != b"\x7fELF\x02":
            raise ValueError(f"{program} is no ELF program of 64 bits")
        order = "<" if head[5] == 1 else ">"
        (table,) = struct.unpack_from(f"{order}Q", head, _TABLE)
        size, count = struct.unpack_from(f"{order}HH", head, _COUNTS)
        for index in range(count):
            file.seek(table + index * size)
            entry = file.read(_ENTRY)
            if len(entry) < _ENTRY:
                raise ValueError(f"{program} ends within its program headers")
            if struct.unpack_from(f"{order}I", entry)[0] != _INTERPRETER:
                continue
            (where,) = struct.unpack_from(f"{order}Q", entry, _WHERE)
            (length,) = struct.unpack_from(f"{order}Q", entry, _LENGTH)
            file.seek(where)
            return file.read(min(length, _LONGEST)).rstrip(b"\0").decode(errors="replace")
    return None


def library_folders(root: Path, loader: str) -> tuple[str, ...]:
    """Give the folders that the loader of a tree searches, in its order, where they are here."""
    listed = list(_configured(root, root / "etc/ld.so.conf", 0))
    # A loader's own default is the folder that it was built for: the one it lies in.
    own = (root / loader.lstrip("/")).resolve().parent
    usual = [root / name for name in _USUAL]
    found = [folder for folder in (*listed, own, *usual) if folder.is_dir()]
    return tuple(dict.fromkeys(map(str, found)))


def _configured(root: Path, file: Path, depth: int) -> Iterator[Path]:
    """Read what ldconfig reads: a folder a line, or files to include."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth < _DEEPEST:
            for pattern in words[1:]:
                inside = pattern if pattern.startswith("/") else f"/etc/{pattern}"
                for other in sorted(root.glob(inside.lstrip("/"))):
                    yield from _configured(root, other, depth + 1)
        elif words and words[0].startswith("/"):
            yield root / words[0].lstrip("/")

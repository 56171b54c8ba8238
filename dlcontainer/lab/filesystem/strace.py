"""What strace wrote, read: calls by kind, files by kind, of what lies below a folder. Pure.

The lines are those of `strace -f -y -s 0`: descriptors carry their path, buffers are empty. A call
that another thread interrupted stands in two lines. A line that is no call (a signal, the end of a
process) or was cut by a kill is left out.
"""

import codecs
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["stat", "open", "failed_open", "readdir", "readlink", "read", "mapped", "other"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("stat", "lstat", "fstat", "newfstatat", "fstatat64", "stat64", "lstat64", "fstat64"),
        "stat",
    ),
    **dict.fromkeys(("statx", "access", "faccessat", "faccessat2"), "stat"),
    **dict.fromkeys(("open", "openat", "openat2", "execve", "execveat"), "open"),
    **dict.fromkeys(("getdents", "getdents64"), "readdir"),
    **dict.fromkeys(("readlink", "readlinkat"), "readlink"),
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2"), "read"),
    "mmap": "mapped",
    "mmap2": "mapped",
    "statfs": "other",
    "fstatfs": "other",
    "getxattr": "other",
    "lgetxattr": "other",
}
CALLS = tuple(_KINDS)

_LINE = re.compile(r"^(?:(\d+)\s+|\[pid\s+(\d+)\]\s+)?(.*)$")
_CALL = re.compile(
    r"^(\w+)\((.*)\)\s*=\s*(-?\d+|\?|0x[0-9a-f]+)(?:<(.*)>)?(?:\s+(E[A-Z0-9]+)\b.*)?$"
)
_UNFINISHED = re.compile(r"^(\w+)\((.*?)\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>\s*(.*)$")
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|-?\d+)(?:<((?:[^>\\]|\\.)*)>)?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call on a file: `size` in bytes for what was read or mapped."""

    process: int
    kind: Kind
    path: str
    size: int = 0
    failed: bool = False


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Read the calls on files, in the order of their ends."""
    begun: dict[tuple[int, str], str] = {}
    for line in lines:
        match = _LINE.match(line.rstrip("\n"))
        if match is None:
            continue
        process, rest = int(match[1] or match[2] or 0), match[3]
        if cut := _UNFINISHED.match(rest):
            begun[process, cut[1]] = cut[2]
            continue
        if again := _RESUMED.match(rest):
            head = begun.pop((process, again[1]), None)
            if head is None:
                continue
            rest = f"{again[1]}({head}{again[2]}"
        try:
            call = _call(process, rest)
        except (ValueError, IndexError):  # cut: strace was ended while it wrote
            continue
        if call is not None:
            yield call


def _call(process: int, text: str) -> Call | None:
    match = _CALL.match(text)
    if match is None or match[1] not in _KINDS:
        return None
    name, arguments, result, shown, failure = match.groups()
    if result == "?":
        return None
    kind, failed = _KINDS[name], failure is not None
    path = _path(name, arguments, shown)
    if path is None:
        return None
    if kind == "open" and failed:
        kind = "failed_open"
    size = 0
    if kind == "read" and not failed:
        size = int(result)
    elif kind == "mapped" and not failed:
        size = int(arguments.split(",")[1])
    return Call(process=process, kind=kind, path=path, size=size, failed=failed)


def _path(name: str, arguments: str, shown: str | None) -> str | None:
    """Find the path that a call is about; None for what is no file."""
    if name in {"mmap", "mmap2"}:
        # mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</path>, 0)
        parts = re.split(r",\s*(?![^<]*>)", arguments)
        descriptor = _DESCRIPTOR.match(parts[4]) if len(parts) > 4 else None
        return _file(descriptor[1] if descriptor else None)
    if shown is not None and name.startswith("open"):
        return _file(shown)
    named, descriptor = _QUOTED.search(arguments), _DESCRIPTOR.match(arguments)
    folder = _text(descriptor[1]) if descriptor and descriptor[1] else ""
    if named is None or _KINDS[name] in {"read", "readdir"} or not named[1]:
        return _file(descriptor[1] if descriptor else None)
    return os.path.normpath(os.path.join(folder, _text(named[1])))  # noqa: PTH118 - text, not files


def _file(text: str | None) -> str | None:
    path = _text(text) if text else ""
    return os.path.normpath(path) if path.startswith("/") else None


def _text(escaped: str) -> str:
    """Undo strace's escapes: octal, hexadecimal and C's."""
    if "\\" not in escaped:
        return escaped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an escape of nobody's, in a cut line
        return os.fsdecode(codecs.escape_decode(escaped.encode())[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Calls on what lies below a folder."""

    operations: dict[str, int]
    bytes: int
    # that were opened, in order of first open
    files: tuple[str, ...]


def total(calls: Iterable[Call], folders: Iterable[str] = ()) -> Totals:
    """Add calls up; with folders only those on what lies below one of them."""
    below = tuple(folder.rstrip("/") for folder in folders)
    operations: Counter[str] = Counter()
    files: dict[str, None] = {}
    size = 0
    for call in calls:
        if below and not any(
            call.path == folder or call.path.startswith(f"{folder}/") for folder in below
        ):
            continue
        operations[call.kind] += 1
        if call.kind == "stat" and call.failed:
            operations["failed_stat"] += 1
        if call.kind == "read":
            size += call.size
        if call.kind == "open":
            files.setdefault(call.path)
    return Totals(operations=dict(operations), bytes=size, files=tuple(files))

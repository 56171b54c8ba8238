"""What ELF files say: names, needs, search paths and versions. Standard library only.

Versions of symbols: Linux Standard Base 5.0, Core, "Symbol Versioning".

Source: Tool Interface Standard, ELF 1.2; man page elf(5).
"""

import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.image.contents import elf_format, gnu_property
from dlcontainer.image.contents.elf_format import LEAST_BYTES, Dynamic, ElfForm
from dlcontainer.image.contents.model import Library, TreeEntry

# Of one file; the largest of real ones have some 60.
_MOST_LIBRARIES = 1000
# The loader lets a need of a version with this flag pass.
_WEAK = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionNeed:
    """A version of symbols that a file needs of a library: GLIBC_2.34 of libc.so.6."""

    library: str
    version: str
    weak: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfObject:
    """A program or a library: what the loader reads of it.

    `runpath` is None where a file has none, which gives its RPATH a meaning; both as written.
    `x86_level`: that of the psABI which its linker wrote down, 1 to 4; 0 without one.
    """

    form: ElfForm
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] | None = None
    needs: tuple[VersionNeed, ...] = ()
    versions: frozenset[str] = frozenset()
    x86_level: int = 0


def is_library(entry: TreeEntry) -> bool:
    """Return whether a file may be a shared library, by its name: libx.so, libx.so.1.2, x.so."""
    name = entry.path.rsplit("/", 1)[-1]
    return (
        entry.kind == "-" and entry.size > LEAST_BYTES and (name.endswith(".so") or ".so." in name)
    )


def libraries(files: Mapping[str, Path]) -> tuple[Library, ...]:
    """Read the libraries among files of a tree; what is none, or damaged, is passed over."""
    return tuple(_libraries(sorted(files.items())))


def _libraries(files: Iterable[tuple[str, Path]]) -> Iterator[Library]:
    for path, place in files:
        try:
            with elf_format.mapped(place) as data:
                form = elf_format.form(data)
                dynamic = elf_format.dynamic(data, form) if form else None
                start = dynamic.table(elf_format.STRTAB) if dynamic else None
                if dynamic is None or start is None:
                    continue
                soname, needed = (
                    _texts(data, dynamic, start, tag)
                    for tag in (elf_format.SONAME, elf_format.NEEDED)
                )
        except (OSError, ValueError, *elf_format.DAMAGE):
            continue
        yield Library(path=path, soname=(*soname, "")[0], needed=needed)


def version_needs(path: Path) -> frozenset[str]:
    """Name the versions of symbols that a library needs of others: GLIBC_2.34, GLIBCXX_3.4.30.

    Raises OSError; ValueError for a file that is no library, or damaged.
    """
    described = read_object(path)
    if described is None:
        raise ValueError("not a shared library")
    return frozenset(need.version for need in described.needs)


def read_object(path: Path) -> ElfObject | None:
    """Read a program or library; None for what is no ELF file, or nothing that a loader reads.

    Raises OSError; ValueError for a damaged one.
    """
    if path.stat().st_size < LEAST_BYTES:
        return None
    try:
        with elf_format.mapped(path) as data:
            form = elf_format.form(data)
            dynamic = elf_format.dynamic(data, form) if form else None
            return _object(data, form, dynamic) if form and dynamic else None
    except elf_format.DAMAGE:
        raise ValueError(
            "a damaged library: it ends too early, or a number in it leads out of it"
        ) from None


def _object(data: mmap.mmap, form: ElfForm, dynamic: Dynamic) -> ElfObject:
    start = dynamic.table(elf_format.STRTAB)
    if start is None:
        raise ValueError("a damaged library: it has no string table")
    soname, needed, rpath, runpath = (
        _texts(data, dynamic, start, tag)
        for tag in (elf_format.SONAME, elf_format.NEEDED, elf_format.RPATH, elf_format.RUNPATH)
    )
    if len(needed) > _MOST_LIBRARIES:
        raise ValueError(f"a damaged library: it needs {len(needed)} others")
    return ElfObject(
        form=form,
        soname=(*soname, "")[0],
        needed=needed,
        rpath=tuple(folder for text in rpath for folder in text.split(":")),
        runpath=tuple(runpath[0].split(":")) if runpath else None,
        needs=tuple(_needs(data, dynamic, start)),
        versions=frozenset(_versions(data, dynamic, start)),
        x86_level=gnu_property.x86_level(data, form),
    )


def interpreter(program: Path) -> str | None:
    """Return the loader that a program asks for; None where it needs none.

    Raises OSError; ValueError for a file that is no ELF program, or damaged.
    """
    if program.stat().st_size < LEAST_BYTES:
        raise ValueError(f"{program} is not an ELF program")
    try:
        with elf_format.mapped(program) as data:
            form = elf_format.form(data)
            if form is None:
                raise ValueError(f"{program} is not an ELF program")
            for header in elf_format.headers(data, form):
                if header.kind == elf_format.INTERPRETER:
                    length = min(header.size, elf_format.LONGEST_NAME)
                    name = data[header.offset : header.offset + length]
                    return name.rstrip(b"\0").decode(errors="replace")
    except elf_format.DAMAGE:
        raise ValueError(f"{program} is truncated in its program headers") from None
    return None


def _texts(data: mmap.mmap, dynamic: Dynamic, names: int, tag: int) -> tuple[str, ...]:
    return tuple(elf_format.string(data, names + at) for at in dynamic.values.get(tag, []))


def _needs(data: mmap.mmap, dynamic: Dynamic, names: int) -> Iterator[VersionNeed]:
    """Go through the two linked lists: libraries, and the versions of each."""
    at, order = dynamic.table(elf_format.VERNEED), dynamic.order
    if at is None:
        return
    remaining = elf_format.MOST_TAGS
    for _ in range(min(dynamic.values.get(elf_format.VERNEEDNUM, [0])[0], elf_format.MOST_HEADERS)):
        _, count, file, first, following = struct.unpack_from(order + "HHIII", data, at)
        library, aux = elf_format.string(data, names + file), at + first
        remaining = _fewer(remaining, count)
        for _ in range(count):
            _, flags, _, name, step = struct.unpack_from(order + "IHHII", data, aux)
            yield VersionNeed(
                library=library,
                version=elf_format.string(data, names + name),
                weak=bool(flags & _WEAK),
            )
            aux += step
        at += following


def _versions(data: mmap.mmap, dynamic: Dynamic, names: int) -> Iterator[str]:
    """Go through the list of versions that a library defines; the first name of each is its own."""
    at, order = dynamic.table(elf_format.VERDEF), dynamic.order
    if at is None:
        return
    remaining = elf_format.MOST_TAGS
    for _ in range(min(dynamic.values.get(elf_format.VERDEFNUM, [0])[0], elf_format.MOST_TAGS)):
        remaining = _fewer(remaining, 1)
        _, _, _, _, _, first, following = struct.unpack_from(order + "4H3I", data, at)
        (name,) = struct.unpack_from(order + "I", data, at + first)
        yield elf_format.string(data, names + name)
        at += following


def _fewer(remaining: int, count: int) -> int:
    if count > remaining:
        raise ValueError(f"a damaged library: more than {elf_format.MOST_TAGS} symbol versions")
    return remaining - count

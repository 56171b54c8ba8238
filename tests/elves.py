"""ELF files made by hand: what the loader reads, versions, and sections of device code."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

X86_64, AARCH64, PPC64 = 62, 183, 21
_BASE = 0x1000


@dataclass(kw_only=True)
class Elf:
    """A 64-bit program or library; `needs` and `versions` are of symbols, by library.

    `properties` are those of its note, as linkers write them: types with bits.
    """

    needed: Sequence[str] = ()
    soname: str = ""
    rpath: str = ""
    runpath: str | None = None
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    weak: frozenset[str] = frozenset()
    versions: Sequence[str] = ()
    sections: Mapping[str, bytes] = field(default_factory=dict)
    machine: int = X86_64
    order: str = "<"
    properties: Sequence[tuple[int, int]] = ()

    def data(self) -> bytes:
        order = self.order
        strings = b"\0"
        at: dict[str, int] = {}
        names = [*self.needed, self.soname, self.rpath, self.runpath or "", *self.versions]
        names += [name for library, those in self.needs.items() for name in (library, *those)]
        for name in filter(None, names):
            if name not in at:
                at[name] = len(strings)
                strings += name.encode(errors="surrogateescape") + b"\0"
        need, define = self._needs(at), self._defines(at)
        tags = [(1, at[name]) for name in self.needed]
        tags += [(14, at[self.soname])] if self.soname else []
        tags += [(15, at[self.rpath])] if self.rpath else []
        tags += [(29, at[self.runpath])] if self.runpath else []
        note = self._note()
        start = 64 + (3 if note else 2) * 56
        strings_at = start + 16 * (len(tags) + 6)
        need_at = strings_at + len(strings)
        define_at = need_at + len(need)
        tags += [(5, _BASE + strings_at)]
        tags += [(0x6FFFFFFE, _BASE + need_at), (0x6FFFFFFF, len(self.needs))] if need else []
        tags += (
            [(0x6FFFFFFC, _BASE + define_at), (0x6FFFFFFD, len(self.versions))] if define else []
        )
        dynamic = b"".join(struct.pack(order + "2Q", *tag) for tag in tags)
        dynamic = dynamic.ljust(strings_at - start, b"\0")
        body = dynamic + strings + need + define
        note_at = start + len(body)
        body += note
        total = start + len(body)
        heads, extra = self._sections(total)
        ident = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
        count = len(self.sections) + 2
        head = ident + struct.pack(
            order + "HHIQQQI6H",
            *(3, self.machine, 1, 0, 64, total + len(extra), 0),
            *(64, 56, 3 if note else 2, 64, count, 1),
        )
        segments = b"".join(
            struct.pack(order + "II6Q", kind, 0, place, _BASE + place, 0, size, size, 1)
            for kind, place, size in (
                (1, 0, total),
                (2, start, len(dynamic)),
                *([(0x6474E553, note_at, len(note))] if note else []),
            )
        )
        return head + segments + body + extra + heads

    def _note(self) -> bytes:
        data = b"".join(struct.pack("<4I", kind, 4, bits, 0) for kind, bits in self.properties)
        return struct.pack("<3I", 4, len(data), 5) + b"GNU\0" + data if data else b""

    def _needs(self, at: Mapping[str, int]) -> bytes:
        data = b""
        for number, (library, versions) in enumerate(self.needs.items(), 1):
            size = 16 * (1 + len(versions))
            following = 0 if number == len(self.needs) else size
            data += struct.pack(self.order + "HHIII", 1, len(versions), at[library], 16, following)
            for place, version in enumerate(versions, 1):
                step = 0 if place == len(versions) else 16
                flags = 2 if version in self.weak else 0
                data += struct.pack(self.order + "IHHII", 0, flags, 2, at[version], step)
        return data

    def _defines(self, at: Mapping[str, int]) -> bytes:
        data = b""
        for number, version in enumerate(self.versions, 1):
            following = 0 if number == len(self.versions) else 28
            data += struct.pack(self.order + "4H3I", 1, 0, number, 1, 0, 20, following)
            data += struct.pack(self.order + "2I", at[version], 0)
        return data

    def _sections(self, start: int) -> tuple[bytes, bytes]:
        """Return the list of sections, and what stands before it."""
        names, extra = b"\0.shstrtab\0", b""
        listed = [(0, 0, 0), (1, 0, 0)]
        for name, content in self.sections.items():
            pad = -(start + len(extra)) % 8
            extra += bytes(pad)
            listed.append((len(names), start + len(extra), len(content)))
            names += name.encode() + b"\0"
            extra += content
        listed[1] = (1, start + len(extra), len(names))
        extra += names + bytes(-(len(extra) + len(names)) % 8)
        heads = b"".join(
            struct.pack(self.order + "IIQQQQIIQQ", name, 1, 0, 0, place, size, 0, 0, 1, 0)
            for name, place, size in listed
        )
        return heads, extra


def texts(*words: str) -> dict[str, bytes]:
    """Make a section of texts."""
    return {".rodata": b"\0" + b"".join(word.encode() + b"\0" for word in words)}


def symbols(*defined: str, used: Sequence[str] = ()) -> dict[str, bytes]:
    """Make the sections of a library's symbols: those that it defines, and those of others."""
    names, table = b"\0", bytes(24)
    for name in (*defined, *used):
        section = 7 if name in defined else 0
        table += struct.pack("<IBBHQQ", len(names), 0x11, 0, section, 0x1000, 8)
        names += name.encode() + b"\0"
    return {".dynsym": table, ".dynstr": names}


def fatbin(
    *entries: tuple[str, int, int], isa: tuple[int, int] = (8, 4), content: bytes = bytes(24)
) -> bytes:
    """Make a container of NVIDIA code: ("ptx" or "elf", GPU, flags of it)."""
    body = b""
    for kind, number, flags in entries:
        major, minor = isa if kind == "ptx" else (1, 7)
        body += struct.pack(
            "<HHIQIIHHI",
            1 if kind == "ptx" else 2,
            0x101,
            64,
            len(content),
            0,
            0,
            minor,
            major,
            number,
        )
        body += struct.pack("<IIQ", 0, 0, 0x11 | flags) + bytes(16) + content
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def bundle(*targets: str) -> bytes:
    """Make a bundle of AMD code, each target's code of 8 bytes."""
    names = ["host-x86_64-unknown-linux-gnu--", *(f"hipv4-amdgcn-amd-amdhsa--{t}" for t in targets)]
    table = struct.pack("<Q", len(names))
    at = 4096
    for name in names:
        table += struct.pack("<3Q", at, 8, len(name)) + name.encode()
        at += 8
    return (b"__CLANG_OFFLOAD_BUNDLE__" + table).ljust(4096, b"\0") + bytes(8 * len(names))


def packed(plain: bytes, body: bytes, version: int = 3, method: int = 0) -> bytes:
    """Put a compressed bundle into its frame."""
    sizes = {1: "<I", 2: "<2I", 3: "<2Q"}[version]
    length = 8 + struct.calcsize(sizes) + 8 + len(body)
    numbers = (len(plain),) if version == 1 else (length, len(plain))
    return (
        b"CCOB"
        + struct.pack("<2H", version, method)
        + struct.pack(sizes, *numbers)
        + bytes(8)
        + body
    )


def write(root: Path, files: Mapping[str, Elf | bytes | str]) -> Path:
    """Write a tree: ELF files, bytes, and links by their targets; programs may be run."""
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content.data() if isinstance(content, Elf) else content)
            place.chmod(0o755 if "/bin/" in path else 0o644)
    return root

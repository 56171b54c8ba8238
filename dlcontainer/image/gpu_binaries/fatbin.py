"""NVIDIA's device code in a program or library: which GPUs it is for. Nothing is unpacked.

`.nv_fatbin` holds containers (magic, version, length of the head, length of what follows), each of
entries: cubins and PTX. The head of an entry says what it is and for which GPU.
    Source: the layout as fatbinary and nvcc 13.5.37 write it; sm_90, sm_90a, sm_100f, PTX of each
    were made with them and read back. `__nv_relfatbin` is code that was not linked: it never runs.

NVIDIA's own libraries load more by themselves, which lies among their data and which cuobjdump
does not list: 23,943 containers of cuFFT 12.0 in `.ldata`, those of cuBLASLt, cuDNN and cuSPARSELt
in `.cask_resource` (read in the wheels beside PyTorch 2.14.1 for CUDA 13).
"""

import mmap
import struct
from collections import Counter
from collections.abc import Iterator

from dlcontainer.image.gpu_binaries.code_counts import DeviceCode

SECTION = ".nv_fatbin"
DATA_SECTIONS = frozenset({".cask_resource", ".ldata", ".lrodata", ".rodata"})
_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")
_VERSION = 1
# kind, version, length of the head and of the body; then, at 24, minor and major, the GPU; flags
_ENTRY = struct.Struct("<HHIQ8x2HI")
_FLAGS = struct.Struct("<Q")
_FLAGS_AT = 40
_LEAST_HEAD = _FLAGS_AT + _FLAGS.size
_PTX, _CUBIN = 1, 2
_KERNEL = b".text."
_MOST_EMPTY = 65_536
_OF_ONE_GPU, _OF_FAMILY = 0x100000, 0x200000
# Far beyond the largest libraries' (tens of thousands): containers, and entries of all of them.
_MOST = 1_000_000


def read(data: mmap.mmap, start: int, end: int, *, among_data: bool = False) -> DeviceCode:
    """Read the heads of a section's entries; `among_data`: what is no container is other data."""
    codes: Counter[str] = Counter()
    isa: dict[str, tuple[int, int]] = {}
    notes: list[str] = []
    for code, ptx in _codes(data, start, min(end, len(data)), notes, among_data=among_data):
        codes[code] += 1
        if ptx is not None:
            # The newest: a program's kernels are spread over entries, and each must be compiled.
            isa[code] = max(isa.get(code, ptx), ptx)
    return DeviceCode(codes=dict(codes), ptx_isa=isa, notes=tuple(notes))


def _codes(
    data: mmap.mmap, start: int, end: int, notes: list[str], *, among_data: bool
) -> Iterator[tuple[str, tuple[int, int] | None]]:
    at, remaining = start, _MOST
    while remaining > 0 and (at := data.find(_MAGIC, at, end)) >= 0:
        remaining -= 1
        if at % 8 or at + _CONTAINER.size > end:
            at += 1
            continue
        _, version, head, size = _CONTAINER.unpack_from(data, at)
        entry, stop = at + max(head, _CONTAINER.size), at + head + size
        if among_data and (version != _VERSION or head != _CONTAINER.size or stop > end):
            at += 1
            continue
        if stop > end:
            notes.append("a container of NVIDIA code ends beyond its section")
            stop = end
        while entry + _LEAST_HEAD <= stop and remaining > 0:
            remaining -= 1
            kind, _, head, size, minor, major, number = _ENTRY.unpack_from(data, entry)
            if head < _LEAST_HEAD:
                if not among_data:
                    notes.append("an entry of NVIDIA code has a head that is too short")
                break
            code = _name(kind, number, *_FLAGS.unpack_from(data, entry + _FLAGS_AT))
            if code and not _has_no_kernel(data, entry + head, size):
                yield code, ((major, minor) if kind == _PTX else None)
            entry += head + size
        at = max(at + _CONTAINER.size, stop)
    if remaining <= 0:
        notes.append(f"more than {_MOST} entries of NVIDIA code: the rest was not read")


def _has_no_kernel(data: mmap.mmap, start: int, size: int) -> bool:
    """Return whether a cubin is what linking leaves of none: a head without kernels (cuFFTW's).

    Each kernel has a section `.text.NAME`; what is compressed, or large, is taken to have some.
    """
    return (
        size <= _MOST_EMPTY
        and data[start : start + 4] == b"\x7fELF"
        and data.find(_KERNEL, start, start + size) < 0
    )


def _name(kind: int, number: int, flags: int) -> str:
    """Name code as compilers do: sm_90a, compute_80."""
    if kind not in (_PTX, _CUBIN) or not 10 <= number < 1000:
        return ""
    suffix = "a" if flags & _OF_ONE_GPU else "f" if flags & _OF_FAMILY else ""
    return f"{'compute' if kind == _PTX else 'sm'}_{number}{suffix}"

"""The precisions that this machine's processor computes in, its caches and its NUMA nodes."""

import os
from collections.abc import Mapping
from pathlib import Path

PRECISIONS = ("fp64", "fp32", "bf16", "fp16", "int8")
# precision -> flags of /proc/cpuinfo (Linux, arch/x86/include/asm/cpufeatures.h and
# Documentation/arch/arm64/elf_hwcaps.rst), any of which is arithmetic in it. What has none is
# computed by conversion, or in loops: a time of that says nothing of the device.
_FLAGS: Mapping[str, frozenset[str]] = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
    "int8": frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"}),
}
_KILO = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def precisions(root: Path = Path("/")) -> tuple[str, ...]:
    """Name the precisions that the processor has arithmetic for."""
    flags = _flags(root)
    return tuple(name for name in PRECISIONS if name not in _FLAGS or _FLAGS[name] & flags)


def _flags(root: Path) -> frozenset[str]:
    try:
        lines = (root / "proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


def last_caches(root: Path = Path("/")) -> int:
    """Return the size of all last-level caches together, bytes; 0 where Linux does not say."""
    caches: dict[tuple[str, ...], tuple[int, int]] = {}
    for folder in root.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        texts = [_text(folder / name) for name in ("level", "size", "shared_cpu_list", "type")]
        level, size, shared, kind = texts
        if kind != "Instruction" and level.isdigit() and size[:-1].isdigit():
            caches[level, shared] = int(level), int(size[:-1]) * _KILO.get(size[-1], 1)
    last = max((level for level, _ in caches.values()), default=0)
    return sum(size for level, size in caches.values() if level == last)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def nodes(root: Path = Path("/")) -> tuple[int, ...]:
    """List the NUMA nodes whose processors this process may use; 0 alone where Linux names none."""

    allowed, nodes = os.sched_getaffinity(0), []
    for folder in root.glob("sys/devices/system/node/node[0-9]*"):
        if _has_memory(folder) and _listed(_text(folder / "cpulist")) & allowed:
            nodes.append(int(folder.name[4:]))
    return tuple(sorted(nodes)) or (0,)


def _has_memory(folder: Path) -> bool:
    # "Node 1 MemTotal:       0 kB": processors alone, or another kind of memory elsewhere.
    total = [line for line in _text(folder / "meminfo").splitlines() if "MemTotal:" in line]
    return not total or not total[0].endswith(" 0 kB")


def _listed(text: str) -> set[int]:
    """Read a list as Linux writes it: 0-3,8."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers

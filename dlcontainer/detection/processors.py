"""Processor and memory of a node."""

import re
from collections.abc import Iterator

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known, unknown

_INFO, _MEMORY = "/proc/cpuinfo", "/proc/meminfo"
_TOPOLOGY = "/sys/devices/system/cpu/cpu*/topology"
# Flags of /proc/cpuinfo by which a processor reaches a level; each holds the ones before.
# Source: x86-64 psABI, Micro-Architecture Levels; names: Linux arch/x86/include/asm/cpufeatures.h.
_LEVELS = {
    "x86-64": "cmov cx8 fpu fxsr mmx syscall sse sse2",
    "x86-64-v2": "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
# Source: Linux arch/arm64/include/asm/cputype.h.
_ARM = {
    ("0x41", "0xd0c"): "neoverse-n1",
    ("0x41", "0xd40"): "neoverse-v1",
    ("0x41", "0xd4f"): "neoverse-v2",
    ("0x46", "0x001"): "a64fx",
}


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield what the node says of its processors and memory."""
    info = _fields(evidence.text(_INFO) or "")
    yield either(
        "arch",
        evidence.process.machine or None,
        "uname(2)",
        "the kernel names none",
    )
    model = info.get("model name") or info.get("cpu")
    if model is None and info.get("CPU part"):
        model = _arm(info)
    yield either("cpu.model", _plain(model), _INFO, "it has no line 'model name' or 'cpu'")
    vendor = info.get("vendor_id") or info.get("CPU implementer")
    yield either("cpu.vendor", vendor, _INFO, "it has no line 'vendor_id'")
    yield from _counts(evidence)
    yield _level(info, evidence.process.machine)
    yield _target(info, evidence.process.machine)
    yield known("cpu.allowed", evidence.process.affinity, "sched_getaffinity(2)")
    yield from _memory(evidence)


def _fields(text: str) -> dict[str, str]:
    """Return what is said of the first processor."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, content = line.partition(":")
        if colon and content.strip():
            fields.setdefault(name.strip(), content.strip())
    return fields


def _plain(text: str | None) -> str | None:
    return " ".join(text.split())[:120] or None if text else None


def _arm(info: dict[str, str]) -> str:
    maker, part = info.get("CPU implementer", ""), info.get("CPU part", "")
    return _ARM.get((maker, part)) or f"implementer {maker}, part {part}"


def _counts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    siblings = [text for _, text in evidence.matching(f"{_TOPOLOGY}/thread_siblings_list")]
    packages = {text for _, text in evidence.matching(f"{_TOPOLOGY}/physical_package_id")}
    how, missing = f"{_TOPOLOGY}/thread_siblings_list", "the kernel shows no topology"
    cores = len(set(siblings)) or None
    # A core without a second thread stands beside others that have one, on some laptops.
    threads = len(siblings) // cores if cores and len(siblings) % cores == 0 else None
    sockets = (
        len(packages) if packages and not any(text.startswith("-") for text in packages) else None
    )
    yield either("cpu.sockets", sockets, f"{_TOPOLOGY}/physical_package_id", missing)
    yield either("cpu.cores", cores, how, missing)
    why = "cores differ in their threads" if cores else missing
    yield either("cpu.threads_per_core", threads, how, why)
    domains = "/sys/devices/system/node/online"
    yield either(
        "cpu.numa_domains",
        _listed(evidence.text(domains) or ""),
        domains,
        "the kernel shows no NUMA domains",
    )


def _listed(text: str) -> int | None:
    """Count the numbers of a list as the kernel writes it: 0-3,8."""
    if not re.fullmatch(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*", text):
        return None
    ends = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _reached(info: dict[str, str]) -> str | None:
    flags, reached = set(info.get("flags", "").split()), None
    for level, needed in _LEVELS.items():
        if not set(needed.split()) <= flags:
            break
        reached = level
    return reached


def _level(info: dict[str, str], machine: str) -> NodeFact:
    how = f"{_INFO}: flags against the levels of the x86-64 psABI"
    if machine != "x86_64":
        return unknown("cpu.isa_level", how, f"{machine or 'this architecture'} has no such levels")
    return either("cpu.isa_level", _reached(info), how, "it has no line 'flags'")


def _target(info: dict[str, str], machine: str) -> NodeFact:
    """Name the processor as GCC does: by its level, its Power version or its Arm part."""
    how = f"{_INFO}: what the processor can do, as GCC names it"
    if machine == "x86_64":
        return either("cpu.target", _reached(info), how, "it has no line 'flags'")
    if machine == "ppc64le":
        match = re.match(r"POWER(\d{1,2})", info.get("cpu", ""))
        return either("cpu.target", f"power{match[1]}" if match else None, how, "no line 'cpu'")
    part = _ARM.get((info.get("CPU implementer", ""), info.get("CPU part", "")))
    return either("cpu.target", part, how, "the part's number is none of those known here")


def _memory(evidence: NodeEvidence) -> Iterator[NodeFact]:
    match = re.search(r"^MemTotal:\s+(\d{1,15}) kB$", evidence.text(_MEMORY) or "", re.MULTILINE)
    # In GiB, which data sheets call GB.
    gib = round(int(match[1]) / 2**20) if match else None
    yield either("memory.gb", gib or None, f"{_MEMORY}: MemTotal", "it has no line 'MemTotal'")
    yield known("memory.page_bytes", evidence.process.page, "sysconf(3)")

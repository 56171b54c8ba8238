"""Accelerators of a node: NVIDIA's by its driver, AMD's by the kernel, Intel's by PCI."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known, listed, unknown

_QUERY = "nvidia-smi --query-gpu=name,compute_cap,memory.total --format=csv,noheader,nounits"
_DRIVER = "/proc/driver/nvidia/version"
_PCI = "/sys/bus/pci/devices"
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_AMDGPU = "/sys/module/amdgpu/version"
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
# PCI's class of what computes and shows nothing (Display controller, other), and of NVIDIA's
# "3D controller"; processing accelerators. Source: PCI Code and ID Assignment Specification.
_COMPUTE = ("0x0380", "0x0302", "0x1200")


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReading:
    """What was read of a node's accelerators, all of one kind; a None is unknown."""

    vendor: str | None = None
    models: tuple[str, ...] = ()
    count: int = 0
    memory_gb: int | None = None
    targets: tuple[str, ...] = ()
    driver: str | None = None
    toolkit: str | None = None
    how: str = ""
    driver_how: str = ""
    why: str = ""


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield what the node says of its accelerators; of a node without any that there are none."""
    reading = _nvidia(evidence) or _amd(evidence) or _by_pci(evidence)
    if reading is None and not any(evidence.matching(f"{_PCI}/*/class")):
        yield unknown("accelerator.per_node", _PCI, "the kernel shows no PCI devices")
        return
    if reading is None:
        yield known("accelerator.per_node", 0, f"{_DRIVER}, {_KFD}, {_PCI}: none of them shows one")
        return
    why = reading.why or "the node does not say it"
    yield either("accelerator.vendor", reading.vendor, reading.how, why)
    yield either("accelerator.per_node", reading.count or None, reading.how, why)
    yield _single("accelerator.model", reading.models, reading.how, why)
    yield either("accelerator.memory_gb", reading.memory_gb, reading.how, why)
    yield _single("accelerator.target", reading.targets, reading.how, why)
    yield either("accelerator.driver", reading.driver, reading.driver_how or reading.how, why)
    how = "nvidia-smi: CUDA Version" if reading.vendor == "nvidia" else reading.how
    yield either("accelerator.toolkit", reading.toolkit, how, why)
    hooks = evidence.programs.get("nvidia-container-cli")
    if reading.vendor == "nvidia":
        yield either("accelerator.container_hook", hooks, "PATH", "no nvidia-container-cli on PATH")


def _single(name: str, words: tuple[str, ...], how: str, why: str) -> NodeFact:
    if len(words) > 1:
        return unknown(name, how, f"the node's differ: {', '.join(words)}")
    return either(name, words[0] if words else None, how, why)


def _nvidia(evidence: NodeEvidence) -> GpuReading | None:
    driver = re.search(
        r"NVRM version:.*?\s(\d{3}\.\d+(?:\.\d+)*)\s", evidence.files.get(_DRIVER, "")
    )
    shown = list(evidence.matching("/proc/driver/nvidia/gpus/*/information"))
    answer = evidence.answer(_QUERY)
    if driver is None and not shown and answer.failure is not None:
        return None
    models = [
        match[1].strip() for _, text in shown if (match := re.search(r"^Model:(.+)$", text, re.M))
    ]
    reading = GpuReading(
        vendor="nvidia",
        models=listed([_bare(model) for model in models]),
        count=len(shown),
        driver=driver[1] if driver else None,
        how="/proc/driver/nvidia/gpus/*/information",
        driver_how=_DRIVER,
        why=f"nvidia-smi: {answer.failure}",
    )
    rows = [row for line in answer.out.splitlines() if len(row := line.split(", ")) == 3]
    if answer.failure is not None or not rows:
        return reading
    capabilities = [row[1].strip() for row in rows]
    fit = all(re.fullmatch(r"\d{1,2}\.\d", text) for text in capabilities)
    sizes = {round(int(row[2]) / 1024) for row in rows if row[2].strip().isdigit()}
    toolkit = re.search(r"CUDA(?: UMD)? Version: *(\d+\.\d+)", evidence.answer("nvidia-smi").out)
    return replace(
        reading,
        models=listed([_bare(row[0]) for row in rows]),
        count=len(rows),
        memory_gb=sizes.pop() if len(sizes) == 1 else None,
        targets=listed([f"sm_{text.replace('.', '')}" for text in capabilities]) if fit else (),
        toolkit=toolkit[1] if toolkit else None,
        how=_QUERY,
        why="nvidia-smi does not say it",
    )


def _bare(model: str) -> str:
    return " ".join(model.split()).removeprefix("NVIDIA ")[:80]


def _amd(evidence: NodeEvidence) -> GpuReading | None:
    """Read the kernel's topology of compute devices: a node of it with SIMD units is a GPU.

    Source: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c; a target's number is decimal, two
    digits each for minor and stepping (90402 is gfx942).
    """
    nodes = []
    for path, text in evidence.matching(f"{_KFD}/*/properties"):
        if path.parent.parent.name == "nodes":
            words = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
            if int(_digits(words.get("simd_count"))) > 0:
                nodes.append((path.parent.name, words))
    if not nodes:
        return None
    targets = [_gfx(int(_digits(words.get("gfx_target_version")))) for _, words in nodes]
    names = [
        text for _, text in evidence.matching("/sys/class/drm/card*/device/product_name") if text
    ]
    devices = [f"PCI device 0x{int(_digits(words.get('device_id'))):04x}" for _, words in nodes]
    sizes = {_bank(evidence, name) for name, _ in nodes}
    size = sizes.pop() if len(sizes) == 1 else None
    return GpuReading(
        vendor="amd",
        models=listed(names if len(names) == len(nodes) else devices),
        count=len(nodes),
        memory_gb=round(size / 2**30) or None if size else None,
        targets=listed(targets) if all(targets) else (),
        driver=_word(evidence.text(_AMDGPU)),
        how=f"{_KFD}/*/properties",
        driver_how=_AMDGPU,
        why="the kernel does not say it",
    )


def _digits(text: str | None) -> str:
    words = (text or "").strip()
    return words if words.isascii() and words.isdigit() and len(words) < 19 else "0"


def _gfx(version: int) -> str:
    if version < 70000:
        return ""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _bank(evidence: NodeEvidence, node: str) -> int:
    pattern = f"{_KFD}/{node}/mem_banks/*/properties"
    texts = [text for _, text in evidence.matching(pattern)]
    found_sizes = [re.search(r"^size_in_bytes (\d{1,18})$", text, re.MULTILINE) for text in texts]
    return max((int(match[1]) for match in found_sizes if match), default=0)


def _word(text: str | None) -> str | None:
    return text if text and re.fullmatch(r"[0-9][0-9A-Za-z.+_-]{0,62}", text) else None


def _by_pci(evidence: NodeEvidence) -> GpuReading | None:
    """Name accelerators that have no driver here, or none that says more."""
    devices = []
    for path, text in evidence.matching(f"{_PCI}/*/class"):
        vendor = _VENDORS.get(evidence.text(str(path.with_name("vendor"))) or "")
        if text.startswith(_COMPUTE) and vendor:
            devices.append((vendor, evidence.text(str(path.with_name("device"))) or ""))
    if not devices:
        return None
    vendors = {vendor for vendor, _ in devices}
    drivers = [
        driver
        for path, driver in evidence.links.items()
        if path.startswith(f"{_PCI}/") and driver in ("i915", "xe", "nvidia", "amdgpu")
    ]
    return GpuReading(
        vendor=vendors.pop() if len(vendors) == 1 else None,
        models=listed([f"PCI device {device}" for _, device in devices]),
        # Of Intel's a device has several tiles, which ranks see.
        count=0 if any(vendor == "intel" for vendor, _ in devices) else len(devices),
        how=f"{_PCI}/*/class, vendor, device",
        why=f"PCI does not tell it; drivers of the node: {', '.join(listed(drivers)) or 'none'}",
    )

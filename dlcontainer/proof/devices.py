"""A proof's devices against the site's: all of a node's, tried, and one a rank."""

from dlcontainer.proof.proof import Proof, RankReport
from dlcontainer.proof.verdict import StateVerdict, Verdicts, failed, not_shown, not_tried, ok
from dlcontainer.sites.site import Site

# What a scheduler sets where a job asked for too few, or gives each rank its own alone.
_FLAGS = {"nvidia": "--nv", "amd": "--rocm"}


def tried(proof: Proof, site: Site | None, *, for_cpus: bool = False) -> Verdicts:
    """Hold each node's devices against `accelerator.per_node`, and each that was tried.

    `for_cpus`: the record says that the image has no device code.
    """
    for rank in proof.content.ranks:
        if rank.devices and rank.devices.state == "failed":
            yield failed(f"rank {rank.rank} on {rank.node}: {rank.devices.detail}")
            return
    unasked = _unasked(proof, for_cpus=for_cpus)
    if unasked is not None:
        if site is None or site.accelerator:
            yield unasked
        return
    promised = site.accelerator.per_node if site and site.accelerator else 0
    counts = {node: _count(ranks) for node, ranks in proof.nodes.items()}
    few = min(counts, key=lambda node: counts[node], default="")
    done = {node: _tried(ranks) for node, ranks in proof.nodes.items()}
    least = min(done, key=lambda node: done[node], default="")
    if promised and counts.get(few, 0) < promised:
        yield failed(_missing(few, proof.nodes.get(few, []), promised, site))
    elif not any(counts.values()):
        if site is None or site.accelerator:
            yield not_tried("no device here")
    elif done[least] < counts[least]:
        yield not_shown(
            f"{least}: {done[least]} of {counts[least]} devices were tried: in exclusive mode "
            "each rank tries its own, so start one rank a device"
        )
    else:
        names = sorted({name for rank in proof.content.ranks for name in _names(rank)})
        shown = f"{counts[few]} a node, each trained as the CPU does: {', '.join(names)}"
        yield ok(shown)


def _unasked(proof: Proof, *, for_cpus: bool) -> StateVerdict | None:
    """Return why no rank could tell of a device; None where one did, or saw that there is none."""
    ranks = proof.content.ranks
    if any(rank.devices and rank.devices.count for rank in ranks):
        return None
    present = max((rank.present or 0 for rank in ranks), default=0)
    driver_note = f"; the node's driver has {present}" if present else ""
    if proof.content.framework is None:
        return not_tried(f"no framework here that devices are tried with{driver_note}")
    if for_cpus:
        return not_tried(f"the image has no device code{driver_note}")
    if not any(rank.devices for rank in ranks):
        return not_shown(f"no rank came as far as its devices{driver_note}")
    return None


def own(proof: Proof) -> Verdicts:
    """See that no two ranks of a node have one device: NCCL refuses that."""
    holders: dict[tuple[str, str], list[RankReport]] = {}
    for rank in proof.content.ranks:
        if rank.device is not None:
            holders.setdefault((rank.node, rank.device), []).append(rank)
    if not holders:
        return
    for (node, device), ranks in sorted(holders.items()):
        if len(ranks) > 1:
            numbers = ", ".join(str(rank.rank) for rank in ranks)
            mode = _exclusive(ranks)
            reason = (
                f"the device is in {mode} mode and takes one process: start one rank a device, or "
                "ask for the default mode (Summit's scheduler: -alloc_flags gpudefault) or for MPS"
                if mode
                else "NCCL takes one rank a device: start as many ranks a node as it has devices"
            )
            yield failed(f"ranks {numbers} on {node} have device {device} between them; {reason}")
            return
    yield ok(f"{len(holders)} devices for {len(proof.content.ranks)} ranks")


def _count(ranks: list[RankReport]) -> int:
    """Count a node's devices: all that one rank sees, or each rank's own."""
    devices = {rank.device for rank in ranks if rank.device is not None}
    return max([len(devices), *(rank.devices.count for rank in ranks if rank.devices)])


def _tried(ranks: list[RankReport]) -> int:
    """Count the devices of a node that were trained on: by one rank, or each rank's own."""
    by_one = [sum(device.ok for device in rank.devices.devices) for rank in ranks if rank.devices]
    devices = {
        rank.device for rank in ranks if rank.device and rank.devices and rank.devices.devices
    }
    return max([len(devices), *by_one])


def _names(rank: RankReport) -> tuple[str, ...]:
    return rank.devices.names if rank.devices else ()


def _exclusive(ranks: list[RankReport]) -> str | None:
    modes = {gpu.mode for rank in ranks for gpu in rank.modes or ()}
    return next((mode for mode in sorted(filter(None, modes)) if mode != "default"), None)


def _missing(node: str, ranks: list[RankReport], promised: int, site: Site | None) -> str:
    variables = {
        f"{name}={value}"
        for rank in ranks
        if rank.devices
        for name, value in rank.devices.variables.items()
    }
    present = max((rank.present or 0 for rank in ranks), default=0)
    text = f"{node}: {_count(ranks)} of {promised} devices that the site promises"
    if present:
        text += f"; the node's driver has {present}"
    if variables:
        return f"{text}; hidden by {', '.join(sorted(variables))}: ask the scheduler for all"
    vendor = site.accelerator.vendor if site and site.accelerator else ""
    flag = f", or the engine's flag {_FLAGS[vendor]} is missing" if vendor in _FLAGS else ""
    return f"{text}; no variable hides them: the job asked for too few{flag}"

"""A proof held against the image's record and the site: findings, one rule a function."""

from collections.abc import Callable
from dataclasses import dataclass

from dlcontainer.image.record import Record
from dlcontainer.planning import built_for
from dlcontainer.proof import devices
from dlcontainer.proof.proof import Collective, PlugIn, Proof
from dlcontainer.proof.verdict import (
    State,
    Verdicts,
    failed,
    not_shown,
    not_tried,
    ok,
    seen,
)
from dlcontainer.sites import fabric_jobs
from dlcontainer.sites.site import Site, SiteTarget

_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofFinding:
    """One thing that a proof was asked for."""

    name: str
    state: State
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofCase:
    """A proof, with the site that it is held against and the record of the image it must be of."""

    proof: Proof
    site: Site | None
    record: Record | None = None


def judge(case: ProofCase) -> tuple[ProofFinding, ...]:
    """Hold a proof against its record and its site."""
    return tuple(
        ProofFinding(name=name, state=verdict.state, detail=verdict.detail)
        for name, rule in RULES.items()
        for verdict in rule(case)
    )


def target(proof: Proof) -> str | None:
    """Name the site, epoch and node type that the image was made for; None by path."""
    image = proof.content.image
    if image is None:
        return None
    return SiteTarget(node_type=image.node_type, epoch=image.epoch).named(image.site)


def _image(case: ProofCase) -> Verdicts:
    image, record = case.proof.content.image, case.record
    if image is None:
        yield not_tried("run by path, in no image of dlcontainer")
    elif record is None:
        yield not_tried(f"plan {image.plan[:12]}…; to hold it against an image: --image IMAGE")
    elif record.digest != image.plan:
        yield failed(
            f"the proof is of plan {image.plan[:12]}…, the image of plan {record.digest[:12]}…"
        )
    elif image.sha256 is not None and image.sha256 != record.image.sha256:
        yield failed("the proof is of another file of the same plan: its SHA-256 differs")
    else:
        yield ok(f"plan {image.plan[:12]}…")


def _site(case: ProofCase) -> Verdicts:
    made_for, site = target(case.proof), case.site
    if site is None:
        yield not_tried("no site to hold it against: --site SITE")
        return
    site_name = built_for.named(site)
    if made_for is None:
        yield not_tried(f"no image says which site it is for; held against {site_name}")
    elif made_for != site_name:
        yield failed(f"the image is for {made_for}, not for {site_name}")
    else:
        yield ok(made_for)


def _ranks(case: ProofCase) -> Verdicts:
    content = case.proof.content
    tasks = content.job.get("SLURM_STEP_NUM_TASKS", "")
    errors = [f"rank {rank.rank}: {rank.error}" for rank in content.ranks if rank.error]
    came = f"{len(content.ranks)} of {content.asked} ranks"
    if errors:
        yield failed(_few(errors))
    elif sorted(rank.rank for rank in content.ranks) != list(range(content.asked)):
        yield failed(f"{came} came")
    elif tasks.isdigit() and int(tasks) > content.asked:
        yield failed(
            f"the scheduler started {tasks} tasks, and each knew of {content.asked} ranks: the "
            "launcher's MPI or PMI is not the image's"
        )
    else:
        yield ok(f"{came} on {_few(sorted(case.proof.nodes))}")


def _cpus(case: ProofCase) -> Verdicts:
    counting = [rank for rank in case.proof.content.ranks if rank.cpus is not None]
    few = [rank for rank in counting if (rank.cpus or 0) < (rank.cpus_asked or 0)]
    if not counting:
        return
    least = min(rank.cpus or 0 for rank in counting)
    if few:
        first = few[0]
        yield failed(
            f"{_numbers([rank.rank for rank in few])}: {first.cpus} on {first.node} of the "
            f"{first.cpus_asked} that the job asked for each: the launcher did not hand them on "
            "(srun: -c, or SRUN_CPUS_PER_TASK; mpirun: --map-by ...:pe=N)"
        )
    elif all(rank.cpus_asked is None for rank in counting):
        yield seen(f"{least} for each rank or more; nothing told how many the job asked for")
    else:
        yield ok(f"{least} for each rank or more, as the job asked")


def _sums(case: ProofCase) -> Verdicts:
    content = case.proof.content
    groups = [(rank.rank, rank.collective) for rank in content.ranks]
    backends = {group.backend for _, group in groups if group and group.backend}
    reasons = sorted({group.why for _, group in groups if group and group.why})
    wrong = [
        f"rank {number}: a sum over {group.size} ranks is off by {group.off}"
        for number, group in groups
        if group and group.backend and (group.off != 0 or group.size != content.asked)
    ]
    if wrong:
        yield failed(_few(wrong))
    elif any(group is None or group.backend is None for _, group in groups):
        say = not_tried if content.asked == 1 or reasons else not_shown
        yield say("; ".join(reasons) or "not all ranks met")
    else:
        more = f"; {'; '.join(reasons)}" if reasons else ""
        yield ok(f"each value right over {', '.join(sorted(map(str, backends)))}{more}")


def _has_fabric(case: ProofCase) -> bool:
    network = case.site.network if case.site else None
    return network is not None and network.kind != "ethernet"


def _is_for_cpus(case: ProofCase) -> bool:
    return case.record is not None and not case.record.content.may_have_device_code


def _has_gpus(case: ProofCase) -> bool:
    if _is_for_cpus(case):
        return False
    is_promised = case.site is not None and case.site.accelerator is not None
    return is_promised or any(
        rank.devices and rank.devices.count for rank in case.proof.content.ranks
    )


def _network(case: ProofCase) -> Verdicts:
    ranks = case.proof.content.ranks
    words = sorted({name for rank in ranks if rank.nccl for name in rank.nccl.networks})
    names = f"NCCL named {', '.join(words)}" if words else "NCCL named no network"
    silent = [rank.rank for rank in ranks if rank.nccl is None or rank.nccl.network is None]
    slow = [rank.rank for rank in ranks if rank.nccl and rank.nccl.network in ("socket", "mixed")]
    if len(case.proof.nodes) == 1:
        yield not_tried(f"one node: nothing goes over a network ({names})")
    elif slow and case.site and _has_fabric(case) and fabric_jobs.plugin(case.site) == "none":
        yield not_tried(
            f"{_numbers(slow)} used TCP, as the site says: {fabric_jobs.said(case.site)}"
        )
    elif slow and _has_fabric(case) and case.site and case.site.network:
        yield failed(
            f"{_numbers(slow)} used TCP sockets, and the site has {case.site.network.model}: "
            f"{names}; NCCL did not find the fabric's plug-in or devices in the image"
        )
    elif case.proof.content.framework is None:
        yield not_tried("no framework here that meets other ranks, so no rank used the network")
    elif silent and not _has_gpus(case):
        yield not_tried("no GPU, so no NCCL: gloo and MPI say nothing of their network")
    elif silent:
        yield not_shown(f"no line of NCCL shows the network of {_numbers(silent)}")
    else:
        kinds = sorted({str(rank.nccl.network) for rank in ranks if rank.nccl})
        rdma = all(rank.nccl and rank.nccl.direct_rdma for rank in ranks)
        yield ok(f"{', '.join(kinds)}: {names}{', from GPU memory' if rdma else ''}")


def _plugin(case: ProofCase) -> Verdicts:
    """Which plug-in ranks would load; one that can't be used brought down its rank."""
    ranks = case.proof.content.ranks
    plugins = [rank.plugin for rank in ranks if rank.plugin is not None]
    # What an image brings is its own affair, and a proof does not say whether it has an MPI.
    brings = fabric_jobs.plugin(case.site, uses_mpi=True) if case.site else "none"
    lacking = [rank.rank for rank in ranks if rank.plugin is None]
    if lacking and brings in ("host", "hook") and _has_gpus(case):
        yield failed(f"{_numbers(lacking)}: none is found, and the site says: plugin: {brings}")
    promised = set(case.site.collectives.abi) if case.site else set()
    older = [rank.rank for rank in ranks if rank.plugin and promised - set(rank.plugin.versions)]
    if older:
        listed = ", ".join(f"v{number}" for number in sorted(promised))
        yield failed(f"{_numbers(older)}: another plug-in than the site's, which has {listed}")
    elif plugins:
        yield seen(_few(sorted({_named(plugin) for plugin in plugins})))


def _named(plugin: PlugIn) -> str:
    if plugin.error:
        return plugin.error
    versions = ", ".join(f"v{number}" for number in plugin.versions)
    span = f"; NCCL asks for v{plugin.asked[0]} to v{plugin.asked[-1]}" if plugin.asked else ""
    return f"{plugin.name or 'one without a name'} ({versions}) of {plugin.file}{span}"


def _bandwidth(case: ProofCase) -> Verdicts:
    largest = [group.bandwidth[-1] for group in _groups(case) if group.bandwidth]
    network = case.site.network if case.site else None
    floor = network.busbw_min if network else None
    if not largest:
        yield not_tried("no all-reduce was timed")
        return
    worst = min(largest, key=lambda speed: speed.busbw)
    shown = f"{worst.busbw:.2f} GB/s at {worst.size >> 20} MiB, the slowest rank"
    if len(case.proof.nodes) == 1:
        yield not_tried(f"{shown}, within one node")
    elif floor is None:
        yield not_tried(f"{shown}; the site names no floor (network.busbw_min)")
    elif worst.busbw < floor:
        yield failed(f"{shown}; less than the site's {floor:g} GB/s (network.busbw_min)")
    else:
        yield ok(f"{shown}; the site's floor is {floor:g} GB/s")


def _groups(case: ProofCase) -> list[Collective]:
    return [rank.collective for rank in case.proof.content.ranks if rank.collective]


def _mounts(case: ProofCase) -> Verdicts:
    nodes = case.proof.nodes
    kinds = {rank.mount.kind for ranks in nodes.values() for rank in ranks if rank.mount}
    if not kinds:
        return
    counts = [len({rank.mount.device for rank in ranks if rank.mount}) for ranks in nodes.values()]
    if max(counts) > 1 and kinds & {"overlay", None}:
        # Each rank's own overlay may lie over one mount.
        yield not_tried("an overlay hides which mount is below it")
        return
    shown = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    yield seen(f"{shown} for a node's ranks ({', '.join(sorted(map(str, kinds)))})")


def _import(case: ProofCase) -> Verdicts:
    seconds = [rank.import_s for rank in case.proof.content.ranks if rank.import_s is not None]
    if seconds:
        yield seen(f"{max(seconds):.1f} s on the last rank, {min(seconds):.1f} s on the first")


def _devices(case: ProofCase) -> Verdicts:
    yield from devices.tried(case.proof, case.site, for_cpus=_is_for_cpus(case))


def _own_device(case: ProofCase) -> Verdicts:
    yield from devices.own(case.proof)


def _few(texts: list[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _numbers(ranks: list[int]) -> str:
    word = "rank" if len(ranks) == 1 else "ranks"
    more = len(ranks) - _SHOWN
    listed = ", ".join(map(str, ranks[:_SHOWN]))
    return f"{word} {listed}" + (f" and {more} more" if more > 0 else "")


RULES: dict[str, Callable[[ProofCase], Verdicts]] = {
    "image": _image,
    "site": _site,
    "ranks": _ranks,
    "CPUs": _cpus,
    "devices": _devices,
    "device a rank": _own_device,
    "sums": _sums,
    "plug-in": _plugin,
    "network": _network,
    "bandwidth": _bandwidth,
    "mounts": _mounts,
    "import time": _import,
}

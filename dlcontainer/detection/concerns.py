"""Which published images a move concerns, and why: plan's own rules, and what images start with.

Each move is looked at alone: the site with it, against the site without.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.detection.moves import GONE, DriftComparison, Move, moved
from dlcontainer.detection.published_image import PublishedImage
from dlcontainer.planning.conflicts import table
from dlcontainer.planning.conflicts.model import Finding, Severity, UnknownFact
from dlcontainer.sites.site import Site

# fails: it can't work any more. check: it may, and was proved with something else.
Grade = Literal["fails", "check"]
_NETWORK_LIMITS = ("infiniband", "omni-path", "slingshot")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageConcern:
    """An image that a move concerns."""

    module: str
    grade: Grade
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveConcerns:
    """A move and the images that it concerns; none is an answer too."""

    move: Move
    images: tuple[ImageConcern, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcernReason:
    """Why a move concerns an image, and how badly."""

    grade: Grade
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _DriftScene:
    """What a rule looks at beside the image: the site, the move, and how engines start."""

    site: Site
    move: Move
    has_setuid: bool


_Rule = Callable[[_DriftScene, PublishedImage], ConcernReason | None]
# Of all images alike.
_GeneralRule = Callable[[_DriftScene], ConcernReason | None]


def of(comparison: DriftComparison, images: Sequence[PublishedImage]) -> tuple[MoveConcerns, ...]:
    """Find the images of each move, in the order of the images."""
    answers = []
    for move in comparison.moves:
        scene = _DriftScene(site=comparison.before, move=move, has_setuid=comparison.has_setuid)
        concerned = (_of_image(scene, image) for image in images)
        answers.append(MoveConcerns(move=move, images=tuple(filter(None, concerned))))
    return tuple(answers)


def _of_image(scene: _DriftScene, image: PublishedImage) -> ImageConcern | None:
    reason = _by_plan(scene, image)
    if reason is None:
        rule = next((rule for key, rule in _RULES.items() if scene.move.key.startswith(key)), None)
        reason = rule(scene, image) if rule else None
    if reason is None:
        general = _GENERAL.get(scene.move.key.partition("/")[0])
        reason = general(scene) if general else None
    if reason is None:
        return None
    return ImageConcern(module=image.module, grade=reason.grade, why=reason.why)


def _by_plan(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    """Hold the image against plan's rules with the move, and without: what is new counts."""
    content = scene.move.content
    if content is None or isinstance(content, tuple | bool):
        return None
    site = moved(scene.site, scene.move.key, content)
    if site is scene.site:
        return None
    before = {finding.why for finding in _findings(scene.site, image)}
    new = [finding for finding in _findings(site, image) if finding.why not in before]
    new.sort(key=lambda finding: finding.grade != "fails")
    return next(iter(new), None)


def _findings(site: Site, image: PublishedImage) -> Iterator[ConcernReason]:
    for of_stack in table.STACK:
        for finding in of_stack.check(site, image.stack):
            yield _reason(finding, of_stack.severity)
    for of_pair in table.PAIR:
        for finding in of_pair.check(site, image.recipe):
            yield _reason(finding, of_pair.severity)


def _reason(finding: Finding, severity: Severity) -> ConcernReason:
    if isinstance(finding, UnknownFact):
        return _check(finding.text)
    return _fails(finding.what) if severity == "refuse" else _check(finding.what)


def _fails(why: str) -> ConcernReason:
    return ConcernReason(grade="fails", why=why)


def _check(why: str) -> ConcernReason:
    return ConcernReason(grade="check", why=why)


def _arch(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    if image.arch is None or image.arch == scene.move.new:
        return None
    return _fails(f"its programs are for {image.arch}")


def _setuid(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    if scene.move.new != "no":
        return None
    if image.is_unpacked:
        return _check("it starts in a user namespace now")
    return _check("it is mounted by FUSE in a user namespace now, no longer by the kernel")


def _fuse(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    if scene.move.new != "no" or image.is_unpacked:
        return None
    return _check("its file can't be mounted without root: the engine unpacks it for each start")


def _host_mpi(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    mpi = scene.site.mpi
    if mpi is None or mpi.mode == "container" or image.stack.mpi is None:
        return None
    if scene.move.key == "mpi.libraries" and mpi.soname and mpi.soname not in scene.move.new:
        return _fails(f"the site puts {mpi.soname} in the place of its own, and it is gone")
    how = "takes the place of its own" if mpi.mode == "swap" else "is linked into it"
    return _check(f"the host's {mpi.name} {how}, and was {scene.move.old} before")


def _host_network(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    """Find images that load the host's network library: by its MPI, or by NCCL's plug-in."""
    has_plugin = scene.site.collectives.plugin == "host" and scene.move.key != "network.ucx"
    if has_plugin and (image.stack.cuda or image.stack.rocm):
        return _check("the host's plug-in of NCCL loads this library in it")
    return _host_mpi(scene, image)


def _fabric(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    if image.stack.cuda or image.stack.rocm:
        return _check(f"its NCCL or RCCL was proved on {scene.move.old}")
    if image.stack.mpi is not None:
        return _check(f"its MPI was proved on {scene.move.old}")
    return None


def _cplusplus(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    mpi = scene.site.mpi
    is_bound = mpi is not None and (mpi.mode != "container" or mpi.libraries or mpi.preload)
    if not is_bound or image.stack.mpi is None:
        return None
    return _check("host libraries in it may need a newer libstdc++ than its own")


def _count(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    if not image.stack.has_device_code or scene.move.old == "0":
        return None
    if scene.move.new == "0":
        return _fails("it has device code, and the node shows no accelerator")
    return _check(f"its jobs ask for {scene.move.old} accelerators of a node")


def _device_memory(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    old, new = scene.move.old, scene.move.new
    if image.stack.has_device_code and old.isdigit() and new.isdigit() and int(new) < int(old):
        return _check(f"its programs had {old} GB of a device")
    return None


def _memlock(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    network = scene.site.network
    if network is None or network.kind not in _NETWORK_LIMITS or scene.move.old != "unlimited":
        return None
    if image.stack.mpi or image.stack.cuda or image.stack.rocm:
        return _check(f"{network.kind} registers its memory, which is limited now")
    return None


def _scheduler(scene: _DriftScene, image: PublishedImage) -> ConcernReason | None:
    return _fails(f"its job script speaks to {scene.move.old}") if image.has_job else None


def _engine(scene: _DriftScene) -> ConcernReason | None:
    runtime = scene.site.engine.runtime
    return _check(f"it starts through {runtime}, which was {scene.move.old} before")


def _namespaces(scene: _DriftScene) -> ConcernReason | None:
    if scene.move.new != "no":
        return None
    if scene.has_setuid:
        return _check("it starts by the engine's setuid program alone")
    return _fails("without a setuid program the engine needs a user namespace to start it")


def _page(scene: _DriftScene) -> ConcernReason | None:
    return _check(f"its libraries were proved with pages of {scene.move.old} bytes")


def _mount(scene: _DriftScene) -> ConcernReason | None:
    path = scene.move.key.removeprefix("filesystems.")
    homes = {system.path for system in scene.site.filesystems if system.purpose == "home"}
    if scene.move.new != GONE or path in homes:
        return None
    return _check(f"its module shows {path} in it")


def _selinux(scene: _DriftScene) -> ConcernReason | None:
    if scene.move.new == "enforcing":
        return _check("SELinux may keep the engine from starting it")
    return None


# By how a move's key begins. A key that no rule names concerns an image by plan's rules alone.
_RULES: Mapping[str, _Rule] = {
    "arch": _arch,
    "engine.setuid": _setuid,
    "engine.fuse": _fuse,
    "mpi.": _host_mpi,
    "network.libfabric": _host_network,
    "network.ucx": _host_network,
    "network.kind": _fabric,
    "os.glibcxx": _cplusplus,
    "accelerator.per_node": _count,
    "accelerator.memory_gb": _device_memory,
    "limits.memlock": _memlock,
    "scheduler.kind": _scheduler,
}
_GENERAL: Mapping[str, _GeneralRule] = {
    "engine.version": _engine,
    "engine.user_namespaces": _namespaces,
    "memory.page_bytes": _page,
    "os.selinux": _selinux,
    "filesystems.": _mount,
}

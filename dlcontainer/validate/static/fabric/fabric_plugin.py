"""The rule of NCCL's and RCCL's plug-in: does it load, and do both know one interface.

NCCL takes the newest version that both know, and TCP or InfiniBand where there is none. Sources:
NCCL, "NCCL_NET_PLUGIN"; RCCL, "Using the NCCL Net plugin API" (librccl-net.so); NCCL 2.32's own
texts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from dlcontainer.planning.launch import host_files
from dlcontainer.sites import fabric_jobs
from dlcontainer.sites.collectives import BRINGING
from dlcontainer.validate.static import questions, symbol_versions
from dlcontainer.validate.static.fabric import fabric_needs, fabric_signs
from dlcontainer.validate.static.fabric.fabric_signs import PLUGIN
from dlcontainer.validate.static.finding import Level, RuleFinding, and_more
from dlcontainer.validate.static.loader import LoadedFiles
from dlcontainer.validate.static.questions import ElfFile, StaticQuestions

_PLAIN = ("ethernet",)
# Of libraries and of plug-ins: an image has two or three.
_MOST = 16
_LIBFABRIC = re.compile(r"libfabric\.so\.\d+")
_VERBS = re.compile(r"lib(?:ibverbs|uc[pt])\.so\.\d+")
_CUDART = re.compile(r"libcudart\.so\.[\d.]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class NetPlugin:
    """A plug-in: of the image by its path, or the site's; `versions` are None where not known."""

    path: str
    title: str
    versions: frozenset[int] | None
    file: ElfFile | None = None


def fabric_plugin(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold each plug-in that NCCL or RCCL may load against it, its needs and the site's fabric.

    Of several plug-ins one that fits is enough: images bring them for several fabrics.
    """
    looked_up = dict(islice(_looked_up(image), _MOST))
    if not looked_up:
        return
    plugins = [*islice(_of_image(image), _MOST), *_of_site(image)]
    findings = [list(_judged(image, plugin, looked_up)) for plugin in plugins]
    some_fit = any(all(finding.level != "error" for finding in of_plugin) for of_plugin in findings)
    for finding in chain.from_iterable(findings):
        is_lesser = some_fit and finding.level == "error"
        yield replace(finding, level="warning") if is_lesser else finding
    who = fabric_jobs.plugin(image.site, uses_mpi=bool(image.mpi_users))
    network = image.site.network
    is_plain = network is None or network.kind in _PLAIN
    if not plugins and who in ("none", "image") and not is_plain:
        yield _tcp(image, next(iter(looked_up)))


def _judged(
    image: StaticQuestions, plugin: NetPlugin, looked_up: Mapping[str, frozenset[int]]
) -> Iterator[RuleFinding]:
    if plugin.path:
        yield from _closure(image, plugin, next(iter(looked_up)))
        yield from _of_another_fabric(image, plugin)
    else:
        yield from _host_runtime(image, plugin, next(iter(looked_up)))
    for ccl, versions in looked_up.items():
        yield from _interface(image, plugin, ccl, versions)


def _looked_up(image: StaticQuestions) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield each NCCL, or RCCL, for the site's GPUs, with the versions that it looks up."""
    vendor = image.site.accelerator.vendor if image.site.accelerator else None
    for path, file in sorted(image.files.items()):
        versions = fabric_signs.versions(file.signs.words)
        name = path.rpartition("/")[2]
        is_amd_s = name.startswith(("librccl", "libtorch_hip"))
        if versions and vendor == ("amd" if is_amd_s else "nvidia"):
            yield path, versions


def _of_image(image: StaticQuestions) -> Iterator[NetPlugin]:
    for path, file in sorted(image.files.items()):
        if PLUGIN.fullmatch(path.rpartition("/")[2]) and file.described:
            versions = fabric_signs.versions(file.signs.exports)
            yield NetPlugin(path=path, title=path, versions=versions, file=file)


def _of_site(image: StaticQuestions) -> Sequence[NetPlugin]:
    """Return the plug-in that host or hook brings: its file where it is here, else its facts."""
    site, facts = image.site, image.site.collectives
    who = fabric_jobs.plugin(site, uses_mpi=bool(image.mpi_users))
    if who not in ("host", "hook"):
        return ()
    versions = frozenset(facts.abi) or None
    if facts.library is None:
        return (NetPlugin(path="", title="the runtime's plug-in", versions=versions),)
    title = f"the host's {facts.library}"
    try:
        place = host_files.located(facts.library, image.environ)
    except LookupError:
        return (NetPlugin(path="", title=title, versions=versions),)
    file = questions.elf_file("libnccl-net.so", Path(place))
    exports = fabric_signs.versions(file.signs.exports) if file else frozenset()
    return (NetPlugin(path="", title=title, versions=exports or versions, file=file),)


def _interface(
    image: StaticQuestions, plugin: NetPlugin, ccl: str, versions: frozenset[int]
) -> Iterator[RuleFinding]:
    """Compare the versions that a plug-in has with those that NCCL looks up."""
    wants = f"{ccl} looks up {_written(versions)} of ncclNetPlugin"
    if plugin.versions is None:
        yield RuleFinding(
            level="not decided",
            file=ccl,
            what=f"{wants}; which {plugin.title} has is not stated (collectives.abi)",
            why="without a version in common NCCL uses TCP, or ends",
            fix="staff: `nm -D libnccl-net.so` names its ncclNetPlugin_vN; write each N as "
            "collectives.abi into the site's file, [8, 9] for instance",
        )
    elif not versions & plugin.versions:
        has = _written(plugin.versions) if plugin.versions else "none"
        yield RuleFinding(
            level="error" if _counts_on(image) else "warning",
            file=plugin.path or ccl,
            what=f"{plugin.title} has {has}; {wants}",
            why="without a version in common NCCL uses TCP in silence, or ends where NCCL_NET is "
            "set",
            fix="build the plug-in for the image's NCCL, or take an image whose NCCL is nearer",
        )
    elif max(versions & plugin.versions) < max(versions):
        yield RuleFinding(
            level="note",
            file=plugin.path or ccl,
            what=f"{plugin.title} has {_written(plugin.versions)}; {wants}",
            why=f"v{max(versions & plugin.versions)} is common: it works, without what came later",
        )


def _counts_on(image: StaticQuestions) -> bool:
    """Return whether the site or a variable relies on a plug-in: else NCCL does without."""
    who = fabric_jobs.plugin(image.site, uses_mpi=bool(image.mpi_users))
    variables = fabric_needs.inside(image)
    return who in BRINGING or bool({"NCCL_NET", "NCCL_NET_PLUGIN"} & set(variables))


def _closure(image: StaticQuestions, plugin: NetPlugin, ccl: str) -> Iterator[RuleFinding]:
    """Look for what a plug-in of the image needs: it is loaded by name, when NCCL starts."""
    loaded = image.search.loaded(plugin.path, _before(image, ccl))
    level: Level = "error" if _counts_on(image) else "warning"
    for missing in loaded.missing:
        name = missing.need.library
        if image.is_brought(name):
            continue
        what = f"{missing.need.requester} needs {name}, which the loader does not find"
        runtimes = _runtimes(image) if _CUDART.fullmatch(name) else ()
        if runtimes:
            what += f"; the image has {and_more(runtimes)}"
        yield RuleFinding(
            level=level,
            file=plugin.path,
            what=what,
            why="the plug-in does not load: NCCL uses TCP in silence, or ends where NCCL_NET is "
            "set",
            fix="build the plug-in for the image's CUDA"
            if runtimes
            else f"install the package that has {name}",
        )
    for need, target in loaded.edges.items():
        for version in symbol_versions.unmet(image, need, target):
            yield RuleFinding(
                level=level,
                file=plugin.path,
                what=f"{need.requester} needs {version}, and {target} has no such version",
                why="the plug-in does not load: NCCL uses TCP in silence, or ends where NCCL_NET "
                "is set",
                fix=f"install a newer {need.library}, or build the plug-in against this one",
            )


def _host_runtime(image: StaticQuestions, plugin: NetPlugin, ccl: str) -> Iterator[RuleFinding]:
    """Compare the CUDA runtime that a plug-in of this host needs with the image's.

    Its own folder is bound with it, and the rest of its needs is there or the host's.
    """
    library = image.site.collectives.library
    described = plugin.file.described if plugin.file else None
    if library is None or described is None:
        return
    folder = host_files.located(library, image.environ).parent
    runtimes = _runtimes(image)
    for name in described.needed:
        if _CUDART.fullmatch(name) and name not in runtimes and not (folder / name).exists():
            yield RuleFinding(
                level="error",
                file=ccl,
                what=f"{plugin.title} needs {name}; the image has "
                f"{and_more(runtimes) if runtimes else 'no CUDA runtime'}",
                why="the plug-in does not load: NCCL ends where NCCL_NET_PLUGIN is set",
                fix="name a plug-in for the image's CUDA, or take an image of that CUDA",
            )


def _before(image: StaticQuestions, ccl: str) -> LoadedFiles | None:
    """Return what is loaded where NCCL is, and finds its plug-in."""
    return next(
        (start.loaded for start in image.started if ccl in start.loaded.edges.values()),
        None,
    )


def _runtimes(image: StaticQuestions) -> Sequence[str]:
    sonames = (file.described.soname for file in image.files.values() if file.described)
    return sorted({name for name in sonames if _CUDART.fullmatch(name)})


def _of_another_fabric(image: StaticQuestions, plugin: NetPlugin) -> Iterator[RuleFinding]:
    """Note a plug-in that does nothing at this site's network."""
    network = image.site.network
    described = plugin.file.described if plugin.file else None
    if network is None or described is None:
        return
    over = _over(described.needed)
    fits: Mapping[str, tuple[str, ...]] = {
        "libfabric": ("slingshot", "omni-path", "aries", "other"),
        "InfiniBand verbs": ("infiniband", "other"),
    }
    if over and network.kind not in fits[over]:
        yield RuleFinding(
            level="note",
            file=plugin.path,
            what=f"{plugin.path} works over {over}; the site has {network.model}",
            why="NCCL leaves it out where it meets no device of its own",
        )


def _over(needed: Sequence[str]) -> str:
    """Name the interface of a fabric that a plug-in is linked to; empty for none that is known."""
    if any(map(_LIBFABRIC.fullmatch, needed)):
        return "libfabric"
    return "InfiniBand verbs" if any(map(_VERBS.fullmatch, needed)) else ""


def _tcp(image: StaticQuestions, ccl: str) -> RuleFinding:
    network = image.site.network
    model = network.model if network else ""
    return RuleFinding(
        level="warning",
        file=ccl,
        what=f"neither the image nor the site has a plug-in for {model}",
        why="NCCL and RCCL know InfiniBand, RoCE and TCP by themselves: between nodes they use TCP",
        fix="install aws-ofi-nccl (or -rccl) with a libfabric for this fabric; or write who brings "
        "it: collectives.plugin",
    )


def _written(versions: frozenset[int]) -> str:
    return ", ".join(f"v{version}" for version in sorted(versions))

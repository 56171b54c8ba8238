"""What moved: a site's file, and an earlier detection, against the machine as it is now. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.detection import runtimes_here, software
from dlcontainer.detection.fact import FactValue, NodeFact
from dlcontainer.detection.node_report import Detection
from dlcontainer.planning.compatibility import CPU_FEATURES, GENERAL_CPUS
from dlcontainer.planning.versions import compare, numbers
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import NETWORK_FILE_SYSTEMS

Content = FactValue | float | None
# Of memory that a data sheet names the kernel shows less.
_LEAST_SHARE, _MOST_SHARE = 0.9, 1.02
NOT_RECORDED, GONE = "not recorded", "not mounted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A fact that is not what it was: how it was read now, and where the old value stands.

    `content` is the new value as a site has it.
    """

    key: str
    old: str
    new: str
    how: str
    old_in: str
    content: FactValue | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedFact:
    """A fact of the site that could not be compared, and why."""

    key: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftComparison:
    """All that moved, and what was not compared; `before` is the site with its old facts.

    `has_setuid` is whether the engine's setuid program is there now.
    """

    moves: tuple[Move, ...]
    skipped: tuple[SkippedFact, ...]
    before: Site
    has_setuid: bool = False


def _same(old: str, new: str) -> bool:
    return old == new


def _begins(old: str, new: str) -> bool:
    """Whether a version goes on where the other, written with fewer numbers, ends."""
    return new == old or (new.startswith(old) and new[len(old)] in ".-+_")


def _words(old: str, new: str) -> bool:
    """Whether one name has all words of the other: H100, and H100 80GB HBM3."""
    mine, theirs = (set(re.findall(r"[a-z0-9]+", text.lower())) for text in (old, new))
    return mine <= theirs or theirs <= mine


def _near(old: str, new: str) -> bool:
    if not (old.isdigit() and new.isdigit()):
        return old == new
    return int(old) * _LEAST_SHARE <= int(new) <= int(old) * _MOST_SHARE


def _level(old: str, new: str) -> bool:
    """Whether a processor's own name stands for the level that was detected."""
    features = CPU_FEATURES.get(old)
    if features is None or not new.startswith("x86-64"):
        return old == new
    return next((name for name in GENERAL_CPUS if CPU_FEATURES[name] <= features), None) == new


# Keys of a site and how their values are held against what a machine says.
_KEYS: Mapping[str, Callable[[str, str], bool]] = {
    "arch": _same,
    **dict.fromkeys(["os.distribution", "network.kind", "scheduler.kind", "modules.kind"], _same),
    **dict.fromkeys(["os.release", "os.kernel", "os.glibc"], _begins),
    **dict.fromkeys(["cpu.cores", "cpu.threads_per_core"], _same),
    **dict.fromkeys(["accelerator.vendor", "accelerator.target", "accelerator.per_node"], _same),
    **dict.fromkeys(["accelerator.driver", "accelerator.toolkit"], _begins),
    **dict.fromkeys(["cpu.model", "accelerator.model"], _words),
    **dict.fromkeys(["memory.gb", "accelerator.memory_gb"], _near),
    "cpu.target": _level,
    "engine.version": _begins,
}
# Facts that no site's file has, and an earlier detection does.
_WATCHED = (
    *("os.glibcxx", "os.selinux", "memory.page_bytes", "limits.memlock", "mpi.name"),
    *("mpi.libraries", "network.libfabric", "network.ucx", "engine.setuid", "engine.fuse"),
    *("engine.user_namespaces", "scheduler.version", "modules.version"),
)
_OF_SERVICES = ("scheduler.", "modules.")


def between(site: Site, now: Detection, earlier: Detection | None = None) -> DriftComparison:
    """Compare a site's facts, and those of an earlier detection, with what is detected now."""
    facts = now.named()
    old_facts = earlier.named() if earlier else {}
    is_comparable = now.of_compute_node or site.scheduler.kind == "none"
    moves, skipped, before = list[Move](), list[SkippedFact](), site
    for key, is_same in _KEYS.items():
        stated = written(site, key)
        fact, old_fact = _fact(facts, key, site), _fact(old_facts, key, site)
        if stated is None and old_fact is not None and old_fact.value is not None:
            before = moved(before, key, old_fact.value)
        old = stated if stated is not None else old_fact.value if old_fact else None
        if old is None:
            continue
        if not is_comparable and not key.startswith(_OF_SERVICES):
            skipped.append(SkippedFact(key=key, why="this node is outside of jobs"))
        elif fact is None or fact.value is None:
            skipped.append(SkippedFact(key=key, why=_why(fact)))
        elif not is_same(str(old), str(fact.value)):
            place = "the site's file" if stated is not None else "the earlier detection"
            moves.append(_move(key, str(old), fact, place))
    if is_comparable:
        moves += _first_accelerator(site, facts)
        moves += _watched(facts, old_facts)
        moves += _mpi(site, facts)
        moves += _filesystems(site, facts)
    setuid = facts.get("engine.setuid")
    return DriftComparison(
        moves=tuple(moves),
        skipped=tuple(skipped),
        before=before,
        has_setuid=setuid is not None and setuid.value is True,
    )


def written(site: Site, key: str) -> Content:
    """Return what a site's file says of a key; None where it says nothing."""
    group, _, name = key.partition(".")
    part = getattr(site, group)
    if not name:
        return str(part)
    if part is None or name not in part.model_fields_set:
        return None
    content = getattr(part, name)
    return content if isinstance(content, str | int) else None


def moved(site: Site, key: str, content: FactValue) -> Site:
    """Return the site with another value of a key; of a group that it does not have, unchanged."""
    group, _, name = key.partition(".")
    if not name:
        return site.model_copy(update={group: content})
    part = getattr(site, group, None)
    if part is None or name not in type(part).model_fields:
        return site
    return site.model_copy(update={group: part.model_copy(update={name: content})})


def _fact(facts: Mapping[str, NodeFact], key: str, site: Site) -> NodeFact | None:
    if key != "engine.version":
        return facts.get(key)
    fact = facts.get(f"engine.{site.engine.runtime}")
    if fact is None or fact.value is None:
        return fact
    short = runtimes_here.version(str(fact.value))
    return NodeFact(name=key, value=short, how=fact.how)


def _why(fact: NodeFact | None) -> str:
    return fact.why or "unknown" if fact else "the machine does not say it"


def _move(key: str, old: str, fact: NodeFact, place: str) -> Move:
    return Move(key=key, old=old, new=fact.text, how=fact.how, old_in=place, content=fact.value)


def _first_accelerator(site: Site, facts: Mapping[str, NodeFact]) -> Iterator[Move]:
    """Find accelerators at a site whose file has none."""
    fact = facts.get("accelerator.per_node")
    if site.accelerator is None and fact is not None and fact.value:
        yield Move(key=fact.name, old="0", new=fact.text, how=fact.how, old_in="the site's file")


def _watched(facts: Mapping[str, NodeFact], old_facts: Mapping[str, NodeFact]) -> Iterator[Move]:
    for key in _WATCHED:
        fact, old = facts.get(key), old_facts.get(key)
        if fact is None or fact.value is None:
            continue
        if old is not None and old.value is not None and old.value != fact.value:
            yield _move(key, old.text, fact, "the earlier detection")
        elif old is None and key == "engine.user_namespaces" and fact.value is False:
            yield _move(key, NOT_RECORDED, fact, "-")


# Whose MPI a name is of, as `software` writes it.
_FAMILIES = {
    "Open MPI": "openmpi",
    "IBM Spectrum MPI": "spectrum",
    "Intel MPI": "mpich",
    "MPICH": "mpich",
    "Hydra": "mpich",
}


def _mpi(site: Site, facts: Mapping[str, NodeFact]) -> Iterator[Move]:
    """Compare the versions for which the facts of the host's MPI hold, where jobs take it."""
    mpi = site.mpi
    if mpi is None:
        return
    loaded, offered = facts.get("mpi.module_version"), facts.get("mpi.cray_mpich")
    name = facts.get("mpi.name")
    if mpi.known_versions and mpi.version_variable == software.CRAY and loaded and loaded.value:
        if str(loaded.value) not in mpi.known_versions:
            yield _move("mpi.version", ", ".join(mpi.known_versions), loaded, "the site's file")
    elif mpi.version and offered and isinstance(offered.value, tuple):
        if mpi.version not in offered.value:
            yield _move("mpi.version", mpi.version, offered, "the site's file")
    elif mpi.version and name and isinstance(name.value, str):
        maker, _, version = name.value.rpartition(" ")
        family = next((of for word, of in _FAMILIES.items() if maker.startswith(word)), None)
        mine, theirs = numbers(mpi.version), numbers(version)
        if family == mpi.family and mine and theirs and compare(theirs, mine) in (-1, 1):
            yield _move("mpi.version", mpi.version, name, "the site's file")


def _filesystems(site: Site, facts: Mapping[str, NodeFact]) -> Iterator[Move]:
    """Find shared file systems of the site that the node has not mounted."""
    fact = facts.get("filesystems.shared")
    if fact is None or not isinstance(fact.value, tuple):
        return
    points = [line.rpartition(" (")[0] for line in fact.value]
    for system in site.filesystems:
        is_shared = system.kind in NETWORK_FILE_SYSTEMS
        if is_shared and not any(_touches(system.path, point) for point in points):
            yield Move(
                key=f"filesystems.{system.path}",
                old=system.kind,
                new=GONE,
                how=fact.how,
                old_in="the site's file",
            )


def _touches(path: str, point: str) -> bool:
    """Whether a mount holds a path, or is below it: a centre may mount each project alone."""
    first, second = (f"{text.rstrip('/')}/" for text in (path, point))
    return first.startswith(second) or second.startswith(first)

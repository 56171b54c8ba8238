"""File systems of a node, by its list of mounts: none is touched, since a server may be gone."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known, listed
from dlcontainer.system.machine import NETWORK_FILE_SYSTEMS

_MOUNTS = "/proc/self/mounts"
# Looked at by name; nothing is written there.
_TEMPORARY = {"tmp": "/tmp", "var_tmp": "/var/tmp", "shm": "/dev/shm"}  # noqa: S108
_SCRATCH = ("SCRATCH", "PSCRATCH", "CSCRATCH", "SCRATCHDIR", "WORK", "LOCAL_SCRATCH")
_AT_ROOT = re.compile(r"scratch|lustre|gpfs|beegfs|work|flash|project|p?fs[0-9]*$")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeMount:
    """A line of the list of mounts."""

    point: str
    kind: str


def mounts(evidence: NodeEvidence) -> list[NodeMount]:
    """Return what is mounted on the node; later lines cover earlier ones."""
    rows = [line.split(" ") for line in evidence.files.get(_MOUNTS, "").split("\n")]
    return [
        NodeMount(point=_ESCAPE.sub(lambda hit: chr(int(hit[1], 8)), row[1]), kind=row[2])
        for row in rows
        if len(row) >= 4
    ]


def mount_of(path: str, listing: Sequence[NodeMount]) -> NodeMount | None:
    """Return the mount that a path lies on."""
    best = None
    for mount in listing:
        inside = path == mount.point or path.startswith(f"{mount.point.rstrip('/')}/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield shared and local file systems, candidates for scratch, proxies by name."""
    listing = mounts(evidence)
    shared = [f"{at.point} ({at.kind})" for at in listing if at.kind in NETWORK_FILE_SYSTEMS]
    yield known("filesystems.shared", listed(shared)[:64], _MOUNTS)
    for name, path in _TEMPORARY.items():
        sizes = evidence.disks.get(path)
        mount = mount_of(path, listing) if sizes else None
        missing = f"there is no {path}"
        yield either(f"filesystems.{name}", mount.kind if mount else None, _MOUNTS, missing)
        yield either(f"filesystems.{name}_mb", sizes[0] if sizes else None, "statvfs(3)", missing)
    home = evidence.variables.get("HOME", "")
    yield from _place("home", "HOME", mount_of(home, listing) if home else None)
    folders = scratch_folders(evidence)
    yield known(
        "filesystems.scratch_candidates",
        _candidates(evidence, folders),
        f"{', '.join(_SCRATCH)}; names in /",
    )
    first = next(iter(folders.items()), None)
    yield from _place(
        "scratch",
        first[0] if first else ", ".join(_SCRATCH),
        mount_of(first[1], listing) if first else None,
    )
    yield known("routing.proxies", evidence.proxies, "variables that are set, names alone")


def _place(name: str, variable: str, mount: NodeMount | None) -> Iterator[NodeFact]:
    """Yield where the folder of a variable is mounted, and its file system's kind."""
    how, why = f"{variable}, {_MOUNTS}", "no such variable names a folder"
    yield either(f"filesystems.{name}", mount.kind if mount else None, how, why)
    yield either(f"filesystems.{name}_mount", mount.point if mount else None, how, why)


def _candidates(evidence: NodeEvidence, folders: Mapping[str, str]) -> tuple[str, ...]:
    """Name folders that may be scratch: what variables say, and names at the root."""
    of_variables = [f"{path} (${name})" for name, path in folders.items()]
    names = [name for name in evidence.folders.get("/", ()) if _AT_ROOT.search(name)]
    return listed([*of_variables, *(f"/{name}" for name in names)])


def scratch_folders(evidence: NodeEvidence) -> dict[str, str]:
    """Return the variables that name a user's scratch, with their folders."""
    pairs = [(name, evidence.variables.get(name, "")) for name in _SCRATCH]
    return {name: os.path.normpath(path) for name, path in pairs if path.startswith("/")}

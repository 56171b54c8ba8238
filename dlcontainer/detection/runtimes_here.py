"""Container engines of a node, and what the kernel lets them do."""

import errno
import os
import re
from collections.abc import Iterator

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known, unknown

# In the order in which jobs would take them: what sites name `engine.runtime`.
RUNTIMES = ("apptainer", "singularity", "podman-hpc", "shifter")
_ENGINES = {
    "apptainer": ("apptainer --version", r"apptainer version (\d\S*)"),
    "singularity": ("singularity --version", r"singularity(?:-ce|-pro)? version (\d\S*)"),
    "podman-hpc": ("podman-hpc --version", r"version (\d\S*)"),
    "shifter": ("shifter --version", r"(\d+\.\d\S*)"),
    "podman": ("podman --version", r"podman version (\d\S*)"),
    "docker": ("docker --version", r"Docker version (\d[^\s,]*)"),
    "enroot": ("enroot version", r"(\d+\.\d\S*)"),
    "charliecloud": ("ch-run --version", r"(\d+\.\d\S*)"),
    "sarus": ("sarus --version", r"(\d+\.\d\S*)"),
}
_LIMIT = "/proc/sys/user/max_user_namespaces"
_CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_FUSE = ("fusermount3", "fusermount", "squashfuse", "squashfuse_ll", "fuse2fs", "fuse-overlayfs")


def version(text: str) -> str:
    """Return a version as a site's file takes it, without a package's own suffix."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return match[0] if match else text


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield engines, namespaces, FUSE and subordinate ids."""
    is_singularity = _is_link(evidence)
    for name, (command, pattern) in _ENGINES.items():
        answer = evidence.answer(command)
        match = re.search(pattern, answer.out) if answer.failure is None else None
        why = answer.failure or "it says no version"
        if name == "singularity" and match is None and is_singularity:
            why = "it is a name of Apptainer"
        yield either(f"engine.{name}", match[1] if match else None, command, why)
    starters = evidence.starters
    if any(name in evidence.programs for name in ("apptainer", "singularity")):
        how = "starter-suid below the engine's prefix, of root and setuid"
        yield known("engine.setuid", bool(starters), how)
    else:
        yield unknown("engine.setuid", "PATH", "no apptainer and no singularity on PATH")
    yield from _namespaces(evidence)
    yield known("engine.fuse", evidence.process.fuse, "access(2): /dev/fuse, to read and write")
    helpers = tuple(name for name in _FUSE if name in evidence.programs)
    yield known("engine.fuse_programs", helpers, "PATH")
    how = "/etc/subuid: a line of this user"
    yield either("engine.subordinate_ids", evidence.process.subuid, how, "it can't be read")
    maps = [name for name in ("newuidmap", "newgidmap") if name in evidence.programs]
    yield known("engine.id_map_programs", tuple(maps), "PATH")


def _is_link(evidence: NodeEvidence) -> bool:
    return "apptainer" in evidence.answer("singularity --version").out


def _namespaces(evidence: NodeEvidence) -> Iterator[NodeFact]:
    number = evidence.process.namespace_error
    how = "unshare(2): CLONE_NEWUSER | CLONE_NEWNS, tried"
    yield known("engine.user_namespaces", number == 0, how)
    if number:
        name = errno.errorcode.get(number, str(number))
        yield known("engine.user_namespaces_error", f"{name} ({os.strerror(number)})", how)
    limit = evidence.number(_LIMIT)
    yield either("engine.most_user_namespaces", limit, _LIMIT, "the kernel has no such limit")
    for path in (_CLONE, _APPARMOR):
        setting = evidence.number(path)
        if setting is not None:
            yield known(f"kernel.{path.rpartition('/')[2]}", setting, path)

"""System software of a node: kernel, distribution, C and C++ libraries, limits."""

import re
from collections.abc import Iterator

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known
from dlcontainer.planning.versions import numbers

_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
_UNLIMITED = (-1, 2**63 - 1, 2**64 - 1)


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield kernel, distribution, libraries and limits."""
    process = evidence.process
    yield known("host", process.host, "uname(2)")
    yield either("os.kernel", process.kernel or None, "uname(2)", "the kernel names no release")
    path = next((path for path in _RELEASE if path in evidence.files), _RELEASE[0])
    release = _release(evidence.text(path) or "")
    yield either("os.distribution", release.get("ID"), f"{path}: ID", "there is no such line")
    version = release.get("VERSION_CODENAME") or release.get("VERSION_ID")
    how = f"{path}: VERSION_CODENAME, else VERSION_ID"
    yield either("os.release", version, how, "there is no such line")
    glibc = re.fullmatch(r"glibc (\d+(?:\.\d+)+)", process.libc or "")
    yield either(
        "os.glibc",
        glibc[1] if glibc else None,
        "confstr(3): CS_GNU_LIBC_VERSION",
        "the C library is not glibc",
    )
    yield _cplusplus(evidence)
    yield known("os.python", process.python, "the Python that asked")
    yield _selinux(evidence)
    controllers = "/sys/fs/cgroup/cgroup.controllers"
    yield known(
        "os.cgroup_v2", controllers in evidence.files, f"{controllers}: whether it is there"
    )
    yield known("limits.umask", f"{process.umask:04o}", "umask(2)")
    yield known("limits.memlock", _limit(process.memlock), "getrlimit(2): RLIMIT_MEMLOCK, bytes")
    yield known("limits.nofile", _limit(process.nofile), "getrlimit(2): RLIMIT_NOFILE")
    compiler = evidence.programs.get("gcc")
    yield either("os.compiler", compiler, "PATH", "no gcc on PATH")


def _release(text: str) -> dict[str, str]:
    """Read the lines of os-release that make one word, as a site's file takes it."""
    fields = {}
    for line in text.splitlines():
        name, _, content = line.partition("=")
        word = content.strip().strip("\"'")
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", word):
            fields[name] = word
    if "ID" in fields:
        fields["ID"] = fields["ID"].lower()
    return fields


def _cplusplus(evidence: NodeEvidence) -> NodeFact:
    library = evidence.libstdcxx
    known_versions = [parts for text in library.versions if (parts := numbers(text))]
    newest = ".".join(map(str, max(known_versions))) if known_versions else None
    how = f"{library.path or 'libstdc++.so.6'}: newest GLIBCXX_ in it"
    why = "ldconfig lists no libstdc++.so.6" if library.path is None else "no GLIBCXX_ in it"
    return either("os.glibcxx", newest, how, why)


def _selinux(evidence: NodeEvidence) -> NodeFact:
    path = "/sys/fs/selinux/enforce"
    state = {"0": "permissive", "1": "enforcing"}.get(evidence.text(path) or "")
    return either("os.selinux", state, path, "the kernel shows no SELinux")


def _limit(number: int) -> str:
    return "unlimited" if number in _UNLIMITED else str(number)

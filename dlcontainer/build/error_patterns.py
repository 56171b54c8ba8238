"""What a failed step's last words mean: the known kinds, each with its cause and the cure. Pure."""

import re
from dataclasses import dataclass

from dlcontainer.engines import unknown_user

# What shells and batch systems report of a process that was ended by SIGKILL.
_KILLED = (137, -9)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCause:
    """The cause of a failure, the line that shows it, what to do."""

    cause: str
    line: str
    next_step: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    pattern: str
    cause: str
    next_step: str


# The first that matches, from the last line upwards: what a tool says last is mostly consequence.
_KINDS = (
    _Kind(
        pattern=r"no space left on device|enospc",
        cause="the disk is full",
        next_step="make room, or give another folder: --tmpdir for the tree, -o for the image",
    ),
    _Kind(
        pattern=r"disk quota exceeded|edquot",
        cause="your quota is used up",
        next_step="make room, or give a folder outside the quota: --tmpdir; a scratch is mostly "
        "one. `dlcontainer cache prune` frees what builds keep",
    ),
    _Kind(
        pattern=r"ownership change not allowed|could not set files/directories ownership",
        cause="the folder for temporary files takes no change of owners",
        next_step="give a local folder: --tmpdir, TMPDIR, or engine.tmpdir of the site",
    ),
    _Kind(
        pattern=unknown_user.SAID.pattern,
        cause=unknown_user.WHY,
        next_step=unknown_user.NEXT_STEP,
    ),
    _Kind(
        pattern=r"version [`'\"]?GLIBC(XX)?_[0-9.]+['\"]? not found",
        cause="a program was built for a newer C library than the image's",
        next_step="take a base with a newer glibc (--set base.release=…), or an older build of "
        "what was to be started",
    ),
    _Kind(
        pattern=r"certificate[ _]verify[ _]failed|self[- ]signed certificate|unable to get local "
        r"issuer|x509: certificate",
        cause="a server's certificate is not trusted: mostly a proxy with a CA of its own",
        next_step="name the CA's file in the site config: routing.ca",
    ),
    _Kind(
        pattern=r"\b429\b.*too many requests|toomanyrequests|rate limit",
        cause="a server limits how often it may be asked",
        next_step="wait, log in there, or route the upstream to a mirror: routing.upstreams",
    ),
    _Kind(
        pattern=r"no matching distribution found|could not find a version that satisfies",
        cause="no wheel of this version for the image's Python and architecture",
        next_step="the index has none, or the site's routing hides it: compare the version with "
        "what the index lists for this Python and architecture",
    ),
    _Kind(
        pattern=r"hash(es)? (do not|don't) match|hash sum mismatch|these packages do not match "
        r"the hashes|error verifying sha256|digest (verification failed|did not match)",
        cause="what came is not what was expected: its checksum differs",
        next_step="a mirror is out of date or changed the file: try another, or lock again",
    ),
    _Kind(
        pattern=r"exec format error",
        cause="a program of another architecture was to be started",
        next_step="`dlcontainer doctor` says whether emulation is set up, and how to",
    ),
    _Kind(
        pattern=r"temporary failure (in name resolution|resolving)|could not resolve|name or "
        r"service not known|network is unreachable|connection timed out",
        cause="the outside can't be reached from here",
        next_step="build where there is a network, name the proxy (routing.proxy), or build from "
        "a folder: --offline",
    ),
    _Kind(
        pattern=r"\b50[0234]:? +(internal server error|not implemented|bad gateway|service "
        r"unavailable|gateway time-?out)",
        cause="a server is at fault (HTTP 5xx)",
        next_step="build again later, or from another mirror",
    ),
    _Kind(
        pattern=r"unexpected eof|remote end closed connection|error reading from server|"
        r"connection reset by peer|file has unexpected size|incompleteread|undetermined error",
        cause="a file did not come whole",
        next_step="build again: a server, or a proxy before it, cut the connection",
    ),
    _Kind(
        pattern=r"404 +not found.*\.deb|failed to fetch .*\.deb +404",
        cause="the mirror does not hold a package that its own index names: the mirror is at fault",
        next_step="build again: an index that is out of date is fetched again; if it stays so, "
        "build later, or name another mirror: routing.apt of the site",
    ),
    _Kind(
        pattern=r"illegal instruction|sigill",
        cause="a program needs instructions that this processor does not have",
        next_step="take a build for an older processor, or build on a machine of the site",
    ),
    _Kind(
        pattern=r"out of memory|cannot allocate memory|memoryerror|std::bad_alloc",
        cause="the memory was used up",
        next_step="build where there is more, and not in memory: --tmpdir on a disk",
    ),
)


def explain(lines: str, returncode: int, oom_kills: int = 0) -> FailureCause | None:
    """Explain a failure by the last lines of its log, its exit code and the cgroup's OOM kills.

    None for what is of no known kind.
    """
    if oom_kills > 0 or (returncode in _KILLED and not oom_kills):
        how = f"the kernel ended {oom_kills} of its processes" if oom_kills else "it was killed"
        cause = "out of memory" if oom_kills else "killed from outside, mostly for want of memory"
        return FailureCause(
            cause=cause,
            line=how,
            next_step="build where there is more memory, in a job for example; --tmpdir on a disk "
            "keeps the tree out of memory",
        )
    for line in reversed(lines.splitlines()):
        for kind in _KINDS:
            if re.search(kind.pattern, line, re.IGNORECASE):
                return FailureCause(cause=kind.cause, line=line.strip(), next_step=kind.next_step)
    return None

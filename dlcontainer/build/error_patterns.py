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
        next_step="free space, or name another folder: --tmpdir for the tree, -o for the image",
    ),
    _Kind(
        pattern=r"disk quota exceeded|edquot",
        cause="your quota is exhausted",
        next_step="free space (`dlcontainer cache prune` empties the cache of builds), or "
        "name a folder outside the quota, such as scratch, with --tmpdir",
    ),
    _Kind(
        pattern=r"ownership change not allowed|could not set files/directories ownership",
        cause="the file system of the temporary folder cannot change owners",
        next_step="name a local folder: --tmpdir, TMPDIR, or engine.tmpdir of the site",
    ),
    _Kind(
        pattern=unknown_user.SAID.pattern,
        cause=unknown_user.WHY,
        next_step=unknown_user.NEXT_STEP,
    ),
    _Kind(
        pattern=r"version [`'\"]?GLIBC(XX)?_[0-9.]+['\"]? not found",
        cause="a program needs a newer C library than the image has",
        next_step="use a base with a newer glibc (--set base.release=…), or an older build "
        "of the program",
    ),
    _Kind(
        pattern=r"certificate[ _]verify[ _]failed|self[- ]signed certificate|unable to get local "
        r"issuer|x509: certificate",
        cause="a server's certificate is not trusted; usually a proxy uses a CA of its own",
        next_step="set routing.ca of the site config to the CA's file",
    ),
    _Kind(
        pattern=r"\b429\b.*too many requests|toomanyrequests|rate limit",
        cause="a server limits the rate of requests",
        next_step="wait, log in to the server, or set routing.upstreams of the site to a mirror",
    ),
    _Kind(
        pattern=r"no matching distribution found|could not find a version that satisfies",
        cause="there is no wheel of this version for the image's Python and architecture",
        next_step="check which versions the index lists for this Python and architecture; "
        "the site's routing may hide some",
    ),
    _Kind(
        pattern=r"hash(es)? (do not|don't) match|hash sum mismatch|these packages do not match "
        r"the hashes|error verifying sha256|digest (verification failed|did not match)",
        cause="a downloaded file does not have the expected checksum",
        next_step="try another mirror, or lock again: this mirror is out of date or changed "
        "the file",
    ),
    _Kind(
        pattern=r"exec format error",
        cause="a program is built for another architecture",
        next_step="run `dlcontainer doctor`: it checks emulation, and tells you how to set it up",
    ),
    _Kind(
        pattern=r"temporary failure (in name resolution|resolving)|could not resolve|name or "
        r"service not known|network is unreachable|connection timed out",
        cause="this host cannot reach a server outside",
        next_step="build on a host with network access, set the proxy (routing.proxy), or "
        "build from a bundle: --offline",
    ),
    _Kind(
        pattern=r"\b50[0234]:? +(internal server error|not implemented|bad gateway|service "
        r"unavailable|gateway time-?out)",
        cause="a server failed (HTTP 5xx)",
        next_step="build again later, or name another mirror",
    ),
    _Kind(
        pattern=r"unexpected eof|remote end closed connection|error reading from server|"
        r"connection reset by peer|file has unexpected size|incompleteread|undetermined error",
        cause="a download was incomplete",
        next_step="build again: a server or a proxy closed the connection",
    ),
    _Kind(
        pattern=r"404 +not found.*\.deb|failed to fetch .*\.deb +404",
        cause="the mirror's index lists a package that the mirror does not have",
        next_step="build again: dlcontainer fetches the index again; if the error stays, "
        "build later, or name another mirror in routing.apt of the site",
    ),
    _Kind(
        pattern=r"illegal instruction|sigill",
        cause="a program needs instructions that this processor does not have",
        next_step="use a build for an older processor, or build on a machine of the site",
    ),
    _Kind(
        pattern=r"out of memory|cannot allocate memory|memoryerror|std::bad_alloc",
        cause="the host ran out of memory",
        next_step="build on a host with more memory, or name a folder on a disk with --tmpdir",
    ),
)


def explain(lines: str, returncode: int, oom_kills: int = 0) -> FailureCause | None:
    """Explain a failure by the last lines of its log, its exit code and the cgroup's OOM kills.

    None for what is of no known kind.
    """
    if oom_kills > 0 or (returncode in _KILLED and not oom_kills):
        how = f"the kernel killed {oom_kills} of its processes" if oom_kills else "it was killed"
        cause = (
            "out of memory"
            if oom_kills
            else "something outside the build killed it, usually because memory ran out"
        )
        return FailureCause(
            cause=cause,
            line=how,
            next_step="build on a host or in a job with more memory; --tmpdir on a disk "
            "keeps the tree out of memory",
        )
    for line in reversed(lines.splitlines()):
        for kind in _KINDS:
            if re.search(kind.pattern, line, re.IGNORECASE):
                return FailureCause(cause=kind.cause, line=line.strip(), next_step=kind.next_step)
    return None

"""Doctor: what this user may build and run with here, why, and what to type to fix it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dlcontainer import installation
from dlcontainer.config.field_types import ARCHES
from dlcontainer.doctor import causes, oci
from dlcontainer.doctor.finding import Finding
from dlcontainer.engines import apptainer, base_modes, capabilities, emulation
from dlcontainer.engines.base import EngineKind
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.system.machine import Host, find_program
from dlcontainer.system.process import Runner

# program -> (what for, package)
HELPERS = {
    "mmdebstrap": ("makes the base of an image", "mmdebstrap"),
    "mksquashfs": ("packs images", "squashfs-tools"),
    "unsquashfs": ("unpacks the base", "squashfs-tools"),
}
# Words in an engine's or mmdebstrap's answer, a missing program first -> its package.
_MISSING: Mapping[str, str] = {
    "newuidmap": "uidmap",
    "mksquashfs": "squashfs-tools",
    "unsquashfs": "squashfs-tools",
    "unshare: not found": "util-linux",
}
# Words in such an answer -> the cause, and what to type.
_SAID: Mapping[str, str] = {
    "No space left": "the disk is full: export TMPDIR=/a/roomier/folder",
    "Read-only file system": "a folder is read-only: export TMPDIR=/a/writable/folder",
}
_WAYS = (
    "base images of a registry (dlcontainer base pin), a bundle with the finished base "
    "(dlcontainer build --offline), or the base made elsewhere (dlcontainer base make)"
)


def examine(
    host: Host, runner: Runner, cache: Path, *, engine: EngineKind = "apptainer"
) -> list[Finding]:
    """Look at all that building and running needs; the engine is really tried.

    `engine` is the one that is meant: what the others lack is no flaw.
    """
    why = causes.examine(host)
    findings = [_host(host), *_engine(host, runner, cache, why), *_helpers(host)]
    findings += [*_base(host, runner, why), *why]
    return [*findings, _way_out(host), _emulation(host), *oci.examine(host, engine)]


def _host(host: Host) -> Finding:
    what = f"{host.distribution} {host.release}, {host.arch}, kernel {host.kernel}"
    return Finding(
        name="host", state="ok", detail=f"{what}; {host.cores} cores, {host.memory_mb} MB"
    )


def _engine(host: Host, runner: Runner, cache: Path, why: Sequence[Finding]) -> Iterable[Finding]:
    try:
        engine = apptainer.find(host.environ)
        found = capabilities.perform(cache, engine, host, runner)
    except (EngineError, BuildError) as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        yield Finding(name="engine", state="error", detail=detail, mend=error.next_step)
        return
    yield Finding(name="engine", state="ok", detail=f"{found.version} ({found.program})")
    for what, mode in (("build", found.build_mode), ("run", found.run_mode)):
        failed = [(k, v) for k, v in found.failures.items() if k.startswith(f"{what} ")]
        because = "; ".join(f"{name.split()[1]} failed: {said}" for name, said in failed)
        if mode is not None:
            detail = f"works in mode {mode}" + (f" ({because})" if because else "")
            yield Finding(name=what, state="ok", detail=detail)
        elif because:
            mend = _mend(what, because, why, host)
            yield Finding(name=what, state="error", detail=because, mend=mend)
        else:
            detail = "not tried: no tiny image could be made, neither built nor packed"
            mend = _setup("squashfs-tools", host)
            yield Finding(name=what, state="error", detail=detail, mend=mend)


def _base(host: Host, runner: Runner, why: Sequence[Finding]) -> Iterable[Finding]:
    program = find_program("mmdebstrap", host.environ)
    if program is None:
        # Where there is no apt there is nothing to install: it is done otherwise.
        here = find_program("apt-get", host.environ) is None
        detail = "not found; it makes the base of an image from a distribution's packages"
        mend = f"without it: {_WAYS}" if here else _setup("mmdebstrap", host)
        yield Finding(name="base", state="warning" if here else "error", detail=detail, mend=mend)
        return
    tried = base_modes.attempt(program, host, runner)
    because = "; ".join(f"{name} failed: {said}" for name, said in tried.failures.items())
    if tried.mode is None:
        mend = f"{_mend('base', because, why, host)}; without it: {_WAYS}"
        yield Finding(name="base", state="error", detail=because, mend=mend)
        return
    detail = f"can be made in mode {tried.mode.name}" + (f" ({because})" if because else "")
    yield Finding(name="base", state="ok", detail=detail)


def _setup(package: str, host: Host) -> str:
    return installation.helper(host.environ, package)


def _mend(what: str, said: str, why: Sequence[Finding], host: Host) -> str:
    """Name the causes with their lines: of this host, and of the answer itself."""
    flaws = [finding for finding in why if finding.state != "ok" and finding.mend]
    if what != "run":
        flaws = [flaw for flaw in flaws if flaw.name != causes.FUSE]  # only a run mounts images
    # Slow or small temporary files are there all the same.
    flaws = [flaw for flaw in flaws if flaw.name != causes.TEMPORARY or flaw.state == "error"]
    flaws = [flaw for flaw in flaws if flaw.name != causes.MEMORY]
    named = [f"{flaw.name}: {flaw.mend}" for flaw in flaws]
    for word, package in _MISSING.items():
        if word in said:
            line = installation.line(host.environ, package)
            named.append(f"{word.partition(':')[0]} is missing; an administrator types: {line}")
    named += [cause for word, cause in _SAID.items() if word in said]
    if named:
        return "; ".join(named)
    return "no known cause: show your site's support this answer"


def _helpers(host: Host) -> Iterable[Finding]:
    for name, (purpose, package) in HELPERS.items():
        path = find_program(name, host.environ)
        if path is None and name == "mmdebstrap":
            continue  # what that means is said of the base
        if path is not None:
            yield Finding(name=name, state="ok", detail=f"{path}: {purpose}")
        else:
            yield Finding(
                name=name,
                state="error",
                detail=f"not found; it {purpose}",
                mend=_setup(package, host),
            )


def _way_out(host: Host) -> Finding:
    names = [
        name for name in ("https_proxy", "http_proxy") if {name, name.upper()} & set(host.environ)
    ]
    # Names only: a proxy's address may hold a password.
    detail = (
        f"through a proxy ({', '.join(names)})" if names else "direct, no proxy variable is set"
    )
    return Finding(name="network", state="ok", detail=detail)


def _emulation(host: Host) -> Finding:
    others = [arch for arch in ARCHES if arch != host.arch]
    obstacles = {arch: emulation.obstacle(arch) for arch in others}
    runs = [arch for arch in others if obstacles[arch] is None]
    if runs == others:
        detail = f"programs for {' and '.join(others)} run here"
        return Finding(name="emulation", state="ok", detail=detail)
    why, cure = next(found for found in obstacles.values() if found is not None)
    return Finding(
        name="emulation",
        # No warning: who builds for this architecture never needs it.
        state="ok",
        detail=f"{', '.join(runs) or 'no other architecture'} can be built for here: {why}",
        mend=f"only for sites of another architecture; root types once: {cure}",
    )


def is_fit(findings: list[Finding]) -> bool:
    """Tell whether images can be built and run here."""
    return not any(finding.state == "error" for finding in findings)

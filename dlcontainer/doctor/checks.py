"""Doctor: what this user may build and run with here, why, and what to type to mend it."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlcontainer.config.field_types import ARCHES
from dlcontainer.doctor import oci
from dlcontainer.doctor.finding import Finding
from dlcontainer.engines import apptainer, base_modes, capabilities, emulation
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.machine import Host, find_program
from dlcontainer.system.process import Runner

# program -> (what for, package)
HELPERS = {
    "mmdebstrap": ("makes the base of an image", "mmdebstrap"),
    "mksquashfs": ("packs images", "squashfs-tools"),
    "unsquashfs": ("unpacks the base", "squashfs-tools"),
}
_SMALL_TMP_MB = 5000
_SMALL_MEMORY_MB = 4000


def examine(host: Host, runner: Runner, cache: Path) -> list[Finding]:
    """Look at all that building and running needs; the engine is really tried."""
    causes = [_namespaces(host), _subordinate_ids(host), _fuse(host), *_space(host)]
    findings = [_host(host), *_engine(host, runner, cache, causes), *_helpers(host)]
    findings += [*_base(host, runner, causes), *causes]
    findings += [_memory(), _way_out(host), _emulation(host), *oci.examine(host)]
    return findings


def _host(host: Host) -> Finding:
    what = f"{host.distribution} {host.release}, {host.arch}, kernel {host.kernel}"
    return Finding(
        name="host", state="ok", detail=f"{what}; {host.cores} cores, {host.memory_mb} MB"
    )


def _engine(
    host: Host, runner: Runner, cache: Path, causes: Sequence[Finding]
) -> Iterable[Finding]:
    try:
        engine = apptainer.find(host.environ)
        found = capabilities.perform(cache, engine, host, runner)
    except EngineError as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        yield Finding(name="engine", state="bad", detail=detail, mend=error.next_step)
        return
    yield Finding(name="engine", state="ok", detail=f"{found.version} ({found.program})")
    for what, mode in (("build", found.build_mode), ("run", found.run_mode)):
        failed = [(k, v) for k, v in found.failures.items() if k.startswith(f"{what} ")]
        because = "; ".join(f"{name.split()[1]} failed: {said}" for name, said in failed)
        if mode is not None:
            detail = f"works in mode {mode}" + (f" ({because})" if because else "")
            yield Finding(name=what, state="ok", detail=detail)
        elif because:
            yield Finding(name=what, state="bad", detail=because, mend=_mend(what, causes))
        else:
            detail = "not tried: it needs an image that could not be built"
            yield Finding(name=what, state="bad", detail=detail, mend="see build, above")


def _base(host: Host, runner: Runner, causes: Sequence[Finding]) -> Iterable[Finding]:
    program = find_program("mmdebstrap", host.environ)
    if program is None:
        return
    tried = base_modes.attempt(program, host, runner)
    because = "; ".join(f"{name} failed: {said}" for name, said in tried.failures.items())
    if tried.mode is None:
        yield Finding(name="base", state="bad", detail=because, mend=_mend("base", causes))
        return
    detail = f"can be made in mode {tried.mode.name}" + (f" ({because})" if because else "")
    yield Finding(name="base", state="ok", detail=detail)


def _mend(what: str, causes: Sequence[Finding]) -> str:
    """Name the lines that can be the cause, and no others."""
    flaws = {finding.name: finding.state for finding in causes if finding.state != "ok"}
    if what != "run":
        flaws.pop("/dev/fuse", None)  # only images that run are mounted
    if flaws.get("temporary files") == "poor":
        del flaws["temporary files"]  # slow or small, and there
    names = list(flaws)
    if names:
        return f"see below: {', '.join(names)}"
    return "no line below explains it: show your site's support what was said here"


def _helpers(host: Host) -> Iterable[Finding]:
    for name, (purpose, package) in HELPERS.items():
        path = find_program(name, host.environ)
        if path is not None:
            yield Finding(name=name, state="ok", detail=f"{path}: {purpose}")
        else:
            yield Finding(
                name=name,
                state="bad",
                detail=f"not found; it {purpose}",
                mend=f"make setup (no root needed), or: sudo apt-get install {package}",
            )


def _namespaces(host: Host) -> Finding:
    def number(path: str) -> int | None:
        try:
            return int(Path(path).read_text())
        except (OSError, ValueError):
            return None

    most = number("/proc/sys/user/max_user_namespaces")
    clone = number("/proc/sys/kernel/unprivileged_userns_clone")
    apparmor = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if most == 0:
        mend = "an administrator types: sysctl user.max_user_namespaces=15000"
        return Finding(
            name="user namespaces", state="bad", detail="the kernel allows none", mend=mend
        )
    if host.uid != 0 and clone == 0:
        mend = "an administrator types: sysctl kernel.unprivileged_userns_clone=1"
        return Finding(name="user namespaces", state="bad", detail="only for root", mend=mend)
    if host.uid != 0 and apparmor == 1:
        return Finding(
            name="user namespaces",
            state="poor",
            detail="AppArmor lets only programs with a profile make them",
            mend="use the distribution's apptainer package, which brings its profile",
        )
    return Finding(name="user namespaces", state="ok", detail=f"up to {most}")


def _subordinate_ids(host: Host) -> Finding:
    # What is lost without them: docs/building.md.
    lost = "builds map one user, and all files of an image belong to root"
    missing, programs = machine.without_subordinate_ids(host), machine.without_id_maps(host)
    if missing:
        why = f"{host.user} has no line in {' and '.join(missing)}"
        mend = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {host.user}"
    elif programs:
        why = f"lines for {host.user}, but no {' and no '.join(programs)}"
        mend = "apt-get install uidmap"
    else:
        return Finding(name="subordinate ids", state="ok", detail="in /etc/subuid and /etc/subgid")
    return Finding(
        name="subordinate ids",
        state="poor",
        detail=f"{why}: {lost}",
        mend=f"an administrator types: {mend}",
    )


def _fuse(host: Host) -> Finding:
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        return Finding(name="/dev/fuse", state="ok", detail="readable and writable")
    return Finding(
        name="/dev/fuse",
        state="poor",
        detail=f"{host.user} can't open it: images are unpacked for each run instead of mounted",
        mend="an administrator types: chmod 0666 /dev/fuse",
    )


def _space(host: Host) -> Iterable[Finding]:
    tmp = Path(host.environ.get("TMPDIR") or tempfile.gettempdir())
    mount, free = machine.mount_of(tmp), machine.free_mb(tmp)
    detail = f"{tmp}: {free} MB free on {mount.kind}"
    if "noexec" in mount.options:
        mend = "give another folder: --tmpdir, or engine.tmpdir in the site config"
        yield Finding(name="temporary files", state="bad", detail=f"{detail}, noexec", mend=mend)
    elif mount.is_network or free < _SMALL_TMP_MB:
        mend = "give a roomy node-local folder: --tmpdir, or engine.tmpdir in the site config"
        yield Finding(name="temporary files", state="poor", detail=detail, mend=mend)
    else:
        yield Finding(name="temporary files", state="ok", detail=detail)


def _memory() -> Finding:
    limit = machine.cgroup_memory_mb()
    if limit is not None and limit < _SMALL_MEMORY_MB:
        return Finding(
            name="memory limit",
            state="poor",
            detail=f"this login may use {limit} MB; packing an image may be killed",
            mend="build inside a job, where the limit is the job's own",
        )
    return Finding(name="memory limit", state="ok", detail=f"{limit} MB" if limit else "none")


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
        # Not poor: who builds for this architecture never needs it.
        state="ok",
        detail=f"{', '.join(runs) or 'no other architecture'} can be built for here: {why}",
        mend=f"only for sites of another architecture; root types once: {cure}",
    )


def is_fit(findings: list[Finding]) -> bool:
    """Tell whether images can be built and run here."""
    return not any(finding.state == "bad" for finding in findings)

"""What of this host decides whether an engine works: kernel, ids, /dev/fuse, space, memory."""

import os
import stat
from pathlib import Path

from dlcontainer import installation
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.engines import apptainer, unknown_user
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine

NAMESPACES, FUSE = "user namespaces", "/dev/fuse"
TEMPORARY, MEMORY, USER = "temporary files", "memory limit", "user"
_SMALL_TMP_MB = 5000
# Packing PyTorch's image beside a session's other programs; a limit of 4 GiB is below it.
_SMALL_MEMORY_MB = 4500
_SYSCTL = Path("/proc/sys")


def examine(host: HostMachine, note: str | None = None) -> list[DoctorFinding]:
    """Look at what may keep an engine from building or running here.

    `note` says why a TMPDIR that is set counts as not set.
    """
    who = [_passwd(host), _namespaces(host), _subordinate_ids(host)]
    return [*who, _fuse(host), _space(host, note), _memory(host)]


def _passwd(host: HostMachine) -> DoctorFinding:
    if not unknown_user.is_unknown(host):
        return DoctorFinding(name=USER, state="ok", detail=host.user)
    detail = f"{unknown_user.WHY}: {host.uid}"
    return DoctorFinding(name=USER, state="error", detail=detail, mend=unknown_user.NEXT_STEP)


def _number(name: str) -> int | None:
    try:
        return int((_SYSCTL / name).read_text())
    except (OSError, ValueError):
        return None


def _namespaces(host: HostMachine) -> DoctorFinding:
    most = _number("user/max_user_namespaces")
    if most == 0:
        return _none_allowed(host)
    if host.uid != 0 and _number("kernel/unprivileged_userns_clone") == 0:
        mend = "an administrator types: sysctl kernel.unprivileged_userns_clone=1"
        return DoctorFinding(name=NAMESPACES, state="error", detail="only for root", mend=mend)
    if host.uid != 0 and _number("kernel/apparmor_restrict_unprivileged_userns") == 1:
        return _with_profile(host)
    return DoctorFinding(name=NAMESPACES, state="ok", detail=f"up to {most}")


def _none_allowed(host: HostMachine) -> DoctorFinding:
    mend = "an administrator types: sysctl user.max_user_namespaces=15000"
    if _starter(host, "starter-suid", setuid=True) is None:
        detail = "the kernel allows none (user.max_user_namespaces is 0)"
        return DoctorFinding(name=NAMESPACES, state="error", detail=detail, mend=mend)
    detail = (
        "the kernel allows none (user.max_user_namespaces is 0); the engine's setuid program "
        "can still run images, but cannot build them"
    )
    step = f"{mend}; or build on another machine"
    return DoctorFinding(name=NAMESPACES, state="warning", detail=detail, mend=step)


def _with_profile(host: HostMachine) -> DoctorFinding:
    """AppArmor of Ubuntu 23.10 and newer: only a program with a profile has rights in its own.

    Sources: apptainer.org/docs/admin/main/installation.html, "Apparmor Profile (Ubuntu 23.10+)";
    ubuntu.com/blog/ubuntu-23-10-restricted-unprivileged-user-namespaces.
    """
    starter = _starter(host, "starter", setuid=False) or "/usr/libexec/apptainer/bin/starter"
    profile = f"profile apptainer {starter}{{,-suid}} flags=(unconfined) {{ userns, }}"
    mend = (
        "an administrator writes /etc/apparmor.d/apptainer with the lines `abi <abi/4.0>,` "
        f"and `{profile}`, and types: systemctl reload apparmor. This allows the engine "
        "only. To let users make bases too (mmdebstrap, unshare), type instead: sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0"
    )
    detail = "AppArmor allows them only to programs with a profile (Ubuntu 23.10 and newer)"
    return DoctorFinding(name=NAMESPACES, state="warning", detail=detail, mend=mend)


def _starter(host: HostMachine, name: str, *, setuid: bool) -> Path | None:
    """Find the engine's own helper below its prefix; with `setuid`, one that is root's."""
    try:
        program = apptainer.find(host.environ).program.resolve()
    except EngineError:
        return None
    prefix = program.parent.parent
    engines = ("apptainer", "singularity")
    patterns = [f"{lib}/{engine}/bin/{name}" for lib in ("libexec", "lib") for engine in engines]
    patterns += [f"lib/*/{engine}/bin/{name}" for engine in engines]
    for path in (path for pattern in patterns for path in sorted(prefix.glob(pattern))):
        info = path.stat()
        if not setuid or (info.st_uid == 0 and info.st_mode & stat.S_ISUID):
            return path
    return None


def _subordinate_ids(host: HostMachine) -> DoctorFinding:
    # What is lost without them: docs/image/building.md.
    lost = "builds map one user only, so all files of an image belong to root"
    missing, programs = machine.without_subordinate_ids(host), machine.without_id_maps(host)
    if missing:
        why = f"{host.user} has no line in {' and '.join(missing)}"
        mend = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {host.user}"
    elif programs:
        why = f"{host.user} has lines, but there is no {' and no '.join(programs)}"
        mend = installation.line(host.environ, "uidmap")
    else:
        return DoctorFinding(
            name="subordinate ids", state="ok", detail="found in /etc/subuid and /etc/subgid"
        )
    return DoctorFinding(
        name="subordinate ids",
        state="warning",
        detail=f"{why}: {lost}",
        mend=f"an administrator types: {mend}",
    )


def _fuse(host: HostMachine) -> DoctorFinding:
    if os.access("/dev/fuse", os.R_OK | os.W_OK):
        return DoctorFinding(name=FUSE, state="ok", detail="readable and writable")
    is_there = Path("/dev/fuse").exists()
    return DoctorFinding(
        name=FUSE,
        state="warning",
        detail=f"{host.user} cannot open it: the engine unpacks an image for each run "
        "instead of mounting it",
        mend=f"an administrator types: {'chmod 0666 /dev/fuse' if is_there else 'modprobe fuse'}",
    )


def _space(host: HostMachine, note: str | None) -> DoctorFinding:
    tmp = variables.temporary(host.environ)
    mount, free = machine.mount_of(tmp), machine.free_mb(tmp)
    detail = f"{tmp}: {free} MB free on {mount.kind}"
    local = f"export TMPDIR=/var/tmp (or another local folder with {_SMALL_TMP_MB} MB free)"
    mend = f"{local}; for one build use --tmpdir, for a site engine.tmpdir"
    if note is not None:
        return DoctorFinding(name=TEMPORARY, state="warning", detail=note, mend=mend)
    if "noexec" in mount.options:
        detail = f"{detail}, mounted noexec: programs of an image cannot start there"
        return DoctorFinding(name=TEMPORARY, state="error", detail=detail, mend=mend)
    if mount.is_network:
        detail = (
            f"{detail}, a network file system: it is slow, and cannot hold files of subordinate ids"
        )
        return DoctorFinding(name=TEMPORARY, state="warning", detail=detail, mend=mend)
    if free < _SMALL_TMP_MB:
        return DoctorFinding(name=TEMPORARY, state="warning", detail=detail, mend=mend)
    return DoctorFinding(name=TEMPORARY, state="ok", detail=detail)


def _memory(host: HostMachine) -> DoctorFinding:
    limit = machine.cgroup_memory_mb()
    if limit is not None and limit < _SMALL_MEMORY_MB:
        return DoctorFinding(
            name=MEMORY,
            state="warning",
            detail=f"this login may use {limit} MB of memory; the kernel may kill the "
            "packing of an image",
            mend="build inside a job, which has its own limit; or an administrator types: "
            f"systemctl set-property user-{host.uid}.slice MemoryMax=16G",
        )
    return DoctorFinding(name=MEMORY, state="ok", detail=f"{limit} MB" if limit else "none")

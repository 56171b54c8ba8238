"""What Docker and Podman lack here; neither is needed where a site builds with Apptainer."""

import os
from collections.abc import Iterator
from pathlib import Path

from dlcontainer import installation
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.engines import oci_socket
from dlcontainer.engines.engine import EngineKind
from dlcontainer.engines.oci import OCI_KINDS, Daemon, OciKind
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine, find_program

_SLOW_DRIVER = "vfs"
_TUN = Path("/dev/net/tun")
# Source: docs.podman.io/en/latest/markdown/podman.1.html, "Note: Unsupported file systems in
# rootless mode" (NFS, parallel file systems); containers-storage.conf(5).
_STORAGE = '[storage] driver = "overlay", graphroot = "/tmp/USER/containers" (a local disk)'


def examine(host: HostMachine, meant: EngineKind = "apptainer") -> list[DoctorFinding]:
    """Look at both engines: is one here, does it answer, where and how does it keep images.

    Of one that is not meant a line is enough, and nothing of it is a flaw.
    """
    findings = []
    for kind in OCI_KINDS:
        about = list(_engine(kind, host))
        findings += about if kind == meant else [_unused(about[0])]
    return findings


def _unused(finding: DoctorFinding) -> DoctorFinding:
    if finding.state == "ok":
        return finding
    detail = f"not used; `dlcontainer doctor --engine {finding.name}` checks it"
    return DoctorFinding(name=finding.name, state="ok", detail=detail)


def _engine(kind: OciKind, host: HostMachine) -> Iterator[DoctorFinding]:
    try:
        client = oci_socket.connect(kind, host.environ, host.uid)
    except EngineError as error:
        if find_program(kind, host.environ) is None:
            detail = f"not found; builds with --engine {kind} need it"
            yield DoctorFinding(name=kind, state="error", detail=detail, mend=error.next_step)
        else:
            detail = f"{error.what}: {error.why}" if error.why else error.what
            yield DoctorFinding(name=kind, state="error", detail=detail, mend=error.next_step)
            if kind == "docker" and host.uid != 0:
                yield from _tun(host)
            if kind == "podman":
                yield from _id_maps(host)
                yield from _storage(kind, _home_storage(host), "unknown")
        return
    daemon = client.daemon
    client.close()
    rights = "without root" if daemon.rootless else f"as {daemon.owner}"
    detail = f"{daemon.version} at {daemon.socket}, {rights}; images in {daemon.storage} "
    yield DoctorFinding(name=kind, state="ok", detail=f"{detail}({daemon.storage_driver})")
    yield from _rootless(daemon, host)
    yield from _storage(kind, daemon.storage, daemon.storage_driver)


def _id_maps(host: HostMachine) -> Iterator[DoctorFinding]:
    """Without root Podman takes its ids through two setuid programs; it says so late."""
    if host.uid != 0 and find_program("newuidmap", host.environ) is None:
        yield DoctorFinding(
            name="podman ids",
            state="warning",
            detail="no newuidmap: all files of an image have one owner",
            mend=f"an administrator types: {installation.line(host.environ, 'uidmap')}",
        )
    elif machine.without_subordinate_ids(host):
        yield _no_ids("podman", host)


def _tun(host: HostMachine) -> Iterator[DoctorFinding]:
    """Docker of an ordinary user has a network of its own, through slirp4netns; its own mode for
    the host's network starts no container (tried with Docker 20.10).
    """
    if not os.access(_TUN, os.R_OK | os.W_OK):
        yield DoctorFinding(
            name="docker network",
            state="warning",
            detail=f"{host.user} cannot open {_TUN}, which rootless Docker needs (slirp4netns)",
            mend=f"an administrator types: chmod 0666 {_TUN}",
        )


def _rootless(daemon: Daemon, host: HostMachine) -> Iterator[DoctorFinding]:
    if daemon.rootless and machine.without_subordinate_ids(host):
        yield _no_ids(daemon.kind, host)


def _no_ids(kind: OciKind, host: HostMachine) -> DoctorFinding:
    again = "podman system migrate" if kind == "podman" else "systemctl --user restart docker"
    return DoctorFinding(
        name=f"{kind} ids",
        state="warning",
        detail=f"{host.user} has no subordinate ids: all files of an image have one owner",
        mend="an administrator types: usermod --add-subuids 100000-165535 --add-subgids "
        f"100000-165535 {host.user}; then you: {again}",
    )


def _storage(kind: OciKind, folder: Path, driver: str) -> Iterator[DoctorFinding]:
    mount = machine.mount_of(folder)
    place = "~/.config/containers/storage.conf" if kind == "podman" else "daemon.json: data-root"
    if mount.is_network:
        yield DoctorFinding(
            name=f"{kind} storage",
            state="warning",
            detail=f"{folder} is on {mount.kind}, which cannot hold files of subordinate ids",
            mend=f"write in {place}: {_STORAGE}"
            if kind == "podman"
            else f"set {place} to a folder on a local disk",
        )
    elif driver == _SLOW_DRIVER:
        yield DoctorFinding(
            name=f"{kind} storage",
            state="warning",
            detail=f"the storage driver {driver} copies the whole tree for every step",
            mend=f'install fuse-overlayfs, and write in {place}: [storage] driver = "overlay"'
            if kind == "podman"
            else "ask the administrator to set the storage driver overlay2",
        )


def _home_storage(host: HostMachine) -> Path:
    if host.uid == 0:
        return Path("/var/lib/containers/storage")
    data = variables.folder(host.environ, "XDG_DATA_HOME")
    return (data or host.home / ".local/share") / "containers/storage"

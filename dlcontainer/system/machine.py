"""Facts about this machine, from files, os.confstr and PATH: no process is started."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.system import guarded_files, private_engine
from dlcontainer.system.environ import variables

# Kinds of /proc/mounts on which a build's many small writes are slow or whose ids do not map.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "nfs",
        "nfs4",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "cifs",
        "afs",
        "fuse.sshfs",
        "pvfs2",
        "panfs",
    }
)

_MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMachine:
    """This machine and this user, as far as files tell."""

    arch: str
    distribution: str | None
    release: str | None
    glibc: str | None
    kernel: str
    cpu_model: str
    cores: int
    memory_mb: int
    uid: int
    user: str
    home: Path
    environ: Mapping[str, str]
    # Debian's list of what is installed; None on a host of another family
    dpkg_status: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MountPoint:
    """The mount a path lies on."""

    point: Path
    kind: str
    options: frozenset[str]

    @property
    def is_network(self) -> bool:
        """Whether the file system is a network or parallel one."""
        return self.kind in NETWORK_FILE_SYSTEMS


def read_host(environ: Mapping[str, str], *, root: Path = Path("/")) -> HostMachine:
    """Read this machine's facts; `root` is another tree in tests."""
    release = _os_release(root)
    status = root / "var/lib/dpkg/status"
    return HostMachine(
        arch=platform.machine(),
        distribution=release.get("ID"),
        release=release.get("VERSION_CODENAME") or release.get("VERSION_ID"),
        glibc=_glibc(),
        kernel=platform.release(),
        cpu_model=_cpu_model(root),
        cores=len(os.sched_getaffinity(0)),
        memory_mb=_meminfo_mb(root, "MemTotal"),
        uid=os.getuid(),
        user=guarded_files.name_of(os.getuid()),
        home=variables.home(environ),
        environ=environ,
        dpkg_status=status if status.is_file() else None,
    )


def missing_packages(names: Iterable[str], host: HostMachine) -> list[str]:
    """Name the packages that a host of Debian's family has not installed, as dpkg-query tells."""
    if host.dpkg_status is None:
        return []
    info = host.dpkg_status.stat()
    return sorted(set(names) - _installed(host.dpkg_status, info.st_size, info.st_mtime_ns))


# Each plan asks, and the file is one of a thousand packages; a change of it is seen.
@lru_cache(maxsize=4)
def _installed(status: Path, _size: int, _mtime_ns: int) -> frozenset[str]:
    # The one line of both that dpkg-query prints; the rest of a stanza is long.
    fields = re.compile(r"^(Package|Status): *(.*?) *$", re.MULTILINE)
    installed = set()
    for stanza in status.read_text(errors="replace").split("\n\n"):
        if " ok installed" in stanza:
            stanza_fields = dict(fields.findall(stanza))
            if stanza_fields.get("Status", "").endswith(" ok installed"):
                installed.add(stanza_fields.get("Package", ""))
    return frozenset(installed)


def without_subordinate_ids(host: HostMachine) -> list[str]:
    """Name the files of /etc/subuid and /etc/subgid that give this user no ids."""
    return [name for name in ("/etc/subuid", "/etc/subgid") if not _has_range(name, host)]


def without_id_maps(host: HostMachine) -> list[str]:
    """Name the programs that are missing of those that map a user's subordinate ids."""
    names = ("newuidmap", "newgidmap")
    return [name for name in names if find_program(name, host.environ) is None]


def maps_one_id(host: HostMachine) -> bool:
    """Return whether a user namespace of this user's can hold one id alone, and no range."""
    return host.uid != 0 and bool(without_subordinate_ids(host) or without_id_maps(host))


def _has_range(name: str, host: HostMachine) -> bool:
    try:
        lines = Path(name).read_text().splitlines()
    except OSError:
        return False
    return any(line.split(":")[0] in {host.user, str(host.uid)} for line in lines)


def absolute_folders(path: str) -> list[str]:
    """Return the folders of a PATH; a relative or empty one is the current folder's, so
    anybody's.
    """
    return [part for part in path.split(os.pathsep) if part.startswith("/")]


# Names of variables that hold a secret, by the words that their makers use; and those that an
# engine would put into an image.
_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|api_?key|access_key|private_key|ssh_auth_sock"
    r"|^apptainer|^singularity",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"://[^/\s@]+@")


def for_children(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our own children: no secret of the user's, no relative PATH.

    What goes out (pip, apt, an engine) is given its proxy or index by the call that starts it.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not (_SECRET_NAME.search(name) or _USERINFO.search(value))
    }
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(absolute_folders(kept["PATH"]))
    return kept


def find_program(name: str, environ: Mapping[str, str]) -> Path | None:
    """Find a program on PATH, else among the private tools.

    `make setup` puts these beside this Python, `dlcontainer setup engine` into the user's own
    folder.
    """
    folders = absolute_folders(environ.get("PATH", ""))
    for folder in [*folders, str(Path(sys.executable).parent)]:
        path = Path(folder) / name
        if _runs(path):
            return path
    private = private_engine.programs_folder(environ)
    return private / name if private is not None and _runs(private / name) else None


def _runs(path: Path) -> bool:
    # First: is_file raises where a folder on PATH may not be entered (another user's home).
    return os.access(path, os.X_OK) and path.is_file()


def source_date(environ: Mapping[str, str]) -> int | None:
    """Return SOURCE_DATE_EPOCH, s since 1970: the latest time that anything in an image has.

    Raises ConfigError for what is no such number. Source:
    reproducible-builds.org/specs/source-date-epoch.
    """
    epoch = variables.text(environ, "SOURCE_DATE_EPOCH")
    if epoch is None:
        return None
    # SquashFS keeps times as 32 bits.
    if not epoch.isascii() or not epoch.isdecimal() or int(epoch) >= 2**32:
        raise ConfigError(
            f"SOURCE_DATE_EPOCH={epoch!r} is not a time",
            why="the value must be a number of seconds since 1970",
            next_step="export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct), or unset it",
        )
    return int(epoch)


def mount_of(path: Path, *, mounts: Path = _MOUNTS) -> MountPoint:
    """Return which mount a path lies on; the path may not exist yet."""
    resolved = Path(os.path.realpath(path))
    best = MountPoint(point=Path("/"), kind="unknown", options=frozenset())
    for mount in _listed(mounts):
        # A later line covers an earlier one at the same point.
        if resolved.is_relative_to(mount.point) and len(mount.point.parts) >= len(best.point.parts):
            best = mount
    return best


def mounts_below(path: Path, *, mounts: Path = _MOUNTS) -> list[MountPoint]:
    """Return what is mounted at or below a path without links, the last mounted first.

    Only the list is read: to touch a mount is to wait for its server, which may be gone.
    """
    return [mount for mount in reversed(_listed(mounts)) if mount.point.is_relative_to(path)]


def _listed(mounts: Path) -> list[MountPoint]:
    listed = []
    # Not splitlines: the kernel escapes line feeds in a name, and nothing else that it splits at.
    for line in mounts.read_text(errors="surrogateescape").split("\n")[:-1]:
        _, point, kind, options, *_ = line.split(" ")
        split = frozenset(options.split(","))
        listed.append(MountPoint(point=Path(_unescape(point)), kind=kind, options=split))
    return listed


def free_mb(path: Path) -> int:
    """Free space for this user, MB, at the nearest existing folder above a path."""
    folder = path
    while not folder.exists():
        folder = folder.parent
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize // 1_000_000


def available_memory_mb(root: Path = Path("/")) -> int:
    """Memory that is available without swapping, MB."""
    return _meminfo_mb(root, "MemAvailable")


def cgroup_memory_mb(root: Path = Path("/")) -> int | None:
    """Least memory limit of this process's cgroup (v2) and those around it, MB; None without one.

    A login's limit stands at its user's slice, above the session's own cgroup.
    """
    group = _cgroup(root)
    limits = []
    for folder in (group, *group.parents) if group else ():
        try:
            text = (folder / "memory.max").read_text().strip()
        except OSError:
            continue
        limits += [int(text)] if text.isdigit() else []
    return min(limits) // 1_000_000 if limits else None


def cgroup_oom_kills(root: Path = Path("/")) -> int:
    """Processes of this process's cgroup (v2) that the kernel ended for want of memory so far."""
    for line in (_cgroup_file("memory.events", root) or "").splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.isdigit():
            return int(number)
    return 0


def _cgroup(root: Path) -> Path | None:
    try:
        line = next(
            line
            for line in (root / "proc/self/cgroup").read_text().splitlines()
            if line.startswith("0::")
        )
    except (OSError, StopIteration):
        return None
    return root / "sys/fs/cgroup" / line[4:].lstrip("/")


def _cgroup_file(name: str, root: Path) -> str | None:
    group = _cgroup(root)
    try:
        return (group / name).read_text().strip() if group else None
    except OSError:
        return None


def _unescape(text: str) -> str:
    # /proc/mounts writes space, tab, newline and backslash as \ooo.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _os_release(root: Path) -> dict[str, str]:
    for name in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = (root / name).read_text(errors="replace")
        except OSError:
            continue
        pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
        return {key: value.strip("\"'") for key, value in pairs}
    return {}


def _glibc() -> str | None:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None
    return text.split()[-1] if text else None


def _cpu_model(root: Path) -> str:
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.machine()
    match = re.search(r"^(?:model name|cpu|CPU part)\s*:\s*(.+)$", text, re.MULTILINE)
    return " ".join(match[1].split()) if match else platform.machine()


def _meminfo_mb(root: Path, name: str) -> int:
    text = (root / "proc/meminfo").read_text(errors="replace")
    match = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    if not match:
        raise ConfigError(
            f"/proc/meminfo has no {name}",
            next_step="report this fault with the kernel's version (`uname -r`)",
        )
    return int(match[1]) * 1024 // 1_000_000

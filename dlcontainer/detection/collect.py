"""What a node says of itself, as raw texts: JSON on standard output. Standard library, Python >= 3.6.

It runs alone, on nodes without dlcontainer too, and judges nothing. Of the environment it takes the
variables that are named here, of proxies their names alone. Each file, folder and program has a
bound, and all programs together have a deadline.
"""

import ctypes
import glob
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

MARK = "dlcontainer-evidence "
VERSION = 1
MOST_FILE, MOST_FILES, MOST_NAMES, MOST_ANSWER = 65536, 4096, 512, 131072
COMMAND_S, ALL_COMMANDS_S = 10.0, 90.0

FILES = (
    "/etc/os-release",
    "/usr/lib/os-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/mounts",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/gpus/*/information",
    "/proc/net/if_inet6",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
    "/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list",
    "/sys/devices/system/node/online",
    "/sys/module/amdgpu/version",
    "/sys/class/kfd/kfd/topology/nodes/*/properties",
    "/sys/class/kfd/kfd/topology/nodes/*/mem_banks/*/properties",
    "/sys/class/drm/card[0-9]*/device/product_name",
    "/sys/bus/pci/devices/*/class",
    "/sys/bus/pci/devices/*/vendor",
    "/sys/bus/pci/devices/*/device",
    "/sys/class/infiniband/*/hca_type",
    "/sys/class/infiniband/*/ports/*/state",
    "/sys/class/infiniband/*/ports/*/rate",
    "/sys/class/infiniband/*/ports/*/link_layer",
    "/sys/class/net/*/operstate",
    "/sys/class/net/*/speed",
    "/sys/fs/selinux/enforce",
    "/sys/fs/cgroup/cgroup.controllers",
)
LINKS = (
    "/sys/class/infiniband/*/device/driver",
    "/sys/class/net/*/device/driver",
    "/sys/bus/pci/devices/*/driver",
)
FOLDERS = (
    "/",
    "/dev",
    "/sys/class/cxi",
    "/sys/class/infiniband",
    "/sys/class/net",
    "/opt/cray/pe/cray-mpich",
)
# Versions alone are asked for: no program changes anything, none opens a window or the network but
# a scheduler's, which asks its own server.
COMMANDS = (
    ("nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits"),
    ("nvidia-smi",),
    ("ldconfig", "-p"),
    ("mpirun", "--version"),
    ("mpichversion",),
    ("fi_info", "--version"),
    ("ucx_info", "-v"),
    ("sinfo", "--version"),
    ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%c|%m|%G"),
    ("qstat", "--version"),
    ("qstat", "-Q"),
    ("qstat", "-help"),
    ("qconf", "-sql"),
    ("qconf", "-spl"),
    ("bsub", "-V"),
    ("bqueues", "-w"),
    ("flux", "--version"),
    ("apptainer", "--version"),
    ("singularity", "--version"),
    ("podman", "--version"),
    ("docker", "--version"),
    ("podman-hpc", "--version"),
    ("shifter", "--version"),
    ("enroot", "version"),
    ("ch-run", "--version"),
    ("sarus", "--version"),
    ("modulecmd", "--version"),
)
PROGRAMS = (
    *("sbatch", "srun", "qsub", "bsub", "flux", "mpiexec", "mpirun", "mpicc", "jsrun", "aprun"),
    *("fusermount3", "fusermount", "squashfuse", "squashfuse_ll", "fuse2fs", "fuse-overlayfs"),
    *("newuidmap", "newgidmap", "mksquashfs", "unsquashfs", "gcc", "python3", "nvidia-container-cli"),
)
VARIABLES = (
    *("MODULEPATH", "LOADEDMODULES", "LMOD_VERSION", "LMOD_CMD", "MODULES_CMD", "MODULESHOME"),
    *("MODULE_VERSION", "CRAY_MPICH_VERSION", "HOME", "TMPDIR"),
    *("SCRATCH", "PSCRATCH", "WORK", "PROJECT", "CSCRATCH", "LOCAL_SCRATCH", "SCRATCHDIR"),
)
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
DISKS = ("/tmp", "/var/tmp", "/dev/shm")
# Where a setuid starter lies beside its engine: below the prefix of the program.
STARTERS = (
    "libexec/*/bin/starter-suid",
    "lib/*/bin/starter-suid",
    "lib/*/*/bin/starter-suid",
)
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000


def text_of(path, most=MOST_FILE):
    """Read the start of a regular file; None where it can't be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if not os.path.isfile(path):
            return None
        parts = b""
        while len(parts) < most:
            block = os.read(number, most - len(parts))
            if not block:
                break
            parts += block
        return parts.decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(number)


def files(root=""):
    """Read the files, by their paths below the root."""
    texts = {}
    for pattern in FILES:
        for path in sorted(glob.glob(root + pattern))[:MOST_FILES]:
            text = text_of(path)
            if text is not None:
                texts[path[len(root) :]] = text
    return texts


def links(root=""):
    """Name the last part of what each link leads to: a device's driver."""
    targets = {}
    for pattern in LINKS:
        for path in sorted(glob.glob(root + pattern))[:MOST_FILES]:
            try:
                targets[path[len(root) :]] = os.path.basename(os.readlink(path))
            except OSError:
                pass
    return targets


def folders(root="", more=()):
    """List folders, what is in them never touched."""
    listed = {}
    for path in FOLDERS + tuple(more):
        try:
            listed[path] = sorted(os.listdir(root + path))[:MOST_NAMES]
        except OSError:
            pass
    return listed


def program(name):
    """Find a program on the absolute folders of PATH; of ldconfig in its own too."""
    parts = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/")]
    if name in ("ldconfig", "modulecmd"):
        parts += ["/usr/sbin", "/sbin"]
    return shutil.which(name, path=":".join(parts)) if parts else None


def answer(argv, limit):
    """Run a program, and take what it says until the limit, s: both streams, its exit code."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return {"error": error.strerror or "it does not start"}
    deadline, output, ended = time.monotonic() + limit, b"", False
    try:
        while len(output) < MOST_ANSWER and not ended:
            rest_s = deadline - time.monotonic()
            if rest_s <= 0 or not select.select([process.stdout], [], [], rest_s)[0]:
                return {"error": "no answer within {:.0f} s".format(limit)}
            block = os.read(process.stdout.fileno(), 65536)
            output, ended = output + block, not block
        while ended and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return {"code": process.poll(), "out": output[:MOST_ANSWER].decode("utf-8", "replace")}
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.stdout.close()
        process.wait()


def commands():
    """Ask the programs that are here, until all of them together took too long."""
    answers, end = {}, time.monotonic() + ALL_COMMANDS_S
    for argv in COMMANDS:
        path = program(argv[0])
        if path is None:
            continue
        rest_s = min(COMMAND_S, end - time.monotonic())
        answers[" ".join(argv)] = (
            answer([path] + list(argv[1:]), rest_s) if rest_s > 0 else {"error": "not asked: late"}
        )
    return answers


def starters(programs):
    """Name the setuid starters that are root's, below the engines' prefixes."""
    paths = []
    for name in ("apptainer", "singularity"):
        where = programs.get(name)
        if where is None:
            continue
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(where)))
        for pattern in STARTERS:
            for path in sorted(glob.glob(os.path.join(prefix, pattern))):
                try:
                    info = os.stat(path)
                except OSError:
                    continue
                if info.st_uid == 0 and info.st_mode & 0o4000 and path not in paths:
                    paths.append(path)
    return paths


def namespaces():
    """Try a user namespace with a mount namespace in it, in a child: the error's number, or 0."""
    try:
        child = os.fork()
    except OSError as error:
        return error.errno
    if child == 0:
        code = 255
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            done = libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS)
            code = 0 if done == 0 else ctypes.get_errno()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 255


def library(names, listed):
    """Find a library by ldconfig's list; its path, and None where it is not in it."""
    for line in listed.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] in names and os.path.isfile(path):
            return path
    return None


def versions(path, word, most=32 * 1024 * 1024):
    """List the symbol versions WORD_N that stand in a library."""
    try:
        with open(path, "rb") as file:
            inside = file.read(most)
    except OSError:
        return []
    pattern = re.compile(word.encode() + rb"_([0-9]+(?:\.[0-9]+)+)\0")
    return sorted({match.decode() for match in pattern.findall(inside)})


def addresses():
    """Tell the kinds of each interface's IPv4 address; no address leaves the node."""
    import fcntl
    import ipaddress

    kinds = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                raw = fcntl.ioctl(door.fileno(), 0x8915, request)[20:24]  # SIOCGIFADDR
            except OSError:
                continue
            address = ipaddress.ip_address(raw)
            kinds[name] = (
                "loopback" if address.is_loopback
                else "link-local" if address.is_link_local
                else "private" if address.is_private
                else "public"
            )  # fmt: skip
    return kinds


def disks():
    """Return size and free space of the folders for temporary files, MB."""
    sizes = {}
    for path in DISKS:
        try:
            info = os.statvfs(path)
        except OSError:
            continue
        sizes[path] = [info.f_blocks * info.f_frsize // 10**6, info.f_bavail * info.f_frsize // 10**6]
    return sizes


def process():
    """Return what is this process's own: its kernel, C library, limits and rights."""
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        libc = None
    soft = {
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    return {
        "host": platform.node(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "libc": libc,
        "page": os.sysconf("SC_PAGE_SIZE"),
        "affinity": len(os.sched_getaffinity(0)),
        "umask": mask,
        "uid": os.getuid(),
        "python": platform.python_version(),
        "memlock": soft["memlock"],
        "nofile": soft["nofile"],
        "fuse": os.access("/dev/fuse", os.R_OK | os.W_OK),
        "namespace_error": namespaces(),
        "subuid": subordinate("/etc/subuid"),
    }


def subordinate(path):
    """Tell whether this user has subordinate ids; None where the file can't be read."""
    import pwd

    text = text_of(path)
    if text is None:
        return None
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return any(line.split(":")[0] in (name, str(os.getuid())) for line in text.splitlines())


def evidence():
    """Collect all of it."""
    variables = {name: os.environ[name][:4096] for name in VARIABLES if name in os.environ}
    names = [argv[0] for argv in COMMANDS]
    programs = {name: program(name) for name in sorted(set(names) | set(PROGRAMS))}
    programs = {name: path for name, path in programs.items() if path}
    answers = commands()
    listed = answers.get("ldconfig -p", {}).get("out", "")
    cplusplus = library(("libstdc++.so.6",), listed)
    module_folders = variables.get("MODULEPATH", "").split(":")[:64]
    return {
        "version": VERSION,
        "files": files(),
        "links": links(),
        "folders": folders(more=[part for part in module_folders if part.startswith("/")]),
        "answers": answers,
        "programs": programs,
        "starters": starters(programs),
        "variables": variables,
        "proxies": sorted(name for name in os.environ if name.lower() in PROXIES),
        "libstdcxx": {"path": cplusplus, "versions": versions(cplusplus, "GLIBCXX") if cplusplus else []},
        "addresses": addresses(),
        "disks": disks(),
        "process": process(),
    }


if __name__ == "__main__":
    sys.stdout.write(MARK + json.dumps(evidence(), sort_keys=True) + "\n")

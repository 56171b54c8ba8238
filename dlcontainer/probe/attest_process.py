"""How the kernel treats this process: its class, its limits, what watches it.

Standard library, Python >= 3.6. Numbers of system calls are those of each architecture's table in
the kernel's sources (arch/*/entry/syscalls, include/uapi/asm-generic/unistd.h).
"""

import ctypes
import os
import platform
import resource

_POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline"}
_IOPRIO_GET = {"x86_64": 252, "aarch64": 31, "ppc64le": 274}
_IO_CLASSES = ("none", "realtime", "best effort", "idle")
# Lines of /proc/PID/status -> the fact that they are.
_STATUS = {
    "NoNewPrivs": "no_new_privs",
    "Seccomp": "seccomp",
    "Seccomp_filters": "seccomp_filters",
    "Speculation_Store_Bypass": "speculation_store_bypass",
    "SpeculationIndirectBranch": "speculation_indirect_branch",
    "THP_enabled": "thp_enabled",
    "x86_Thread_features": "thread_features",
}
_LIMITS = (
    "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "NICE", "NOFILE", "NPROC", "RSS",
    "RTPRIO", "RTTIME", "SIGPENDING", "STACK",
)  # fmt: skip


def facts():
    """Give all of it; what this kernel does not say is left out."""
    found = {"scheduling": scheduling(), "limits": limits()}
    found.update(status(_read("/proc/self/status") or ""))
    found["personality"] = _read("/proc/self/personality")
    return {name: value for name, value in found.items() if value is not None}


def scheduling():
    """Give the class, the priorities and the slack of timers."""
    policy = os.sched_getscheduler(0)
    found = {
        # SCHED_RESET_ON_FORK is no class.
        "policy": _POLICIES.get(policy & ~0x40000000, str(policy)),
        "priority": os.sched_getparam(0).sched_priority,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "autogroup_nice": autogroup(_read("/proc/self/autogroup") or ""),
        "io": _io_priority(),
        "timer_slack_ns": _read("/proc/self/timerslack_ns"),
    }
    return {name: value for name, value in found.items() if value is not None}


def autogroup(text):
    """Read the nice value out of "/autogroup-97 nice 0"; its number is a session's own."""
    words = text.split()
    return int(words[-1]) if len(words) == 3 else None


def _io_priority():
    number = _IOPRIO_GET.get(platform.machine())
    if number is None:
        return None
    try:
        given = ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0)
    except (OSError, AttributeError):
        return None
    if given < 0:
        return None
    kind = given >> 13
    name = _IO_CLASSES[kind] if kind < len(_IO_CLASSES) else str(kind)
    return "{} {}".format(name, given & 7) if kind in (1, 2) else name


def status(text):
    """Take out of /proc/PID/status what changes how fast a process runs."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in _STATUS:
            found[_STATUS[name]] = value.strip()
        elif name == "TracerPid":
            found["traced"] = value.strip() != "0"
        elif name == "VmLck":
            # How much depends on the libraries that are mapped.
            found["memory_locked"] = value.split()[:1] != ["0"]
    return found


def limits():
    """Give the limits, soft and hard."""
    found = {}
    for name in _LIMITS:
        number = getattr(resource, "RLIMIT_" + name, None)
        if number is not None:
            both = resource.getrlimit(number)
            found[name.lower()] = ["none" if v == resource.RLIM_INFINITY else v for v in both]
    return found


def _read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None

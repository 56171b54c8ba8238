"""What a process says of the node that it ran on. Standard library, Python >= 3.6."""

import glob
import os

# The first of each kind that a kernel makes (include/linux/proc_ns.h); a net namespace has none.
_INITIAL = {
    "cgroup": 4026531835,
    "ipc": 4026531839,
    "pid": 4026531836,
    "user": 4026531837,
    "uts": 4026531838,
}
_CPU = "/sys/devices/system/cpu/"


def facts():
    """Give what is settled of a node, and what only was so just now (names with _now)."""
    return {
        "hostname": os.uname().nodename,
        "namespaces": namespaces(),
        "numa": numa(),
        "kernel_memory": kernel_memory(),
        "clocks": clocks(),
        "clocks_now": clock_mhz(),
        "temperature": temperature(),
    }


def read(path):
    """Read a small file; None where it can't be."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def namespaces():
    """Tell which of this process's namespaces are the machine's own."""
    found = {}
    for path in sorted(glob.glob("/proc/self/ns/*")):
        name = os.path.basename(path)
        if name in _INITIAL:
            try:
                target = os.readlink(path)
            except OSError:
                continue
            own = target.endswith("[{}]".format(_INITIAL[name]))
            found[name] = "the machine's" if own else "another"
    return found


def numa():
    """Give the memory nodes that are allowed, and the policy by which they are taken."""
    status = read("/proc/self/status") or ""
    allowed = [line.split(":")[1].strip() for line in status.splitlines()
               if line.startswith("Mems_allowed_list:")]  # fmt: skip
    return {
        "allowed": allowed[0] if allowed else None,
        "policy": _policy(),
        "nodes": read("/sys/devices/system/node/online"),
        "balancing": read("/proc/sys/kernel/numa_balancing"),
    }


def _policy():
    # "ADDRESS POLICY heap anon=…": that of the heap is that of what a program allocates.
    try:
        with open("/proc/self/numa_maps", errors="replace") as file:
            for line in file:
                words = line.split(" ")
                if len(words) > 2 and words[2].strip() == "heap":
                    return words[1]
    except OSError:
        pass
    return None


def kernel_memory():
    """Give what the kernel does for every process: huge pages, where memory lies, overcommitment."""
    huge = "/sys/kernel/mm/transparent_hugepage/"
    found = {"huge_pages_" + name: read(huge + name) for name in ("enabled", "defrag", "shmem_enabled")}
    found["randomize"] = read("/proc/sys/kernel/randomize_va_space")
    found["overcommit"] = read("/proc/sys/vm/overcommit_memory")
    found["autogroups"] = read("/proc/sys/kernel/sched_autogroup_enabled")
    return {name: value for name, value in found.items() if value is not None}


def clocks():
    """Give what settles how fast the processors may go."""
    base = _CPU + "cpu0/cpufreq/"
    names = ("scaling_driver", "scaling_governor", "scaling_max_freq", "energy_performance_preference")  # fmt: skip
    found = {name: read(base + name) for name in names}
    governors = {read(path) for path in glob.glob(_CPU + "cpu[0-9]*/cpufreq/scaling_governor")}
    found["governors"] = sorted(governor for governor in governors if governor)
    found["no_turbo"] = read(_CPU + "intel_pstate/no_turbo")
    found["boost"] = read(_CPU + "cpufreq/boost")
    found["smt"] = read(_CPU + "smt/active")
    return {name: value for name, value in found.items() if value}


def clock_mhz():
    """Give the processors' clocks as they are now: the slowest and the quickest, MHz."""
    found = []
    for line in (read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "cpu MHz":
            found.append(float(value))
    return [min(found), max(found)] if found else None


def temperature():
    """Give the hottest sensor that the kernel shows, degrees Celsius."""
    paths = glob.glob("/sys/class/thermal/thermal_zone*/temp")
    texts = [read(path) for path in paths + glob.glob("/sys/class/hwmon/hwmon*/temp*_input")]
    found = [int(text) / 1000.0 for text in texts if text and text.lstrip("-").isdigit()]
    return max(found) if found else None

"""Which limits hold for this process: at every level of its own path. Standard library, >= 3.6.

Version 1 has a path for each controller, version 2 one for all; both are read where they are
mounted. Of a limit the strictest level counts, and "none" says that all levels were read.
"""

import os

NONE = "none"
_BIG = 1 << 60  # version 1 writes "no limit" as the largest multiple of a page
_DEFAULT = {"cpu.weight": "100", "cpu.shares": "1024", "io.weight": "default 100", "cpu.idle": "0"}
# The file of a limit in bytes or processes -> its name here; controller None is version 2.
_LEAST = {
    "memory.max": "memory_bytes",
    "memory.high": "memory_high_bytes",
    "memory.swap.max": "swap_bytes",
    "memory.limit_in_bytes": "memory_bytes",
    "memory.soft_limit_in_bytes": "memory_high_bytes",
    "memory.memsw.limit_in_bytes": "memory_and_swap_bytes",
    "pids.max": "processes",
}
# What is no single number: each level that is not as the kernel makes it.
_TEXTS = {
    "cpu.weight": "cpu_weight",
    "cpu.shares": "cpu_weight",
    "cpu.idle": "cpu_idle",
    "cpu.uclamp.max": "cpu_clamp",
    "io.max": "io",
    "io.weight": "io_weight",
    "blkio.throttle.read_bps_device": "io",
    "blkio.throttle.write_bps_device": "io",
}
_OWN = {
    "cpuset.cpus.effective": "cpus",
    "cpuset.effective_cpus": "cpus",
    "cpuset.mems.effective": "memory_nodes",
    "cpuset.effective_mems": "memory_nodes",
}


def facts(root="/"):
    """Give the limits by name, and the path that each controller puts this process on."""
    paths = own_paths(_read(os.path.join(root, "proc/self/cgroup")) or "")
    found = {}
    for kinds, point, base in mounts(_read(os.path.join(root, "proc/self/mountinfo")) or ""):
        for path in {path for kind, path in paths.items() if kind in kinds}:
            folder = os.path.join(root, point.lstrip("/"))
            for level, inside in enumerate(levels(folder, path, base)):
                _take(found, inside, level == 0)
    limits = {name: _shown(value) for name, value in sorted(found.items())}
    return {"cgroup": limits, "cgroup_paths": {kind or "2": path for kind, path in paths.items()}}


def own_paths(text):
    """Read /proc/self/cgroup: controller -> path; version 2 is the empty controller."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            found[name] = path
    return found


def mounts(text):
    """Give what is mounted: controllers, where, and which path is shown there."""
    found = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) > 4 and kind[0] in ("cgroup", "cgroup2"):
            kinds = {""} if kind[0] == "cgroup2" else set(kind[2].split(","))
            found.append((kinds, fields[4], fields[3]))
    return found


def levels(folder, path, base):
    """Give the folders of a path from the process's own up to the highest that is mounted."""
    parts = [part for part in path.split("/") if part]
    below = [part for part in base.split("/") if part]
    # A namespace or a bind shows a part of the tree; above it nothing can be read.
    if parts[: len(below)] == below:
        parts = parts[len(below) :]
    if ".." in parts:
        parts = []
    return ["/".join([folder] + parts[:count]) for count in range(len(parts), -1, -1)]


def _take(found, folder, own):
    quota = cpus(folder)
    if quota is not None:
        found["cpu_quota"] = min(found.get("cpu_quota", _BIG), quota)
    for name, fact in _LEAST.items():
        text = _read(os.path.join(folder, name))
        if text is not None:
            number = _BIG if text == "max" else int(text)
            found[fact] = min(found.get(fact, _BIG), number)
    for name, fact in _TEXTS.items():
        text = _read(os.path.join(folder, name))
        if text is not None:
            ours = found.setdefault(fact, [])
            if text not in ("", "max", _DEFAULT.get(name)):
                ours.append(text)
    for name, fact in _OWN.items():
        text = _read(os.path.join(folder, name)) if own else None
        if text:
            found[fact] = text


def cpus(folder):
    """Give a level's quota in processors; None where it has no such file."""
    text = _read(os.path.join(folder, "cpu.max"))
    if text is None:
        quota = _read(os.path.join(folder, "cpu.cfs_quota_us"))
        period = _read(os.path.join(folder, "cpu.cfs_period_us"))
        if quota is None or period is None:
            return None
        text = "max" if int(quota) < 0 else "{} {}".format(quota, period)
    words = text.split()
    return _BIG if words[0] == "max" else int(words[0]) / float(words[1])


def _shown(value):
    if isinstance(value, (int, float)):
        return NONE if value >= _BIG else value
    return value or NONE


def _read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None

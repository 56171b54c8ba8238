"""What a process says of itself: the stack that it ran with. Standard library, Python >= 3.6."""

import os
import platform
import sys
import sysconfig

# What was so when the work began, and when it ended, where a probe asked for it.
_BEGUN = {}
_ENDED = {}


def begin():
    """Note what must not change until the end of the work."""
    _BEGUN.update(_settled())


def end():
    """Note that the work ends here, not with the process: what is so later is none of its."""
    _ENDED.update(_settled())


def affinity():
    """Give the processors that the work was bound to."""
    return _ENDED.get("affinity") or sorted(os.sched_getaffinity(0))


def _settled():
    import attest_cgroup
    import attest_node
    import attest_process

    found = {"affinity": sorted(os.sched_getaffinity(0)), "clocks": attest_node.clocks()}
    found["cgroup"] = attest_cgroup.facts()["cgroup"]
    found["scheduling"] = attest_process.scheduling()
    return found


def _changed():
    """Name what changed from the work's beginning to its end, with both values."""
    now = (_ENDED or _settled()) if _BEGUN else {}
    return {name: [_BEGUN[name], now[name]] for name in now if _BEGUN[name] != now[name]}


def stack(framework=None):
    """Describe this process, with the framework's own words where it is loaded."""
    import site

    import attest_cgroup
    import attest_environment
    import attest_frameworks
    import attest_gpus
    import attest_interpreter
    import attest_libraries
    import attest_node
    import attest_process

    found = {
        "probe": _own_digest(),
        "python": platform.python_version(),
        # Distributions rebuild one version for security: shown, and no other version for it.
        "executable": {
            "build": " ".join(platform.python_build()),
            "compiler": platform.python_compiler(),
        },
        "python_flags": sorted(_flags()),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "kernel": platform.release(),
        "sys_prefix": sys.prefix,
        "sys_prefix_mount": _mount_kind(sys.prefix),
        "sys_path": [entry for entry in sys.path if entry != os.path.dirname(__file__)],
        "user_site": bool(site.ENABLE_USER_SITE),
        "affinity": affinity(),
        "isa": _isa(),
        "soabi": sysconfig.get_config_var("SOABI"),
        "changed_within": _changed(),
    }
    found.update(attest_environment.facts())
    found.update(attest_process.facts())
    found.update(attest_cgroup.facts())
    found.update(attest_interpreter.facts())
    found.update(attest_node.facts())
    found.update(attest_libraries.facts())
    found.update(attest_gpus.facts())
    found.update(attest_frameworks.facts(framework))
    return found


def _own_digest():
    """Name these very files: another probe measures and attests otherwise."""
    import hashlib

    digest, folder = hashlib.sha256(), os.path.dirname(os.path.abspath(__file__))
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
        with open(os.path.join(folder, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()[:12]


def _flags():
    return [name for name in dir(sys.flags) if not name.startswith(("_", "n_"))
            and isinstance(getattr(sys.flags, name), int) and getattr(sys.flags, name)
            and name not in ("count", "index")]  # fmt: skip


def _read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _mount_kind(path):
    """Name the file system's kind below a path: what /proc says, the deepest mount first."""
    there, best, kind = os.path.realpath(path), "", "unknown"
    for line in _read("/proc/self/mounts").splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].encode("latin-1", "replace").decode("unicode_escape")
        inside = there == point or there.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _isa():
    """Name the vector extensions that this processor offers."""
    wanted = ("asimd", "sve", "altivec", "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw",
              "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")  # fmt: skip
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return [name for name in wanted if name in value.split()]
        if key.strip() == "cpu" and "altivec" in value:
            return ["altivec"]
    return []

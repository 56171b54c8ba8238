"""What a process says of itself: the stack that it ran with. Standard library, Python >= 3.6."""

import glob
import os
import platform
import sys
import sysconfig

# Variables that change what runs or how fast; no other is ever recorded.
ALLOWED = (
    "CUDA_VISIBLE_DEVICES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MKL_NUM_THREADS",
    "NCCL_DEBUG",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OPENBLAS_NUM_THREADS",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
)


def stack(framework=None):
    """Describe this process, with the framework's own words where it is loaded."""
    import site

    found = {
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
        "affinity": sorted(os.sched_getaffinity(0)),
        "cgroup": _cgroup(),
        "isa": _isa(),
        "libraries": _libraries(),
        "environment": {name: os.environ[name] for name in ALLOWED if name in os.environ},
        "soabi": sysconfig.get_config_var("SOABI"),
    }
    found.update(_framework(framework))
    return found


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


def _cgroup():
    """Give this process's limits (v2 as the process sees it, v1 where that is mounted)."""
    found = {}
    own = [line[3:] for line in _read("/proc/self/cgroup").splitlines() if line.startswith("0::")]
    folders = ["/sys/fs/cgroup" + (own[0].rstrip("/") if own else ""), "/sys/fs/cgroup"]
    for name in ("cpu.max", "memory.max", "cpuset.cpus.effective"):
        texts = [_read(os.path.join(folder, name)).strip() for folder in folders]
        found[name] = next((text for text in texts if text), None)
    for name in ("cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes"):
        text = _read("/sys/fs/cgroup/" + name).strip()
        if text:
            found[name] = text
    return found


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


def _libraries():
    """Name the shared libraries in this process's map that decide how fast it is."""
    names = set()
    for line in _read("/proc/self/maps").splitlines():
        path = line.partition("/")[2]
        name = os.path.basename(path.strip())
        if ".so" in name:
            names.add(name)
    return sorted(names)


def _framework(module):
    found = {}
    numpy = sys.modules.get("numpy")
    found["numpy"] = getattr(numpy, "__version__", None)
    torch = sys.modules.get("torch")
    if torch is None:
        version = getattr(module, "__version__", None)
        found["framework"] = None if module is None else "{} {}".format(module.__name__, version)
        return found
    found.update(_torch(torch))
    return found


def _torch(torch):
    found = {
        "framework": "torch {}".format(torch.__version__),
        "framework_git": getattr(torch.version, "git_version", None),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "isa_dispatch": _asked(lambda: torch.backends.cpu.get_cpu_capability()),
        "mkldnn": _asked(lambda: bool(torch.backends.mkldnn.is_available())),
        "blas": None,
    }
    for line in (_asked(torch.__config__.show) or "").splitlines():
        text = line.strip("- ").strip()
        if "BLAS_INFO=" in text:
            found["blas"] = text.split("BLAS_INFO=")[1].split(",")[0]
            found["build_settings"] = text
        elif "MKL" in text and "blas_library" not in found and "Version" in text:
            found["blas_library"] = text
    if _asked(torch.cuda.is_available):
        found["cudnn"] = _asked(torch.backends.cudnn.version)
        found["devices"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        found["driver"] = _driver()
        found["nccl"] = _asked(lambda: ".".join(map(str, torch.cuda.nccl.version())))
    return found


def _driver():
    for path in glob.glob("/proc/driver/nvidia/version"):
        words = _read(path).split()
        return next((w for w in words if w.replace(".", "").isdigit() and "." in w), None)
    return None


def _asked(question):
    # An older or a differently built framework lacks some of these answers.
    try:
        return question()
    except Exception:
        return None

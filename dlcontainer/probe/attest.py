"""What a process says of itself: the stack that it ran with. Standard library, Python >= 3.6."""

import os
import platform
import sys
import sysconfig

# Variables that change what runs or how fast; no other is ever recorded.
ALLOWED = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "GLIBC_TUNABLES",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KERAS_BACKEND",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MKL_CBWR",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS",
    "MKL_THREADING_LAYER",
    "MXNET_CPU_WORKER_NTHREADS",
    "MXNET_ENGINE_TYPE",
    "MXNET_MKLDNN_ENABLED",
    "MXNET_SUBGRAPH_BACKEND",
    "NPY_DISABLE_CPU_FEATURES",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_THREAD_LIMIT",
    "OMP_WAIT_POLICY",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
# How ranks talk to each other: all of these, by the libraries' own names.
PREFIXES = ("FI_", "GLOO_", "HOROVOD_", "NCCL_", "PSM2_", "PSM3_", "RCCL_", "UCC_", "UCX_")
# Where a debug file lies is not how they talk, and it differs from rank to rank.
_PASSING = ("NCCL_DEBUG_FILE",)


def _is_allowed(name):
    return name not in _PASSING and (name in ALLOWED or name.startswith(PREFIXES))


def stack(framework=None):
    """Describe this process, with the framework's own words where it is loaded."""
    import site

    import attest_frameworks
    import attest_gpus
    import attest_libraries
    import attest_node

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
        "affinity": sorted(os.sched_getaffinity(0)),
        "cgroup": _cgroup(),
        "isa": _isa(),
        "environment": {name: value for name, value in os.environ.items() if _is_allowed(name)},
        "soabi": sysconfig.get_config_var("SOABI"),
    }
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

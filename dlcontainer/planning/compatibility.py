"""What goes with what: driver and toolkit, processor and code. Tables with their sources, no rule.

Marked (remembered): known, but the source was not read again when the line was written.
"""

import re
from dataclasses import dataclass

from dlcontainer.planning.versions import Numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkit:
    """A line of CUDA toolkits, the least driver that runs it, and the last release of the line."""

    line: Numbers
    driver: Numbers
    last: Numbers


# Within a major line from 11 on, every minor runs on one least driver ("minor version
# compatibility"); before 11 each release has its own. The more exact line stands first.
# Source: docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html (11 to 13, the
# note on 11.0 and 450.80.02); CUDA Toolkit Release Notes, table of driver versions (11.0 and
# older). Last releases: docs.nvidia.com/cuda/archive.
CUDA_SOURCE = "docs.nvidia.com/deploy/cuda-compatibility, CUDA Toolkit Release Notes"
CUDA_DRIVERS = (
    Toolkit(line=(13,), driver=(580,), last=(13,)),
    Toolkit(line=(12,), driver=(525,), last=(12, 9)),
    Toolkit(line=(11, 0), driver=(450, 36, 6), last=(11, 0)),
    Toolkit(line=(11,), driver=(450, 80, 2), last=(11, 8)),
    Toolkit(line=(10, 2), driver=(440, 33), last=(10, 2)),
    Toolkit(line=(10, 1), driver=(418, 39), last=(10, 1)),
    Toolkit(line=(10, 0), driver=(410, 48), last=(10, 0)),
    Toolkit(line=(9, 2), driver=(396, 26), last=(9, 2)),
    Toolkit(line=(9, 1), driver=(390, 46), last=(9, 1)),
    Toolkit(line=(9, 0), driver=(384, 81), last=(9, 0)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RocmDriver:
    """A line of the amdgpu kernel module, and the first and last line of ROCm that it runs."""

    module: Numbers
    first: Numbers
    last: Numbers


# What `modinfo amdgpu` says has a numbering of its own: 6.10.5 came with ROCm 6.3. Which module is
# of which release: olcf/olcf-user-docs@2745903 systems/frontier_user_guide.rst, System Updates
# (6.3.6 is of ROCm 6.0.0, 6.7.0 of 6.1.0, 6.8.5 of 6.2.0, 6.10.5 of 6.3.1, 6.12.12 of 6.4.0,
# 6.14.14 of 7.0.2, 6.16.13 of 7.2.0); 6.16.6 of 7.1: bottlerocket-kernel-kit PR 326. What each
# release's driver runs: AMD's matrix in its newest form (the driver of 6.3: ROCm 6.1 to 7.0; 30.10
# there is 6.14.14, 30.20 and 30.30 are 6.16). The newest line stands first.
ROCM_DRIVER_SOURCE = (
    "instinct.docs.amd.com, AMD GPU Driver: Compatibility matrix (read 2026-11-27); "
    "olcf-user-docs@2745903, System Updates"
)
ROCM_DRIVERS = (
    RocmDriver(module=(6, 16), first=(6, 3), last=(10, 0)),
    RocmDriver(module=(6, 14), first=(6, 2), last=(10, 0)),
    RocmDriver(module=(6, 12), first=(6, 1), last=(7, 2)),
    RocmDriver(module=(6, 10), first=(6, 1), last=(7, 0)),
    RocmDriver(module=(6, 8), first=(6, 0), last=(7, 0)),
    RocmDriver(module=(6, 7), first=(5, 7), last=(6, 4)),
    RocmDriver(module=(6, 3), first=(5, 6), last=(6, 2)),
)
# A package's version (6.3.60300) is not the module's: its third number holds the release.
ROCM_PACKAGE = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRelease:
    """The last release that serves something, and where that is said."""

    release: Numbers
    source: str


# CUDA's last release for an architecture.
LAST_CUDA_FOR_ARCH = {
    "ppc64le": LastRelease(
        release=(12, 4), source="NVIDIA's container-images: 12.4 is the last that supports PowerPC"
    )
}
# CUDA's last release for GPUs below a compute capability, in rising order.
LAST_CUDA_BELOW = (
    (
        (3, 5),
        LastRelease(release=(10, 2), source="llvm-project 0f49116: CUDA 11.0 removed sm_30, sm_32"),
    ),
    (
        (5, 0),
        LastRelease(release=(11, 8), source="llvm-project 0f49116: CUDA 12.0 removed sm_35, sm_37"),
    ),
    (
        (7, 5),
        LastRelease(
            release=(12, 9),
            source="CUDA 13.0 Release Notes: no compilation or libraries below 7.5 (Volta too)",
        ),
    ),
)

# CUDA's first release that knows a GPU: its compiler makes code for it, and its libraries (cuBLAS,
# cuDNN) have some, from then on. Source: `ptxas --help`, which lists the targets, of the wheels
# nvidia-cuda-nvcc 11.7.99, 11.8.89, 12.0.140 to 12.9.86 and 13.5.37 (read 2026-11-26); before 11.7
# spack-packages@1d335f8 build_systems/cuda.py and CMake@031593d CMakeCUDAArchitecturesAll.cmake.
FIRST_CUDA_SOURCE = (
    "targets that ptxas lists, CUDA 11.7 to 13.5; before: spack-packages@1d335f8 cuda.py"
)
FIRST_CUDA_FOR_GPU: dict[tuple[int, int], Numbers] = {
    (6, 0): (8, 0),
    (6, 1): (8, 0),
    (7, 0): (9, 0),
    (7, 5): (10, 0),
    (8, 0): (11, 0),
    (8, 6): (11, 1),
    (8, 7): (11, 4),
    (8, 9): (11, 8),
    (9, 0): (11, 8),
    (10, 0): (12, 8),
    (10, 1): (12, 8),
    (12, 0): (12, 8),
    (10, 3): (12, 9),
    (12, 1): (12, 9),
    (11, 0): (13, 0),
}
# The first releases with targets of one GPU alone (sm_90a) and of a family (sm_100f). Source: as
# above: 12.0 lists sm_90a and 11.8 does not, 12.9 lists sm_100f and 12.8 does not.
FIRST_CUDA_FOR_SUFFIX: dict[str, Numbers] = {"a": (12, 0), "f": (12, 9)}

# The newest GCC that CUDA's compiler takes as its host's, for each line of toolkits.
# Source: crt/host_config.h ("gcc versions later than N are not supported") of the wheels
# nvidia-cuda-nvcc and nvidia-cuda-crt 11.7.99 to 13.5.37 (read 2026-11-26); 11.0 to 11.6:
# pytorch@0011ec5 torch/utils/cpp_extension.py, which cites that file; 9 and 10:
# spack-packages@1d335f8 build_systems/cuda.py (x86_64).
NEWEST_GCC_SOURCE = (
    "crt/host_config.h of CUDA 11.7 to 13.5; 11.0 to 11.6: pytorch@0011ec5 cpp_extension.py; "
    "older: spack-packages@1d335f8 cuda.py"
)
NEWEST_GCC_FOR_CUDA: dict[Numbers, int] = {
    **dict.fromkeys([(9, 0), (9, 1)], 6),
    **dict.fromkeys([(9, 2), (10, 0)], 7),
    **dict.fromkeys([(10, 1), (10, 2)], 8),
    (11, 0): 9,
    **dict.fromkeys([(11, 1), (11, 2), (11, 3)], 10),
    # 11.4.0 takes 10, 11.4.1 and later 11.
    **dict.fromkeys([(11, minor) for minor in range(4, 9)], 11),
    **dict.fromkeys([(12, minor) for minor in range(4)], 12),
    **dict.fromkeys([(12, 4), (12, 5), (12, 6)], 13),
    **dict.fromkeys([(12, 8), (12, 9)], 14),
    **dict.fromkeys([(13, minor) for minor in range(4)], 15),
    **dict.fromkeys([(13, 4), (13, 5)], 16),
}

# ROCm's first release whose compiler knows a processor. Source: spack-packages@089c5a1
# build_systems/rocm.py, from the TargetParser of each release's LLVM.
FIRST_ROCM_SOURCE = "spack-packages@089c5a1 rocm.py, from LLVM's TargetParser in each ROCm"
FIRST_ROCM_FOR_GPU: dict[str, Numbers] = {
    "gfx940": (5, 2),
    "gfx941": (5, 7),
    "gfx942": (5, 7),
    "gfx1036": (5, 2),
    **dict.fromkeys(["gfx1100", "gfx1101", "gfx1102", "gfx1103"], (5, 3)),
}

# The last compilers that make code for Xeon Phi (knl, knm).
# Sources: Intel, "Next-gen performance with GCC 15": support was removed in GCC 15;
# llvm-project PR 92883: -mavx512er, -mavx512pf and the two processors removed in 19.
PHI = frozenset({"knl", "knm"})
LAST_GCC_FOR_PHI = LastRelease(release=(14,), source="Intel on GCC 15: Xeon Phi was removed")
LAST_LLVM_FOR_PHI = LastRelease(release=(18,), source="llvm-project PR 92883: removed in LLVM 19")

# Sources: mpich.org/abi; docs.open-mpi.org (4.x programs run under 5.0.x); IBM Spectrum MPI.
MPI_FAMILIES = {
    "openmpi": "Open MPI (libmpi.so.40)",
    "mpich": "MPICH, Intel MPI, MVAPICH2 or Cray MPICH (libmpi.so.12)",
    "spectrum": "IBM Spectrum MPI (libmpi_ibm.so.3)",
}
# What the library of each family is called, by its soname. Debian's MPICH has a name of its own;
# MPICH and Open MPI give the MPI standard's own ABI one more (remembered).
# Source: mpich.org/abi; open-mpi.org, release notes "shared library version numbering";
# packages.debian.org/libmpich12; IBM Spectrum MPI 10.4 documentation.
MPI_LIBRARIES = {
    "openmpi": re.compile(r"libmpi(_abi)?\.so\.\d+"),
    "mpich": re.compile(r"libmpi\.so\.12|libmpich\.so\.\d+|libmpi_abi\.so\.\d+"),
    "spectrum": re.compile(r"libmpi_ibm\.so\.\d+"),
}
# Names that one family's library has and no other's. The standard's own ABI (libmpi_abi) is of
# MPICH's family and Open MPI's alike. Source: as above; releases of Open MPI before 1.10.
FAMILY_OF_SONAME: dict[str, str] = {
    "libmpi.so.12": "mpich",
    "libmpich.so.12": "mpich",
    "libmpi.so.20": "openmpi",
    "libmpi.so.40": "openmpi",
    "libmpi_ibm.so.3": "spectrum",
}
# The first CUDA, and the first GCC, that Spectrum MPI does not take.
# Source: olcf-user-docs@d900d52^ software/containers_on_summit.rst.
SPECTRUM_SOURCE = (
    "OLCF, Containers on Summit (olcf-user-docs@d900d52^): spectrum-mpi supports neither CUDA 12 "
    "nor GCC 12"
)
FIRST_CUDA_WITHOUT_SPECTRUM: Numbers = (12,)
FIRST_GCC_WITHOUT_SPECTRUM: Numbers = (12,)

# Distributions whose C library is musl. Source: PEP 656, whose example is Alpine.
MUSL_DISTRIBUTIONS = frozenset({"alpine"})
# The glibc that wheels on PyPI need, by their platform tags: package -> version from which on ->
# glibc. None of them has a musllinux wheel. Source: file names of PyPI's wheels for Python 3.11 on
# x86_64 (read 2026-11-26); manylinux_X_Y is for glibc X.Y and newer: PEP 600.
WHEEL_SOURCE = "platform tags of the wheels on PyPI, and PEP 600: manylinux_X_Y wants glibc X.Y"
WHEEL_GLIBC: dict[str, tuple[tuple[Numbers, Numbers], ...]] = {
    "torch": (((2, 7), (2, 28)),),
    **dict.fromkeys(["tensorflow", "tensorflow-cpu"], (((2, 21), (2, 27)), ((2, 12), (2, 17)))),
    **dict.fromkeys(["jaxlib", "jax-cuda12-plugin"], (((0, 7, 1), (2, 27)), ((0, 4, 13), (2, 17)))),
}
MPI_SOURCE = (
    "mpich.org/abi, docs.open-mpi.org: only libraries of one family take each other's place"
)

# What an MPI needs to drive a network. Sources: docs.openucx.org; ofiwg.github.io/libfabric
# (providers psm2, cxi, gni); remembered.
FABRIC_DRIVERS = {
    "infiniband": "UCX or verbs",
    "omni-path": "PSM2",
    "slingshot": "libfabric's cxi provider",
    "aries": "uGNI",
}

# What programs for an x86 processor may use, in groups; a processor runs what needs a subset.
# `v2`, `v3`: psABI levels; `adx`: Broadwell's ADX and RDSEED; `xsavec`: XSAVEC and CLFLUSHOPT;
# `f`: AVX-512 F and CD; `bdv`: AVX-512 BW, DQ and VL; `phi`: AVX-512 ER and PF, on Xeon Phi only;
# `icl`: VBMI, VBMI2, IFMA, BITALG, VPOPCNTDQ, GFNI, VAES. Groups stand for what compilers emit.
# Source: GCC manual, x86 Options; x86-64 psABI, Micro-Architecture Levels.
_V3 = frozenset({"x86", "v2", "aes", "avx", "f16c", "v3"})
_BDW = _V3 | {"adx"}
_SKL = _BDW | {"xsavec"}
_V4 = _V3 | {"f", "bdv"}
_SKX = _SKL | _V4 | {"clwb"}
_ICX = _SKX | {"vnni", "icl", "vaes", "sha"}
_ZEN = _SKL | {"sha", "sse4a"}
_KNL = _BDW | {"f", "phi"}
# Power: each runs the code of those before it. Source: Power ISA, and GCC manual, RS/6000 options.
# Arm: Neoverse V2 is Armv9.0-A, which holds V1's Armv8.4-A and SVE. Source: GCC manual, AArch64.
_P8 = frozenset({"power", "power8"})
_A64 = frozenset({"aarch64"})
CPU_FEATURES: dict[str, frozenset[str]] = {
    "x86-64": frozenset({"x86"}),
    "x86-64-v2": frozenset({"x86", "v2"}),
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "nehalem": frozenset({"x86", "v2"}),
    "westmere": frozenset({"x86", "v2", "aes"}),
    "sandybridge": frozenset({"x86", "v2", "aes", "avx"}),
    "ivybridge": frozenset({"x86", "v2", "aes", "avx", "f16c"}),
    "haswell": _V3,
    "core-avx2": _V3,
    "broadwell": _BDW,
    "skylake": _SKL,
    "skylake-avx512": _SKX,
    "cascadelake": _SKX | {"vnni"},
    "icelake-server": _ICX,
    "sapphirerapids": _ICX | {"bf16", "fp16", "amx", "avxvnni"},
    "knl": _KNL,
    "knm": _KNL | {"knm"},
    "znver1": _ZEN,
    "znver2": _ZEN | {"clwb", "zen2"},
    "znver3": _ZEN | {"clwb", "zen2", "vaes"},
    "znver4": _ZEN | _ICX | {"zen2", "bf16"},
    "znver5": _ZEN | _ICX | {"zen2", "bf16", "avxvnni"},
    "power8": _P8,
    "power9": _P8 | {"power9"},
    "power10": _P8 | {"power9", "power10"},
    "armv8-a": _A64,
    # Armv8.2-A with SVE. Source: GCC manual, AArch64.
    "a64fx": _A64 | {"armv8.2", "sve"},
    "neoverse-n1": _A64 | {"armv8.2"},
    "neoverse-v1": _A64 | {"armv8.2", "armv8.4", "sve"},
    "neoverse-v2": _A64 | {"armv8.2", "armv8.4", "sve", "armv9"},
}
CPU_SOURCE = "GCC manual, x86, RS/6000 and AArch64 options"
# The general targets, the richest first: what to compile for instead.
GENERAL_CPUS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64", "power8", "armv8-a")

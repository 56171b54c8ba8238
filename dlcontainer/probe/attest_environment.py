"""Which variables a process sees: those that change speed with their values, all others by name.

Standard library, Python >= 3.6. A list of names can't be complete, so whole prefixes are taken; what
is left of the environment is attested by name alone, since a value there may be a secret.
"""

import os

# What changes how fast, or what, a process computes: allocators, OpenMP, BLAS, frameworks, Python,
# the loader, accelerators; and how ranks talk to each other.
PREFIXES = (
    "AMD_", "ATEN_", "BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "EIGEN_", "FI_", "GLIBC_",
    "GLOO_", "GOMP_", "GOTO_", "GPU_", "HIP_", "HOROVOD_", "HSA_", "IPEX_", "JEMALLOC_", "KERAS_",
    "KINETO_", "KMP_", "LC_", "LD_", "LRU_", "MALLOC_", "MIMALLOC_", "MIOPEN_", "MKL_", "MPICH_",
    "MPIR_", "MXNET_", "NCCL_", "NPY_", "NUMBA_", "NUMEXPR_", "NUMPY_", "NV", "OMP_", "ONEDNN_",
    "OPENBLAS", "PSM2_", "PSM3_", "PYTHON", "PYTORCH_", "RCCL_", "ROCBLAS_", "ROCR_", "TBB_", "TCMALLOC_", "TF_",
    "TORCH", "UCC_", "UCX_", "VECLIB_", "XLA_",
)  # fmt: skip
NAMES = ("LANG", "_RJEM_MALLOC_CONF")
# Settles one rank's place, or where a process keeps its files: no two launches need agree in it.
PASSING = ("NCCL_DEBUG_FILE", "TF_CONFIG", "TORCHINDUCTOR_CACHE_DIR")
_OF_RANKS = (
    "DLC_", "FLUX_", "HYDI_", "HYDRA_", "I_MPI_", "JSM_", "MPI_", "MPIEXEC_", "MPIRUN_",
    "MV2_", "OMPI_", "PALS_", "PMI", "PRTE_", "SLURM", "__KMP_",
)  # fmt: skip
_RANK = ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_SECRET = ("AUTH", "CREDENTIAL", "KEY", "PASS", "SECRET", "TOKEN")
HIDDEN = "set; its value may be a secret"


def facts(environ=None):
    """Give the values of what changes speed, and the names of all other variables."""
    environ = os.environ if environ is None else environ
    known = {name: value(name, environ[name]) for name in environ if is_known(name)}
    others = sorted(name for name in environ if name not in known and not _is_passing(name))
    return {"environment": known, "variables": {name: "set" for name in others}}


def is_known(name):
    """Tell whether a variable is attested with its value."""
    return not _is_passing(name) and (name in NAMES or name.startswith(PREFIXES))


def value(name, text):
    """Give a variable's value; of what may be a secret only that it is set."""
    words = name.upper().split("_")
    return HIDDEN if any(word.startswith(_SECRET) for word in words) else text


def _is_passing(name):
    # Hydra names each rank's own host in two variables that end so.
    own = name in PASSING or name in _RANK or name.endswith("INTERFACE_HOSTNAME")
    return own or name.startswith(_OF_RANKS)

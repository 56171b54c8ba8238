"""Whose each attested fact is: the image's, the engine's, or what surrounds both. Pure.

Image and engine are what is compared; the surroundings must be the same for both sides, or the
comparison is of something else.
"""

from collections.abc import Callable, Mapping
from typing import Literal

Owner = Literal["image", "engine", "surroundings"]

# A name stands for itself and for all below it. What stands nowhere is the surroundings': a fact
# that nobody has thought of must match.
OWNERS: Mapping[str, Owner] = {
    **dict.fromkeys(
        (
            *("allocator", "blas", "blas_library", "build_settings", "byte_code_checked"),
            "byte_code_percent",
            *("collector", "cuda", "cudnn", "executable", "framework", "framework_compiler"),
            *("framework_git", "hooks.meta_path", "hooks.path_hooks", "horovod", "isa_dispatch"),
            *("keras", "libc", "libraries", "library_builds", "mkldnn", "mkldnn_enabled", "mpi"),
            *("mxnet", "nccl", "numpy", "numpy_blas", "onednn", "options", "prefix", "pth_files"),
            *("hip", "rccl"),
            *("python", "python_flags", "python_threads", "soabi", "start_files", "switches"),
            *("sys_path", "sys_prefix", "system_library_builds", "tensorflow", "torch"),
            *("transport", "user_site", "kernel_libraries"),
        ),
        "image",
    ),
    **dict.fromkeys(
        (
            *("cgroup_paths", "limits.core", "limits.msgqueue", "limits.sigpending"),
            *("namespaces", "no_new_privs", "seccomp", "seccomp_filters", "sys_prefix_mount"),
        ),
        "engine",
    ),
}
# Only was so just then, or is a machine's name: never compared.
PASSING = frozenset(
    {"clocks_now", "gpu_ids", "gpus_now", "hostname", "started", "temperature", "cgroup_paths"}
)
# Differs because one side is a container: where its files are, and how they are mounted. What of
# the environment only says where to look is judged by what was then found.
OF_A_CONTAINER = frozenset(
    {
        *("environment.LANG", "environment.LD_LIBRARY_PATH", "environment.PYTHONNOUSERSITE"),
        *("environment.PYTHONPATH", "limits.core", "limits.msgqueue", "limits.sigpending"),
        *("prefix", "sys_path", "sys_prefix", "sys_prefix_mount", "user_site"),
    }
)
# A distribution rebuilds one version for security. It does not refuse, and it is always named:
# two builds of one Python differ in speed by up to 1 %.
REBUILDS = frozenset({"executable", "system_library_builds"})
# Images are built with a module pack (docs/use/importing.md), of which these are the traces: the
# line that starts it (its digest is that of `import _dlcontainer_pack`), and its hook before all
# others.
MODULE_PACK = frozenset({"hooks.path_hooks", "pth_files._dlcontainer_pack.pth"})
_PACK_LINE, _PACK_HOOK = "840a69902101be8a", "_dlcontainer_pack.hook"
# A shell's or a login's: what a program does with them is nothing of speed.
_OF_A_SHELL = frozenset(
    {
        *("DISPLAY", "HOME", "HOSTNAME", "KRB5CCNAME", "LOGNAME", "MAIL", "OLDPWD", "PATH", "PS1"),
        *("PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "USER", "_"),
    }
)
_INFORMATIVE = ("NVIDIA_PRODUCT_", "NVIDIA_REQUIRE_", "NV_")
_STATED_IN_IMAGES = frozenset(
    {
        *("CUDA_VERSION", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"),
        *("PYTHON_PIP_VERSION", "PYTHON_SETUPTOOLS_VERSION", "PYTHON_SHA256", "PYTHON_VERSION"),
    }
)


def of(name: str) -> Owner:
    """Return the owner of a fact."""
    parts = name.split(".")
    # The closest name above it decides.
    for length in range(len(parts), 0, -1):
        owner = OWNERS.get(".".join(parts[:length]))
        if owner is not None:
            return owner
    return "surroundings"


def is_in(name: str, names: frozenset[str]) -> bool:
    """Return whether a fact, or one above it, is among these."""
    parts = name.split(".")
    return any(".".join(parts[:length]) in names for length in range(1, len(parts) + 1))


def _is_more(native: object, contained: object) -> bool:
    return (
        str(native).isdigit()
        and str(contained).isdigit()
        and int(str(contained)) > int(str(native))
    )


# What an engine does to a process that the host left alone; the other way round it is no engine's.
_ADDED: Mapping[str, Callable[[object, object], bool]] = {
    "namespaces": lambda native, contained: (native, contained) == ("the machine's", "another"),
    "no_new_privs": lambda native, contained: (native, contained) == ("0", "1"),
    "seccomp": lambda native, contained: (native, contained) == ("0", "2"),
    "seccomp_filters": _is_more,
}
# Kernels before 5.16 turn this on for each process that has a filter.
_OF_A_FILTER = frozenset({"speculation_indirect_branch", "speculation_store_bypass"})


def added_by_engine(name: str, native: object, contained: object, *, filtered: bool) -> bool:
    """Return whether a container's value is what an engine adds to the host's.

    `filtered`: the container has a seccomp filter that the host's process has not.
    """
    if name in _OF_A_FILTER:
        return filtered and "mitigated" in str(contained)
    rule = _ADDED.get(name.partition(".")[0])
    return rule is not None and rule(native, contained)


# Limits that engines set unasked, soft and hard. What Docker's containers inherit of a service: the
# default (systemd-system.conf(5), DefaultLimitNOFILE), or "infinity", of files fs.nr_open at most,
# which systemd raises to the second number. Podman's: 1048576, of processes as many as the kernel
# numbers at most (the defaults of kernel.pid_max, proc_sys_kernel(5)).
_NO_LIMIT: list[object] = ["none", "none"]
_PODMAN: list[object] = [1048576, 1048576]
_SET: Mapping[str, tuple[list[object], ...]] = {
    "limits.nofile": (_NO_LIMIT, _PODMAN, [1024, 524288], [1073741816, 1073741816]),
    "limits.nproc": (_NO_LIMIT, _PODMAN, [32768, 32768], [4194304, 4194304]),
}
# Podman's --pids-limit where none is given (docs.podman.io): 2048, 4096 in versions before.
_PROCESSES = "cgroup.processes"
_PIDS_LIMITS = (2048, 4096)


def set_by_engine(name: str, native: object, contained: object) -> bool:
    """Return whether a container's limit is an engine's default, or the host's hard limit taken.

    Any other is somebody's: whoever started the container could have left it as it was.
    """
    if name == _PROCESSES:
        # The group of a host's processes may be the topmost, which has no such file.
        return contained in _PIDS_LIMITS and (
            native in {None, "none"} or _is_more(contained, native)
        )
    if name not in _SET or not isinstance(native, list):
        return False
    return contained in _SET[name] or contained == 2 * native[1:]


def is_module_pack(name: str, native: object, contained: object) -> bool:
    """Return whether a container's value is the native one with the image's module pack added."""
    if name not in MODULE_PACK:
        return False
    if isinstance(native, list) and isinstance(contained, list):
        return contained == [_PACK_HOOK, *native]
    return native is None and contained == _PACK_LINE


def is_of_a_container(name: str, *, candidate_only: bool) -> bool:
    """Return whether a difference is there because one side is a container, and says no more."""
    if is_in(name, OF_A_CONTAINER):
        return True
    kind, _, variable = name.partition(".")
    if kind == "environment":
        stated = variable in _STATED_IN_IMAGES or variable.startswith(_INFORMATIVE)
        return variable.startswith("LC_") or (stated and candidate_only)
    # The native side's environment is made by the session: what it has more, somebody has set.
    return kind == "variables" and (candidate_only or variable in _OF_A_SHELL)

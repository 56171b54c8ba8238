"""The variables of a user that do not enter an image; every other one does. One table, for the
module's commands, job scripts, `site environment` and the docs.

A pattern is a name, with one `*` at its beginning or end at most: it means the same to a shell.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalRow:
    """Variables that are refused for one reason.

    `always`: even where somebody asks for them. `in_jobs` are those that job scripts unset.
    """

    key: str
    names: tuple[str, ...]
    why: str
    always: bool = False
    in_jobs: tuple[str, ...] = ()


# Sources: ld.so(8); Python's "Command line and environment"; GCC's "Environment Variables
# Affecting GCC"; Apptainer's "Environment and Metadata"; the manuals of Lmod and of Environment
# Modules; EasyBuild's "Environment variables of modules"; pkg-config(1); perlrun(1).
TABLE = (
    RefusalRow(
        key="engine",
        names=("APPTAINER*", "SINGULARITY*", "DLCONTAINER_*"),
        why="they would change how the image is started",
        always=True,
    ),
    RefusalRow(
        key="shell",
        names=(
            *("PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_", "IFS", "SHELL", "ENV", "BASH*"),
            *("SHELLOPTS", "CDPATH", "GLOBIGNORE", "PROMPT_COMMAND", "PS1", "PS2", "PS3", "PS4"),
            *("OPTIND", "OPTARG", "OPTERR", "UID", "EUID", "GID", "PPID", "FPATH", "dlc_*"),
        ),
        why="a shell's own; the image has others",
        always=True,
    ),
    RefusalRow(
        key="python",
        names=(
            *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
            *("PYTHONEXECUTABLE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "__PYVENV_LAUNCHER__"),
        ),
        why="folders of the host's Python",
        in_jobs=("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"),
    ),
    RefusalRow(
        key="environments",
        names=(
            *("CONDA_*", "_CONDA_*", "_CE_*", "MAMBA_*", "VIRTUAL_ENV*", "PYENV*", "PIPENV_*"),
            *("PIXI_*", "_OLD_VIRTUAL_*"),
        ),
        why="an environment of conda or of the host's Python",
        in_jobs=("VIRTUAL_ENV",),
    ),
    RefusalRow(
        key="loader",
        names=("LD_*", "*_PRELOAD", "GCONV_PATH", "LOCPATH", "GLIBC_TUNABLES"),
        why="the dynamic loader would take libraries of the host",
        # LD_LIBRARY_PATH stays: the host's launcher may need it.
        in_jobs=("LD_PRELOAD",),
    ),
    RefusalRow(
        key="modules",
        names=(
            *("LMOD_*", "__LMOD_*", "_ModuleTable*", "_LMFILES_*", "LOADEDMODULES", "MODULE*"),
            *("__MODULES_*", "EBROOT*", "EBVERSION*", "EBDEVEL*"),
        ),
        why="the host's module system, and the folders of its modules",
    ),
    RefusalRow(
        key="compilers",
        names=(
            *("CC", "CXX", "FC", "F77", "F90", "CPP", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "FFLAGS"),
            *("FCFLAGS", "LDFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH"),
            *("*INCLUDE_PATH", "*LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CRAYPE*"),
        ),
        why="compilers and flags of the host; torch.compile would use them",
    ),
    RefusalRow(
        key="packages",
        names=(
            *("PKG_CONFIG*", "CMAKE_*", "ACLOCAL_PATH", "PERL5*", "PERLLIB", "PERL_*", "RUBYLIB"),
            *("RUBYOPT", "GEM_*", "LUA_*", "TCLLIBPATH", "R_HOME", "R_LIBS*", "NODE_PATH"),
            *("JAVA_HOME", "CLASSPATH", "MANPATH", "INFOPATH", "TERMINFO*", "XDG_DATA_DIRS"),
            *("XDG_CONFIG_DIRS", "XDG_RUNTIME_DIR"),
        ),
        why="search paths of the host's packages",
    ),
    RefusalRow(
        key="toolkits",
        names=(
            *("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "CUDATOOLKIT_HOME", "CUDNN_ROOT"),
            *("NVHPC*", "ROCM_PATH", "ROCM_HOME", "HIP_PATH", "MKLROOT", "TBBROOT", "ONEAPI_ROOT"),
            *("CMPLR_ROOT", "NCCL_HOME", "NCCL_ROOT"),
        ),
        why="folders of the host's accelerator libraries; the image has its own",
    ),
    RefusalRow(
        key="locale",
        names=("LANG", "LANGUAGE", "LC_*", "NLSPATH"),
        why="the image has one locale, C.UTF-8",
    ),
)

# Files of certificates: they go in where the image shows them, at whatever path that is.
CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    *("AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"),
)
# Folders of data and of what was compiled: a user's own wins over the image's.
_USERS = ("*CACHE*", "*_DATA", "HF_HOME", "TORCH_HOME", "MIOPEN_USER_DB_PATH")
_SCRATCH = ("/tmp", "/var/tmp", "/dev")  # noqa: S108
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME = RefusalRow(key="name", names=(), why="not the name of a shell's variable", always=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalTable:
    """The table for one image at one site, and for one user."""

    rows: tuple[RefusalRow, ...] = TABLE
    # Names and patterns that go in all the same.
    passed: tuple[str, ...] = ()

    def refusal(self, name: str) -> RefusalRow | None:
        """Return the row that keeps a variable out; None for one that goes in."""
        if not _VARIABLE.fullmatch(name):
            return _NO_NAME
        row = next((row for row in self.rows if _is_in(name, row.names)), None)
        if row is None or (_is_in(name, self.passed) and not row.always):
            return None
        return row


def rules(environment: Mapping[str, str], passed: Iterable[str] = ()) -> RefusalTable:
    """Return the rules for an image that sets these variables itself.

    Its own folders stay its own; of everything else that it sets the user's value wins.
    """
    return RefusalTable(rows=(*TABLE, *own_places(environment)), passed=tuple(passed))


def own_places(environment: Mapping[str, str]) -> tuple[RefusalRow, ...]:
    """Return the row of the folders that an image names inside itself, if it names any."""
    names = tuple(
        name
        for name, value in sorted(environment.items())
        if _is_place(value) and not _is_in(name, _USERS) and _VARIABLE.fullmatch(name)
    )
    why = "the image sets it to a folder of its own"
    return (RefusalRow(key="image", names=names, why=why),) if names else ()


def job_names() -> tuple[str, ...]:
    """Name the variables that a job script unsets for all that it starts."""
    return tuple(name for row in TABLE for name in row.in_jobs)


def user_names(text: str) -> tuple[str, ...]:
    """Read DLCONTAINER_PASS: names, with spaces or commas between them."""
    return tuple(name for name in re.split(r"[\s,]+", text) if _VARIABLE.fullmatch(name))


def _is_place(value: str) -> bool:
    return value.startswith("/") and not any(
        value == folder or value.startswith(f"{folder}/") for folder in _SCRATCH
    )


def _is_in(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)

"""Field types shared by the models of sites and recipes: what a value in YAML may look like."""

import re
from collections.abc import Callable
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict

from dlcontainer.config import pydantic_plugins
from dlcontainer.config.gpu_targets import one_gpu, written_right
from dlcontainer.config.image_names import is_digest, is_registry

# Before the first validator is made. As in cli/app.py.
pydantic_plugins.leave_out_plugins()

Arch = Literal["x86_64", "ppc64le", "aarch64"]
ARCHES: tuple[Arch, ...] = get_args(Arch)

# Words that sites state and recipes ask for.
Vendor = Literal["nvidia", "amd", "intel"]
# Programs of one family run with another member's library; those of two families never do.
# Spectrum MPI comes from Open MPI, but its library has another name.
# Source: mpich.org/abi; IBM Spectrum MPI 10.4 documentation.
MpiFamily = Literal["openmpi", "mpich", "spectrum"]
MpiMode = Literal["container", "swap", "compile"]
Fabric = Literal["infiniband", "omni-path", "slingshot", "aries", "ethernet"]
# Of a site: `other` is one that no MPI of a recipe says it is built for.
SiteFabric = Literal[Fabric, "other"]

# What is signed as found out about an image: docs/centre/signing.md.
EvidenceKind = Literal["record", "bill", "validate", "proof", "bench", "report"]
# What a signer's key counts for; `image` is all that `sign` signs: the image, its record and bill.
KeyRole = Literal["image", "validate", "proof", "bench", "report"]
KEY_ROLES: tuple[KeyRole, ...] = get_args(KeyRole)


def role_of(kind: EvidenceKind) -> KeyRole:
    """Return the role that evidence of a kind takes."""
    return "image" if kind == "record" or kind == "bill" else kind


# What Debian and OCI call the same machines.
DEBIAN_ARCH: dict[Arch, str] = {"x86_64": "amd64", "ppc64le": "ppc64el", "aarch64": "arm64"}
OCI_ARCH: dict[Arch, str] = {"x86_64": "amd64", "ppc64le": "ppc64le", "aarch64": "arm64"}
# As `apptainer sif add --help` numbers them. Keys are str: a host's may be none of these.
SIF_ARCH: dict[str, str] = {"x86_64": "2", "aarch64": "4", "ppc64le": "6"}


class Strict(BaseModel):
    """A model that takes nothing it does not know and never changes."""

    # A validator is made for what is validated, with its parts, and not for each part by itself: a
    # field's default that is a model is made by model_construct(), which needs none.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


def _checked(holds: Callable[[str], object], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not holds(value):
            raise ValueError(f"not {what}: {value!r}")
        return value

    return AfterValidator(check)


def _matching(pattern: str, what: str) -> AfterValidator:
    # Compiled, and kept, by the first value of the kind: most commands meet a few of these.
    return _checked(lambda value: re.fullmatch(pattern, value), what)


# Far beyond what a variable or a summary holds; messages and labels repeat such texts.
_LONGEST_LINE = 32_768


def _one_line(value: str) -> str:
    if len(value) > _LONGEST_LINE:
        raise ValueError(f"the text has more than {_LONGEST_LINE} characters")
    # One line and printable: it may become a label, an ENV line, a comment or a directive, none of
    # which can hold a line break, whatever is quoted.
    if not value.strip():
        raise ValueError("empty text")
    if not value.isprintable():
        raise ValueError(f"must be one printable line: {value!r}")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/") or ".." in value.split("/") or not value.isprintable():
        raise ValueError(f"must be an absolute path without '..': {value!r}")
    variable = re.search(r"\$(?:[A-Za-z_]\w*|\{[^}]*\}?)", value)
    if variable:
        raise ValueError(f"{variable[0]} is not expanded here; write the path out: {value!r}")
    return value if value == "/" else value.rstrip("/")


# Folders that hold far more than an index, which a build has no business with.
_WIDE = {"/", "/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/usr", "/var"}  # noqa: S108


def _index_folder(value: str) -> str:
    folder = _absolute(value)
    if folder in _WIDE or (folder.startswith("/home/") and folder.count("/") == 2):
        raise ValueError(
            "the folder is too general for an index, because the build would see all its files: "
            f"{value!r}"
        )
    return folder


_VARIABLE = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
_IN_PATHS = re.compile(r"[A-Za-z0-9._+@/-]*")


def _host_text(value: str) -> str:
    if re.sub(_VARIABLE, "", value).count("$"):
        raise ValueError(f"a variable's name must follow '$' here: {value!r}")
    return _one_line(value)


# What no address of a proxy holds: all that a shell, a configuration file or apt reads otherwise.
_PROXY = (
    r"https?://(?:[^\s'\"\\<>;{}$`/@]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:/[^\s'\"\\<>;{}$`]*)?"
)


def is_proxy(value: str) -> bool:
    """Return whether this is the address of a proxy: http://[USER:PASSWORD@]HOST[:PORT]."""
    return bool(re.fullmatch(_PROXY, value)) and value.isprintable()


def _proxy(value: str) -> str:
    if value not in ("auto", "none") and not is_proxy(value):
        # The value is not repeated: a password may stand in it.
        raise ValueError(
            "not 'auto', 'none' or http://[USER:PASSWORD@]HOST[:PORT] (or https://; other "
            "characters as %XX)"
        )
    return value


def is_apt_mark(name: str) -> bool:
    """Return whether apt reads a name's end as a mark: '-' removes, '+' installs; g++ has none."""
    return name.endswith("-") or (name.endswith("+") and not name.endswith("++"))


def _user_folder(value: str) -> str:
    plain, variables = re.subn(_VARIABLE, "", value)
    if not re.match(r"[/$]", value) or ".." in value.split("/") or not _IN_PATHS.fullmatch(plain):
        raise ValueError(
            "expected a folder that begins with '/' or a variable, of letters, digits, . _ + @ - "
            f"and $NAME: {value!r}"
        )
    if not variables:
        raise ValueError(f"expected a folder of each user's own, with a variable: {value!r}")
    return value


Line = Annotated[str, AfterValidator(_one_line)]
# Text whose $NAME and ${NAME} the host's shell fills in, in a job; all else in it is literal.
HostText = Annotated[str, AfterValidator(_host_text)]
# A folder of each user's own, with variables that the host's shell fills in.
UserFolder = Annotated[str, AfterValidator(_one_line), AfterValidator(_user_folder)]
# A GPU as compilers name it, and code for one.
Gpu = Annotated[str, AfterValidator(_one_line), AfterValidator(one_gpu)]
GpuCode = Annotated[str, AfterValidator(_one_line), AfterValidator(written_right)]
Name = Annotated[
    str, _matching(r"[a-z0-9][a-z0-9._-]{0,62}", "a name of a-z, 0-9, '.', '_' and '-'")
]
Version = Annotated[str, _matching(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,62}", "a version")]
EnvName = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_]{0,254}", "a variable's name")]
EnvPattern = Annotated[
    str,
    _matching(
        r"[A-Za-z_][A-Za-z0-9_]{0,254}|[A-Za-z_][A-Za-z0-9_]{1,253}\*",
        "a variable's name, or the beginning of names and '*'",
    ),
]
# A value of a scheduler's option: it stands in a comment of a script, after the option's name.
Asked = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9_.,:@/+-]{0,127}", "a name of a scheduler")]
# What a time limit may look like; what it means, and whether it is one, its scheduler says.
TimeLimit = Annotated[
    str,
    _matching(r"([0-9]{1,4}-)?[0-9]{0,6}(:[0-9]{0,4}){0,2}", "a time limit: 0:30:00 (H:MM:SS)"),
]
# Names of network interfaces, or how they begin; NCCL's marks: ^ but not these, = the whole name.
Interfaces = Annotated[
    str, _matching(r"[\^=]?[A-Za-z0-9][A-Za-z0-9_.:,-]{0,127}", "names of network interfaces")
]
# A file of the host whose folder is bound: a bind has ':' between paths, options behind ','.
HostFile = Annotated[
    str,
    _matching(
        r"(?!.*\.\.)(/[A-Za-z0-9._+@-]+)+",
        "an absolute path of letters, digits and . _ + @ -",
    ),
]
_PORTS = (1024, 65535)


def _port_range(value: str) -> str:
    match = re.fullmatch(r"([0-9]{4,5})-([0-9]{4,5})", value)
    if match is None or not _PORTS[0] <= int(match[1]) <= int(match[2]) <= _PORTS[1]:
        raise ValueError(
            f"not a range of ports from {_PORTS[0]} to {_PORTS[1]}, the lower first "
            f"(20000-29999): {value!r}"
        )
    return value


PortRange = Annotated[str, AfterValidator(_port_range)]
HostSuffix = Annotated[str, _matching(r"[A-Za-z0-9.-]{1,200}", "the end of a host's name")]
GroupName = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", "a group's name")]
Identifier = Annotated[str, _matching(r"[a-z_][a-z0-9_]{0,62}", "an identifier")]
Command = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", "a command's name")]
OsPackage = Annotated[
    str,
    _matching(
        # A '-' or '+' as the last character is apt's mark to remove a package, or to install it.
        # Two are none (g++); a name that ends in one (ncbi-blast+) can be had with its version.
        r"[a-z0-9][a-z0-9+.-]+(?:(?<![+-])|(?<=\+\+)|(?=[:=]))(:[a-z0-9]+)?"
        r"(=[0-9A-Za-z.+:~-]*[0-9A-Za-z.~])?",
        "an OS package (NAME or NAME=VERSION)",
    ),
]
_PYTHON_PACKAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[0-9A-Za-z.+!_-]+"
)


class UnfitError(ValueError):
    """A value that is refused, where there is another way to what was meant."""

    def __init__(self, text: str, next_step: str) -> None:
        super().__init__(text)
        self.next_step = next_step


def _python_package(value: str) -> str:
    if _PYTHON_PACKAGE.fullmatch(value):
        return value
    text = f"not a pinned Python package (NAME==VERSION): {value!r}"
    if re.search(r"git\+|://| @ |^\.{0,2}/", value):
        raise UnfitError(
            text,
            "build a wheel (pip wheel --no-deps ADDRESS), name its folder in routing.wheels "
            "of the site, and write NAME==VERSION here",
        )
    raise ValueError(text)


PythonPackage = Annotated[str, AfterValidator(_python_package)]
CondaPackage = Annotated[
    str,
    _matching(
        r"[a-z0-9_][a-z0-9._-]*=[0-9A-Za-z.+!_]+(=[0-9A-Za-z._*]+)?",
        "a pinned conda package (NAME=VERSION or NAME=VERSION=BUILD)",
    ),
]
Sha256 = Annotated[str, _matching(r"[0-9a-f]{64}", "a SHA-256 (64 hex digits)")]
Url = Annotated[str, _matching(r"https://[^\s'\"\\<>^`{|}$]+", "an https:// address")]
# One type, not a union with a Literal: a union's error would repeat the value.
Proxy = Annotated[str, AfterValidator(_proxy)]
Digest = Annotated[str, _checked(is_digest, "a digest (sha256: and 64 hex digits)")]
RegistryHost = Annotated[str, _checked(is_registry, "a registry (HOST or HOST:PORT)")]
AptLine = Annotated[
    str,
    _matching(
        r"deb (\[signed-by=/[A-Za-z0-9._/+-]+\] )?(https?|file)://[^\s'\"\\<>^`{|}$]+"
        r"( [a-z0-9][A-Za-z0-9./_-]*)+ [a-z][a-z0-9-]*",
        "a source of apt (deb [signed-by=/FILE] URL SUITE COMPONENT…)",
    ),
]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
IndexFolder = Annotated[str, AfterValidator(_index_folder)]
# Sources and targets of files stand in %files and COPY lines, whose quoting differs by engine and
# version: names that need none are the only ones that work everywhere.
RelativePath = Annotated[
    str,
    _matching(
        r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._+@-]*(/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*",
        "a path inside the recipe's folder (letters, digits and . _ + @ -)",
    ),
]
ImagePath = Annotated[
    str,
    _matching(
        r"(?!.*\.\.)(/[A-Za-z0-9._+@-]+)+",
        "an absolute path in the image (letters, digits and . _ + @ -)",
    ),
]

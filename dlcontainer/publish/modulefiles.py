"""The texts of a module: the Lua and the Tcl modulefile, and a wrapper for each command.

What they say comes from a recipe and a site config. Whatever stands there is text in the modulefile
and never code: each value is quoted for the language that it goes into.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.config.field_types import MpiFamily
from dlcontainer.config.templating import Text, render_template
from dlcontainer.formats import job_folders, job_variables
from dlcontainer.planning.launch import refused_variables, surroundings
from dlcontainer.planning.launch.refused_variables import RefusalRow
from dlcontainer.sites import gpu_flags
from dlcontainer.sites.site import Site
from dlcontainer.system.process import quote

# Commands for packages of a user's own, beside those of the recipe.
PIP = "pip"
VENV = "dlcontainer-venv"
# Of a line in a `case`.
_WIDTH = 84

# The script of a release that its users submit.
JOB = "job/job.sh"

# Names the release that is loaded or that runs, on the host and in the image.
VARIABLE = "DLCONTAINER_RELEASE"

# Variables that name a folder for compiled code.
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleRelease:
    """What is published, as its record says it."""

    name: str
    version: str
    summary: str
    homepage: str | None
    license: str | None
    commands: tuple[str, ...]
    prefix: str
    digest: str
    sha256: str
    # Where the image's SquashFS begins, bytes.
    offset: int
    # Which release of the version; the texts name it.
    number: int = 1
    # Those of CACHES that the image sets itself.
    own_caches: frozenset[str] = frozenset()
    # The family of its MPI; None for an image that uses none.
    mpi: MpiFamily | None = None
    # Of its base; None where nobody wrote it.
    glibc: str | None = None
    gcc: str | None = None
    # Set by the image itself.
    environment: Mapping[str, str] = field(default_factory=dict)
    # It has PyTorch, whose torch.compile writes C++.
    without_compiler: bool = False

    @property
    def pinned(self) -> str:
        """NAME/VERSION-NUMBER, which loads this release whatever follows it."""
        return f"{self.name}/{self.version}-{self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WrapperContext:
    """Which launch file a wrapper reads: the image's own, and lines that choose another one.

    `mpi` says which MPI runs the ranks, `reached` how far the site got, for people; `logged` that
    the site has a log of usage.
    """

    epoch: str = "site"
    choose: tuple[Text, ...] = ()
    mpi: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    logged: bool = False
    # A user's own folder, for models; as the site writes it.
    models: str | None = None
    # The image beside bin/: a file, or a folder of its files.
    image: str = "image.sif"
    # The command that submits the release's job; empty where it has none.
    submit: str = ""


_BARE = WrapperContext()
_ON_TOP = (
    f"Packages of your own: {VENV} ~/my-env makes an environment on top of the image,",
    "  . ~/my-env/bin/activate enters it (it sets DLCONTAINER_VENV), pip install adds to it;",
    f"  {VENV} --pack ~/my-env makes one file of it, which opens faster; --unpack undoes it.",
)
_LOGGED = "This site logs each start, with module, release and job, but not the command line."
_NO_COMPILER = "torch.compile needs a C++ compiler, and this image has none."


def epoch_of(site: Site) -> str:
    """Name the launch file of a site's epoch, without a suffix."""
    return site.epoch or _BARE.epoch


def lua(value: object) -> str:
    """Quote a value as a Lua string."""
    if isinstance(value, Text):
        return value
    out = []
    for byte in str(value).encode():
        if byte in b'"\\':
            out.append("\\" + chr(byte))
        elif 0x20 <= byte < 0x7F:
            out.append(chr(byte))
        else:
            # Three digits, always: a digit that follows is not taken for one of the number's.
            out.append(f"\\{byte:03}")
    return '"' + "".join(out) + '"'


def shell(value: object) -> str:
    """Quote a value as a word of a shell, in quotes in any case."""
    return "'" + str(value).replace("'", "'\\''") + "'"


def tcl(value: object) -> str:
    """Quote a value as a Tcl word; braces too, since the word may stand in a body in braces."""
    if isinstance(value, Text):
        return value
    out = []
    # Lmod rewrites the words as Lua, between [===[ and ]===]: no text may end that.
    for character in str(value).replace("]=", "] ="):
        if character in '"\\$[]{};':
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        elif ord(character) <= 0xFFFF:
            # How Tcl reads other bytes depends on the user's locale.
            out.append(f"\\u{ord(character):04x}")
        else:
            out.append("\\ufffd")  # Tcl 8.6 knows no more than 16 bits of a character
    return '"' + "".join(out) + '"'


def modulefiles(
    release: ModuleRelease,
    folder: Path,
    templates: list[Path],
    context: WrapperContext = _BARE,
    catalogue: Path | None = None,
) -> list[str]:
    """Render the Lua and the Tcl modulefile of a version whose files lie in `folder`."""
    values = {
        "name": release.name,
        "bin": f"{folder}/bin",
        "report": f"{folder}/report.html",
        "job": f"{folder}/{JOB}" if context.submit else "",
        "pinned": release.pinned,
        "catalogue": str(catalogue) if catalogue else "",
        "facts": _whatis(release),
        "help": _help(release, folder, context),
    }
    return [
        render_template(templates, "module/modulefile.lua.j2", values, finalize=lua),
        render_template(templates, "module/modulefile.tcl.j2", values, finalize=tcl),
    ]


def _whatis(release: ModuleRelease) -> list[str]:
    facts = {
        "Name": release.name,
        "Version": release.version,
        "Release": release.pinned,
        "Description": release.summary,
        "URL": release.homepage,
        "License": release.license,
    }
    return [f"{key}: {value}" for key, value in facts.items() if value is not None]


def _help(release: ModuleRelease, folder: Path, context: WrapperContext) -> list[str]:
    return [
        f"{release.name} {release.version}: {release.summary}",
        f"Release {release.number}: module load {release.pinned} loads just this one later, too.",
        "",
        f"Commands, each run in the image: {', '.join(commands(release))}",
        "  they see your home, the current folder and the site's file systems;",
        "  DLCONTAINER_BIND=/a/folder shows a further one.",
        "  DLCONTAINER_KEEP=600 lets a node's ranks and launches share one mount of the image.",
        "Your variables go in, but for those of the host's programs:",
        "  DLCONTAINER_DEBUG=1 names what stays outside, DLCONTAINER_PASS=NAME lets one in.",
        *(_ON_TOP if "python" in release.commands else ()),
        *((_NO_COMPILER,) if release.without_compiler else ()),
        *(_job(context.submit) if context.submit else ()),
        *(_models(context.models) if context.models else ()),
        *((_LOGGED,) if context.logged else ()),
        *context.mpi,
        *_reached(context),
        "",
        "Evidence:",
        f"  plan    sha256:{release.digest}",
        f"  image   sha256:{release.sha256}",
        f"  record  {folder}/record.json",
        f"  checks  {folder}/checks.json",
    ]


def _job(submit: str) -> tuple[str, ...]:
    return (
        f"As a job: {submit}",
        "  places and starts its ranks; without a command it proves devices and network.",
    )


def _models(folder: str) -> tuple[str, ...]:
    return (
        f"Models and data that programs fetch go to {folder}/.cache where that is yours;",
        "  HF_HOME, TORCH_HOME and their like that you set win.",
    )


def _reached(context: WrapperContext) -> list[str]:
    if not context.reached:
        return []
    title = "How far this site got, by the files given when this was published:"
    return ["", title, *(f"  {line}" for line in context.reached)]


@dataclass(frozen=True, kw_only=True, slots=True)
class FallbackPrograms:
    """The publisher's programs, for users on whose PATH there are none."""

    engine: Path
    squashfuse: Path | None = None


def wrappers(
    release: ModuleRelease,
    site: Site,
    resort: FallbackPrograms,
    templates: list[Path],
    context: WrapperContext = _BARE,
) -> Mapping[str, str]:
    """Render a wrapper for each command."""
    values = {
        **job_variables.values(),
        "name": release.name,
        "version": release.version,
        "pinned": release.pinned,
        "number": release.number,
        "image": Text(context.image),
        "unpacked": context.image != _BARE.image,
        "prefix": release.prefix,
        "bind_home": int(site.modules.bind_home),
        "folders": "\n".join(surroundings.folders(site)),
        "models": job_folders.models(site, release.environment),
        "passed": Text(" | ".join(site.modules.pass_environment)),
        "refused": [*map(_refused, refused_variables.rules(release.environment).rows)],
        "venv": Text(VENV),
        "maker": Text(_program(templates, "make_venv")),
        "packer": Text(_program(templates, "pack_venv")),
        "certificates": Text(" ".join(refused_variables.CERTIFICATES)),
        # Of the engine that wrappers start, whatever starts images in the site's jobs.
        "gpu": " ".join(gpu_flags.flags(site, "apptainer")),
        "run_mode": site.engine.run_mode or "",
        "epoch": context.epoch,
        "choose": context.choose,
        "engine": str(resort.engine),
        "squashfuse": str(resort.squashfuse or ""),
        "hint": _engine_hint(site),
        "keep": site.modules.keep_mounted or "",
        "usage": Text(quote(site.modules.usage)),
        # Of one image: a mount is shared by all wrappers of its module, and no other's.
        "key": f"{release.name}-{release.version}-{release.sha256[:12]}",
        # Of what is mounted: the image, or a packed environment.
        "offset": Text("$dlc_offset"),
        "image_offset": release.offset,
        "packs": True,
        # Names alone: they need no quotes.
        "caches": Text(" ".join(name for name in CACHES if name not in release.own_caches)),
    }
    return {
        command: render_template(
            templates, "module/wrapper.sh.j2", {**values, **_kind(command), "command": command}
        )
        for command in commands(release)
    }


def commands(release: ModuleRelease) -> tuple[str, ...]:
    """Name all commands of a module: those that the recipe exposes, and two for packages."""
    if "python" not in release.commands:
        return release.commands
    more = [name for name in (PIP, VENV) if name not in release.commands]
    return (*release.commands, *more)


def _kind(command: str) -> Mapping[str, object]:
    """Return what a wrapper's template needs to know: which parts the image has."""
    return {
        "making": command == VENV,
        "pip": command == PIP,
        "has_python": command == PIP or command.startswith("python"),
    }


def _program(templates: list[Path], name: str) -> str:
    """Return a program for environments; the wrapper hands it to the image's Python."""
    return render_template(templates, f"module/{name}.py.j2", {}).rstrip("\n")


def _refused(row: RefusalRow) -> Mapping[str, object]:
    """Return a row of the table as a branch of a `case`: its patterns are the shell's, unquoted."""
    lines, indent = [""], " " * 8
    for name in row.names:
        if len(lines[-1]) + len(name) > _WIDTH:
            lines.append("")
        lines[-1] += f"{name} | "
    text = f"\\\n{indent}".join(lines).removesuffix(" | ")
    about = Text(f"{row.key}: {row.why}")
    return {"about": about, "always": row.always, "lines": Text(indent + text)}


def _engine_hint(site: Site) -> str:
    if site.engine.module:
        return f"type: module load {site.engine.module}"
    return "load the module of Apptainer or Singularity, or ask your site's support"

"""Apptainer and SingularityCE: argv for building and running."""

import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import installation
from dlcontainer.engines.engine import Binds, BuildSpec, RunSpec, StepSpec, is_lent
from dlcontainer.errors import EngineError
from dlcontainer.system import private_engine
from dlcontainer.system.machine import absolute_folders, find_program

PROGRAMS = ("apptainer", "singularity")

# Tried in this order; the first that works is remembered.
BUILD_MODES: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "fakeroot": ("--fakeroot",),
    # For a user with subordinate ids and without newuidmap: one id is mapped, as for a user
    # without. `apptainer help` doesn't show the option (tried with 1.4.5).
    "root-mapped": ("--fakeroot", "--ignore-subuid"),
}
RUN_MODES: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "userns": ("--userns",),
    # Without /dev/fuse nothing can mount an image: it is unpacked for each run.
    "unpacked": ("--userns", "--unsquash"),
}

_KEPT_APART = ("--no-privs", "--no-mount", "hostfs,bind-paths")
_CONTAINED: Mapping[str, tuple[str, ...]] = {
    "": (),
    "apart": _KEPT_APART,
    "alone": (*_KEPT_APART, "--net", "--network", "none"),
}

# One setting for all figures of an image: 8 % smaller than Apptainer's default (gzip, 128K) in a
# tenth of its time, and read in fewer pieces: docs/measurements/build.md.
LEVEL = 5
BLOCK = "512K"


def squash(level: int = LEVEL, *, lz4: bool = False) -> tuple[str, ...]:
    """Return mksquashfs's settings for an image, at a level of zstd or with lz4, which has none."""
    if lz4:
        return ("-comp", "lz4", "-Xhc", "-b", BLOCK)
    return ("-comp", "zstd", "-Xcompression-level", str(level), "-b", BLOCK)


def level_of(settings: Sequence[str]) -> int | None:
    """Return the level of zstd in mksquashfs's settings; None where they have none."""
    level = dict(itertools.pairwise(settings)).get("-Xcompression-level", "")
    return int(level) if level.isascii() and level.isdigit() else None


SQUASH = squash()

# What reaches the engine of this process's environment. All else (APPTAINER_*, LD_PRELOAD, …)
# could change what runs in the image; proxies it hands on into the image, --cleanenv or not. A
# build that goes out gets them from its routing.
KEPT_VARIABLES = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "USER",
    "XDG_RUNTIME_DIR",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Apptainer:
    """The engine behind `apptainer` or `singularity`."""

    program: Path

    def build_argv(self, spec: BuildSpec) -> list[str]:
        """Return `apptainer build`; %test is left to `validate`."""
        argv = [str(self.program), "--nocolor", "build", "--notest", "--disable-cache"]
        argv += BUILD_MODES[spec.mode]
        if spec.plain_http:
            argv.append("--no-https")
        if spec.arch is not None:
            argv += ["--arch", spec.arch]
        if spec.squash:
            argv += ["--mksquashfs-args", " ".join(spec.squash)]
        argv += _binds(spec.binds)
        return [*argv, str(spec.image), spec.definition]

    def unpack_base_argv(
        self,
        definition: str,
        tree: Path,
        mode: str,
        *,
        plain_http: bool = False,
        arch: str | None = None,
    ) -> list[str]:
        """Return the command that makes a tree of a definition's base; its %setup runs beside it.

        %setup runs on the host, but with the ids of the tree: what reads or packs a tree whose
        files belong to several users goes through it, on every system where the build works.
        """
        argv = [str(self.program), "--nocolor", "build", "--sandbox", "--force", "--notest"]
        argv += ["--disable-cache", *BUILD_MODES[mode]]
        argv += ["--no-https"] if plain_http else []
        argv += ["--arch", arch] if arch else []
        return [*argv, str(tree), definition]

    def step_argv(self, spec: StepSpec) -> list[str]:
        """Return the command that runs something as root of a tree, which it may change."""
        argv = [*self._quiet("exec"), *BUILD_MODES[spec.mode], "--writable", "--cleanenv"]
        argv += ["--containall", "--no-home", "--no-mount", "tmp,home,cwd,hostfs,bind-paths"]
        argv += ["--pwd", "/", *_step_binds(spec.binds)]
        return [*argv, str(spec.tree), *spec.argv]

    def sif_new_argv(self, image: Path) -> list[str]:
        """Return the command that makes an empty SIF."""
        return [str(self.program), "--nocolor", "sif", "new", str(image)]

    def sif_add_argv(self, image: Path, part: Path, name: str, options: Sequence[str]) -> list[str]:
        """Return the command that adds a file to a SIF as a part of it."""
        argv = [str(self.program), "--nocolor", "sif", "add", "--groupid", "1"]
        return [*argv, "--filename", name, *options, str(image), str(part)]

    def run_argv(self, spec: RunSpec) -> list[str]:
        """Return `apptainer exec` without the host's home, environment and file systems."""
        argv = [*self._quiet("exec"), *RUN_MODES[spec.mode], *spec.accelerators]
        argv += [
            *spec.site_words,
            "--cleanenv",
            *_apart(spec),
            *_CONTAINED[spec.contained],
            "--no-home",
            "--pwd",
            "/",
        ]
        argv += _variables(spec.environment)
        argv += _binds(spec.binds)
        return [*argv, str(spec.image), *spec.argv]

    def start_argv(self, spec: RunSpec, name: str) -> list[str]:
        """Return the command that mounts an image once, as an instance that others join."""
        argv = [*self._quiet("instance"), "start", *RUN_MODES[spec.mode], *spec.accelerators]
        argv += [*spec.site_words, "--cleanenv", *_apart(spec)]
        argv += [*_CONTAINED[spec.contained], "--no-home", *_binds(spec.binds)]
        return [*argv, str(spec.image), name]

    def join_argv(self, spec: RunSpec, name: str) -> list[str]:
        """Return the command that runs in a started instance: its mount, its binds, this spec's
        environment.
        """
        argv = [*self._quiet("exec"), "--cleanenv", "--pwd", "/", *_variables(spec.environment)]
        return [*argv, f"instance://{name}", *spec.argv]

    def stop_argv(self, name: str) -> list[str]:
        """Return the command that ends an instance and its mount."""
        return [*self._quiet("instance"), "stop", name]

    def unpack_argv(self, image: Path, folder: Path, mode: str) -> list[str]:
        """Return the command that unpacks an image into a folder that can be run."""
        argv = [str(self.program), "--nocolor", "build", "--sandbox", "--disable-cache"]
        return [*argv, *BUILD_MODES[mode], str(folder), str(image)]

    def _quiet(self, command: str) -> list[str]:
        return [str(self.program), "--nocolor", "--quiet", command]

    def inspect_argv(self, image: Path) -> list[str]:
        """Return the command that prints labels and definition as JSON."""
        return [
            str(self.program),
            "--nocolor",
            "inspect",
            "--json",
            "--labels",
            "--deffile",
            str(image),
        ]


def environment(
    environ: Mapping[str, str], *, tmpdir: Path | None = None, state: Path | None = None
) -> dict[str, str]:
    """Return the environment that the engine itself runs in.

    `state` is where it notes its instances, in place of the user's home.
    """
    kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
    # A private engine's helpers (mksquashfs, squashfuse …) stand beside this Python, or with it.
    private = private_engine.programs_folder(environ)
    folders = absolute_folders(kept.get("PATH") or os.defpath)
    folders += [str(Path(sys.executable).parent), *([str(private)] if private else [])]
    kept["PATH"] = os.pathsep.join(folders)
    if tmpdir is not None:
        # Both names: SingularityCE reads only the older one.
        kept |= {"APPTAINER_TMPDIR": str(tmpdir), "SINGULARITY_TMPDIR": str(tmpdir)}
    if state is not None:
        kept |= {"APPTAINER_CONFIGDIR": str(state), "SINGULARITY_CONFIGDIR": str(state)}
    return kept


def find(environ: Mapping[str, str]) -> Apptainer:
    """Find the engine on PATH or beside this Python; raises EngineError that says how to get it."""
    for name in PROGRAMS:
        program = find_program(name, environ)
        if program is not None:
            return Apptainer(program=program)
    raise EngineError(
        "neither Apptainer nor Singularity is on PATH",
        why=private_engine.refusal(environ)
        or "dlcontainer builds and runs images with one of them",
        next_step=installation.engine(environ),
    )


def _apart(spec: RunSpec) -> list[str]:
    # Ranks find each other by files in /tmp, share memory in /dev/shm, and read each other's.
    return ["--no-mount", "home,cwd,bind-paths"] if spec.together else ["--containall"]


def _variables(environment: Mapping[str, str]) -> list[str]:
    argv = []
    for name, value in sorted(environment.items()):
        argv += ["--env", f"{name}={value}"]
    return argv


def require_bindable(path: Path) -> None:
    """Refuse a path that no engine can bind; raises EngineError."""
    if any(character in str(path) for character in ':,"\\\n'):
        # Apptainer splits --bind at these; older versions have no way to quote them.
        raise EngineError(
            f"the engine cannot bind {str(path)!r}",
            why="the path contains a ':', ',', quote, backslash or newline",
            next_step="choose another folder with --tmpdir",
        )


def _binds(binds: Binds) -> list[str]:
    argv = []
    for source, target in binds:
        require_bindable(source)
        argv += ["--bind", f"{source}:{target}"]
    return argv


def _step_binds(binds: Binds) -> list[str]:
    # In a tree that may be changed Apptainer takes the folder that it works in (SESSIONDIR) for a
    # mount point inside each bind whose target is above it, and makes that path there: an engine
    # below /tmp would show in a step's empty /tmp. It compares targets as they are written
    # (createLayout in internal/pkg/util/fs/layout/session_linux.go, tried with 1.4.5), so one with
    # a slash at its end is above nothing. What is lent finds its mount points made (the routing's).
    argv = []
    for source, target in binds:
        require_bindable(source)
        shown = f"{target}:ro" if is_lent(target, binds) else f"{target}/"
        argv += ["--bind", f"{source}:{shown}"]
    return argv

"""Audit: what a user meets. The engine that wrappers fall back on, and the module, loaded."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree.contents import ReleaseFault
from dlcontainer.publish.tree.generation import GenerationEntry
from dlcontainer.publish.tree.layout import KINDS, MODULES, RELEASES
from dlcontainer.system import foreign_files, guarded_files
from dlcontainer.system.process import Runner

_MOST_BYTES = 1_000_000
# Of templates/module/wrapper.sh.j2.
_FALLBACK = re.compile(rb"^for dlc_engine in apptainer singularity (.+); do$", re.MULTILINE)
# Kept by a shell that loaded something before: a user begins without.
_LOADED = re.compile(r"_ModuleTable|LOADEDMODULES|_LMFILES_|__MODULES|__LMOD")
_SCRIPT = 'dlc_code=$("$1" sh load "$2") && eval "$dlc_code" && command -v -- "$3"'
_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """A module system of this host, and the environment that a user begins with."""

    program: str
    kind: str
    environ: Mapping[str, str]
    runner: Runner


def loader(environ: Mapping[str, str], runner: Runner) -> Loader | None:
    """Take the module system of the environment; None where there is none."""
    for variable, kind in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tcl")):
        program = environ.get(variable)
        if program:
            kept = {name: value for name, value in environ.items() if not _LOADED.match(name)}
            return Loader(program=program, kind=kind, environ=kept, runner=runner)
    return None


def engines(entries: Iterable[GenerationEntry], releases: Folder) -> Mapping[Path, tuple[str, ...]]:
    """Return the engines that wrappers fall back on, each with its modules."""
    engines_of: dict[Path, tuple[str, ...]] = {}
    for entry, listed in ((version, listed) for version in entries for listed in version.releases):
        engine = _engine(releases, listed.digest)
        if engine is not None:
            engines_of[engine] = (*engines_of.get(engine, ()), entry.named(listed))
    return engines_of


def _engine(releases: Folder, digest: str) -> Path | None:
    try:
        with releases.sub(digest) as release, release.sub("bin") as folder:
            for name in sorted(guarded_files.names(folder.number))[:1]:
                with folder.open(name) as file:
                    line = _FALLBACK.search(foreign_files.content(file, _MOST_BYTES))
                words = shlex.split(line[1].decode()) if line else []
                return Path(words[0]) if words and words[0].startswith("/") else None
    except (OSError, ValueError):
        return None  # said by those who compare the release with its checksums
    return None


def is_seen(root: Path, kind: str, environ: Mapping[str, str]) -> bool:
    """Return whether the tree's modules of a kind are in MODULEPATH."""
    return str(root / MODULES / kind) in environ.get("MODULEPATH", "").split(":")


def meets(root: Path, entries: Iterable[GenerationEntry], by: Loader) -> Iterator[ReleaseFault]:
    """Load each module as a user does, and compare the command that comes with it.

    Where MODULEPATH names the tree it stays as it is: another tree before it would win here too.
    """
    environ = dict(by.environ)
    if not is_seen(root, by.kind, environ):
        environ["MODULEPATH"] = str(root / MODULES / by.kind)
    for entry in entries:
        for version, listed in entry.loadable:
            module = f"{entry.name}/{version}"
            why = _met(module, root / RELEASES / listed.digest / "bin", environ, by)
            if why:
                where = root / MODULES / by.kind / f"{module}{KINDS[by.kind][0]}"
                yield ReleaseFault(where=str(where), why=why, module=module)


def _met(module: str, folder: Path, environ: Mapping[str, str], by: Loader) -> str | None:
    """Load a module; return what is wrong with what comes of it."""
    command = min((path.name for path in folder.glob("*")), default=None)
    if command is None:
        return None
    argv = ["sh", "-c", _SCRIPT, "sh", by.program, module, command]
    done = by.runner(argv, env=environ, check=False, timeout=_TIMEOUT_S)
    lines = done.stdout.splitlines()
    met = lines[-1] if lines else ""
    if done.returncode != 0 or not met:
        why = (done.stderr.strip().splitlines() or ["no error message"])[0]
        return f"users can't load {module}: {why[:200]}"
    if Path(met).parent.resolve() != folder.resolve():
        return f"users who load {module} get {met[:300]}"
    return None

"""Which resolver this host has: uv for any target, pip for the running interpreter's alone."""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from dlcontainer import installation
from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, Runner

# The oldest uv whose options and platforms were tried.
_OLDEST = Version("0.13")
_VERSION = re.compile(r"uv (\d+\.\d+\.\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class UvProgram:
    """A uv that is new enough."""

    path: Path
    version: str


def find_uv(host: HostMachine, runner: Runner) -> UvProgram | None:
    """Find uv on PATH, else beside this Python, where the extra `resolve` puts it."""
    neighbour = Path(sys.executable).with_name("uv")
    candidates = [find_program("uv", host.environ), neighbour if neighbour.is_file() else None]
    for path in dict.fromkeys(filter(None, candidates)):
        try:
            completed = runner([str(path), "--version"], env=host.environ)
        except (CommandNotFoundError, CommandFailedError):
            continue
        match = _VERSION.match(completed.stdout)
        if match and Version(match[1]) >= _OLDEST:
            return UvProgram(path=path, version=match[1])
    return None


def python_here() -> str:
    """Return the running interpreter's Python, as a target has it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def has_pip() -> bool:
    """Return whether the running interpreter has pip."""
    return importlib.util.find_spec("pip") is not None


def require_pip_fits(target: Target, host: HostMachine) -> None:
    """Refuse targets that pip would answer wrongly: it evaluates markers of this interpreter.

    Raises MisfitError. Source: pypa/pip#11664.
    """
    fits = target.python == python_here() and target.arch == host.arch
    if fits and has_pip():
        return
    why = "no uv is here, nor pip beside this Python"
    if not fits:
        why = (
            f"no uv is here, and pip answers for Python {python_here()} on {host.arch} alone: it "
            "reads the packages' conditions for itself"
        )
    raise MisfitError(
        f"no resolver here for Python {target.python} on {target.arch}",
        why=why,
        next_step=f"install uv: {installation.resolver()}",
    )

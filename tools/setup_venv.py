#!/usr/bin/env python3
"""Make the virtual environment with the project installed in it, editable, with its extras."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools  # noqa: F401  first: an older Python is refused there
from dlcontainer.engine_setup import aptget
from dlcontainer.engine_setup.aptget import private_apt
from dlcontainer.engine_setup.commands import cure, root_argv, run, stream
from dlcontainer.engine_setup.packages import unpack
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.engine_setup.trees import locked
from dlcontainer.errors import EngineError
from dlcontainer.system import atomic_files, digests
from tools.console import CONSOLE, run_steps, verbose_by

PROJECT = Path(__file__).resolve().parent.parent
TITLE = "Python environment"
# What the tools of the set-up say, in the checkout.
LOG = ".tools/set-up.log"
STAMP = "setup-stamp.json"
# Made first, so that a half-made environment can be told from a folder of somebody's.
MARKER = "setup-started"
# An environment with pip in it takes less.
_PIP_BYTES = 30_000_000


def base_python() -> str:
    """Return the Python that environments are made with, also when run from inside one.

    `make setup` in an activated `.venv` must not make that environment from itself.
    """
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def wanted_stamp(project: Path, venv: Path, extras: str) -> dict[str, str]:
    """Return what the environment depends on; a change of any of these calls for work."""
    digest = digests.of_file(project / "pyproject.toml")
    return {
        "pyproject": digest,
        "extras": extras,
        "python": f"{base_python()} {platform.python_version()}",
        # Scripts in it hold its absolute path, the editable install that of the checkout.
        "venv": str(venv),
        "project": str(project),
    }


def read_stamp(venv: Path) -> dict[str, str]:
    """Return the stamp of a finished environment, empty where there is none or it is broken."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and (venv / "bin/python").exists() else {}


def next_step(stamp: dict[str, str], wanted: dict[str, str]) -> str:
    """Return what is to be done: `nothing`, `install` into what is there, or `make` it anew."""
    same = all(stamp.get(key) == wanted[key] for key in ("python", "venv", "project"))
    if not same:
        return "make"
    # `make demo` after `make test`: the extras of the one are there for the other.
    more = _split(wanted["extras"]) - _split(stamp.get("extras", ""))
    return "install" if more or stamp.get("pyproject") != wanted["pyproject"] else "nothing"


def with_extras(stamp: dict[str, str], extras: str) -> str:
    """Name the wanted extras and those that are there already, which stay up to date."""
    return ",".join(sorted(_split(extras) | _split(stamp.get("extras", ""))))


def _split(extras: str) -> set[str]:
    return {name.strip() for name in extras.split(",")} - {""}


def remove_old(venv: Path) -> None:
    """Remove an environment; refuse a folder that is not one."""
    if venv.is_symlink() or (venv.exists() and not venv.is_dir()):
        raise EngineError(f"{venv} is not a folder", next_step="give another one with --venv")
    if not venv.exists():
        return
    ours = any((venv / name).exists() for name in ("pyvenv.cfg", MARKER, STAMP))
    if not ours and any(venv.iterdir()):
        raise EngineError(
            f"not removing {venv}",
            why="it is not empty and not a virtual environment",
            next_step="give another folder with --venv",
        )
    shutil.rmtree(venv)


def make_venv(venv: Path, *, unpack_only: bool) -> None:
    """Make an environment with pip in it, whatever the distribution left out of Python."""
    remove_old(venv)
    venv.mkdir(parents=True)
    (venv / MARKER).touch()
    if not has_ensurepip() and not unpack_only:
        _install_venv_package()
    if has_ensurepip():
        say(f"make {venv} with Python {platform.python_version()}")
        try:
            run([base_python(), "-m", "venv", str(venv)])
        except EngineError as error:
            # It doesn't say why its pip could not be unpacked.
            if shutil.disk_usage(venv).free < _PIP_BYTES:
                error.next_step = error.next_step or cure("No space left")
            raise
        return
    say("this Python has no ensurepip: pip comes from the distribution's wheel, unpacked")
    run([base_python(), "-m", "venv", "--without-pip", str(venv)])
    with tempfile.TemporaryDirectory(prefix="dlcontainer-apt-") as folder:
        _install_pip(venv, Path(folder))


def has_ensurepip() -> bool:
    """Return whether this Python can put pip into an environment by itself."""
    # Debian leaves a stub that imports but has no wheels: asking for the version finds out.
    probe = "import ensurepip, venv; ensurepip.version()"
    return run([base_python(), "-c", probe], check=False).returncode == 0


def _install_venv_package() -> None:
    root = root_argv() if aptget.available() else None
    if root is None:
        return
    say("install python3-venv: this Python has no ensurepip")
    try:
        aptget.install(root, ["python3-venv"])
    except EngineError as error:
        note(str(error))


def _install_pip(venv: Path, folder: Path) -> None:
    advice = (
        "an administrator types: apt-get install python3-venv; or name another Python: "
        "make setup PYTHON=/path/to/python3.11"
    )
    if not aptget.available():
        raise EngineError("no pip for the environment", why="no ensurepip", next_step=advice)
    try:
        apt = private_apt(folder, sources=None)
        apt.update()
        unpack(apt.download(["python3-pip-whl"]), folder / "tree")
    except EngineError as error:
        raise EngineError("no pip for the environment", why=str(error), next_step=advice) from error
    wheel = next((folder / "tree/usr/share/python-wheels").glob("pip-*.whl"), None)
    if wheel is None:
        raise EngineError("no pip wheel in package python3-pip-whl", next_step=advice)
    # A wheel is a zip file: Python runs the pip inside it, which installs itself.
    python = str(venv / "bin/python")
    run([python, str(wheel / "pip"), "install", "--no-index", "--no-deps", str(wheel)])


def install_project(project: Path, venv: Path, extras: str) -> None:
    """Install the project, editable, with its extras."""
    target = f".[{extras}]" if extras else "."
    name = f"dlcontainer[{extras}]" if extras else "dlcontainer"
    takes = "a minute or two" if extras else "half a minute"
    say(f"pip installs {name} and what it needs ({takes})")
    python = str(venv / "bin/python")
    try:
        stream(
            [python, "-m", "pip", "install", "--progress-bar", "off", "-e", target],
            what=f"pip installs {name}",
            cwd=project,
        )
    except EngineError as error:
        error.next_step = error.next_step or (
            "see pip's lines above; behind a proxy set HTTPS_PROXY, PIP_INDEX_URL or PIP_CERT"
        )
        raise


def setup(project: Path, venv: Path, extras: str, *, unpack_only: bool) -> None:
    """Bring the environment up to date with the project."""
    stamp, wanted = read_stamp(venv), wanted_stamp(project, venv, extras)
    step = next_step(stamp, wanted)
    if step == "nothing":
        say(f"found: {venv}, made for this pyproject.toml")
        return
    if step == "make":
        try:
            make_venv(venv, unpack_only=unpack_only)
        except KeyboardInterrupt:
            remove_old(venv)
            raise
    else:
        wanted["extras"] = with_extras(stamp, extras)
    (venv / STAMP).unlink(missing_ok=True)
    try:
        install_project(project, venv, wanted["extras"])
    except KeyboardInterrupt:
        if step == "make":
            remove_old(venv)
        raise
    atomic_files.write(venv / STAMP, json.dumps(wanted, indent=2) + "\n")


def main() -> int:
    """Set the environment up and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="where it is made")
    parser.add_argument("--extras", default="dev", help="extras of pyproject.toml, by commas")
    parser.add_argument(
        "--unpack-only", action="store_true", help="never install a distribution's package"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tools' lines")
    options = parser.parse_args()
    log = PROJECT / LOG
    CONSOLE.begin([TITLE], verbose=options.verbose or verbose_by(os.environ), log=log)
    venv = Path(options.venv).absolute()

    def work() -> int:
        step(venv, options.extras, unpack_only=options.unpack_only)
        return 0

    return run_steps(work)


def step(venv: Path, extras: str, *, unpack_only: bool = False) -> None:
    """Bring the environment up to date, as a step of a run; raises EngineError."""
    CONSOLE.step(TITLE)
    try:
        with locked(PROJECT):
            setup(PROJECT, venv, extras, unpack_only=unpack_only)
    except OSError as error:
        raise EngineError(
            f"cannot make {venv}", why=str(error), next_step=cure(str(error))
        ) from error


if __name__ == "__main__":
    sys.exit(main())

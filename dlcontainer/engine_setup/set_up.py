"""The steps of the set-up: the helper programs, then the engine.

Each comes from PATH, else from the distribution's package, else from a private prefix, which
changes nothing on the host. A step that would replace the host's C library is never taken.
"""

import os
import platform
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engine_setup import aptget, private_apptainer, programs, surroundings
from dlcontainer.engine_setup.commands import cure
from dlcontainer.engine_setup.subids import MissingRange, missing_range
from dlcontainer.engine_setup.surroundings import note, say
from dlcontainer.engine_setup.trees import check_prefix, link_into, locked
from dlcontainer.errors import EngineError

TITLES = ("helper programs", "Apptainer")


def nobody() -> Sequence[str] | None:
    """Stand for root where nothing on this system is to be changed."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetupPlan:
    """Where the private parts go and their links, and what may be changed.

    `as_root` returns what stands before a command of root's; with None nothing that is installed
    is changed. `only_prefix` uses nothing that is installed; `newest` fetches again what is private
    already.
    `judged`: `dlcontainer doctor` says later what this user's ids and devices keep from working.
    """

    prefix: Path
    bin: Path
    as_root: Callable[[], Sequence[str] | None] = nobody
    only_prefix: bool = False
    newest: bool = False
    judged: bool = False

    @property
    def path(self) -> str:
        """The folders whose programs are used as they are: no private links."""
        return "" if self.only_prefix else programs.search_path(hide=self.bin)


@dataclass(frozen=True, kw_only=True, slots=True)
class UsableEngine:
    """An engine that is there, its version, and whether it is the prefix's."""

    program: Path
    version: str
    private: bool


def os_release() -> dict[str, str]:
    """Return what the distribution says of itself; empty where it says nothing."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _absent(plan: SetupPlan) -> list[programs.HelperProgram]:
    """Name the programs that this system does not have."""
    absent = programs.missing(plan.path)
    return [program for program in absent if not (plan.only_prefix and program.installed_only)]


def _lacking(plan: SetupPlan) -> list[programs.HelperProgram]:
    """Name the programs that are to be fetched."""
    present = [] if plan.newest else programs.in_prefix(plan.prefix)
    return [program for program in _absent(plan) if program not in present]


def system_changes(plan: SetupPlan) -> list[str]:
    """Name what root's set-up would change on this system, as lines to type; it changes nothing."""
    lines = []
    if aptget.available():
        packages = programs.host_packages(lacking) if (lacking := _lacking(plan)) else []
        if find_engine(plan) is None and _refusal_of_package() is None:
            packages.append("apptainer")
        if packages:
            lines.append(f"apt-get install {' '.join(packages)}")
    missing = missing_range()
    return [*lines, missing.change] if missing else lines


def ensure_programs(plan: SetupPlan) -> None:
    """Have every helper program on PATH or in the prefix."""
    lacking = _lacking(plan)
    if not lacking:
        where = "private prefix" if plan.only_prefix else "PATH"
        say(f"found: all helper programs ({where})")
        return
    if not aptget.available():
        if find_engine(plan) is None:
            # Its packages bring what it needs of these programs.
            raise _no_engine()
        programs.explain_without_apt(lacking, os_release())
        return
    root = None if plan.only_prefix else plan.as_root()
    if root is not None:
        try:
            programs.install_on_host(root, lacking)
        except EngineError as error:
            note(f"{error}\n        Unpacking them privately instead")
        else:
            return
    if any(not program.installed_only for program in lacking):
        # One tree, replaced whole: what it already has must be in the new one as well.
        programs.install_private(plan.prefix, _absent(plan))
    else:
        programs.explain_installed_only(lacking)


def find_engine(plan: SetupPlan) -> UsableEngine | None:
    """Return a working engine that is there: on PATH, else in the prefix."""
    for name in () if plan.only_prefix else ("apptainer", "singularity"):
        program = shutil.which(name, path=plan.path)
        version = private_apptainer.version_of(program) if program else None
        if program and version:
            return UsableEngine(program=Path(program), version=version, private=False)
        if program:
            note(
                f"{program} is not used: its --version names neither Apptainer nor Singularity, "
                "or it doesn't answer"
            )
    private = None if plan.newest else private_apptainer.find_private(plan.prefix)
    return UsableEngine(program=private[0], version=private[1], private=True) if private else None


def ensure_apptainer(plan: SetupPlan) -> UsableEngine:
    """Return a working Apptainer: from PATH, the distribution, or the prefix."""
    engine = find_engine(plan)
    if engine is not None:
        whose = ", private prefix" if engine.private else ""
        say(f"found: {engine.program} ({engine.version}{whose})")
        return engine
    if not aptget.available():
        raise _no_engine()
    packaged = None if plan.only_prefix else _from_distribution(plan)
    if packaged:
        return packaged
    program = private_apptainer.install_private(
        plan.prefix, os_release(), programs=plan.prefix / programs.NAME / programs.WRAPPERS
    )
    version = private_apptainer.version_of(program) or ""
    return UsableEngine(program=program, version=version, private=True)


def _no_engine() -> EngineError:
    return EngineError(
        "no Apptainer on PATH",
        why="this host has no apt-get to fetch it with",
        next_step=private_apptainer.advice(os_release()),
    )


def _refusal_of_package() -> str | None:
    """Return why the distribution's own package is not installed; None where it may be."""
    simulation = aptget.simulate(["apptainer"])
    return simulation.refusal() if simulation else "its apt sources have no installable one"


def _from_distribution(plan: SetupPlan) -> UsableEngine | None:
    """Install the distribution's own package, where it has one that leaves libc alone."""
    refusal = _refusal_of_package()
    if refusal:
        say(f"into a private prefix, not from the distribution: {refusal}")
        return None
    root = plan.as_root()
    if root is None:
        say("into a private prefix, not from the distribution: nothing is installed as root")
        return None
    say("install the distribution's own")
    aptget.install(root, ["apptainer"])
    return find_engine(plan)


def check_fuse() -> None:
    """Tell an ordinary user who cannot mount images why, and what fixes it."""
    device = Path("/dev/fuse")
    if not device.exists():
        note(
            "there is no /dev/fuse: images cannot be mounted. An administrator types: modprobe fuse"
        )
    elif not os.access(device, os.R_OK | os.W_OK):
        note(
            f"{device} is not readable and writable for you: images cannot be mounted, only "
            f"unpacked.\n        An administrator types: chmod 0666 {device}"
        )


def link_programs(plan: SetupPlan, engine: Path) -> None:
    """Put links to what is private into the plan's folder; remove those that are not wanted now.

    What the system has is the system's: whoever installed it later wants it used.
    """
    prefix = plan.prefix
    names = {"apptainer": engine} if engine.is_relative_to(prefix) else {}
    private = prefix / programs.NAME / programs.WRAPPERS
    absent = programs.missing(plan.path)
    names |= {
        program.command: private / program.command
        for program in programs.in_prefix(prefix)
        if program in absent
    }
    unlink_programs(plan, keep=names)
    plan.bin.mkdir(exist_ok=True)
    new = [name for name, target in names.items() if link_into(plan.bin, name, target)]
    if new:
        say(f"linked in {plan.bin}: {', '.join(new)}")


def unlink_programs(plan: SetupPlan, keep: Collection[str] = ()) -> None:
    """Remove the links into the prefix, but those to keep."""
    names = {"apptainer", *(program.command for program in programs.PROGRAMS)}
    for name in sorted(names - set(keep)):
        link = plan.bin / name
        if link.is_symlink() and link.readlink().is_relative_to(plan.prefix):
            link.unlink()
            say(f"no longer private: {name}")


def ensure_ids(missing: MissingRange | None, plan: SetupPlan) -> None:
    """Append a range for root where that is allowed; else tell what must be typed."""
    if missing is None:
        return
    if os.geteuid() == 0 and plan.as_root() is not None:
        missing.append()
    elif not plan.judged:
        note(missing.advice)


def ensure_engine(plan: SetupPlan) -> UsableEngine:
    """Set the helper programs and the engine up, as two steps of a run; raises EngineError."""
    teller = surroundings.teller()
    teller.step(TITLES[0])
    try:
        check_prefix(plan.prefix)
        with locked(plan.prefix):
            ensure_programs(plan)
            teller.step(TITLES[1])
            engine = ensure_apptainer(plan)
            link_programs(plan, engine.program)
        ensure_ids(missing_range(), plan)
        if not plan.judged:
            check_fuse()
    except OSError as error:
        raise EngineError(
            "cannot set the engine up", why=str(error), next_step=cure(str(error))
        ) from error
    return engine

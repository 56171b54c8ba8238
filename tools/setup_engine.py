#!/usr/bin/env python3
"""Make sure that this machine has a container engine, Apptainer, and the programs it needs.

In this order: one that is on PATH; the distribution's package; a private prefix, which changes
nothing on the host. A step that would replace the host's C library is never taken.
"""

import argparse
import os
import platform
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import apptainer, aptget, programs
from tools.console import CONSOLE, SetupError, note, run_steps, say, verbose_by
from tools.processes import cure, root_argv
from tools.setup_venv import LOG, PROJECT
from tools.subids import ensure_ranges
from tools.trees import check_prefix, link_into, locked

TITLES = ("helper programs", "Apptainer")


def ensure_programs(prefix: Path, hidden: Path, *, only_prefix: bool) -> None:
    """Have every helper program on PATH or in the prefix."""
    absent = programs.missing("" if only_prefix else programs.search_path(hide=hidden))
    if only_prefix:
        absent = [program for program in absent if not program.installed_only]
    lacking = [program for program in absent if program not in programs.in_prefix(prefix)]
    if not lacking:
        where = "private prefix" if only_prefix else "PATH"
        say(f"found: all helper programs ({where})")
        return
    if not aptget.available():
        programs.explain_without_apt(lacking, platform.freedesktop_os_release())
        return
    root = None if only_prefix else root_argv()
    if root is not None:
        try:
            programs.install_on_host(root, lacking)
        except SetupError as error:
            note(f"{error}\n        Unpacking them privately instead")
        else:
            return
    if any(not program.installed_only for program in lacking):
        # One tree, replaced whole: what it already has must be in the new one as well.
        programs.install_private(prefix, absent)
    else:
        programs.explain_installed_only(lacking)


def ensure_apptainer(prefix: Path, hidden: Path, *, only_prefix: bool) -> Path:
    """Return a working Apptainer: from PATH, the distribution, or the prefix."""
    if not only_prefix:
        for name in ("apptainer", "singularity"):
            found = shutil.which(name, path=programs.search_path(hide=hidden))
            version = apptainer.version_of(found) if found else None
            if found and version:
                say(f"found: {found} ({version})")
                return Path(found)
            if found:
                note(
                    f"{found} is not used: its --version names neither Apptainer nor Singularity, "
                    "or it doesn't answer"
                )
    private = apptainer.find_private(prefix)
    if private:
        say(f"found: {private[0]} ({private[1]}, private prefix)")
        return private[0]
    os_release = platform.freedesktop_os_release()
    if not aptget.available():
        raise SetupError(
            "no Apptainer on PATH",
            why="without apt-get it cannot be fetched from here",
            next_step=apptainer.advice(os_release),
        )
    packaged = None if only_prefix else _from_distribution()
    if packaged:
        return packaged
    return apptainer.install_private(
        prefix, os_release, programs=prefix / programs.NAME / programs.WRAPPERS
    )


def _from_distribution() -> Path | None:
    """Install the distribution's own package, where it has one that leaves libc alone."""
    simulation = aptget.simulate(["apptainer"])
    refusal = simulation.refusal() if simulation else "its apt sources have no installable one"
    if refusal:
        say(f"into a private prefix, not from the distribution: {refusal}")
        return None
    root = root_argv()
    if root is None:
        say(
            "into a private prefix, not from the distribution: that takes root or passwordless sudo"
        )
        return None
    say("install the distribution's own")
    aptget.install(root, ["apptainer"])
    found = shutil.which("apptainer", path=programs.search_path())
    return Path(found) if found else None


def check_fuse() -> None:
    """Tell an ordinary user who cannot mount images why, and what mends it."""
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


def link_programs(bin_folder: Path, engine: Path, prefix: Path, *, only_prefix: bool) -> None:
    """Put links to what is private into `bin_folder`, and remove those that are not wanted now.

    What the system has is the system's: whoever installed it later wants it used.
    """
    names = {"apptainer": engine} if engine.is_relative_to(prefix) else {}
    private = prefix / programs.NAME / programs.WRAPPERS
    absent = programs.missing("" if only_prefix else programs.search_path(hide=bin_folder))
    names |= {
        program.command: private / program.command
        for program in programs.in_prefix(prefix)
        if program in absent
    }
    known = {"apptainer", *(program.command for program in programs.PROGRAMS)}
    for name in sorted(known - names.keys()):
        link = bin_folder / name
        if link.is_symlink() and link.readlink().is_relative_to(prefix):
            link.unlink()
            say(f"no longer private: {name}")
    new = [name for name, target in names.items() if link_into(bin_folder, name, target)]
    if new:
        say(f"linked in {bin_folder}: {', '.join(new)}")


def main() -> int:
    """Set the engine up and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=Path(".venv/bin"), help="where links are put")
    parser.add_argument("--prefix", type=Path, default=Path(".tools"), help="the private prefix")
    parser.add_argument(
        "--only",
        choices=["prefix"],
        help="use nothing installed and install nothing: everything goes into the prefix",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tools' lines")
    options = parser.parse_args()
    verbose = options.verbose or verbose_by(os.environ)
    CONSOLE.begin(TITLES, verbose=verbose, log=PROJECT / LOG)
    prefix, bin_folder = Path(options.prefix), Path(options.bin)

    def work() -> int:
        steps(prefix, bin_folder, only_prefix=options.only == "prefix")
        return 0

    return run_steps(work)


def steps(
    prefix: Path, bin_folder: Path, *, only_prefix: bool = False, judged: bool = False
) -> None:
    """Set the helper programs and the engine up, as two steps of a run; raises SetupError.

    `judged`: `dlcontainer doctor` says later what this user's ids and devices keep from working.
    """
    prefix, bin_folder = prefix.resolve(), bin_folder.absolute()
    CONSOLE.step(TITLES[0])
    try:
        check_prefix(prefix)
        if not bin_folder.is_dir():
            raise SetupError(
                f"no folder {bin_folder}",
                next_step="make it, or run tools/setup_venv.py first (`make setup` does both)",
            )
        with locked(prefix):
            ensure_programs(prefix, bin_folder, only_prefix=only_prefix)
            CONSOLE.step(TITLES[1])
            engine = ensure_apptainer(prefix, bin_folder, only_prefix=only_prefix)
            link_programs(bin_folder, engine, prefix, only_prefix=only_prefix)
        ensure_ranges(tells=not judged)
        if not judged:
            check_fuse()
    except OSError as error:
        raise SetupError(
            "cannot set the engine up", why=str(error), next_step=cure(str(error))
        ) from error


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Install what the tests and the demo use beside the engine: MPI, module systems, a browser.

As root or with passwordless sudo; else it names the line to type: what needs it is then skipped.
Names of packages as arguments: only these.
"""

import shutil
import sys
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import aptget
from tools.console import SetupError, note, report_error, say
from tools.processes import root_argv
from tools.programs import search_path

# what shows that it is there (a program, or a file) -> Debian's package
WANTED = {
    "chromium": "chromium",
    "mpirun": "openmpi-bin",
    "tclsh": "tcl",
    "/usr/share/lmod/lmod/init/sh": "lmod",
}


def missing(only: Collection[str]) -> list[str]:
    """Name the packages whose program or file is not there; all of `only`, or of all."""
    path = search_path()
    return sorted(
        package
        for sign, package in WANTED.items()
        if (not only or package in only)
        and not (Path(sign).exists() if sign.startswith("/") else shutil.which(sign, path=path))
    )


def main(only: Collection[str] = ()) -> int:
    """Install what is missing and return the exit code."""
    packages = missing(only)
    if not packages:
        say(f"found: {', '.join(only) or 'all that the integration tests use'}")
        return 0
    root = root_argv() if aptget.available() else None
    if root is None:
        note(
            f"what needs {', '.join(packages)} will be skipped; to have it: "
            f"sudo apt-get install {' '.join(packages)}"
        )
        return 0
    say(f"installing {', '.join(packages)}")
    try:
        aptget.install(root, packages)
    except SetupError as error:
        return report_error(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

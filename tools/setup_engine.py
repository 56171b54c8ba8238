#!/usr/bin/env python3
"""Make sure that this machine has a container engine, Apptainer, and the programs it needs.

In this order: one that is on PATH; the distribution's package; a private prefix, which changes
nothing on the host. A step that would replace the host's C library is never taken.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools  # noqa: F401  first: an older Python is refused there
from dlcontainer.engine_setup.commands import root_argv
from dlcontainer.engine_setup.set_up import TITLES, SetupPlan, ensure_engine
from dlcontainer.errors import EngineError
from tools.console import CONSOLE, run_steps, verbose_by
from tools.setup_venv import LOG, PROJECT


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
    """Set the helper programs and the engine up, as two steps of a run; raises EngineError.

    `judged`: `dlcontainer doctor` says later what this user's ids and devices keep from working.
    """
    bin_folder = bin_folder.absolute()
    if not bin_folder.is_dir():
        raise EngineError(
            f"no folder {bin_folder}",
            next_step="make it, or run tools/setup_venv.py first (`make setup` does both)",
        )
    ensure_engine(
        SetupPlan(
            prefix=prefix.resolve(),
            bin=bin_folder,
            as_root=root_argv,
            only_prefix=only_prefix,
            judged=judged,
        )
    )


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The set-up as one run: numbered steps, on one clock; `make setup V=1` shows the tools' lines."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tools  # noqa: F401  first: an older Python is refused there
from dlcontainer.engine_setup.set_up import TITLES
from tools import setup_engine, setup_tests, setup_venv
from tools.console import CONSOLE, run_steps, verbose_by
from tools.setup_venv import LOG, PROJECT

# What is set up -> the titles of its steps, in their order.
PARTS = {
    "venv": (setup_venv.TITLE,),
    "engine": TITLES,
    "tests": (setup_tests.TITLE,),
}


def titles(parts: list[str]) -> list[str]:
    """List the steps of these parts."""
    return [title for part in PARTS if part in parts for title in PARTS[part]]


def main(arguments: list[str] | None = None) -> int:
    """Set up what was asked for and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*PARTS], help="what is set up")
    parser.add_argument("--bin", type=Path, default=Path(".venv/bin"), help="the programs' folder")
    parser.add_argument("--prefix", type=Path, default=Path(".tools"), help="the private prefix")
    parser.add_argument("--extras", default="dev", help="extras of pyproject.toml, by commas")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the tools' lines")
    options = parser.parse_args(arguments)
    verbose = options.verbose or verbose_by(os.environ)
    CONSOLE.begin(titles(options.parts), verbose=verbose, log=PROJECT / LOG)

    def work() -> int:
        if "venv" in options.parts:
            setup_venv.step(options.bin.absolute().parent, options.extras)
        if "engine" in options.parts:
            setup_engine.steps(options.prefix, options.bin)
        if "tests" in options.parts:
            setup_tests.step([], options.prefix, options.bin)
        return 0

    return run_steps(work)


if __name__ == "__main__":
    sys.exit(main())

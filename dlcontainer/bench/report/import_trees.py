"""An import tree: what Python writes of its imports, read; parents before what they import.

A run of its own, since tracing slows what it times. Python writes a module when its import ends,
so below what it imported: the tree is read backwards.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem.count_file import ImportNode
from dlcontainer.lab.filesystem.counting import CountingTask
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    ProcessRunner,
)

# import time:      1234 |       5678 |     package.module
_LINE = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S.*?)\s*$")
_VARIABLE = "PYTHONPROFILEIMPORTTIME"


def traced(task: CountingTask, runner: ProcessRunner) -> tuple[ImportNode, ...]:
    """Run one rank and return what it imported.

    Raises BenchDataError where it fails, and where no Python of it wrote a word (one with -E or -I,
    or in a container that lets no variable in).
    """
    inside = replace(runner, environ={**runner.environ, _VARIABLE: "1"})
    try:
        stderr = inside(task.argv, timeout=task.timeout_s).stderr
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError) as error:
        raise BenchDataError("the run for the import tree failed", why=str(error)) from None
    modules = parse(stderr.splitlines())
    if not modules:
        raise BenchDataError(
            "no Python process reported its imports",
            why=f"Python runs with -E or -I, or the variable {_VARIABLE} does not reach it",
            next_step="pass the variable into the container (Apptainer: APPTAINERENV_"
            + _VARIABLE
            + "=1), or leave out --import-tree",
        )
    return modules


def parse(lines: Iterable[str]) -> tuple[ImportNode, ...]:
    """Return the modules in the order of a tree, from lines among which Python's are."""
    modules = [
        ImportNode(
            name=match[4],
            depth=len(match[3]) // 2,
            self_us=int(match[1]),
            total_us=int(match[2]),
        )
        for line in lines
        if (match := _LINE.match(line))
    ]
    return tuple(reversed(modules))

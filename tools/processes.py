"""Commands whose output goes where that of the set-up goes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlcontainer.errors import EngineError
from tools.console import Interrupted


def pass_through(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> int:
    """Run a command whose output goes where this one's goes, and return its exit code.

    Where this is interrupted, the command is too, once, and its end is waited for. It has a
    process group of its own: a terminal's Ctrl-C reaches it by way of this process alone, so that
    it is not interrupted again while it tidies up.
    """
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    except OSError as error:
        raise EngineError(f"cannot run {argv[0]}", why=str(error)) from error
    try:
        return process.wait()
    except BaseException as error:
        number = error.number if isinstance(error, Interrupted) else signal.SIGINT
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        process.wait()
        raise

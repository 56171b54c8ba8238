"""A process with all imports done, which runs each command in a fork of itself.

An order is a JSON object on a line of stdin; back come the process's number, and its exit code.
"""

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

# A call that neither a command nor a child of it needs; strace changes its answer to this once it
# is at work. (Not getppid: our children ask it whether their parent is still alive.)
ASKED = "sched_get_priority_max"
TRACED = 1 << 30


def serve() -> None:
    """Fork for each order; this returns in the children alone, and at the end of the orders."""
    # Not by sys.stdin, whose buffer a child would share.
    for line in iter(lambda: _line(0), b""):
        order: Mapping[str, Any] = json.loads(line)
        for name in order["modules"]:
            with suppress(Exception):
                importlib.import_module(name)
        child = os.fork()
        if child == 0:
            _run(order)
            return
        _say(child)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _line(number: int) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        byte = os.read(number, 1)
        if not byte:
            return b""
        text += byte
    return text


def _say(number: int) -> None:
    os.write(1, b"%d\n" % number)


def _run(order: Mapping[str, Any]) -> None:
    """Become the command, and end as it ends: the interpreter's own end comes after it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    streams = (os.devnull, os.O_RDONLY), (order["stdout"], os.O_WRONLY), (order["log"], os.O_WRONLY)
    for number, (path, flags) in enumerate(streams):
        os.dup2(os.open(path, flags | os.O_CLOEXEC), number)
    module, _, name = order["entry"].partition(":")
    entry = getattr(importlib.import_module(module), name)
    while order["traced"] and os.sched_get_priority_max(os.SCHED_OTHER) != TRACED:
        time.sleep(0.001)
    try:
        entry(order["argv"])
    finally:
        if order["learn"]:
            Path(order["learn"]).write_text("\n".join(sorted(sys.modules)))


if __name__ == "__main__":
    serve()

"""A process that has every command's imports and sites, and forks for each command line.

An order is a JSON object on a line of stdin, with `words` and the kind of `streams`; back comes one
with the exit code and the start of what was said. In the fork the standard streams are made again
as the interpreter makes them at its start, and the fork ends as the interpreter ends.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, TextIO

import pytest

from dlcontainer.cli import main
from tests import terminals

KINDS = ("usual", "latin-1", "ascii", "closed stdout", "closed stderr", "full", "gone")
_CLOSED = {"closed stdout": 1, "closed stderr": 2}


def serve() -> None:
    """Answer orders until there are no more."""
    with pytest.MonkeyPatch.context() as patch:
        terminals.read_once(patch)
        for line in sys.stdin:
            order: Mapping[str, Any] = json.loads(line)
            if order["streams"] == "usual":
                _learn(order["words"])
            sys.stdout.write(json.dumps(_forked(order)) + "\n")
            sys.stdout.flush()


def _learn(words: list[str]) -> None:
    """Run it here first: its forks then have its imports and its sites."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main._run(words, as_json=False)


def _forked(order: Mapping[str, Any]) -> dict[str, object]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os._exit(_run(order["words"], order["streams"], out.fileno(), log.fileno()))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = [os.pread(one.fileno(), 4000, 0).decode("latin-1") for one in (out, log)]
    return {"code": code, "out": said[0], "err": said[1]}


def _run(words: list[str], streams: str, out: int, log: int) -> int:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if streams == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    elif streams == "gone":
        reader, out = os.pipe()
        os.close(reader)
    os.dup2(out, 1)
    os.dup2(log, 2)
    if streams in _CLOSED:
        os.close(_CLOSED[streams])
    encoding = streams if streams in ("latin-1", "ascii") else "utf-8"
    sys.stdout = _stream(1, encoding, "strict")
    sys.stderr = _stream(2, encoding, "backslashreplace")
    sys.argv = ["dlcontainer", *words]
    try:
        main.run()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except OSError:
            return 120  # so the interpreter ends where its own flush fails
        return code
    return 99


def _stream(number: int, encoding: str, errors: str) -> TextIO:
    try:
        os.fstat(number)
    except OSError:
        return None  # type: ignore[return-value]  # as the interpreter has it then
    return open(
        number, "w", encoding=encoding, errors=errors, buffering=1 if number == 2 else -1,
        closefd=False,
    )  # fmt: skip


if __name__ == "__main__":
    serve()

"""The entry point: all commands, and the only place that exits."""

import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from dlcontainer import __version__
from dlcontainer.cli import command_list, output, renamed, streams
from dlcontainer.cli.app import App
from dlcontainer.errors import (
    BenchDataError,
    BuildError,
    DlcontainerError,
    EngineError,
    InterruptedByUserError,
    PublishError,
)

app = App(
    name="dlcontainer",
    help="Build, validate and publish deep-learning containers for supercomputing centres.",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok, 1 checks failed, 2 usage, 3 configuration, 4 engine, 5 build, "
    "6 publish, 7 bench data, 8 recipe and site are incompatible, 70 a bug in dlcontainer, "
    "130 interrupted.",
)
app.add(*command_list.TOP)


def _version(value: bool) -> None:
    if value:
        output.say(f"dlcontainer {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Build, validate and publish deep-learning containers for supercomputing centres."""


@contextmanager
def _signals() -> Iterator[None]:
    # SIGTERM (a batch system's time limit) and SIGHUP (a lost connection) clean up as Ctrl-C does.
    def interrupt(number: int, _frame: FrameType | None) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        raise InterruptedByUserError(f"interrupted by {name}")

    # SIGINT too: Typer would end without a word on KeyboardInterrupt. One that is ignored (nohup,
    # a shell's background job) stays so.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)
    yield


def _report(error: DlcontainerError, *, as_json: bool) -> None:
    output.complain(f"dlcontainer: {error}")
    if as_json:
        body = {
            "exit_code": error.exit_code,
            "what": error.what,
            "where": None if error.where is None else str(error.where),
            "why": error.why,
            "next": error.next_step,
        }
        output.emit("error", body)


# A disk, or a server of files, that is full or ill (Lustre: ESHUTDOWN, ENOTCONN) is no bug of ours,
# at whichever of many thousand calls it says so.
_OF_DISKS = (
    *(errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EROFS),
    *(errno.ENOTCONN, errno.ESHUTDOWN, errno.EREMOTEIO),
)


def _of_a_disk(raised: OSError, argv: list[str]) -> DlcontainerError:
    """Name the file system that failed, with the exit code of the command's own errors."""
    kinds = {
        **dict.fromkeys(("publish", "modules"), PublishError),
        **dict.fromkeys(("bench", "lab"), BenchDataError),
    }
    kind: type[DlcontainerError] = kinds.get(argv[0] if argv else "", BuildError)
    full = raised.errno in (errno.ENOSPC, errno.EDQUOT)
    return kind(
        f"the file system failed: {raised.strerror}",
        where=str(raised.filename) if raised.filename else None,
        next_step="free some space, then try again"
        if full
        else (
            "try again; if it fails again, send the line above to the file system's administrators"
        ),
    )


def _of_the_machine(raised: Exception, argv: list[str]) -> DlcontainerError | None:
    """Return the error that a slow machine or an ill disk comes to; None for what is our bug."""
    from dlcontainer.system.runner import CommandTimeoutError

    if isinstance(raised, CommandTimeoutError):
        # Whoever ran it had no better word for it.
        return EngineError(
            str(raised),
            next_step="try again when the machine is less busy; images that are unpacked for "
            "each run (see dlcontainer doctor) start slowly",
        )
    if isinstance(raised, OSError) and raised.errno in _OF_DISKS:
        return _of_a_disk(raised, argv)
    return None


def _called(argv: list[str]) -> int | None:
    """Run the command; raises BrokenPipeError where the reader of stdout has gone."""
    out = sys.stdout
    try:
        with _signals():
            code: int | None = app(args=argv, prog_name="dlcontainer", standalone_mode=False)
            return code
    except SystemExit:
        # So Typer ends then, with 1, which would be a failed check: it puts another stream in the
        # place of stdout first.
        if sys.stdout is out:
            raise
        raise BrokenPipeError from None


def _run(argv: list[str], *, as_json: bool) -> int:
    try:
        argv, note = renamed.resolve(argv)
        if note is not None:
            output.complain(note)
        code = _called(argv)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        error: DlcontainerError = InterruptedByUserError("interrupted by Ctrl-C")
    except typer.TyperException as problem:
        from dlcontainer.cli import usage_errors

        error = usage_errors.translated(problem, argv)
    except DlcontainerError as raised:
        error = raised
    except Exception as raised:
        machines_own = _of_the_machine(raised, argv)
        if machines_own is None:
            raise
        error = machines_own
    else:
        return int(code or 0)
    _report(error, as_json=as_json)
    return error.exit_code


def _flushed(argv: list[str]) -> int:
    """Write what is left of the result; return the exit code, where the device is full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as raised:
        error = _of_a_disk(raised, argv)
        _report(error, as_json=False)
        _discard()
        return error.exit_code
    return 0


def _discard() -> None:
    """Let what is left of the result go nowhere: the interpreter's end would fail on it, as 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run() -> None:
    """Run the command line and exit with its documented code."""
    # Importing makes some 50,000 objects that stay: looking through them for garbage, now and as
    # the interpreter ends, is in vain and a fifth of a render's time (docs/measurements/index.md).
    gc.set_threshold(200_000)
    streams.prepare()
    output.begin_run(os.environ)
    argv, code = sys.argv[1:], 0
    try:
        code = _run(argv, as_json="--json" in argv)
        # Also of one that failed: what is left would be written as the interpreter ends.
        flushed = _flushed(argv)
        code = code or flushed
    except BrokenPipeError:
        # `dlcontainer plan … | head`: the reader has what it wanted. Python would complain again
        # while it closes stdout: it has no other way to be told.
        _discard()
    except Exception:  # noqa: BLE001  whatever it is, it is ours: say so, with all there is
        import traceback

        output.complain(traceback.format_exc())
        output.complain(f"dlcontainer {__version__}: this is a bug; please report the lines above")
        code = 70
    gc.freeze()
    sys.exit(code)

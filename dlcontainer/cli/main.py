"""The entry point: all commands, and the only place that exits."""

import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from dlcontainer import __version__
from dlcontainer.cli import (
    adopt,
    base,
    build,
    cache,
    diff,
    doctor,
    explain_env,
    export,
    fetch,
    inspect,
    lock,
    output,
    plan,
    prove,
    publish,
    recipe,
    render,
    report,
    site,
    streams,
    usage_errors,
    validate,
)
from dlcontainer.cli.app import App
from dlcontainer.cli.bench import nodes, sessions, suite
from dlcontainer.cli.modules import group as modules
from dlcontainer.cli.signing import attest, pull, push, sign, verify
from dlcontainer.errors import (
    BenchDataError,
    BuildError,
    DlcontainerError,
    EngineError,
    InterruptedByUserError,
    PublishError,
)
from dlcontainer.system.runner import CommandTimeoutError

_LOOK, _MAKE, _SHIP, _MEASURE = "Look", "Make", "Check and publish", "Measure"

app = App(
    name="dlcontainer",
    help="Build, validate and publish deep-learning containers for supercomputing centres.",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 ok, 1 checks failed, 2 usage, 3 configuration, 4 engine, 5 build, "
    "6 publish, 7 bench data, 8 recipe and site are incompatible, 70 a bug in dlcontainer, "
    "130 interrupted.",
)
app.command("doctor", rich_help_panel=_LOOK)(doctor.doctor)
app.add_typer(site.app, name="site", rich_help_panel=_LOOK)
app.add_typer(recipe.app, name="recipe", rich_help_panel=_LOOK)
app.command("plan", rich_help_panel=_LOOK)(plan.plan)
app.command("render", rich_help_panel=_MAKE)(render.render)
app.command("lock", rich_help_panel=_MAKE)(lock.lock)
app.command("fetch", rich_help_panel=_MAKE)(fetch.fetch)
app.command("build", rich_help_panel=_MAKE)(build.build)
app.command("adopt", rich_help_panel=_MAKE)(adopt.adopt)
app.add_typer(base.app, name="base", rich_help_panel=_MAKE)
app.add_typer(cache.app, name="cache", rich_help_panel=_MAKE)
app.command("validate", rich_help_panel=_SHIP)(validate.validate)
app.command("inspect", rich_help_panel=_SHIP)(inspect.inspect)
app.command("diff", rich_help_panel=_SHIP)(diff.diff)
app.command("sign", rich_help_panel=_SHIP)(sign.sign)
app.command("attest", rich_help_panel=_SHIP)(attest.attest)
app.command("verify", rich_help_panel=_SHIP)(verify.verify)
app.command("push", rich_help_panel=_SHIP)(push.push)
app.command("pull", rich_help_panel=_SHIP)(pull.pull)
app.command("publish", rich_help_panel=_SHIP)(publish.publish)
app.add_typer(modules.app, name="modules", rich_help_panel=_SHIP)
app.command("explain-env", rich_help_panel=_SHIP)(explain_env.explain_env)
app.command("prove", rich_help_panel=_SHIP)(prove.prove)
# Here, for they also report: `export`, which needs the probes' commands, does not.
sessions.app.command("suite")(suite.suite)
sessions.app.command("nodes")(nodes.nodes)
app.add_typer(sessions.app, name="bench", rich_help_panel=_MEASURE)
app.command("report", rich_help_panel=_MEASURE)(report.report)
app.add_typer(export.app, name="export", rich_help_panel=_MEASURE)


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
    """Say which file system failed, with the exit code of the command's own errors."""
    kinds = {"publish": PublishError, "modules": PublishError, "bench": BenchDataError}
    kind: type[DlcontainerError] = kinds.get(argv[0] if argv else "", BuildError)
    full = raised.errno in (errno.ENOSPC, errno.EDQUOT)
    return kind(
        f"the file system failed: {raised.strerror}",
        where=str(raised.filename) if raised.filename else None,
        next_step="make room, and try again"
        if full
        else "try again; if it stays, give the line above to whoever looks after that file system",
    )


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
        code = _called(argv)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        error: DlcontainerError = InterruptedByUserError("interrupted by Ctrl-C")
    except typer.TyperException as problem:
        error = usage_errors.translated(problem, argv)
    except DlcontainerError as raised:
        error = raised
    except CommandTimeoutError as raised:
        # Whoever ran it had no better word for it, and a slow machine is no bug of ours.
        error = EngineError(
            str(raised),
            next_step="try again on a machine, or at a time, with less to do; images that are "
            "unpacked for each run (dlcontainer doctor says so) start slowly",
        )
    except OSError as raised:
        if raised.errno not in _OF_DISKS:
            raise
        error = _of_a_disk(raised, argv)
    else:
        return int(code or 0)
    _report(error, as_json=as_json)
    return error.exit_code


def _flushed(argv: list[str]) -> int:
    """Write what is left of the result; give the exit code, where the device is full."""
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
    # the interpreter ends, is in vain and a fifth of a render's time (docs/measurements.md).
    gc.set_threshold(50_000)
    streams.prepare()
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
        output.complain(traceback.format_exc())
        output.complain(f"dlcontainer {__version__}: a bug; please report the lines above")
        code = 70
    gc.freeze()
    sys.exit(code)

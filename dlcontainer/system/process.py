"""The one door to other processes: echo, stream, capture, dry run; children die with us.

Each command runs under `supervisor.py`, which ends the command and all that comes from it as soon
as this process closes a pipe: in good order, by an exception, or by dying itself.
"""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Unpack

from dlcontainer.system import machine
from dlcontainer.system.output_lines import Capture, OutputLines, Sink, TooMuchOutputError
from dlcontainer.system.runner import (
    CommandEndedError,
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    Runner,
    RunOptions,
    quote,
)

__all__ = [
    "CommandEndedError",
    "CommandFailedError",
    "CommandNotFoundError",
    "CommandTimeoutError",
    "CompletedCommand",
    "ProcessRunner",
    "RunOptions",
    "Runner",
    "interact",
    "quote",
]

PATIENCE = 5.5  # seconds for the supervisor to end everything: its OUTER_LIMIT and some
SUPERVISOR = Path(__file__).resolve().with_name("supervisor.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRunner:
    """Run real processes; `environ` is what they get unless a call gives another."""

    environ: Mapping[str, str]
    echo: Callable[[str], None] | None = None
    dry_run: bool = False
    # Descriptors that commands get beside their streams, under the same numbers.
    inherited: tuple[int, ...] = ()
    # Once it can be read, commands are ended and raise CommandEndedError: for work beside the work.
    ending: int | None = None
    # How much longer than others a command may take to end, s: for one that has work to do then,
    # and does it however busy the machine is.
    more_grace_s: float = 0.0

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        """Run `argv`; when this returns or raises, no process of it is left.

        Raises CommandNotFoundError, CommandTimeoutError, with `check` CommandFailedError; TypeError
        or ValueError for what no process can be given, OSError for a `cwd` or `log` that cannot be
        opened.
        """
        command = _checked(argv)
        if unknown := options.keys() - RunOptions.__optional_keys__:
            raise TypeError(f"no option of a command: {', '.join(sorted(unknown))}")
        env, timeout = options.get("env"), options.get("timeout")
        environ = _packed(self.environ if env is None else env)
        if self.echo is not None:
            self.echo(f"$ {quote(command)}")
        if self.dry_run:
            return CompletedCommand(argv=command, returncode=0, stdout="", stderr="", elapsed=0.0)
        start = time.monotonic()
        with ExitStack() as stack:
            output = _output(options.get("on_line"), options.get("log"), stack)
            job = _Job(
                argv=command,
                environ=environ,
                cwd=options.get("cwd"),
                stdin=options.get("stdin"),
                deadline=None if timeout is None else start + timeout,
                inherited=self.inherited,
                ending=self.ending,
                more_grace_s=self.more_grace_s,
            )
            try:
                end, late = _supervise(job, output)
                stdout, stderr = output.texts()
            except TooMuchOutputError as error:
                end, late, stdout, stderr = _KILLED, False, "", str(error)
        elapsed, code = time.monotonic() - start, end.code
        completed = CompletedCommand(
            argv=command,
            returncode=code,
            stdout=stdout,
            stderr=stderr,
            elapsed=elapsed,
            processor_s=end.processor_s,
        )
        if late and timeout is not None and elapsed >= timeout:
            raise CommandTimeoutError(completed, timeout)
        if late:
            raise CommandEndedError(command)
        if options.get("check", True) and code != 0:
            raise CommandFailedError(completed)
        return completed


def interact(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> int:
    """Run `argv` on this process's terminal until a person ends it; Ctrl-C is theirs.

    Returns its exit code. Raises CommandNotFoundError.
    """
    command = _checked(argv)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        ) as process:
            return process.wait()
    except OSError as error:
        raise CommandNotFoundError(command[0], error.strerror or str(error)) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _checked(argv: Sequence[str]) -> tuple[str, ...]:
    if isinstance(argv, str | bytes) or not all(isinstance(word, str) for word in argv):
        raise TypeError(f"a command is a sequence of str, not {argv!r}")
    if not argv or not argv[0]:
        raise ValueError("a command needs at least the program's name")
    for word in argv:
        if "\0" in word:
            raise ValueError(f"a NUL byte cannot be in an argument: {word!r}")
    return tuple(argv)


def _output(
    on_line: Callable[[str], None] | None, log: Path | None, stack: ExitStack
) -> Capture | OutputLines:
    if log is None:
        return Capture() if on_line is None else OutputLines(on_line, None)
    # Whole lines, for tail -f.
    file = log.open("a", encoding="utf-8", newline="\n", buffering=1)
    return OutputLines(on_line, stack.enter_context(file))


def _packed(environ: Mapping[str, str]) -> bytes:
    for name, value in environ.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"no environment can hold the variable {name!r}")
    payload = b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())
    return len(payload).to_bytes(8, "big") + payload


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    argv: tuple[str, ...]
    environ: bytes
    cwd: Path | None
    stdin: str | None
    deadline: float | None
    inherited: tuple[int, ...]
    ending: int | None
    more_grace_s: float

    @property
    def patience_s(self) -> float:
        """How long its supervisor has to end everything."""
        return PATIENCE + self.more_grace_s


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """What a supervisor says of a command's end."""

    code: int
    processor_s: float = 0.0


_KILLED = _End(code=-signal.SIGKILL)


def _supervise(job: _Job, output: Capture | OutputLines) -> tuple[_End, bool]:
    """Run a command under its supervisor; return how it ended and whether it was late."""
    report = bytearray()
    with ExitStack() as stack:
        # Both pipes are close-on-exec; only the supervisor gets the two ends named in pass_fds.
        reading_end, lifeline = _pipe(stack)
        status, reporting = _pipe(stack)
        ends = [str(reading_end.fileno()), str(reporting.fileno())]
        words = [*ends, str(job.more_grace_s), *job.argv]
        process = subprocess.Popen(
            # Isolated and without site, it starts in a few ms. The command's environment comes by
            # the pipe.
            [sys.executable, "-I", "-S", str(SUPERVISOR), *words],
            stdin=_source(job.stdin, stack),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if output.merged else subprocess.PIPE,
            bufsize=0,
            cwd=job.cwd,
            # It needs what this very interpreter was started with (LD_LIBRARY_PATH).
            env=machine.for_children(os.environ),
            start_new_session=True,
            pass_fds=[*(int(end) for end in ends), *job.inherited],
        )
        reading_end.close()
        reporting.close()
        streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
        for stream in streams:
            stack.callback(stream.close)
        stack.callback(_end, process, lifeline, [*streams, status], job.patience_s)
        _send(lifeline, job.environ)
        sinks = dict(zip([*streams, status], [*output.sinks(), report.extend], strict=True))
        late = not _pump(sinks, status, job.deadline, job.ending)
        if late:
            lifeline.close()
            _pump(sinks, status, time.monotonic() + job.patience_s)
        else:
            process.wait()
    if process.returncode == 1 and not report:
        raise RuntimeError("the supervisor failed: " + "".join(output.texts())[-2000:])
    return _reported(bytes(report), job.argv[0]), late


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return (
        stack.enter_context(os.fdopen(read, "rb", buffering=0)),
        stack.enter_context(os.fdopen(write, "wb", buffering=0)),
    )


def _source(text: str | None, stack: ExitStack) -> IO[bytes] | int:
    """Return the input as a file: nobody has to feed it, and no terminal can stop who reads it."""
    if text is None:
        return subprocess.DEVNULL
    source = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    source.write(os.fsencode(text))
    source.seek(0)
    return source


def _send(lifeline: IO[bytes], message: bytes) -> None:
    rest = memoryview(message)
    with suppress(BrokenPipeError):  # it died at once; its exit code says so
        while rest:
            rest = rest[os.write(lifeline.fileno(), rest) :]


def _pump(
    sinks: Mapping[IO[bytes], Sink],
    status: IO[bytes],
    deadline: float | None,
    ending: int | None = None,
) -> bool:
    """Carry bytes to the sinks until the supervisors are gone; tell whether that was in time."""
    with selectors.DefaultSelector() as selector:
        for stream, sink in sinks.items():
            selector.register(stream, selectors.EVENT_READ, sink)
        if ending is not None:
            selector.register(ending, selectors.EVENT_READ)
        remaining_s: float | None = None
        while set(selector.get_map()) - {ending}:
            gone = status not in selector.get_map()
            if deadline is not None:
                remaining_s = max(0.0, deadline - time.monotonic())
            ready = selector.select(0 if gone else remaining_s)
            if gone and not ready:
                return True  # both were killed, and someone who outlived them holds a stream
            if remaining_s == 0.0 or any(key.fd == ending for key, _ in ready):
                return False
            for key, _ in ready:
                chunk = os.read(key.fd, 65_536)
                key.data(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
    return True


def _end(
    process: subprocess.Popen[bytes],
    lifeline: IO[bytes],
    streams: list[IO[bytes]],
    patience_s: float,
) -> None:
    """Let the supervisor end everything, and wait for it; a second Ctrl-C ends only the wait."""
    lifeline.close()
    if process.poll() is None:
        # Read on, so that nobody who wants to say a last word is stuck in a full pipe.
        _pump(dict.fromkeys(streams, len), streams[-1], time.monotonic() + patience_s)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)


def _reported(report: bytes, program: str) -> _End:
    match report.split()[:3]:
        case [b"error", number, *_]:
            raise CommandNotFoundError(program, os.strerror(int(number)))
        case [b"exit", code, used]:
            return _End(code=int(code), processor_s=int(used) / 1e6)
        case _:  # the supervisor was killed, and the command with it
            return _KILLED

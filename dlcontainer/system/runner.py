"""What running a command is: who runs it, how it ended, what can go wrong.

The errors here are no `DlcontainerError`: only the caller knows what a command was for. It raises
the error that a user can meet, from `.completed` or `.program`.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict, Unpack


def quote(argv: Sequence[str]) -> str:
    """Write a command as a shell would read it, for display."""
    return shlex.join(argv)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletedCommand:
    """How a command ended: -N is signal N; `elapsed` in s, the supervisor included.

    `processor_s` is what it and all that came from it used of the processors, by getrusage(2).
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    elapsed: float
    processor_s: float = 0.0


class CommandNotFoundError(Exception):
    """The program could not be started: it is missing, not executable, or not for this machine."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(f"{quote([program])}: {reason}")
        self.program = program
        self.reason = reason


class CommandFailedError(Exception):
    """The command ended with something else than 0."""

    def __init__(self, completed: CompletedCommand) -> None:
        code = completed.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        super().__init__(f"`{quote(completed.argv)}` {how}")
        self.completed = completed


class CommandTimeoutError(Exception):
    """The command took too long and was ended; `completed` holds what it said until then."""

    def __init__(self, completed: CompletedCommand, timeout: float) -> None:
        super().__init__(f"`{quote(completed.argv)}` did not end within {timeout:g} s")
        self.completed = completed
        self.timeout = timeout


class CommandEndedError(Exception):
    """The command was ended before it was done: nobody wants its result any more."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(f"ended `{quote(argv)}`, because its result is no longer needed")


class RunOptions(TypedDict, total=False):
    """All that a command may be given beside its words; each may be left out."""

    # The whole environment; else that of the runner.
    env: Mapping[str, str] | None
    cwd: Path | None
    # Whether another exit code than 0 is a CommandFailedError; it is, unless this says no.
    check: bool
    # The input's text; else there is none.
    stdin: str | None
    # In seconds; after it the command is ended, and that is a CommandTimeoutError.
    timeout: float | None
    # With one of these, stdout and stderr are one stream, given line by line and appended to `log`;
    # `stdout` then holds the last 200 lines. What a carriage return ends is given, and stands in
    # neither.
    on_line: Callable[[str], None] | None
    log: Path | None


class Runner(Protocol):
    """Run one command to its end."""

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        """Run `argv` and say how it ended."""
        ...

"""Stand-ins for what unit tests must not touch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from dlcontainer.system.process import CommandFailedError, CompletedCommand, RunOptions


def completed(*argv: str, code: int = 0, stdout: str = "", stderr: str = "") -> CompletedCommand:
    return CompletedCommand(argv=argv, returncode=code, stdout=stdout, stderr=stderr, elapsed=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a `Runner` was asked."""

    argv: tuple[str, ...]
    env: Mapping[str, str] | None
    cwd: Path | None
    stdin: str | None
    timeout: float | None
    log: Path | None


@dataclass(slots=True)
class RecordingRunner:
    """A `Runner` that runs nothing: it notes the calls and gives `answers` in their order.

    An exception among the answers is raised. With no answer left, every command succeeds silently,
    unless `strict`: then it is an AssertionError.
    """

    answers: list[CompletedCommand | Exception] = field(default_factory=list)
    strict: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def argvs(self) -> list[tuple[str, ...]]:
        return [call.argv for call in self.calls]

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        assert not isinstance(argv, str), "a command is a sequence of str"
        assert options.keys() <= RunOptions.__optional_keys__, options.keys()
        on_line = options.get("on_line")
        call = Call(
            argv=tuple(argv),
            env=options.get("env"),
            cwd=options.get("cwd"),
            stdin=options.get("stdin"),
            timeout=options.get("timeout"),
            log=options.get("log"),
        )
        self.calls.append(call)
        assert self.answers or not self.strict, f"no answer is left for {call.argv}"
        answer = self.answers.pop(0) if self.answers else completed(*argv)
        if isinstance(answer, Exception):
            raise answer
        if on_line is not None:
            for line in answer.stdout.splitlines():
                on_line(line)
        if options.get("check", True) and answer.returncode != 0:
            raise CommandFailedError(answer)
        for name in argv[1:]:
            if "build" in argv and answer.returncode == 0 and name.endswith("/tiny.sif"):
                Path(name).touch()  # the engine's trial: what ends well leaves its image
        return answer


class Quiet:
    """A progress that notes what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def expect(self, count: int) -> None:
        """Nothing is said of how many there are."""

    def step(self, title: str) -> None:
        self.said.append(title)

    def phase(self, title: str) -> None:
        """Nothing is said of what comes and goes."""

    def line(self, text: str) -> None:
        self.said.append(text)

    def note(self, text: str) -> None:
        self.said.append(text)

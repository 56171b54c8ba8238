"""Stand-ins for what unit tests must not touch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.system.process import CommandFailedError, Completed


def completed(*argv: str, code: int = 0, stdout: str = "", stderr: str = "") -> Completed:
    return Completed(argv=argv, returncode=code, stdout=stdout, stderr=stderr, elapsed=0.0)


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

    answers: list[Completed | Exception] = field(default_factory=list)
    strict: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def argvs(self) -> list[tuple[str, ...]]:
        return [call.argv for call in self.calls]

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        stdin: str | None = None,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
        log: Path | None = None,
    ) -> Completed:
        assert not isinstance(argv, str), "a command is a sequence of str"
        call = Call(argv=tuple(argv), env=env, cwd=cwd, stdin=stdin, timeout=timeout, log=log)
        self.calls.append(call)
        assert self.answers or not self.strict, f"no answer is left for {call.argv}"
        answer = self.answers.pop(0) if self.answers else completed(*argv)
        if isinstance(answer, Exception):
            raise answer
        if on_line is not None:
            for line in answer.stdout.splitlines():
                on_line(line)
        if check and answer.returncode != 0:
            raise CommandFailedError(answer)
        return answer


class Quiet:
    """A progress that notes what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, title: str) -> None:
        self.said.append(title)

    def line(self, text: str) -> None:
        self.said.append(text)

    def note(self, text: str) -> None:
        self.said.append(text)

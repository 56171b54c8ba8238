"""Ask a Python with torch for the bytes of a rank: one process, no device, no data.

The probe `memory` of this dlcontainer runs, whichever the image carries: the session's own folder
is bound read-only, and so is that of a user's script.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.launch import SCHEMA, how, last_lines
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast.memory_records import (
    MemoryForecast,
    MemoryQuestion,
    MemoryRefusal,
    RankMemory,
)
from dlcontainer.config.resources import PROBE
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import Binds, RunSpec
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.system import foreign_files
from dlcontainer.system.process import (
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    Runner,
)

# A strategy takes seconds: who needs longer hangs.
_HANGS_S = 3600.0
# Where the image sees the probe and the folder of a script.
_PROBE_INSIDE, _SCRIPT_INSIDE = "/mnt/dlc-probe", "/mnt/dlc-script"
# What the probe says before each strategy, and at the end as its result.
_PHASE = "dlc-memory: "
_ENVIRONMENT: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NativePython:
    """A Python of this host with torch in it."""

    python: Path
    runner: Runner
    environment: Mapping[str, str]
    tell: Callable[[str], None] = lambda _: None

    @property
    def name(self) -> str:
        """Return its name in messages."""
        return str(self.python)

    def command(self, words: Sequence[str], script: Path | None) -> "MemoryCommand":
        """Return the command; a script is seen where it is."""
        shown = str(script) if script else ""
        return MemoryCommand(
            argv=(str(self.python), str(PROBE), *words),
            environment={**self.environment, **_ENVIRONMENT},
            shown=shown,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePython:
    """An image's own Python: the engine is started once."""

    context: BenchContext
    subject: BenchImage

    @property
    def name(self) -> str:
        """Return its name in messages."""
        return self.subject.image.name

    @property
    def runner(self) -> Runner:
        """Return what starts the engine."""
        return self.context.execution.runner

    def tell(self, text: str) -> None:
        """Show how far it is."""
        self.context.execution.progress.phase(text)

    def command(self, words: Sequence[str], script: Path | None) -> "MemoryCommand":
        """Return the command; the folder of a script is bound, read-only."""
        binds: Binds = ((PROBE, f"{_PROBE_INSIDE}:ro"),)
        if script is not None:
            binds += ((script.parent, f"{_SCRIPT_INSIDE}:ro"),)
        execution = self.context.execution
        spec = RunSpec(
            image=self.subject.image,
            argv=(self.subject.python, _PROBE_INSIDE, *words),
            mode=execution.run_mode,
            environment={**_ENVIRONMENT, **self.context.surroundings.image_paths},
            binds=binds,
            site_words=self.context.surroundings.words,
            contained="apart" if self.subject.is_contained else "",
        )
        return MemoryCommand(
            argv=tuple(execution.engine.run_argv(spec)),
            environment={
                **apptainer.environment(execution.host.environ, tmpdir=self.context.work),
                **self.context.surroundings.environment,
            },
            shown=f"{_SCRIPT_INSIDE}/{script.name}" if script else "",
        )


MemoryPython = NativePython | ImagePython


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryCommand:
    """A command with its environment, and where its Python sees the user's script."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    shown: str


@dataclass(slots=True)
class _Lines:
    """What the process says: lines that tell how far it is, and all of them for a result."""

    tell: Callable[[str], None]
    lines: list[str] = field(default_factory=list)

    def take(self, text: str) -> None:
        if text.startswith(_PHASE):
            self.tell(text.removeprefix(_PHASE))
        else:
            self.lines.append(text)

    def result(self) -> dict[str, Any] | None:
        """Return the last result; a long one comes in pieces, and others may speak after it."""
        for first in reversed(range(len(self.lines))):
            if not self.lines[first].startswith('{"'):
                continue
            for last in range(first + 1, len(self.lines) + 1):
                body = _loaded("".join(self.lines[first:last]))
                if body is not None:
                    return body
        return None


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        body = foreign_files.loads(text)
    except ValueError:
        return None
    return body if isinstance(body, dict) and body.get("schema") == SCHEMA else None


def of(question: MemoryQuestion, place: MemoryPython) -> MemoryForecast:
    """Find out the bytes of a rank for each strategy; those that are no way are refused by name.

    Raises UsageError for a script that gives no network, ChecksFailedError for a Python without a
    torch that can tell.
    """
    script = _script(question.script)
    command = place.command((), script)
    words = _words(question, command.shown)
    command = place.command(words, script)
    lines = _Lines(place.tell)
    try:
        done = place.runner(
            command.argv, env=command.environment, timeout=_HANGS_S, check=False, on_line=lines.take
        )
    except CommandNotFoundError as error:
        raise _failed(place, str(error)) from error
    except CommandTimeoutError as error:
        raise _failed(place, f"no end within {_HANGS_S:g} s: ended") from error
    body = lines.result()
    if body is None:
        raise _failed(place, _ending(done, lines.lines))
    if not body.get("ok"):
        raise _refused(place, body, question, command.shown)
    try:
        return _read(question, body, done.elapsed)
    except (KeyError, TypeError, ValueError) as error:
        raise _failed(place, f"the probe's result is not whole: {error!r}") from error


def _script(words: str) -> Path | None:
    if not words:
        return None
    path = Path(words.rpartition(":")[0])
    if not path.is_file():
        raise UsageError(
            f"--script {words}: {path} is no file",
            next_step="write FILE:FUNCTION, e.g. --script train.py:build",
        )
    return path.resolve()


def _words(question: MemoryQuestion, shown: str) -> tuple[str, ...]:
    strategies = ",".join(strategy.name for strategy in question.strategies)
    words = ["memory", "--strategies", strategies, "--device", question.device]
    words += ["--batch", str(question.batch), "--micro-batches", str(question.micro_batches)]
    words += ["--optimizer", question.optimizer, "--precision", question.precision]
    if question.script:
        function = question.script.rpartition(":")[2]
        return (*words, "--script", f"{shown}:{function}")
    return (*words, "--workload", question.workload)


def _ending(done: CompletedCommand, lines: Sequence[str]) -> str:
    ending = " | ".join(last_lines("\n".join(lines))[-3:])
    return f"{how(done.returncode)}{': ' if ending else ''}{ending}"


def _failed(place: MemoryPython, why: str) -> ChecksFailedError:
    return ChecksFailedError(
        f"{place.name}: its Python can't tell the memory of a rank",
        why=why,
        next_step="run `dlcontainer validate` on the image: it imports torch",
    )


def _refused(
    place: MemoryPython, body: Mapping[str, Any], question: MemoryQuestion, shown: str
) -> UsageError | ChecksFailedError:
    """Return the probe's own refusal: of a script (whose lines it names), or of its torch."""
    refusal = body.get("refusal") or {}
    what, why = str(refusal.get("what") or body.get("error")), refusal.get("why")
    where, step = refusal.get("where"), refusal.get("next_step")
    if refusal.get("of") != "script":
        return ChecksFailedError(f"{place.name}: {what}", why=why, next_step=step)
    source = question.script.rpartition(":")[0]
    place_of = str(where).replace(shown, source) if where and shown else where
    return UsageError(what, where=place_of, why=why, next_step=step)


def _read(question: MemoryQuestion, body: Mapping[str, Any], elapsed: float) -> MemoryForecast:
    by_name = {strategy.name: strategy for strategy in question.strategies}
    memory = body["memory"]
    return MemoryForecast(
        question=question,
        torch=str(memory["torch"]),
        is_tried_torch=bool(memory["tried"]),
        rows=tuple(_row(by_name, row) for row in memory["rows"]),
        refusals=tuple(
            MemoryRefusal(strategy=by_name[row["strategy"]], why=str(row["why"]))
            for row in memory["refused"]
        ),
        seconds=elapsed,
    )


def _row(by_name: Mapping[str, ParallelStrategy], row: Mapping[str, Any]) -> RankMemory:
    parts = {
        name: int(row[name])
        for name in (
            "batch", "micro_batches", "stage", "parameters", "gradients", "optimizer",
            "activations", "inputs", "temporary", "peak",
        )
    }  # fmt: skip
    return RankMemory(strategy=by_name[row["strategy"]], seconds=float(row["seconds"]), **parts)

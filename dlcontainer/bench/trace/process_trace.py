"""The file that a traced process leaves: its steps, blocks and profiles, and why its trace ended.

The writer's rules stand in `probe/trace_steps.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

# As the program that runs in each process names them.
SUFFIX = ".trace"
KINETO, CHAKRA = "kineto", "chakra"
BEFORE, TRACED, AFTER = 0, 1, 2
COMPLETE = "complete"
StepEnd = Literal["optimizer", "forward"]
_MOST_BYTES = 64 * 2**20
_OURS = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_FileName = Annotated[str, Field(pattern=r"^rank-[A-Za-z0-9._-]{1,200}\.json$")]


class ProcessHead(BaseModel):
    """The first line: which process this is."""

    model_config = _OURS

    form: Literal["dlcontainer/trace-process/1"] = Field(alias="schema")
    node: str
    boot: str
    pid: int
    rank: Annotated[int, Field(ge=0)] | None
    ranks: Annotated[int, Field(ge=1)] | None
    torch: str
    step_at: StepEnd = "optimizer"
    operations: bool = True


class StepLine(BaseModel):
    """A step: when it ended, s since the epoch, and its length; None for a process's first."""

    model_config = _OURS

    step: Annotated[int, Field(ge=1)]
    block: Annotated[int, Field(ge=-1)]
    at: Annotated[float, Field(gt=0, lt=1e10)]
    s: Annotated[float, Field(ge=0, lt=1e9)] | None


class ProfileLine(BaseModel):
    """A profile that was written, and how long the program waited for that, s."""

    model_config = _OURS

    file: _FileName
    kind: Literal["kineto", "chakra"]
    block: Annotated[int, Field(ge=0)]
    write_s: Annotated[float, Field(ge=0)]


class EndLine(BaseModel):
    """Why the trace ended."""

    model_config = _OURS

    end: Annotated[str, Field(max_length=400)]


_Line = TypeAdapter[StepLine | ProfileLine | EndLine](StepLine | ProfileLine | EndLine)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessTrace:
    """One process; `end` is None where it was killed, or is running yet."""

    path: Path
    head: ProcessHead
    steps: Sequence[StepLine]
    profiles: Mapping[str, ProfileLine]
    end: str | None

    def block(self, number: int) -> list[StepLine]:
        """Return the steps of a block, in their order."""
        return [line for line in self.steps if line.block == number]

    def profile(self, kind: str) -> Path | None:
        """Return the path of a profile; None where none was written."""
        line = self.profiles.get(kind)
        return self.path.with_name(line.file) if line else None


def read(folder: Path) -> tuple[ProcessTrace, ...]:
    """Read what the processes of a job left; raises BenchDataError for a file that is damaged."""
    return tuple(_read(path) for path in sorted(folder.glob(f"*{SUFFIX}")))


def _read(path: Path) -> ProcessTrace:
    try:
        head, *lines = foreign_files.read(path, _MOST_BYTES).decode().split("\n")
        process = ProcessHead.model_validate(foreign_files.loads(head))
        # Behind the last line end stands nothing, or a line that was cut.
        read_lines = [_Line.validate_python(foreign_files.loads(line)) for line in lines[:-1]]
    except (OSError, ValueError, ValidationError) as error:
        raise BenchDataError(
            "the trace of a process can't be read", where=str(path), why=str(error)[:300]
        ) from None
    return ProcessTrace(
        path=path,
        head=process,
        steps=[line for line in read_lines if isinstance(line, StepLine)],
        profiles={line.kind: line for line in read_lines if isinstance(line, ProfileLine)},
        end=next((line.end for line in read_lines if isinstance(line, EndLine)), None),
    )


def ranks(processes: Sequence[ProcessTrace]) -> dict[int, ProcessTrace]:
    """Return each rank's process: of several the one with most steps; without a rank it is 0."""
    by_rank: dict[int, ProcessTrace] = {}
    for process in processes:
        rank = process.head.rank or 0
        before = by_rank.get(rank)
        if before is None or len(process.steps) > len(before.steps):
            by_rank[rank] = process
    return dict(sorted(by_rank.items()))

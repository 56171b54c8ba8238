"""The file of counts that `lab count -o` writes and `report` reads: one model for both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

SCHEMA = "dlcontainer/count/1"
Tool = Literal["strace", "slowfs", "audit"]
# A later version may write more than this one knows.
_OURS = ConfigDict(extra="ignore", allow_inf_nan=False)
Number = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSystemCounts:
    """What one rank, or a node, asked the file system for; files by suffix."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    operations: Mapping[str, Number]
    bytes: Number | None
    unique_files: Number
    pyc: Number
    so: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportNode:
    """One module of an import tree: its own time and that with all it imported, µs."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    name: str
    depth: Number
    self_us: Number
    total_us: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class CountingRun:
    """A counting run; `imports` is its import tree, parents before what they import."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    command: tuple[str, ...]
    tool: Tool
    sees: str
    ranks: Number | None
    per_rank: tuple[FileSystemCounts, ...]
    per_node: FileSystemCounts
    slowest_s: Seconds
    setting: Mapping[str, JsonValue] = field(default_factory=dict)
    imports: tuple[ImportNode, ...] = ()

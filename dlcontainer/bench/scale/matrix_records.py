"""What a matrix's file holds: JSON lines, chained by hashes as a session's are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from dlcontainer.bench.samples.declared_file import DeclaredFile
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.scale.cells import MatrixCell

SCHEMA = "dlcontainer/scale/1"
_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)
Seconds = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixDeclaration:
    """What was settled before the first launch; `matrix` is the file's, as it was read."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    matrix: Mapping[str, Json]
    cells: tuple[MatrixCell, ...]
    rounds: int
    seed: int
    module: str
    site: str
    # BenchImage -> what it is: an image's digest, a folder.
    subjects: Mapping[str, Mapping[str, Json]]
    # Ranks and nodes -> the words of the launcher.
    launchers: Mapping[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class OmittedRecord:
    """A combination that was not measured, in words."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    cell: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixHeader:
    """The first line."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    declared: MatrixDeclaration
    declared_sha256: str
    left_out: tuple[OmittedRecord, ...]
    machine: Mapping[str, Json]
    started: str
    dlcontainer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdState:
    """What is known of memory before a launch; shares of bytes, None where nobody can say.

    `names` tells whether the names of files had gone too; None where it is one file.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    method: str
    resident: float | None
    data: bool | None
    names: bool | None

    @property
    def is_proved(self) -> bool:
        """Whether nothing of it was in this client's memory, as far as can be shown."""
        return bool(self.data) and self.names is not False


@dataclass(frozen=True, kw_only=True, slots=True)
class CellLaunch:
    """One launch of a cell: time until the last rank was ready, or why there is none.

    `read_bytes` came from a device for the launch; `stand_in` is what reached the stand-in;
    `mounted` are the most image mounts and FUSE processes at a time on this node.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    cell: int
    round: int
    started: str
    t_last_s: Seconds | None
    ready_s: Seconds
    before: ColdState
    read_bytes: int | None
    mounted: Mapping[str, Json]
    stand_in: Mapping[str, Json] | None = None
    ranks: tuple[Mapping[str, Json], ...] = ()
    load_1min: float = 0.0
    error: str | None = None
    stderr: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixSession(DeclaredFile[MatrixHeader, CellLaunch]):
    """A whole file, read."""

    @property
    def cells(self) -> tuple[MatrixCell, ...]:
        """The cells, by their number."""
        return self.header.declared.cells

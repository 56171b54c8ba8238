"""What a matrix is measured with: what was asked for, the subjects, this machine's tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.ranks import RankGroup
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.bench.scale.matrix import Matrix
from dlcontainer.bench.scale.matrix_records import MatrixSession
from dlcontainer.engines.execution import Execution
from dlcontainer.system.process import ProcessRunner

# How the one rank starts that warms a cell.
WARMING: Start = "natural"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleSettings:
    """A matrix as it was asked for; `shared` is a folder on the file system of that name."""

    matrix: Matrix
    output: Path
    site: str
    module: str
    rounds: int
    seed: int
    timeout_s: float
    shared: Path | None = None
    cut: MatrixSession | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixSubject:
    """One subject: a Python folder of the host's, or an image; with the environment declared."""

    name: str
    prefix: Path | None = None
    image: BenchImage | None = None
    environment: Mapping[str, str]
    why: str = ""

    @property
    def original(self) -> Path:
        """Where it lies."""
        path = self.image.image if self.image else self.prefix
        assert path is not None  # noqa: S101 - a subject is one of the two
        return path

    def described(self) -> dict[str, Json]:
        """Return what it is, for the declaration."""
        if self.image is None:
            return {"prefix": str(self.prefix), "why": self.why}
        return {
            "image": self.image.image.name,
            "sha256": self.image.sha256,
            "recipe": self.image.recipe,
            "plan": self.image.digest,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleContext:
    """With what it is measured; `rank_groups` are by nodes, ranks a node and start."""

    settings: ScaleSettings
    sources: Mapping[str, MatrixSubject]
    bench: BenchContext
    runner: ProcessRunner
    probe: Path
    rank_groups: Mapping[tuple[int, int, str], RankGroup]

    @property
    def execution(self) -> Execution:
        """The engine on this host."""
        return self.bench.execution

    def rank_group(self, cell: MatrixCell) -> RankGroup:
        """Return what starts a cell's ranks."""
        return self.rank_groups[cell.nodes, cell.ranks, cell.start]

    def source(self, cell: MatrixCell) -> MatrixSubject:
        """Return a cell's subject."""
        return self.sources[cell.subject]

    @property
    def ranks_folder(self) -> Path:
        """Where ranks write."""
        return self.bench.work / "ranks"

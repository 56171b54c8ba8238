"""A baseline of nodes as a file: each node's figures, by kind; what is usual is computed from it.

One JSON object, `dlcontainer/node-baseline/1`, with the SHA-256 of its other fields: who edits a
figure by hand is noticed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dlcontainer import __version__
from dlcontainer.bench.analysis.steps import node_times
from dlcontainer.bench.analysis.steps.node_times import NodeKind, NodeTimes, UsualRanges
from dlcontainer.bench.samples import hash_chain
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files, report_files

SCHEMA = "dlcontainer/node-baseline/1"
_MOST_BYTES = 64_000_000
_STRICT = ConfigDict(strict=True, extra="forbid")
Figure = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineNode:
    """One node of a baseline; seconds, and the 99th percentile over the median."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    launches: Annotated[int, Field(ge=1)]
    median_s: Figure
    tail: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineKind:
    """The nodes of one kind."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    cpu_model: str
    cpus: int
    memory_gib: int
    kernel: str
    work: str
    nodes: tuple[BaselineNode, ...]

    @property
    def kind(self) -> NodeKind:
        """Their kind."""
        return NodeKind(
            cpu_model=self.cpu_model,
            cpus=self.cpus,
            memory_gib=self.memory_gib,
            kernel=self.kernel,
            work=self.work,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """A baseline as read: the seals of its sessions, and the nodes."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    dlcontainer: str
    seals: tuple[str, ...]
    kinds: Annotated[tuple[BaselineKind, ...], Field(min_length=1)]

    def usual(self) -> dict[NodeKind, UsualRanges]:
        """Return what is usual of each kind; raises BenchDataError where none has nodes enough."""
        nodes = [
            NodeTimes(
                name=node.name,
                kind=kind.kind,
                launches=node.launches,
                median_s=node.median_s,
                tail=node.tail,
            )
            for kind in self.kinds
            for node in kind.nodes
        ]
        return node_times.baseline(nodes)


_BASELINE: TypeAdapter[Baseline] = TypeAdapter(Baseline)


def write(path: Path, nodes: Sequence[NodeTimes], seals: Sequence[str]) -> None:
    """Write the kinds that have nodes enough; raises BenchDataError where none has.

    A baseline that is there is replaced; any other file is refused.
    """
    if path.exists():
        read(path)
    usual = node_times.baseline(nodes)
    kinds = tuple(
        BaselineKind(
            **asdict(kind),
            nodes=tuple(
                BaselineNode(
                    name=node.name, launches=node.launches, median_s=node.median_s, tail=node.tail
                )
                for node in of_kind
            ),
        )
        for kind, of_kind in node_times.by_kind(nodes).items()
        if kind in usual
    )
    body = asdict(Baseline(dlcontainer=__version__, seals=tuple(seals), kinds=kinds))
    whole = {"schema": SCHEMA, "sha256": _digest(body), **body}
    report_files.write(f"{hash_chain.canonical(whole)}\n", path, "--write-baseline")


def read(path: Path) -> Baseline:
    """Read a baseline; raises BenchDataError for one that was edited, or is no baseline."""
    try:
        body: Any = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
        if not isinstance(body, dict):
            raise TypeError("it is not a JSON object")
        schema, stated = body.pop("schema"), body.pop("sha256")
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema}, but this dlcontainer reads {SCHEMA}")
        if stated != _digest(body):
            raise ValueError("it was edited: its digest does not match its content")
        return _BASELINE.validate_json(hash_chain.canonical(body))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    raise BenchDataError(
        "not a baseline of nodes",
        where=str(path),
        why=why,
        next_step="give a file written by `bench nodes --write-baseline`",
    )


def _digest(body: object) -> str:
    return hash_chain.digest(hash_chain.canonical(body))

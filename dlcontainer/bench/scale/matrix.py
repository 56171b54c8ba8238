"""The matrix file: which factors are varied, what each cell is held against. Strict."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, model_validator

from dlcontainer import config
from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.config.field_types import Line, Name, Strict

# A tree of the host's Python, and the image of --image: always there under these names.
NATIVE, IMAGE = "native", "image"
# Where the bytes are: the file system that nodes share (or its stand-in), this node's disk, memory.
Where = Literal["shared", "local", "tmpfs"]
# How they are opened: as files; the image by its engine; one SquashFS mounted beforehand.
Opened = Literal["files", "engine", "kernel", "squashfuse", "squashfuse_ll"]
# Who mounts: each rank; the node in each launch; the node before a launch and the one that warms.
Mounted = Literal["rank", "node", "kept"]
State = Literal["cold", "warm"]

ROUNDS = 8
_MOST_ROUNDS = 1000
_MOST_RANKS = 4096
_MOST_CELLS = 2048

FACTORS = ("subject", "where", "open", "mount", "state", "start", "ranks", "nodes")


def _several(values: tuple[object, ...]) -> tuple[object, ...]:
    if not values:
        raise ValueError("an empty list: a factor needs at least one value")
    if len(set(values)) < len(values):
        raise ValueError("a value is listed twice")
    return values


Count = Annotated[int, Field(ge=1, le=_MOST_RANKS)]


class SubjectSource(Strict):
    """One more image or Python folder by name: another compression, another byte code."""

    image: Line | None = None
    prefix: Line | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.image is None) == (self.prefix is None):
            raise ValueError("give either image: FILE.sif or prefix: FOLDER")
        return self


class StandInLayer(Strict):
    """The stand-in below all that is `shared`: docs/measure/storm.md; 0 is no limit, no delay.

    `source` says where the delays are taken from: a report repeats it.
    """

    source: Line | None = None
    profile: Literal["lustre", "nfs", "gpfs"] = "lustre"
    latency_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    read_latency_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    rate: Annotated[float, Field(ge=0)] = 0.0
    bandwidth_mb_s: Annotated[float, Field(ge=0)] = 0.0


class Factors(Strict):
    """The values of each factor; one that is not named has one value."""

    subject: Annotated[tuple[Name, ...], AfterValidator(_several)] = (NATIVE, IMAGE)
    where: Annotated[tuple[Where, ...], AfterValidator(_several)] = ("shared",)
    open: Annotated[tuple[Opened, ...], AfterValidator(_several)] = ("files", "engine")
    mount: Annotated[tuple[Mounted, ...], AfterValidator(_several)] = ("rank",)
    state: Annotated[tuple[State, ...], AfterValidator(_several)] = ("warm",)
    start: Annotated[tuple[Start, ...], AfterValidator(_several)] = ("storm",)
    ranks: Annotated[tuple[Count, ...], AfterValidator(_several)] = (1,)
    nodes: Annotated[tuple[Count, ...], AfterValidator(_several)] = (1,)

    @property
    def size(self) -> int:
        """How many combinations there are."""
        total = 1
        for name in FACTORS:
            total *= len(getattr(self, name))
        return total


class CellFilter(Strict):
    """Some values of a cell, and any of the factors that are not named."""

    subject: Name | None = None
    where: Where | None = None
    open: Opened | None = None
    mount: Mounted | None = None
    state: State | None = None
    start: Start | None = None
    ranks: Count | None = None
    nodes: Count | None = None


class Matrix(Strict):
    """A matrix file."""

    schema_: Literal[1] = Field(alias="schema")
    module: Line | None = None
    rounds: Annotated[int, Field(ge=1, le=_MOST_ROUNDS)] = ROUNDS
    # Each cell is held against the one with these values, and its own of all other factors.
    reference: CellFilter
    # Cells that nobody wants.
    skip: tuple[CellFilter, ...] = ()
    subjects: dict[Name, SubjectSource] = Field(default_factory=dict)
    stand_in: StandInLayer | None = None
    factors: Factors

    @model_validator(mode="after")
    def _settled(self) -> Self:
        for name in self.subjects:
            if name in (NATIVE, IMAGE):
                raise ValueError(f"subjects: the name '{name}' is reserved for --{name}")
        subjects = (NATIVE, IMAGE, *self.subjects)
        for name in self.factors.subject:
            if name not in subjects:
                raise ValueError(
                    f"factors.subject: unknown subject '{name}'{config.suggest(name, subjects)}"
                )
        for name in FACTORS:
            value = getattr(self.reference, name)
            if value is not None and value not in getattr(self.factors, name):
                raise ValueError(f"reference.{name}: {value} is not among the factor's values")
        if self.factors.size > _MOST_CELLS:
            raise ValueError(
                f"{self.factors.size} combinations; at most {_MOST_CELLS} are possible"
            )
        return self

    def is_tree(self, subject: str) -> bool:
        """Return whether a subject is a Python folder, not an image."""
        if subject in self.subjects:
            return self.subjects[subject].prefix is not None
        return subject == NATIVE


def read(path: Path) -> Matrix:
    """Read a matrix; raises ConfigError that names every mistake with its place."""
    return config.validate(config.load(path, layer="matrix", display=str(path)), Matrix)


T = TypeVar("T")


def rounds(cells: Sequence[T], count: int, seed: int) -> list[list[T]]:
    """Return `count` orders of all cells."""
    draw = random.Random(seed)  # noqa: S311 - it draws an order
    labels = list(cells)
    draw.shuffle(labels)
    orders: list[list[int]] = []
    while labels and len(orders) < count:
        block = williams(len(labels))
        draw.shuffle(block)
        orders += block
    return [[labels[place] for place in row] for row in orders[:count]]


def williams(count: int) -> list[list[int]]:
    """Return a design of `count` rows, twice as many where `count` is odd."""
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    rows = [[(value + row) % count for value in zigzag] for row in range(count)]
    return rows if count % 2 == 0 else [*rows, *(row[::-1] for row in rows)]

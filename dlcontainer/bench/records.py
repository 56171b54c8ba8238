"""A session's results: one append-only file of JSON lines with every raw value, `bench/1`.

The lines, by `kind`: `session` (what was declared before the first launch, and the machine),
`stack` (what each arm says it is made of), `sample` (one launch each), `end`. A file without
`end` is the start of a session that was interrupted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from dlcontainer import __version__
from dlcontainer.bench import chain
from dlcontainer.bench.words import Probe, Question
from dlcontainer.errors import BenchDataError

FORMAT = "dlcontainer/bench/"
VERSION = 1

ArmName = Literal["native", "unpacked", "container"]
# A `joiner` pair is like a `pair`, but its candidate joins an image that is already mounted.
Role = Literal["warmup", "pair", "joiner", "control"]
# Which side of a pair ran first: n the reference (arms[0]), c the candidate (arms[1]).
Order = Literal["nc", "cn"]
Mount = Literal["first", "joiner", "none"]

Json = JsonValue
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
_STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What was settled before the first launch; its hash is in the file and the report.

    `metric` is a key of the samples' `values` or `wall_s`, in seconds, less is better. `margin` m
    means the ratios [1/(1+m), 1+m]. `looks` are the numbers of pairs at which a verdict may be
    read; empty: one look, at `pairs`. `loss_tolerance` is relative, None where nothing is trained.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    probe: Probe
    question: Question
    metric: str
    margin: Share
    alpha: Annotated[float, Field(gt=0, lt=0.5)]
    pairs: Count
    control_pairs: Count
    seed: int
    joiner_pairs: Count = 0
    warmups: Count
    arms: tuple[ArmName, ArmName]
    steps: Count = 0
    looks: tuple[Annotated[int, Field(ge=1)], ...] = ()
    loss_tolerance: Share | None = None
    workload: Mapping[str, JsonValue] = field(default_factory=dict)
    site: str = ""
    recipe: str = ""
    plan_digest: str = ""
    image: str = ""
    image_sha256: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """What one side is, e.g. "native twin" or "unpacked image", and why it was taken."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    what: str
    why: str = ""
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """The first line: the declaration, the sides, the machine's facts; `started` is ISO 8601."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    declared: Declared
    arms: Mapping[ArmName, Arm]
    machine: Mapping[str, JsonValue]
    started: str
    dlcontainer: str = __version__


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """What one side attests of itself from inside the process; `line` is its place in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    arm: ArmName
    facts: Mapping[str, JsonValue]
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One launch: times in seconds; `line` is its place in the file.

    `wall_s` is that of the whole launch; `values` hold the figures (`metric` among them), and the
    loss curve as `loss`. Pairs are numbered from 1 within their role. Warm-up launches have pair 0
    and no order. In a control both launches are of the reference arm, and `order` says which of
    the two plays the candidate, so that an effect of running second cancels there as in a pair.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    index: Count
    role: Role
    arm: ArmName
    started: str
    returncode: int
    wall_s: Seconds
    pair: Count = 0
    position: Literal[0, 1] = 0
    order: Order | None = None
    phases: Mapping[str, Seconds] = field(default_factory=dict)
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    mount: Mount = "none"
    error: str | None = None
    line: int = 0

    @property
    def ok(self) -> bool:
        """Whether the launch ended well."""
        return self.returncode == 0 and self.error is None

    def seconds(self, metric: str) -> float | None:
        """Give one figure of this launch, None where it isn't there or is no positive time."""
        value = self.values.get(metric, self.wall_s if metric == "wall_s" else None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if self.ok and 0 < value < float("inf") else None


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The last line: whether all that was declared was measured, and if not, why."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    complete: bool
    samples: Count
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A session's file as read; `seal` is the chain of its last line."""

    path: Path
    session: Session
    declared_sha256: str
    stacks: tuple[Stack, ...]
    samples: tuple[Sample, ...]
    end: End | None
    seal: str

    @property
    def complete(self) -> bool:
        """Whether the session ran to its declared end."""
        return self.end is not None and self.end.complete


Record = Session | Stack | Sample | End
KINDS: dict[str, TypeAdapter[Record]] = {
    "session": TypeAdapter(Session),
    "stack": TypeAdapter(Stack),
    "sample": TypeAdapter(Sample),
    "end": TypeAdapter(End),
}
_NAMES: dict[type, str] = {Session: "session", Stack: "stack", Sample: "sample", End: "end"}


def declared_sha256(declared: Declared) -> str:
    """Give the hash of a declaration: the same declaration has the same, in any session."""
    return chain.digest(chain.canonical(plain(declared)))


def plain(value: object) -> object:
    """Turn records into what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def to_fields(record: Record) -> dict[str, object]:
    """Give the fields of a record's line, checked as a reader will check them.

    Raises BenchDataError for a record that could not be read again.
    """
    kind = _NAMES[type(record)]
    body = plain(record)
    if not isinstance(body, dict):
        raise TypeError(kind)
    body.pop("line", None)
    _validated(kind, chain.canonical(body), f"a {kind} to be written")
    head: dict[str, object] = {"kind": kind}
    if isinstance(record, Session):
        head["schema"] = f"{FORMAT}{VERSION}"
        head["declared_sha256"] = declared_sha256(record.declared)
    return {**head, **body}


def from_fields(kind: str, body: Mapping[str, object], where: str) -> Record:
    """Read a record from its line's fields; raises BenchDataError naming the field."""
    if kind not in KINDS:
        raise BenchDataError(
            f"a line of kind {kind!r}",
            where=where,
            why=f"a session's file has the kinds {', '.join(KINDS)}",
            next_step="give files that `dlcontainer bench` has written",
        )
    return _validated(kind, chain.canonical(dict(body)), where)


def _validated(kind: str, text: str, where: str) -> Record:
    # From JSON text, because there a list may stand for a tuple and nothing else is lenient.
    try:
        return KINDS[kind].validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or kind
        raise BenchDataError(
            f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}",
            where=where,
            why=f"it does not fit the format {FORMAT}{VERSION}",
            next_step="give files that `dlcontainer bench` has written",
        ) from None

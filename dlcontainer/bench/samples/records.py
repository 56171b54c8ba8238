"""A session's results: one append-only file of JSON lines with every raw value, `bench/3`.

The lines, by `kind`: `session` (what was declared before the first launch, and the machine),
`stack` (what each arm says it is made of), `sample` (one launch each), `resume` (an interrupted
session goes on), `end`. A file without `end` is the start of a session that was interrupted.
A session of resident groups is `bench/4`: two `sample` lines a group, one an arm, with every turn
of its processes in `residents`. A `lost` line stands for a group that was discarded, or for a pair
or triple that lost a launch: both were measured again. A session of rows is `bench/5`: each launch
has all rows that were declared, in `rows`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

from dlcontainer import __version__
from dlcontainer.bench.samples.resident.resident_records import (
    GroupPlan,
    LostGroup,
    ResidentProcess,
)
from dlcontainer.bench.samples.rows.row_records import FIGURES, RowPlan, SampleRow
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair, Question

VERSION = 3
# Of a session of resident groups; who reads launches alone can't read it.
GROUPS_VERSION = 4
# Of a session whose launches have rows: the same of it.
ROWS_VERSION = 5
# How a session is measured and judged.
PROCEDURE = 2
# Of a session of resident groups: their turns are balanced, and their neighbours' correlation has a
# floor.
GROUPS_PROCEDURE = 3
# In a declaration's `workload`: what the site put around the image. Only where it puts something.
SURROUNDINGS = "surroundings"
# There too: variables of the image's record that the native side is not given. Only where some are.
IMAGE_ENVIRONMENT = "image_environment"

Arms = (
    tuple[ArmName, ArmName]
    | tuple[Literal["native"], Literal["unpacked", "bare"], Literal["container"]]
    | tuple[Literal["bare"], Literal["unpacked"], Literal["container"]]
)
# A `joiner` pair is like a `pair`, but its candidate joins an image that is already mounted. In a
# `control` the reference runs against itself, in a `candidate_control` the candidate.
Role = Literal["warmup", "pair", "triple", "joiner", "control", "candidate_control"]
# Which side of a pair ran first: n the reference (the first arm), c the candidate (the last); of
# a triple all three, u the arm between.
Order = Literal["nc", "cn", "nuc", "ncu", "unc", "ucn", "cnu", "cun"]
Mount = Literal["first", "joiner", "none"]

Json = JsonValue
_BEYOND_FLOATS = 1 << 1023
Count = Annotated[int, Field(ge=0)]
PairNumber = Annotated[int, Field(ge=0, lt=2**32)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
_STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDeclaration:
    """What was settled before the first launch; its hash is in the file and the report.

    `metric` is a key of the samples' `values` or `wall_s`, in seconds, less is better. `margin` m
    means the ratios [1/(1+m), 1+m]. `looks` are the numbers of pairs at which a verdict may be
    read; empty: one look, at `pairs`. `secondary` names further figures (a dot leads into nested
    values) with the margin of each. `loss_tolerance` is relative, None where nothing is trained.
    `arms` are reference and candidate, or three with one between: `pairs` then counts triples.
    With `groups` processes of both arms are alive at once: `pairs` then counts groups, and `steps`
    those of an arm in a group. Without, a pair or triple that loses a launch is measured again, at
    most `lost_most` times in the session; None: never.
    `procedure` is that of the program that measured.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    probe: str
    question: Question
    metric: str
    margin: Share
    alpha: Annotated[float, Field(gt=0, lt=0.5)]
    pairs: Count
    control_pairs: Count
    seed: int
    joiner_pairs: Count = 0
    warmups: Count
    arms: Arms
    candidate_control_pairs: Count = 0
    steps: Count = 0
    looks: tuple[Annotated[int, Field(ge=1)], ...] = ()
    secondary: Mapping[str, Share] = field(default_factory=dict)
    loss_tolerance: Share | None = None
    procedure: Annotated[int, Field(ge=PROCEDURE, le=GROUPS_PROCEDURE)]
    workload: Mapping[str, JsonValue] = field(default_factory=dict)
    site: str = ""
    recipe: str = ""
    plan_digest: str = ""
    image: str = ""
    image_sha256: str = ""
    groups: GroupPlan | None = None
    lost_most: Count | None = None
    rows: RowPlan | None = None

    @property
    def version(self) -> int:
        """The version of the format that such a session is written in."""
        if self.rows:
            return ROWS_VERSION
        return GROUPS_VERSION if self.groups else VERSION

    @property
    def unit(self) -> str:
        """Which of them `pairs` counts."""
        if self.groups:
            return "groups"
        return "triples" if self.is_triple else "pairs"

    @property
    def sides(self) -> ArmPair:
        """The reference and the candidate of the verdict."""
        return ArmPair(reference=self.arms[0], candidate=self.arms[-1])

    @property
    def is_triple(self) -> bool:
        """Whether three arms are launched back to back."""
        return len(self.arms) == 3

    @property
    def most_lost(self) -> int:
        """How many pairs, triples or groups may be lost and measured again."""
        return self.groups.lost_most if self.groups else self.lost_most or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmDescription:
    """What one side is, e.g. "native twin" or "unpacked image", and why it was taken."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    what: str
    why: str = ""
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader:
    """The first line: the declaration, the sides, the machine's facts; `started` is ISO 8601."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    declared: SessionDeclaration
    arms: Mapping[ArmName, ArmDescription]
    machine: Mapping[str, JsonValue]
    started: str
    dlcontainer: str = __version__


@dataclass(frozen=True, kw_only=True, slots=True)
class AttestedStack:
    """What one side attests of itself from inside the process; `line` is its place in the file.

    Of ranks each node has a line; `node` is empty in a session of single processes.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    arm: ArmName
    facts: Mapping[str, JsonValue]
    node: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One launch: times in seconds; `line` is its place in the file.

    `wall_s` is that of the whole launch; `values` hold the figures (`metric` among them), and the
    loss curve as `loss`. Pairs (triples) are numbered from 1 within their role. Warm-up launches
    have pair 0 and no order. In a control both launches are of one arm, and `order` says which of
    the two plays the candidate, so that an effect of running second cancels there as in a pair.
    Of a launch of several ranks `ranks` holds each one's raw values; times are the slowest one's.
    Of a group it is one arm's part: `wall_s` is the time of all steps in its processes' turns.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    index: Count
    role: Role
    arm: ArmName
    started: str
    returncode: int
    wall_s: Seconds
    pair: PairNumber = 0
    position: Literal[0, 1, 2] = 0
    order: Order | None = None
    phases: Mapping[str, Seconds] = field(default_factory=dict)
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    mount: Mount = "none"
    ranks: tuple[Mapping[str, JsonValue], ...] = ()
    residents: tuple[ResidentProcess, ...] = ()
    rows: tuple[SampleRow, ...] = ()
    error: str | None = None
    line: int = 0

    @property
    def ok(self) -> bool:
        """Whether the launch ended well."""
        return self.returncode == 0 and self.error is None

    def figure(self, metric: str) -> float | None:
        """Return one figure of this launch, None where it isn't there or is not positive.

        A dot leads into nested values: `counts.max_rss_mb`, and `rows.3.median` to what the fourth
        declared row has.
        """
        # Asked some ten times of each launch: what is usual comes first.
        if self.returncode != 0 or self.error is not None:
            return None
        value = self.values.get(metric)
        if value is None:
            value = self.wall_s if metric == "wall_s" else self._inside(metric)
        if type(value) is float:
            return value if 0 < value < math.inf else None
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return float(value) if 0 < value < _BEYOND_FLOATS else None

    def _inside(self, metric: str) -> JsonValue:
        name, _, inner = metric.partition(".")
        if name == FIGURES:
            return self._of_row(inner)
        value = self.values.get(name)
        return value.get(inner) if inner and isinstance(value, dict) else None

    def _of_row(self, inner: str) -> float | None:
        number, _, part = inner.partition(".")
        value = getattr(self.rows[int(number)], part) if int(number) < len(self.rows) else None
        return value if isinstance(value, float) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """An interrupted session goes on here.

    `dropped_bytes` is the length of a half-written last line, which was taken away; `aside` the
    indices of launches whose pair or triple was never whole: they stay in the file and are not
    used, theirs is measured again. `unpaired` is in files of 0.9.1 and before, and always null.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    started: str
    dropped_bytes: Count = 0
    aside: tuple[Count, ...] = ()
    unpaired: None = None
    dlcontainer: str = __version__
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The last line: whether the session ran as declared, and at which look; if not, why.

    Only a `resume` may follow the end of a session that was interrupted.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    complete: bool
    samples: Count
    reason: str = ""


Record = SessionHeader | AttestedStack | Sample | Resume | LostGroup | End

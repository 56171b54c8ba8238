"""A session's file as read: what an analysis is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.bench.samples.comparable import LossCheck
from dlcontainer.bench.samples.launch_table import LaunchTable
from dlcontainer.bench.samples.records import (
    AttestedStack,
    End,
    Resume,
    Sample,
    SessionHeader,
)
from dlcontainer.bench.samples.resident.resident_records import LostGroup
from dlcontainer.bench.samples.vocabulary import ArmPair


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A session's file as read; `seal` is the chain of its last line.

    `launches` hold what an analysis asks; `samples` are the same launches whole, read from the
    file again and verified again whenever they are asked for. `losses` compare the loss curves of
    each two arms, where something is trained. `size` counts the bytes of its whole lines, `dropped`
    those of a half-written one behind them.
    """

    path: Path
    session: SessionHeader
    declared_sha256: str
    stacks: tuple[AttestedStack, ...]
    launches: LaunchTable
    samples: Sequence[Sample]
    end: End | None
    seal: str
    losses: Mapping[ArmPair, LossCheck] = field(default_factory=dict)
    resumes: tuple[Resume, ...] = ()
    lost: tuple[LostGroup, ...] = ()
    size: int = 0
    dropped: int = 0

    @property
    def complete(self) -> bool:
        """Whether the session ran to its declared end."""
        return self.end is not None and self.end.complete

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of pairs (triples) at which a verdict may be read."""
        declared = self.session.declared
        return declared.looks or (declared.pairs,)

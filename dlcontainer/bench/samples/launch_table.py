"""The launches of a session as columns: a few dozen bytes each, however long the session was.

What many launches share (role, arm, order, the names of their figures) is kept once, as their
kind; what differs is a number in an array. All else of a launch stays in the file, from where
`Series.samples` reads it again.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import overload

from dlcontainer.bench.samples.records import Mount, Order, Role, Sample
from dlcontainer.bench.samples.vocabulary import ArmName

# What is in an array of indices or numbers: four bytes each, enough for 4e9 launches.
INDEX = "I"
_NUMBERS = (float, int)


@dataclass(frozen=True, slots=True)
class LaunchKind:
    """What many launches share; figures and phases by name, with their place in a launch's row."""

    role: Role
    arm: ArmName
    position: int
    order: Order | None
    mount: Mount
    ok: bool
    ranked: bool
    figures: Mapping[str, int]
    phases: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a session, by its index; as `Sample`, without what stays in the file."""

    all: "LaunchTable"
    index: int

    @property
    def kind(self) -> LaunchKind:
        """What it shares with others."""
        return self.all.kinds[self.all.kind_of[self.index]]

    @property
    def line(self) -> int:
        """Its place in the file."""
        return self.all.lines[self.index]

    @property
    def pair(self) -> int:
        """The number of its pair or triple within its role."""
        return self.all.numbers[self.index]

    @property
    def role(self) -> Role:
        """What it was for."""
        return self.kind.role

    @property
    def arm(self) -> ArmName:
        """Which side it is."""
        return self.kind.arm

    @property
    def position(self) -> int:
        """Its place in its pair or triple, from 0."""
        return self.kind.position

    @property
    def order(self) -> Order | None:
        """Which side of its pair ran first."""
        return self.kind.order

    @property
    def mount(self) -> Mount:
        """Whether it mounts the image, or joins a mount."""
        return self.kind.mount

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.kind.ok

    def figure(self, name: str) -> float | None:
        """Return one figure of this launch, None where it isn't there or is not positive."""
        value = self.all.figures(name)(self.index)
        return None if math.isnan(value) else value


class LaunchTable(Sequence[Launch]):
    """All launches of a session, in their order; `figures` names those that must be kept.

    Of the others all numbers of `Sample.values` are kept; a dot in `figures` leads into them.
    """

    def __init__(self, figures: Iterable[str] = ()) -> None:
        self.kinds: list[LaunchKind] = []
        self.kind_of = array(INDEX)
        self.numbers = array(INDEX)
        self.lines = array(INDEX)
        # Where each line begins in the file, in bytes.
        self.offsets = array("Q")
        # The lines before which the clock was set back: times within a launch are not of it.
        self.set_back = array(INDEX)
        self._asked = (*figures, "wall_s")
        self._known: dict[tuple[object, ...], int] = {}
        # The figures and phases of all launches, one row behind the other.
        self._rows = array("d")
        self._begins = array("Q")
        self._names: list[tuple[str, ...]] = []
        self._started = ""
        self._before: datetime | None = None

    def take(self, sample: Sample, offset: int) -> None:
        """Keep what is to be asked of a launch, whose line begins at this byte."""
        names = tuple([name for name, v in sample.values.items() if type(v) in _NUMBERS])
        key = (
            sample.role, sample.arm, sample.position, sample.order, sample.mount, sample.ok,
            not sample.ranks, names, tuple(sample.phases),
        )  # fmt: skip
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = len(self.kinds)
            self._add(sample, names)
        self.kind_of.append(kind)
        self.numbers.append(sample.pair)
        self.lines.append(sample.line)
        self.offsets.append(offset)
        self._begins.append(len(self._rows))
        for name in self._names[kind]:
            value = sample.figure(name)
            self._rows.append(math.nan if value is None else value)
        if sample.phases:
            self._rows.extend(sample.phases.values())
        if sample.started != self._started:
            self._clock(sample)

    def _add(self, sample: Sample, names: tuple[str, ...]) -> None:
        kept = tuple(dict.fromkeys((*names, *self._asked)))
        self._names.append(kept)
        self.kinds.append(
            LaunchKind(
                role=sample.role, arm=sample.arm, position=sample.position, order=sample.order,
                mount=sample.mount, ok=sample.ok, ranked=bool(sample.ranks),
                figures={name: place for place, name in enumerate(kept)},
                phases={name: place for place, name in enumerate(sample.phases, start=len(kept))},
            )
        )  # fmt: skip

    def _clock(self, sample: Sample) -> None:
        self._started = sample.started
        try:
            now = datetime.fromisoformat(sample.started)
        except ValueError:
            return
        if now.tzinfo is None:
            now = now.replace(tzinfo=UTC)
        if self._before is not None and now < self._before:
            self.set_back.append(sample.line)
        self._before = now

    def __len__(self) -> int:
        return len(self.kind_of)

    @overload
    def __getitem__(self, index: int) -> Launch: ...
    @overload
    def __getitem__(self, index: slice) -> "Selection": ...
    def __getitem__(self, index: int | slice) -> "Launch | Selection":
        indices = range(len(self))[index]
        return Launch(self, indices) if isinstance(indices, int) else self.at(indices)

    def at(self, indices: Iterable[int]) -> "Selection":
        """Return some of the launches."""
        return Selection(self, array(INDEX, indices))

    def where(self, accepts: Callable[[LaunchKind], bool]) -> "array[int]":
        """Return the indices of all launches of the kinds that are wanted."""
        kinds = [bool(accepts(kind)) for kind in self.kinds]
        return array(INDEX, (i for i, kind in enumerate(self.kind_of) if kinds[kind]))

    def figures(self, name: str) -> Callable[[int], float]:
        """Return what tells this figure of a launch by its index.

        It is NaN where `Sample.figure` gives None.
        """
        return self._reader([kind.figures.get(name, -1) for kind in self.kinds], math.nan)

    def column(self, name: str, indices: Sequence[int]) -> "array[float]":
        """Return a figure of each of these launches, NaN as above."""
        return array("d", map(self.figures(name), indices))

    def phase(self, name: str, indices: Sequence[int]) -> "array[float]":
        """Return the time of a phase, s, in each of these launches; 0 where it has none."""
        places = [kind.phases.get(name, -1) for kind in self.kinds]
        return array("d", map(self._reader(places, 0.0), indices))

    def kinds_of(self, indices: Iterable[int]) -> Iterator[LaunchKind]:
        """Return the kinds of these launches, each once, in the order of the first of each."""
        return map(self.kinds.__getitem__, dict.fromkeys(map(self.kind_of.__getitem__, indices)))

    def _reader(self, places: Sequence[int], absent: float) -> Callable[[int], float]:
        rows, begins, kinds = self._rows, self._begins, self.kind_of

        def read(index: int) -> float:
            place = places[kinds[index]]
            return absent if place < 0 else rows[begins[index] + place]

        return read


class Selection(Sequence[Launch]):
    """Some launches of a session, by their indices."""

    def __init__(self, launches: LaunchTable, indices: "array[int]") -> None:
        self.launches, self.indices = launches, indices

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, index: int) -> Launch: ...
    @overload
    def __getitem__(self, index: slice) -> "Selection": ...
    def __getitem__(self, index: int | slice) -> "Launch | Selection":
        if isinstance(index, slice):
            return Selection(self.launches, self.indices[index])
        return Launch(self.launches, self.indices[index])

    def lines(self) -> list[int]:
        """Return their lines in the file."""
        return [self.launches.lines[i] for i in self.indices]

"""A list of wishes while its file is read."""

from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.authoring.readers import bounds, near_names
from dlcontainer.authoring.readers.faults import FaultList
from dlcontainer.packages.resolve.wishes import Wish, WishFormat, WishList

# A thousand lines a person may write, ten thousand nobody.
_MOST_WISHES, _MOST_FAULTS = 20_000, 1_000


@dataclass(kw_only=True, slots=True)
class WishDraft:
    """What was read so far, and what was refused of it."""

    path: Path
    format: WishFormat
    faults: FaultList = field(default_factory=FaultList)
    wishes: list[Wish] = field(default_factory=list)
    constraints: list[Wish] = field(default_factory=list)
    python: str | None = None
    python_at: str | None = None
    is_locked: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether no more is read: the file can't be a person's."""
        return self._has_too_many or len(self.faults.faults) > _MOST_FAULTS

    @property
    def _has_too_many(self) -> bool:
        return len(self.wishes) + len(self.constraints) > _MOST_WISHES

    def finished(self, empty_next: str | None) -> WishList:
        """Return the list; raises ConfigError for all that was refused, and for a list of nothing.

        `empty_next` says what to write into a file that asks for nothing; None: it may.
        """
        name = str(self.path)
        if self._has_too_many:
            self.faults.add(name, f"more than {_MOST_WISHES} requirements")
        elif empty_next is not None and not self.wishes and not self.faults.faults:
            self.faults.add(name, "the file asks for no package", empty_next)
        wishes = bounds.merged(self.wishes, self.faults)
        constraints = bounds.merged(self.constraints, self.faults)
        bounds.refuse_contradictions([*wishes, *constraints], self.faults)
        self.faults.require_none()
        # What a tool chose is no slip of a person's.
        slips = [] if self.is_locked else near_names.notes(wishes)
        notes = list(dict.fromkeys([*self.notes, *slips]))
        return WishList(
            path=self.path,
            format=self.format,
            wishes=tuple(wishes),
            constraints=tuple(constraints),
            python=self.python,
            python_at=self.python_at,
            is_locked=self.is_locked,
            notes=tuple(notes),
        )

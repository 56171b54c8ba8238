"""Folders that a session makes once, and hands to the launches of all its arms."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlcontainer.system.process import Runner


# Where a container sees what is lent; pipes and ranks have that place for themselves, and a folder
# of this name in theirs.
INSIDE, BELOW = "/mnt", "lent"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """A folder of the host that the launches of all arms are handed, as an option of the probe.

    The native side has it where it is, a container at `inside`, which is INSIDE or lies below it.
    """

    option: str
    source: Path
    inside: str

    @property
    def below(self) -> str:
        """Where a container sees it that has another folder at INSIDE."""
        return f"{INSIDE}/{BELOW}{self.inside.removeprefix(INSIDE)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedStorage:
    """Where a session keeps what its launches share: `work` is its own, and goes with it."""

    work: Path
    runner: "Runner"
    note: Callable[[str], None]


def lends_nothing(
    _values: Mapping[str, object], _lending: SharedStorage
) -> AbstractContextManager[Sequence[SharedFolder]]:
    """Lend no folder."""
    return nullcontext(())

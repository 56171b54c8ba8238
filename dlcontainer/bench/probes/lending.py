"""Folders that a session makes once, and hands to the launches of all its arms."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlcontainer.system.process import Runner


@dataclass(frozen=True, kw_only=True, slots=True)
class Lent:
    """A folder of the host that the launches of all arms are handed, as an option of the probe.

    The native side has it where it is, a container at `inside`.
    """

    option: str
    source: Path
    inside: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lending:
    """Where a session keeps what its launches share: `work` is its own, and goes with it."""

    work: Path
    runner: "Runner"
    note: Callable[[str], None]


def lends_nothing(
    _values: Mapping[str, object], _lending: Lending
) -> AbstractContextManager[Sequence[Lent]]:
    """Lend no folder."""
    return nullcontext(())

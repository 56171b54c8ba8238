"""What is known of the age of a recipe's pins. Data alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from packaging.version import Version

from dlcontainer.packages.resolve.resolution import Target

State = Literal["newest", "newer", "held back", "not checked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PinAge:
    """A pin and what is newer; None where nobody could tell.

    `newest` is the newest release with a wheel for the variant; `fitting` the newest that the
    resolver takes together with the other pins. `why` says what is not known, or what holds it.
    """

    name: str
    origin: str
    pinned: str
    newest: str | None = None
    fitting: str | None = None
    why: str | None = None

    @property
    def state(self) -> State:
        """Return how the pin stands."""
        if self.newest is None or self.fitting is None:
            return "not checked"
        if Version(self.fitting) > Version(self.pinned):
            return "newer"
        return "held back" if Version(self.newest) > Version(self.pinned) else "newest"


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantAge:
    """The pins of one variant. `why`: nothing of it was checked, and why.

    `needed` are packages that the fitting versions need and no pin names, `needed_by` the pin that
    needs each; `unneeded` are pins that no fitting version needs any more.
    """

    recipe: str
    variant: str | None
    site: str
    target: Target | None
    pins: tuple[PinAge, ...] = ()
    needed: tuple[str, ...] = ()
    needed_by: Mapping[str, str] = field(default_factory=dict)
    unneeded: tuple[str, ...] = ()
    why: str | None = None

"""What a job reads of a plan: a recipe's has it, and so has a published image, of its record."""

from collections.abc import Mapping
from typing import Literal, Protocol

from dlcontainer.config.field_types import MpiFamily
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.errors import Mark
from dlcontainer.sites.site import Site


class MpiPart(Protocol):
    """The image's MPI."""

    @property
    def family(self) -> MpiFamily:
        """Return its family."""


class StackPart(Protocol):
    """The libraries whose counterparts a host may have."""

    @property
    def mpi(self) -> MpiPart | None:
        """Return its MPI; None where its programs use none."""


class JobPart(Protocol):
    """The form of job that a recipe asks for."""

    @property
    def form(self) -> Literal["ray"]:
        """Return the form's name."""


class RecipePart(Protocol):
    """The part of a recipe that decides how its image is launched."""

    @property
    def name(self) -> str:
        """Return the recipe's name."""

    @property
    def version(self) -> str:
        """Return its version."""

    @property
    def prefix(self) -> str:
        """Return where the image's Python environment stands."""

    @property
    def exposes(self) -> tuple[str, ...]:
        """Return the commands that it offers."""

    @property
    def stack(self) -> StackPart:
        """Return its libraries."""

    @property
    def job(self) -> JobPart | None:
        """Return the form of its jobs; None where they are ranks."""


class LaunchPlan(Protocol):
    """An image at a site, as far as its jobs depend on it."""

    @property
    def recipe(self) -> RecipePart:
        """Return the recipe."""

    @property
    def site(self) -> Site:
        """Return the site."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that the image sets."""

    @property
    def trial(self) -> EngineCapabilities | None:
        """Return what is remembered of this host's engine."""

    @property
    def name(self) -> str:
        """Return the name of the image's files, without a suffix."""

    @property
    def python(self) -> str:
        """Return the path of the image's Python."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that decides its content."""

    def place_in_site(self, *path: str) -> Mark | str:
        """Return where a key of the site's file stands."""

    def place_of(self, text: str) -> Mark | str | None:
        """Return where a text stands; None for one of ours."""

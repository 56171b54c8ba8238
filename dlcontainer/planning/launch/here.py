"""The part of a site's surroundings that holds on this host: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSurroundings:
    """The part of a site's surroundings that holds on this host.

    `flags` and `binds` are the engine's, `environment` is its own; `inside` is set in the image,
    `image_paths` too, and these mean nothing outside of one. `mpi` names the host's MPI where it
    takes the place of the image's. `left_out` names each fact that does not hold, and why.
    """

    flags: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, str] = field(default_factory=dict)
    image_paths: Mapping[str, str] = field(default_factory=dict)
    mpi: str | None = None
    left_out: tuple[str, ...] = ()
    # As the site config says it: the same for all users and folders.
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The engine's words for flags and binds."""
        return (*self.flags, *(word for bind in self.binds for word in ("--bind", bind)))

    @property
    def targets(self) -> tuple[str, ...]:
        """Where binds show in the image."""
        return tuple(target(bind) for bind in self.binds)

    def declared(self) -> dict[str, tuple[str, ...]]:
        """Return the parts that are not empty, for the head of a session."""
        mpi = (self.mpi,) if self.mpi else ()
        parts = {"mpi": mpi, **self.facts, "left out": self.left_out}
        return {name: values for name, values in parts.items() if values}

    def refused(self, why: str) -> "HostSurroundings":
        """Return them without the words that the engine refuses here."""
        words = " ".join(self.words)
        return HostSurroundings(left_out=(*self.left_out, f"{words}: {why}"))


def target(bind: str) -> str:
    """Return the place in the image where a bind shows."""
    source, _, rest = bind.partition(":")
    return rest.partition(":")[0] or source

"""The choice of a variant in values: what is asked, what each variant comes to, what is meant."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dlcontainer.config import Document, ValueOrigin
from dlcontainer.planning.device_code import Match
from dlcontainer.planning.versions import VersionKey
from dlcontainer.recipes.variant import Variant
from dlcontainer.sites.site import Site

KINDS = ("vendor", "distro")
# After native code, a related GPU's and code that is compiled at the start: code that is not named.
_UNNAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A variant at a site: its device code there, and what speaks against it.

    `misfits` are needs that the site does not meet; `clashes` are contradictions between the
    framework's build and the site's accelerators, which a user's own values may still settle.
    """

    name: str
    variant: Variant
    has_code: bool
    other_vendor: bool
    code: Match | None
    older_than_gpu: bool
    newness: VersionKey
    misfits: tuple[str, ...]
    clashes: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that speaks against the variant."""
        return self.misfits + self.clashes

    @property
    def rank(self) -> tuple[int, bool]:
        """How well its device code runs, then whether its libraries know the GPU; low is good."""
        return (int(self.code.fit) if self.code else _UNNAMED, self.older_than_gpu)


# Compares a variant of a recipe, by its name, with a site.
Judge = Callable[[Document, str, Variant, Site], Candidate]


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantRequest:
    """A variant, or a kind of them, that is asked for, and where."""

    name: str
    origin: ValueOrigin


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceRequest:
    """What is asked of the choice: a variant or kind, and an image without device code."""

    request: VariantRequest | None = None
    cpu: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantChoice:
    """The variant that is meant; `passed_over` says of each other why it was not."""

    name: str
    kind: str
    why: str
    usual: bool
    passed_over: Mapping[str, str]
    status: str | None = None
    lock: str | None = None
    # Variants that would run here as this one does, but that the recipe refuses, and why.
    refused: tuple[str, ...] = ()
    # The others that the site takes where one names them.
    fitting: tuple[str, ...] = ()


def best(pool: Iterable[Candidate], site: Site, *, cpu: bool) -> Candidate | None:
    """Return the best of the variants that fit: of equals with device code the newest, where the
    site's facts say that it runs there; else the first.
    """
    fitting = [candidate for candidate in pool if not candidate.reasons]
    if site.accelerator or cpu:
        fitting = [candidate for candidate in fitting if candidate.has_code != cpu]
    first = min(fitting, key=lambda candidate: candidate.rank, default=None)
    if first is None or not by_newness(first, site):
        return first
    return max(
        (candidate for candidate in fitting if candidate.rank == first.rank),
        key=lambda candidate: candidate.newness.order,
    )


def by_newness(candidate: Candidate, site: Site) -> bool:
    """Return whether the newest is taken of variants that are as good as this one: where the site's
    driver or toolkit is written, so that it is known to run.
    """
    gpu = site.accelerator
    version = gpu is not None and (gpu.toolkit or (gpu.vendor != "intel" and gpu.driver))
    return candidate.has_code and bool(version)

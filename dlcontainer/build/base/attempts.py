"""Where a mirror does not hold the packages of a root tree: the ways that are left to make it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dlcontainer.packages.apt import apt_config, mirror_faults
from dlcontainer.packages.apt.mirror_faults import MirrorFaultError
from dlcontainer.packages.routing import PreparedRouting


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """A routing to make a tree by, and how it differs from the one before."""

    routed: PreparedRouting
    note: str


def make(
    attempt: Callable[[PreparedRouting], None],
    routed: PreparedRouting,
    release: str,
    on_note: Callable[[str], None],
    *,
    is_foreign: bool,
) -> None:
    """Make a root tree by a routing; where the mirror does not hold the packages, again.

    Then with a fresh index, and, for another architecture (`is_foreign`), of the release without
    its updates. Raises MirrorFaultError where no way is left.
    """
    attempts = _ways(routed, release, is_foreign=is_foreign)
    routing = _Attempt(routed=routed, note="")
    while True:
        try:
            attempt(routing.routed)
            break
        except MirrorFaultError as error:
            following = next(attempts, None)
            if following is None:
                raise
            routing = following
            on_note(f"{error.told.what}: {routing.note}")
    if routing.routed.apt_sources != routed.apt_sources:
        # The steps' apt sees the same: what the tree's packages need is of these suites alone.
        has_ca = routed.ca is not None
        apt_config.write(
            routed.folder, routing.routed.apt_sources, routed.apt_settings, has_ca=has_ca
        )


def _ways(routed: PreparedRouting, release: str, *, is_foreign: bool) -> Iterator[_Attempt]:
    """Yield the ways that are left after the first."""
    fresh = replace(routed, apt_settings=(*routed.apt_settings, *mirror_faults.FRESH))
    yield _Attempt(routed=fresh, note="trying again with a fresh index")
    # As updates whose index a mirror holds incompletely are left out (packages/apt_sources.py).
    kept = tuple(source for source in routed.apt_sources if source.suite == release)
    if is_foreign and kept and kept != routed.apt_sources:
        suites = [source.suite for source in routed.apt_sources if source not in kept]
        note = f"leaving out {', '.join(dict.fromkeys(suites))}: the base misses their fixes"
        yield _Attempt(routed=replace(fresh, apt_sources=kept), note=note)

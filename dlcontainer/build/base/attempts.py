"""A root tree is made; again, in the ways that are left, where the mirror lacks the packages."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build.base import bootstrap
from dlcontainer.build.base.bootstrap import BaseMaker, MirrorFaultError, RootTree
from dlcontainer.engines import emulation
from dlcontainer.engines.base_modes import BaseMode
from dlcontainer.packages.apt import apt_config, mirror_faults
from dlcontainer.packages.routing import Routed
from dlcontainer.system.machine import Host


@dataclass(frozen=True, kw_only=True, slots=True)
class _Way:
    """A routing to make a tree by, and what it differs in from the one before."""

    routed: Routed
    note: str


def make(
    wanted: RootTree, routed: Routed, maker: BaseMaker, mode: BaseMode, tar: Path, log: Path
) -> None:
    """Make a root tree as a tar in a private folder.

    First as it is routed; then with a fresh index; then, for another architecture, of the release
    without its updates. Raises MirrorFaultError where none is left, else BuildError at once.
    """
    ways = _ways(wanted, routed, maker.host)
    way = _Way(routed=routed, note="")
    while True:
        try:
            _attempt(wanted, way.routed, maker, mode, tar, log)
            break
        except MirrorFaultError as error:
            following = next(ways, None)
            if following is None:
                raise
            way = following
            maker.on_wait(f"{error.what}: {way.note}")
    if way.routed.apt_sources != routed.apt_sources:
        # The steps' apt sees the same: what the tree's packages need is of these suites alone.
        has_ca = routed.ca is not None
        apt_config.write(routed.folder, way.routed.apt_sources, routed.apt_settings, has_ca=has_ca)


def _ways(wanted: RootTree, routed: Routed, host: Host) -> Iterator[_Way]:
    """Give the ways that are left after the first."""
    if wanted.locked:
        return  # its packages lie here: no mirror is asked
    fresh = replace(routed, apt_settings=(*routed.apt_settings, *mirror_faults.FRESH))
    yield _Way(routed=fresh, note="asked again, with a fresh index")
    # As updates whose index a mirror holds incompletely are left out (packages/apt_sources.py).
    release = tuple(source for source in routed.apt_sources if source.suite == wanted.release)
    if wanted.arch != host.arch and release and release != routed.apt_sources:
        suites = [source.suite for source in routed.apt_sources if source not in release]
        left_out = ", ".join(dict.fromkeys(suites))
        note = f"{left_out} left out, without their fixes"
        yield _Way(routed=replace(fresh, apt_sources=release), note=note)


def _attempt(
    wanted: RootTree, routed: Routed, maker: BaseMaker, mode: BaseMode, tar: Path, log: Path
) -> None:
    env = dict(emulation.environment(wanted.arch)) if wanted.arch != maker.host.arch else {}
    if mode.own_files:
        # A subordinate user could not enter a private folder; all others leave nothing elsewhere.
        env = {**env, "TMPDIR": str(tar.parent)}
    argv = mode.around(bootstrap.mmdebstrap_argv(wanted, routed, maker.host, tar))
    bootstrap.stage(wanted, routed, tar.parent)
    try:
        bootstrap.run(maker, argv, {**env, **routed.environment}, log)
    finally:
        bootstrap.unstage(tar.parent)

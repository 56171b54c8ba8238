"""The apt sources of a base: this host's mirrors, the site's, or another distribution's archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.config.field_types import DEBIAN_ARCH
from dlcontainer.errors import BuildError
from dlcontainer.packages import download
from dlcontainer.packages.apt import apt_config, keyrings, mirror_state
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner

_PACKAGE = "archive-keyring.deb"
KEYRING = "archive-keyring.gpg"


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveAccess:
    """How this host gets out, for a file of a distribution's archive."""

    proxies: Mapping[str, str]
    ca: Path | None
    places: Mapping[str, str]
    # apt works without the base: an image's own sources are no help to it
    alone: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables, as programs of this host get them."""
        ca = {"REQUESTS_CA_BUNDLE": str(self.ca)} if self.ca else {}
        return {**self.proxies, **ca}


@dataclass(frozen=True, kw_only=True, slots=True)
class AptSources:
    """Where apt finds packages, with which settings, and what is to be said of it."""

    sources: tuple[AptSource, ...]
    settings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def find(
    plan: Plan, host: HostMachine, runner: Runner, access: ArchiveAccess, folder: Path
) -> AptSources:
    """Settle the apt sources of a plan's base; keys that are missing here go to a private folder.

    Raises BuildError for keys that are not the pinned ones, and for a mirror that holds the
    release itself incompletely; updates that it holds so are left out, with a note.
    """
    return _held(plan, host, _settled(plan, host, runner, access, folder), access)


def _settled(
    plan: Plan, host: HostMachine, runner: Runner, access: ArchiveAccess, folder: Path
) -> AptSources:
    sources, settings = apt_config.read(plan, host, runner, access.proxies)
    settled = AptSources(sources=sources, settings=settings)
    base = plan.recipe.base.facts
    if base is None or (plan.recipe.base.image and not access.alone):
        return settled
    distribution = base.distribution
    signed = sources and all(source.keyring for source in sources)
    if signed or distribution not in keyrings.ARCHIVES or distribution == host.distribution:
        return settled
    try:
        keyring = _keyring(distribution, access, folder)
    except _NotReachedError as error:
        return replace(settled, notes=(f"keys of {distribution}'s archive: {error}",))
    if sources:
        signed_sources = [replace(s, keyring=s.keyring or keyring) for s in sources]
        return replace(settled, sources=tuple(signed_sources))
    # With routing.apt: default too. The addresses are those that the tree itself has.
    return AptSources(
        sources=_of_archive(plan, distribution, base.release, keyring),
        settings=apt_config.proxy_settings((), access.proxies),
    )


def _held(plan: Plan, host: HostMachine, settled: AptSources, access: ArchiveAccess) -> AptSources:
    """Leave out what the mirrors hold incompletely, where that is likely: see `mirror_state`."""
    facts = plan.recipe.base.facts
    if facts is None or not settled.sources:
        return settled
    is_sibling = (
        plan.site.routing.apt == "auto"
        and facts.distribution == host.distribution
        and facts.release != host.release
    )
    if plan.site.arch == host.arch and not is_sibling:
        return settled
    look, arch = (
        mirror_state.MirrorProbe(environment=access.environment),
        DEBIAN_ARCH[plan.site.arch],
    )
    kept, notes = [], list(settled.notes)
    for source in settled.sources:
        faults = mirror_state.faults(source, arch, look.text, look.size)
        # Nobody wrote that the host's mirrors have this release too.
        if is_sibling and look.text(mirror_state.release_file(source)) is None:
            faults = ["the mirror has no such suite"]
        if faults and source.suite == facts.release:
            if is_sibling:
                return AptSources(sources=(), settings=settled.settings, notes=settled.notes)
            raise _incomplete(source, arch, faults)
        if faults:
            what = f"leaving out {source.suite} for {arch}: the image will not have its fixes"
            notes.append(f"{what}: the mirror's copy is incomplete ({'; '.join(faults)})")
        else:
            kept.append(source)
    return replace(settled, sources=tuple(kept), notes=tuple(notes))


def _incomplete(source: AptSource, arch: str, faults: Sequence[str]) -> BuildError:
    return BuildError(
        f"the mirror's {source.suite} for {arch} is incomplete",
        where=source.uri,
        why="; ".join(faults),
        next_step="try again later, or set routing.apt of the site to a mirror that has the suite",
    )


def _of_archive(
    plan: Plan, distribution: str, release: str, keyring: Path
) -> tuple[AptSource, ...]:
    archive = keyrings.ARCHIVES[distribution]
    uri = archive.x86 if plan.site.arch == "x86_64" else archive.non_x86
    return tuple(
        AptSource(uri=uri, suite=suite, components=archive.components, keyring=keyring)
        for suite in (release, f"{release}-updates", f"{release}-security")
    )


class _NotReachedError(Exception):
    """The package with the keys is not to be reached from here."""


def _keyring(distribution: str, access: ArchiveAccess, folder: Path) -> Path:
    host_keyring = keyrings.of_host(distribution)
    if host_keyring is not None:
        return host_keyring
    package, keyring = folder / _PACKAGE, folder / KEYRING
    try:
        download.download(keyrings.ARCHIVES[distribution].package, package, access, _silent)
    except BuildError as error:
        raise _NotReachedError(error.what) from None
    keyrings.unpack(distribution, package, keyring)
    package.unlink()
    return keyring


def _silent(line: str) -> None:
    """A package of keys is too small to tell how far it is."""

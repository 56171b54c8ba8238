"""The newest release of each package: asked once a run for each target and way to indexes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from dlcontainer.errors import BuildError
from dlcontainer.packages.resolve import resolve, words
from dlcontainer.packages.resolve.asking import NoSolutionError, PackageResolver, Question
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.packages.resolve.resolve import Asker

# Releases between a pinned build and the newest: a framework has some ten a year.
_MOST_RELEASES = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexReader:
    """A resolver for a target, and who it asks for; raises MisfitError where there is none."""

    target: Target
    asker: Asker
    resolver: PackageResolver

    @property
    def key(self) -> tuple[object, ...]:
        """What decides an answer beside the package."""
        access = self.asker.access
        environment = tuple(sorted(access.environment.items()))
        return self.target, access.settings, access.upstreams, environment


def reader_of(target: Target, asker: Asker) -> IndexReader:
    """Return the reader for a target; raises MisfitError where no resolver answers for it."""
    return IndexReader(target=target, asker=asker, resolver=resolve.resolver_for(target, asker))


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseLedger:
    """Answers of a run, which its variants share: releases, builds, and indexes that failed."""

    releases: dict[tuple[object, ...], str | None] = field(default_factory=dict)
    builds: dict[tuple[object, ...], str | None] = field(default_factory=dict)
    faults: dict[tuple[object, ...], BuildError] = field(default_factory=dict)

    def newest(self, names: Sequence[str], reader: IndexReader) -> dict[str, str]:
        """Return the newest wheel of each; what no index has is left out.

        Raises BuildError where an index does not answer, the same for each variant.
        """
        key = reader.key
        if key in self.faults:
            raise self.faults[key]
        unread = [name for name in names if (*key, name) not in self.releases]
        try:
            newest = _newest(unread, reader.resolver)
        except BuildError as error:
            self.faults[key] = error
            raise
        self.releases.update({(*key, name): newest.get(name) for name in unread})
        known = {name: self.releases[(*key, name)] for name in names}
        return {name: version for name, version in known.items() if version is not None}

    def newest_build(self, name: str, pinned: Version, reader: IndexReader) -> str | None:
        """Return the newest build with the local part of a pin, itself where none is newer.

        None where no index has the pinned build: then none tells of newer ones either.
        """
        key = (*reader.key, name, str(pinned))
        if key not in self.builds:
            self.builds[key] = _newest_build(name, pinned, reader.resolver)
        return self.builds[key]


def _newest(names: Sequence[str], resolver: PackageResolver) -> dict[str, str]:
    """Ask for all together; where one of them is on no index, for each half."""
    if not names:
        return {}
    together = dict(resolver.newest(names, wheels=True))
    if together:
        return together
    try:
        resolver.ask(Question(requirements=(names[0],)))
    except NoSolutionError as error:
        fault = words.index_fault(error.text)
        if fault is not None:
            raise fault from None
    return _halves(names, resolver)


def _halves(names: Sequence[str], resolver: PackageResolver) -> dict[str, str]:
    if len(names) == 1:
        return {}
    newest: dict[str, str] = {}
    middle = len(names) // 2
    for half in (names[:middle], names[middle:]):
        newest |= resolver.newest(half, wheels=True) or _halves(half, resolver)
    return newest


def _newest_build(name: str, pinned: Version, resolver: PackageResolver) -> str | None:
    if not resolver.newest([f"{name}=={pinned}"], wheels=True):
        return None
    below = ""
    for _ in range(_MOST_RELEASES):
        top = resolver.newest([f"{name}>{pinned.public}{below}"], wheels=True).get(name)
        if top is None:
            break
        public = Version(top).public
        build = f"{public}+{pinned.local}"
        if resolver.newest([f"{name}=={build}"], wheels=True):
            return build
        below = f",<{public}"
    return str(pinned)

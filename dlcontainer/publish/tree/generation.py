"""A generation: which modules are live, as a value. What users see of it: farm.py."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.system import foreign_files

FILE = "generation.json"
# An earlier dlcontainer would drop the releases that a version has besides its newest: it refuses
# the second.
_SCHEMA, _WITH_RELEASES = "dlcontainer/generation/1", "dlcontainer/generation/2"
_MOST_BYTES = 16_000_000
_PART = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,199}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_RELEASES = 9999


def numbered(version: str, number: int) -> str:
    """Name a release of a version, as users load it."""
    return f"{version}-{number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deprecation:
    """A warning on loading a version; `removal` is a date."""

    message: str
    removal: str | None = None

    def __post_init__(self) -> None:
        """Refuse a message of several lines, and a date that is none."""
        if not self.message.isprintable() or not 0 < len(self.message) <= 500:
            raise PublishError(
                f"{self.message[:80]!r} is not a valid message",
                why="a message is one line of 1 to 500 characters",
                next_step="give another text: --message TEXT",
            )
        if self.removal is not None:
            try:
                date.fromisoformat(self.removal)
            except ValueError:
                raise PublishError(
                    f"{self.removal[:80]!r} is not a date", next_step="give --removal YYYY-MM-DD"
                ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberedRelease:
    """A release of a version, by its number; `until` is the day to which a replaced one stays.

    Without it, it stays until it is taken back. `image` is a SHA-256: earlier
    generations have none.
    """

    number: int
    digest: str
    image: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no number, no digest or no day."""
        if type(self.number) is not int or not 1 <= self.number <= _MOST_RELEASES:
            raise PublishError(f"not a number of a release: {self.number!r}")
        if not _DIGEST.fullmatch(self.digest):
            raise PublishError(f"not a digest: {self.digest[:80]!r}")
        if self.image is not None and not _DIGEST.fullmatch(self.image):
            raise PublishError(f"not a digest: {self.image[:80]!r}")
        if self.until is not None:
            date.fromisoformat(self.until)


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationEntry:
    """One version that users see, and its newest release; `older` ones stay loadable.

    `number` is None where the release was published before releases had numbers: it is the first.
    """

    name: str
    version: str
    digest: str
    default: bool = False
    aliases: tuple[str, ...] = ()
    deprecated: Deprecation | None = None
    number: int | None = None
    image: str | None = None
    # The newest first.
    older: tuple[NumberedRelease, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what could lead elsewhere: each name becomes one part of a path."""
        for part in (self.name, self.version, *self.aliases):
            if not _PART.fullmatch(part):
                raise PublishError(
                    f"{part[:80]!r} is not a valid name of a module, version or alias",
                    why="a name has letters, digits and . + _ -, and begins with a letter or digit",
                )
        numbers = [release.number for release in self.releases]
        if numbers != sorted(set(numbers), reverse=True):
            raise PublishError(f"{self.module} has its releases in no order: {numbers}")

    @property
    def module(self) -> str:
        """NAME/VERSION, as users load it."""
        return f"{self.name}/{self.version}"

    @property
    def newest(self) -> NumberedRelease:
        """The release that NAME/VERSION loads."""
        return NumberedRelease(number=self.number or 1, digest=self.digest, image=self.image)

    @property
    def releases(self) -> tuple[NumberedRelease, ...]:
        """All that can be loaded, the newest first."""
        return (self.newest, *self.older)

    def named(self, release: NumberedRelease) -> str:
        """Name one of its releases as a module, by its number where there are several."""
        of_several = f"{self.name}/{numbered(self.version, release.number)}"
        return of_several if self.older else self.module

    @property
    def loadable(self) -> Iterator[tuple[str, NumberedRelease]]:
        """Each version that has a modulefile, and the release that it loads."""
        yield self.version, self.newest
        if self.number is not None or self.older:
            for release in self.releases:
                yield numbered(self.version, release.number), release

    @property
    def hidden(self) -> str | None:
        """The name of an only release: for those who pin it, and in no list."""
        only = self.number is not None and not self.older
        return numbered(self.version, self.newest.number) if only else None

    @property
    def names(self) -> frozenset[str]:
        """All that users type after NAME/."""
        return frozenset((*(version for version, _ in self.loadable), *self.aliases))

    @property
    def marks(self) -> str:
        """Default, aliases and deprecation in a few words."""
        marks = [*(["default"] if self.default else []), *self.aliases]
        if self.deprecated:
            removal = self.deprecated.removal
            marks.append(f"deprecated, removal {removal}" if removal else "deprecated")
        return ", ".join(marks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """All modules that are live together; number 0 is the empty tree before the first."""

    number: int = 0
    base: int = 0
    what: str = ""
    who: str = ""
    time: str = ""
    entries: tuple[GenerationEntry, ...] = ()

    def entry(self, module: str) -> GenerationEntry:
        """Return the entry of NAME/VERSION; raises PublishError where it is not published."""
        for entry in self.entries:
            if entry.module == module:
                return entry
            if module in (f"{entry.name}/{version}" for version, _ in entry.loadable):
                raise PublishError(
                    f"{module} is a release of {entry.module}",
                    why="default, aliases and deprecation belong to the version, and move with it",
                    next_step=f"name the version: {entry.module}",
                )
        name = module.partition("/")[0]
        versions = [entry.version for entry in self.entries if entry.name == name]
        raise PublishError(
            f"{module} is not published in generation {self.number}",
            why=f"published versions of {name}: {', '.join(versions)}" if versions else None,
            next_step="list the published modules: dlcontainer modules list",
        )

    def find(self, name: str, version: str) -> GenerationEntry | None:
        """Return the entry of a version; None where it is not published."""
        of_both = (
            entry for entry in self.entries if (entry.name, entry.version) == (name, version)
        )
        return next(of_both, None)

    def release(self, module: str) -> "LiveRelease":
        """Return what NAME/VERSION or NAME/VERSION-NUMBER is; raises PublishError for neither."""
        for entry in self.entries:
            for release in entry.releases:
                if module == f"{entry.name}/{numbered(entry.version, release.number)}":
                    return LiveRelease(entry=entry, release=release, is_named=True)
        entry = self.entry(module)
        return LiveRelease(entry=entry, release=entry.newest, is_named=False)

    @property
    def digests(self) -> Iterator[tuple[str, GenerationEntry]]:
        """The digest of each release that can be loaded, and its version."""
        for entry in self.entries:
            for release in entry.releases:
                yield release.digest, entry

    def having(self, *entries: GenerationEntry) -> "Generation":
        """Add entries, or put them in the place of those of the same module."""
        merged = {entry.module: entry for entry in (*self.entries, *entries)}
        return replace(self, entries=tuple(merged[module] for module in sorted(merged)))

    def without(self, module: str) -> "Generation":
        """Leave a module out, with its aliases."""
        gone = self.entry(module)
        return replace(self, entries=tuple(entry for entry in self.entries if entry != gone))


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveRelease:
    """A release of a version; `is_named` where a user named it by its number."""

    entry: GenerationEntry
    release: NumberedRelease
    is_named: bool

    @property
    def module(self) -> str:
        """NAME/VERSION-NUMBER, which loads just this release."""
        return f"{self.entry.name}/{numbered(self.entry.version, self.release.number)}"


def read(generations: Folder, number: int) -> Generation:
    """Read a generation; raises PublishError for one that is missing or damaged."""
    path = generations.path / str(number) / FILE
    try:
        with generations.sub(str(number)) as folder, folder.open(FILE) as file:
            body = foreign_files.loads(foreign_files.content(file, _MOST_BYTES))
        read_back = _parsed(body)
    except FileNotFoundError:
        raise PublishError(
            f"there is no generation {number}",
            where=str(path),
            next_step="list the generations: dlcontainer modules history",
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PublishError(f"{path} is damaged: {error}") from None
    if read_back.number != number:
        raise PublishError(f"{path} is damaged: it describes generation {read_back.number}")
    return read_back


def _parsed(body: Mapping[str, Any]) -> Generation:
    if body["schema"] not in (_SCHEMA, _WITH_RELEASES):
        raise ValueError(f"its schema is {body['schema']!r}, not {_SCHEMA}")
    entries = tuple(_entry(entry) for entry in body["entries"])
    names = [f"{entry.name}/{version}" for entry in entries for version, _ in entry.loadable]
    if len(set(names)) != len(names):
        raise ValueError("a module is listed twice")
    number, base = body["number"], body["base"]
    if type(number) is not int or type(base) is not int:
        raise TypeError("its number or its base is not a whole number")
    texts = {key: str(body[key]) for key in ("what", "who", "time")}
    return Generation(number=number, base=base, entries=entries, **texts)


def _entry(body: Mapping[str, Any]) -> GenerationEntry:
    warned = body["deprecated"]
    if type(body["default"]) is not bool:
        raise TypeError("default is neither true nor false")
    return GenerationEntry(
        name=body["name"],
        version=body["version"],
        digest=body["digest"],
        default=body["default"],
        aliases=tuple(body["aliases"]),
        deprecated=None if warned is None else Deprecation(**warned),
        # Generations of dlcontainer 0.13 and earlier have neither.
        number=body.get("number"),
        image=body.get("image"),
        older=tuple(NumberedRelease(**release) for release in body.get("older", ())),
    )


def body_of(generation: Generation) -> Mapping[str, object]:
    """Return a generation as its file has it."""
    has_releases = any(entry.older or entry.newest.number > 1 for entry in generation.entries)
    return {"schema": _WITH_RELEASES if has_releases else _SCHEMA, **asdict(generation)}

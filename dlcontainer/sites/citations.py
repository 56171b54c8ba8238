"""What a site's sources name: a repository's files at a commit, or a page; and of which day. Pure.

    OWNER/NAME@COMMIT PATH, PATH (a remark; of 2026-05-05)

A day stands anywhere in the text, YYYY-MM-DD: of the commit, or when a page was read. The last
of several counts, as in "of 2024-11-11, the same on 2026-04-24".
"""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass

# After so long a page of a centre is likely another one.
OLD_DAYS = 365
_CITED = re.compile(
    r"(?:^|\s)(?P<repository>[A-Za-z0-9][\w.-]*/[\w.-]+)@(?P<commit>[0-9a-f]{7,40}\^?)"
    r"(?:\s+(?P<rest>.*))?$"
)
_DAY = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
_REMARK = re.compile(r"\s*\([^()]*\)")
_BETWEEN = re.compile(r",\s*|\s+and\s+|\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """A source of a site; without a repository it is a page, or whatever its text says."""

    name: str
    text: str
    repository: str = ""
    commit: str = ""
    # Files and folders of the repository; none: all of it.
    paths: tuple[str, ...] = ()
    day: datetime.date | None = None

    def age_days(self, today: datetime.date) -> int | None:
        """Return how old it is; None where nothing says its day."""
        return (today - self.day).days if self.day else None


def read(name: str, text: str) -> Citation:
    """Read one source."""
    day = _day(text)
    cited = _CITED.search(text)
    if cited is None:
        return Citation(name=name, text=text, day=day)
    rest = _REMARK.sub("", cited["rest"] or "")
    words = [word for word in _BETWEEN.split(rest) if word and not _DAY.fullmatch(word)]
    return Citation(
        name=name,
        text=text,
        repository=cited["repository"],
        commit=cited["commit"],
        paths=tuple(word.rstrip("/") for word in words if "/" in word or "." in word),
        day=day,
    )


def all_of(sources: Mapping[str, str]) -> tuple[Citation, ...]:
    """Read a site's sources."""
    return tuple(read(name, text) for name, text in sources.items())


def old(sources: Mapping[str, str], today: datetime.date) -> tuple[Citation, ...]:
    """Return the sources that are surely over a year old, the oldest first."""
    aged = [(cited.age_days(today) or 0, cited) for cited in all_of(sources)]
    return tuple(cited for age, cited in sorted(aged, key=lambda pair: -pair[0]) if age > OLD_DAYS)


def _day(text: str) -> datetime.date | None:
    for written in reversed(_DAY.findall(text)):
        try:
            return datetime.date.fromisoformat(written)
        except ValueError:
            continue
    return None

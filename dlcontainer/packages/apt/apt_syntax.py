"""The two syntaxes that apt reads, its configuration and its sources: text enters them here."""

import re
from collections.abc import Iterator

from dlcontainer.errors import ConfigError

# apt reads a quoted value up to the next quote: it knows no escape, whatever stands before the
# quote. Tried with `apt-config dump`, apt 2.6. From 1,024 characters on it reads values otherwise.
_LONGEST = 1000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*(?:::[A-Za-z0-9][A-Za-z0-9._-]*)*")
_DUMPED = re.compile(r'(\S+) "(.*)";')


def setting(name: str, value: str) -> str:
    """Return a line of apt's configuration; raises ConfigError for what it can't hold."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"apt's configuration cannot have a setting named {name[:80]!r}",
            next_step="run `apt-config dump`: it shows the setting",
        )
    return f"{name} {quote(value, where=name)};"


def quote(value: str, *, where: str) -> str:
    """Quote a value for apt's configuration; raises ConfigError for what it can't hold."""
    # Not repeated in the message: it may be an address with a password.
    if '"' in value or not value.isprintable() or len(value) > _LONGEST:
        raise ConfigError(
            f"apt's configuration cannot hold the value of {where}",
            why=f"it has a quote, a control character or more than {_LONGEST} characters, "
            "and apt has no escape for them",
            next_step="change the value in routing of the site, or in the host's apt settings",
        )
    return f'"{value}"'


def dumped(text: str) -> Iterator[tuple[str, str]]:
    """Read what `apt-config dump` prints: names and their values."""
    for line in text.splitlines():
        if match := _DUMPED.fullmatch(line):
            yield match[1], match[2]


def source_line(words: list[str], *, keyring: str | None) -> str:
    """Return a line of a sources.list; raises ConfigError for a word that it can't hold."""
    for word in [*words, *([keyring] if keyring else [])]:
        _require(word and word.isprintable() and not re.search(r'[\s"#]', word), word)
    # What is in brackets ends with the first of them.
    _require(not keyring or not re.search(r"[\[\],]", keyring), keyring)
    option = [f"[signed-by={keyring}]"] if keyring else []
    return " ".join(["deb", *option, *words])


def _require(holds: object, word: str | None) -> None:
    if not holds:
        raise ConfigError(
            f"a line of apt's sources cannot hold {(word or '')[:80]!r}",
            why="blanks separate the words of the line, and there is no escape",
            next_step="change the name in routing.apt of the site, or in the host's apt sources",
        )

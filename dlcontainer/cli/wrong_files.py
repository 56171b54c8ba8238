"""Files of a list that are wrong: the others are listed, and these are named, with exit code 3."""

from collections.abc import Iterable

from dlcontainer.errors import ConfigError


def raise_all(errors: Iterable[ConfigError]) -> None:
    """Raise one error that has the lines of all, each once; none where there is none."""
    lines = list(dict.fromkeys(map(str, errors)))
    if lines:
        raise ConfigError("\n".join(lines))

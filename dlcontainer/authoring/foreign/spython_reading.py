"""spython's parsers, asked line by line; what they answer must be what the line says.

They are written for files of one kind, and turn others into wrong commands without a word: so each
line is handed over by itself, and a line that comes back as another is refused with its place.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dlcontainer import installation
from dlcontainer.errors import ConfigError, EngineError, Mark

NEXT = "write the line as plain commands, or its packages into requirements.txt and give that"


def require_here() -> None:
    """Refuse to go on without spython; raises EngineError."""
    _parsers()


def base_of(image: str, where: Mark) -> str:
    """Return the image of a FROM."""
    read = _docker(f"FROM {image}", where).fromHeader
    return _same(image, read, where)


def run_of(text: str, where: Mark) -> str:
    """Return the shell text of a RUN."""
    commands = _docker(f"RUN {text}", where).install
    return _same(text, " ".join(commands), where)


def variables_of(text: str, where: Mark) -> list[str]:
    """Return the NAME=VALUE of an ENV."""
    return [str(entry) for entry in _docker(f"ENV {text}", where).environ]


def copies_of(text: str, where: Mark) -> list[tuple[str, str]]:
    """Return source and target of each file of a COPY or an ADD of files of the folder."""
    pairs = _docker(f"COPY {' '.join(text.split())}", where).files
    return [(str(source), str(target)) for source, target in pairs]


def definition_base(image: str, where: Mark) -> str:
    """Return the image of a definition's `From:`; spython writes it in small letters."""
    read = _definition(["Bootstrap: docker", f"From: {image}"], where).fromHeader
    _same(image.lower(), read, where)
    return image


def section_of(word: str, texts: Sequence[str], marks: Sequence[Mark]) -> list[str]:
    """Return the lines of %post, %environment or %files; `marks` are their places."""
    if not texts:
        return []
    recipe = _definition([f"%{word}", *texts], marks[0])
    read = {"post": recipe.install, "environment": recipe.environ, "files": recipe.files}[word]
    lines = [str(line) for line in read]
    if word == "environment":
        return lines
    for text, mark, line in zip(texts, marks, [*lines, *[""] * len(texts)], strict=False):
        _same(text, line, mark)
    return lines


def _same(written: str, read: object, where: Mark) -> str:
    if read != written:
        raise ConfigError(
            "spython reads this line otherwise than it is written", where=where, next_step=NEXT
        )
    return written


def _docker(text: str, where: Mark) -> Any:
    def read(parsers: Any) -> Any:
        parser = parsers.DockerParser(None, load=False)
        parser.lines = [text]
        parser.parse()
        return parser.recipe[parser.active_layer]

    return _asked(read, where)


def _definition(lines: Sequence[str], where: Mark) -> Any:
    def read(parsers: Any) -> Any:
        parser = parsers.SingularityParser(None, load=False)
        parser.lines = list(lines)
        parser.parse()
        return parser.recipe[parser.active_layer]

    return _asked(read, where)


def _asked(read: Callable[[Any], Any], where: Mark) -> Any:
    parsers = _parsers()
    try:
        with _silent():
            return read(parsers)
    except (Exception, SystemExit) as error:  # a foreign parser raises what it likes
        raise ConfigError(
            f"spython can't read this line ({type(error).__name__})", where=where, next_step=NEXT
        ) from error


def _parsers() -> Any:
    try:
        from spython.main.parse import parsers
    except (ImportError, ValueError):  # ValueError: its MESSAGELEVEL is no number
        raise EngineError(
            "reading Dockerfiles and definition files needs the package `spython`",
            next_step=f"install it: {installation.beside('spython>=0.3.14,<0.4')}",
        ) from None
    return parsers


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep spython's own warnings, which name no line, off the screen."""
    from spython.logger import bot

    level, bot.level = bot.level, -10
    try:
        yield
    finally:
        bot.level = level

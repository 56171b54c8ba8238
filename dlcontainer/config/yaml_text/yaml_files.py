"""Files and texts to documents; everything that can be wrong with them is a ConfigError."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import yaml

from dlcontainer.config.document import MAX_DEPTH, Document, KeyPath, ValueOrigin
from dlcontainer.config.yaml_text.events import ValueBuilder
from dlcontainer.config.yaml_text.scalars import kind, refused_in_text
from dlcontainer.errors import ConfigError, Mark

MAX_BYTES = 1024 * 1024
LINE_BREAK = re.compile(r"\r\n|\r|\n")


def load(path: Path, *, layer: str, display: str | None = None) -> Document:
    """Read a file that a human wrote."""
    name = str(path) if display is None else display
    return parse(_decode(_read(path, name), name), layer=layer, display=name)


def parse(text: str, *, layer: str, display: str) -> Document:
    """Read a text that a human wrote: one YAML document with a mapping at the top."""
    value, origins = parse_value(text, layer=layer, display=display)
    start = origins[()].mark if () in origins else None
    if value is None:
        raise ConfigError("the file is empty: a mapping is expected", where=start or display)
    if not isinstance(value, dict):
        what = f"expected a mapping (key: value) at the top, got {kind(value)}"
        raise ConfigError(what, where=start)
    return Document(data=value, origins=origins)


def parse_value(
    text: str, *, layer: str, display: str
) -> tuple[object, dict[KeyPath, ValueOrigin]]:
    """Read a YAML text with anything at the top; nothing gives None and no origins."""
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_BYTES:
        raise ConfigError(_too_big(), where=display)
    refused = refused_in_text(text)
    if refused:
        what = f"character U+{ord(refused[0]):04X} is not allowed in a file"
        raise ConfigError(what, where=_mark_at(text[: refused.start()], display))
    tree = ValueBuilder(layer=layer, display=display)
    try:
        tree.grow(_events(text))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, display) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The pure-Python scanner hands escapes such as "\UFFFFFFFF" to chr() unchecked.
        raise ConfigError("not valid YAML", where=display, why=str(error)) from error
    return tree.value, tree.origins


def _events(text: str) -> Iterator[yaml.Event]:
    # Events, not compose(): compose recurses (in C too) before any depth could be looked at.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _syntax_error(error: yaml.MarkedYAMLError, text: str, display: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    what = f"not valid YAML: {error.problem or error.context}"
    if mark is None:
        return ConfigError(what, where=display)
    place = Mark(file=display, line=mark.line + 1, column=mark.column + 1)
    if "nesting depth" in what:
        # libyaml has a limit of its own since 0.2.6, and reads so far ahead that it may meet that
        # before our depth is counted.
        return ConfigError(f"nested more than {MAX_DEPTH} levels deep", where=place)
    lines = LINE_BREAK.split(text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    has_tab = "\t" in line[: len(line) - len(line.lstrip())]
    return ConfigError(
        what,
        where=place,
        why=error.context if error.problem else None,
        next_step="indent with spaces: YAML does not allow tabs there" if has_tab else None,
    )


def _read(path: Path, name: str) -> bytes:
    try:
        # Without O_NONBLOCK a FIFO would hold us until someone writes to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(error, name) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError("cannot be read: not a regular file", where=name)
        if status.st_size > MAX_BYTES:
            raise ConfigError(_too_big(), where=name)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(error, name) from error
    finally:
        os.close(handle)
    # It may have grown since; files under /proc say 0 and give more.
    if len(data) > MAX_BYTES:
        raise ConfigError(_too_big(), where=name)
    return data


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        what = f"not UTF-8: byte 0x{data[error.start]:02x}"
        step = "save the file as UTF-8"
        raise ConfigError(what, where=_mark_at(before, name), next_step=step) from error


def _mark_at(before: str, display: str) -> Mark:
    lines = LINE_BREAK.split(before)
    return Mark(file=display, line=len(lines), column=len(lines[-1]) + 1)


def _unreadable(error: OSError | ValueError, name: str) -> ConfigError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return ConfigError(f"cannot be read: {reason}", where=name)


def _too_big() -> str:
    return f"the file has more than {MAX_BYTES // 1024} KiB, the limit for files of this kind"

"""A Dockerfile or a definition is written and read; what comes out, in lines that tests compare."""

from pathlib import Path

import pytest

from dlcontainer.authoring.foreign import image_file, image_names
from dlcontainer.authoring.foreign.image_words import ImageWords
from dlcontainer.errors import ConfigError


def read(
    path: Path, content: str | bytes, *, keep_shell: bool = False, has_below: bool = False
) -> ImageWords:
    """Write a file, and read it."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    format_ = image_names.format_of(path)
    assert format_ is not None
    return image_file.read(path, format_, keep_shell=keep_shell, has_below=has_below)


def left(words: ImageWords) -> list[str]:
    """Return what was not taken: `3: CMD true (why)`."""
    return [f"{line.line}: {line.text} ({line.why})" for line in words.untaken]


def lines(words: ImageWords) -> list[int]:
    """Return the lines of what was not taken."""
    return [line.line for line in words.untaken]


def asked(words: ImageWords) -> list[str]:
    """Return the requirements with their lines: `3: numpy>=2`."""
    return [f"{w.origin.rpartition(':')[2]}: {w.requirement}" for w in words.wishes.wishes]


def refused(path: Path, content: str | bytes) -> str:
    """Write a file, and return the words of its refusal, the folder cut off."""
    with pytest.raises(ConfigError) as caught:
        read(path, content)
    text = str(caught.value)
    assert len(text.splitlines()) <= 6
    return text.replace(f"{path.parent}/", "")

"""A file is written and read; what comes out, in lines that tests compare."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.authoring.readers import wish_file
from dlcontainer.errors import ConfigError
from dlcontainer.packages.resolve.wishes import WishList


def read(
    path: Path, content: str | bytes, *, groups: Sequence[str] = (), extras: Sequence[str] = ()
) -> WishList:
    """Write a file, and read it."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return wish_file.read(path, groups=groups, extras=extras)


def asked(wishes: WishList) -> list[str]:
    """Return the requirements with their lines: `3: numpy>=2`."""
    return [f"{wish.origin.rpartition(':')[2]}: {wish.requirement}" for wish in wishes.wishes]


def refused(
    path: Path, content: str | bytes, *, groups: Sequence[str] = (), extras: Sequence[str] = ()
) -> str:
    """Write a file, and return the words of its refusal, the folder cut off."""
    with pytest.raises(ConfigError) as caught:
        read(path, content, groups=groups, extras=extras)
    text = str(caught.value)
    assert len(text.splitlines()) <= 6
    return text.replace(f"{path.parent}/", "")

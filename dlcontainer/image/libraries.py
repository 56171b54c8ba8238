"""The list of an image's own shared libraries, as it lies in the image."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from dlcontainer.image.contents import Library
from dlcontainer.system import foreign_files

SCHEMA = "dlcontainer/libraries/1"


def render(libraries: Iterable[Library]) -> str:
    """Write the list as JSON: the same libraries, the same bytes."""
    body = {"schema": SCHEMA, "libraries": [asdict(library) for library in libraries]}
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def read(text: str) -> tuple[Library, ...]:
    """Read the list; raises ValueError, KeyError or TypeError for any other text."""
    body = foreign_files.loads(text)
    if body["schema"] != SCHEMA:
        raise ValueError(f"unknown schema {body['schema']!r}")
    return tuple(
        Library(path=library["path"], soname=library["soname"], needed=tuple(library["needed"]))
        for library in body["libraries"]
    )

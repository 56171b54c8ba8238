"""The name of a published image, from the description beside it in a release's folder."""

import re
from pathlib import Path

from dlcontainer.system import foreign_files

# Beside the image in a published tree.
FILE = "release.json"
_MOST_BYTES = 1_000_000
_PART = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,199}")


def module(image: Path) -> str | None:
    """Return NAME/VERSION-NUMBER of a published image; None where it is not one.

    One of before releases had numbers is NAME/VERSION.
    """
    try:
        body = foreign_files.loads(foreign_files.read(image.with_name(FILE), _MOST_BYTES))
        name, version, number = str(body["name"]), str(body["version"]), body.get("number")
        parts = (name, version if number is None else f"{version}-{int(number)}")
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return "/".join(parts) if all(map(_PART.fullmatch, parts)) else None

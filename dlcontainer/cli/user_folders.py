"""Where a user's own files are: the XDG Base Directory Specification, and nothing else to load."""

from collections.abc import Mapping
from pathlib import Path


def folder(environ: Mapping[str, str], variable: str, home: Path, default: str) -> Path:
    """Give dlcontainer's folder below the one that a variable names, or below its default."""
    given = environ.get(variable, "")
    # A relative path in these is to be ignored (XDG Base Directory Specification).
    return (Path(given) if given.startswith("/") else home / default) / "dlcontainer"

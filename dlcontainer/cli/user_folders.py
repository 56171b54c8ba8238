"""Where a user's own files are: the XDG Base Directory Specification, and nothing else to load."""

from collections.abc import Mapping
from pathlib import Path

from dlcontainer.system.environ import variables


def folder(environ: Mapping[str, str], variable: str, home: Path, default: str) -> Path:
    """Return dlcontainer's folder below the one that a variable names, or below its default."""
    return (variables.folder(environ, variable) or home / default) / "dlcontainer"

"""The engine of `dlcontainer setup engine`: where it stands, and whether it may be used.

It stands in the user's data folder (XDG Base Directory Specification), or a link there leads to
it: an environment of pipx or uv is replaced by each upgrade, so nothing is put there.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from dlcontainer.system import guarded_files
from dlcontainer.system.environ import variables

# In the prefix: links to the programs that serve.
LINKS = "bin"
_NAME = "engine"


def data_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's data folder for dlcontainer; None in an environment that names no home."""
    home = variables.folder(environ, "HOME")
    data = variables.folder(environ, "XDG_DATA_HOME") or (home and home / ".local/share")
    return data / "dlcontainer" if data else None


def default_prefix(environ: Mapping[str, str]) -> Path | None:
    """Return where the engine stands, or the link that leads to it."""
    data = data_folder(environ)
    return data / _NAME if data else None


def programs_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the engine's programs; None where there is none that may be used."""
    prefix = default_prefix(environ)
    if prefix is None:
        return None
    folder = Path(os.path.realpath(prefix)) / LINKS
    return folder if folder.is_dir() and guarded_files.is_private(folder) else None


def refusal(environ: Mapping[str, str]) -> str | None:
    """Return why an engine that is set up is not used; None where it is, or where there is none."""
    prefix = default_prefix(environ)
    if prefix is None:
        return None
    folder = Path(os.path.realpath(prefix)) / LINKS
    place = open_place(folder) if folder.is_dir() else None
    return f"the engine in {prefix} is not used: other users can change {place}" if place else None


def open_place(path: Path) -> Path | None:
    """Return the first folder on a path without links that other users can change, or replace."""
    places = (*reversed(path.parents), path)
    return next((place for place in places if not guarded_files.is_private(place)), None)

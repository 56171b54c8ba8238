"""Where files are that are not shipped: the user's, by the XDG Base Directory Specification, and a
centre's. Nothing else to load.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.system.environ import variables

# Folders of a centre's sites and recipes, for all its users; the first wins.
CENTRE = "DLCONTAINER_PATH"
_NAME = "dlcontainer"


def folder(environ: Mapping[str, str], variable: str, home: Path, default: str) -> Path:
    """Return dlcontainer's folder below the one that a variable names, or below its default."""
    return (variables.folder(environ, variable) or home / default) / _NAME


def centre(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return a centre's folders: of $DLCONTAINER_PATH, then those of the system that are there.

    Raises ConfigError for a folder of the variable that is none.
    """
    typed = [entry for entry in environ.get(CENTRE, "").split(os.pathsep) if entry]
    for entry in typed:
        if not entry.startswith("/") or not Path(entry).is_dir():
            why = "is no folder" if entry.startswith("/") else "is not an absolute path"
            raise ConfigError(
                f"{CENTRE}: {entry} {why}",
                next_step=f"correct the variable, folders separated by '{os.pathsep}', or unset it",
            )
    system = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    below = [Path(entry) / _NAME for entry in system.split(os.pathsep) if entry.startswith("/")]
    present = [path for path in below if path.is_dir()]
    return tuple(dict.fromkeys([*map(Path, typed), *present]))

"""The one reader of the host's variables: of folders, of proxies, and of our own DLCONTAINER_*.

An empty variable is not set. A relative folder is not set either: it would be another one after
each change of folder (the XDG Base Directory Specification says so of its own). So is a TMPDIR
that this machine does not have, or where nothing can be written: often a job's, on another node.
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TEMPORARY: Final = "TMPDIR"
USUAL_TEMPORARY: Final = Path("/tmp")  # noqa: S108  private folders are made in it
# The parts of proxy variables: each is also written in capitals.
PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")
_FOLDERS: Final = (
    *(TEMPORARY, "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
    *("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"),
)
_OWN: Final = "DLCONTAINER_"


@dataclass(frozen=True, kw_only=True, slots=True)
class HostVariables:
    """An environment without the variables that count as not set, and a line for the user."""

    environ: dict[str, str]
    note: str | None


def settled(environ: Mapping[str, str]) -> HostVariables:
    """Take away what counts as not set, at the entry: then programs that we start agree with us."""
    kept = {name: value for name, value in environ.items() if _counts(name, value)}
    for name in PROXIES:
        # As Python has it: the lower-case spelling decides, and an empty one switches a proxy off.
        if environ.get(name) == "":
            kept.pop(name.upper(), None)
    obstacle = temporary_obstacle(environ)
    if obstacle is None:
        return HostVariables(environ=kept, note=None)
    kept.pop(TEMPORARY, None)
    reason = f"ignoring {TEMPORARY}={environ[TEMPORARY]}: {obstacle}"
    return HostVariables(environ=kept, note=f"{reason}; using {USUAL_TEMPORARY}")


def _counts(name: str, value: str) -> bool:
    if name in _FOLDERS:
        return value.startswith("/")
    return bool(value) or not (name.startswith(_OWN) or name.lower() in PROXIES)


def text(environ: Mapping[str, str], name: str) -> str | None:
    """Return a variable's value; None for an empty one too."""
    return environ.get(name) or None


def folder(environ: Mapping[str, str], name: str) -> Path | None:
    """Return the folder that a variable names; None for a relative one too."""
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else None


def home(environ: Mapping[str, str]) -> Path:
    """Return the user's home: HOME, else that of the user's passwd line, else /."""
    of_user = folder(environ, "HOME")
    if of_user is not None:
        return of_user
    try:
        written = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        written = ""
    return Path(written) if written.startswith("/") else Path("/")


def temporary(environ: Mapping[str, str]) -> Path:
    """Return the folder for temporary files: TMPDIR where it serves, else /tmp."""
    tmpdir = folder(environ, TEMPORARY)
    return tmpdir if tmpdir and temporary_obstacle(environ) is None else USUAL_TEMPORARY


def temporary_obstacle(environ: Mapping[str, str]) -> str | None:
    """Return why a TMPDIR that is set does not serve; None where it does, and where it is not
    set.
    """
    value = environ.get(TEMPORARY, "")
    if not value:
        return None
    if not value.startswith("/"):
        return "it is not an absolute path"
    path = Path(value)
    if not path.is_dir():
        return "this machine has no such folder"
    if not os.access(path, os.W_OK | os.X_OK):
        return "you cannot write there"
    return None


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Name the variables of proxies that count: http_proxy -> its spelling in the environment."""
    spellings = {}
    for name in PROXIES:
        # An empty one in lower case switches off what stands in capitals.
        spelling = name if name in environ else name.upper()
        if environ.get(spelling):
            spellings[name] = spelling
    return spellings

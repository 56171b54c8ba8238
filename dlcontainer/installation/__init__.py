"""How dlcontainer came here, as a checkout or a wheel, and how what it needs is installed here."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
# What stands beside the package in a checkout.
_FOLDERS = ("recipes", "templates", "site-configs")
_PROJECT_NAME = re.compile(r"""^name\s*=\s*["']dlcontainer["']\s*$""", re.MULTILINE)
_COMMAND = "`dlcontainer setup engine`"
# Packages of distributions, and an installer that needs no root.
ENGINE_PAGE = "https://apptainer.org/docs/admin/main/installation.html"
# The distribution's command -> its names for packages, where they are not Debian's.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "apt-get": {},
    "dnf": {"uidmap": "shadow-utils"},
    "zypper": {"uidmap": "shadow", "squashfs-tools": "squashfs"},
}


def checkout(package: Path = PACKAGE) -> Path | None:
    """Return the checkout that a package runs from; None for an installed wheel."""
    above = package.parent
    try:
        text = (above / "pyproject.toml").read_text(encoding="utf-8")
        has_folders = all((above / name).is_dir() for name in _FOLDERS)
    except (OSError, UnicodeDecodeError):
        return None
    return above if has_folders and _PROJECT_NAME.search(text) else None


def line(environ: Mapping[str, str], *packages: str) -> str:
    """Return the command that installs packages here, which are named as in Debian."""
    import shutil

    for command, names in _NAMES.items():
        if shutil.which(command, path=environ.get("PATH", "")) is not None:
            return (
                f"{command} install {' '.join(names.get(package, package) for package in packages)}"
            )
    noun = "package" if len(packages) == 1 else "packages"
    return f"install the {noun} {' '.join(packages)}"


def helper(environ: Mapping[str, str], *packages: str, package: Path = PACKAGE) -> str:
    """Return how programs that builds need are installed; the packages are named as in Debian."""
    by_root = f"an administrator types: {line(environ, *packages)}"
    own_way = _own_way(environ, package)
    return f"{own_way}, or {by_root}" if own_way else by_root


def engine(environ: Mapping[str, str], package: Path = PACKAGE) -> str:
    """Return how an engine is installed, with or without root."""
    advice = "load the site's module, or install Apptainer, with or without root: " + ENGINE_PAGE
    own_way = _own_way(environ, package)
    return f"{own_way}, or {advice}" if own_way else f"{advice}; {_COMMAND} lists this host's ways"


def resolver(python: str = sys.executable) -> str:
    """Return how uv comes into the environment of this dlcontainer."""
    return beside("uv>=0.13", python)


def beside(requirement: str, python: str = sys.executable) -> str:
    """Return how a Python package comes into the environment of this dlcontainer."""
    import shlex

    # Not by an extra: its name leads to an index, where this dlcontainer may not be.
    return f"{shlex.quote(python)} -m pip install {shlex.quote(requirement)}"


def _own_way(environ: Mapping[str, str], package: Path) -> str | None:
    """Return how this user has private programs without root; None where they can't be fetched."""
    import shutil

    if checkout(package):
        return "run `make setup` in dlcontainer's checkout (no root needed)"
    path = environ.get("PATH", "")
    has_apt = all(shutil.which(name, path=path) for name in ("apt-get", "dpkg-deb"))
    return f"run {_COMMAND} (no root needed)" if has_apt else None

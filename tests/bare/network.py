"""The way out of this host, handed to a bare tree: mirror, CA, apt's and pip's settings."""

import configparser
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from dlcontainer.engine_setup.aptsources import archive_of, read_sources
from tests.bare.machines import Release

_CA = Path("etc/ssl/certs/ca-certificates.crt")
_PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
# Settings of apt that are about the way out; its hooks and pins are this host's own affair.
_APT = re.compile(r"^Acquire::(https?|Check-|Retries|ForceIP)", re.IGNORECASE)
_VARIABLES = re.compile(
    r"^(https?_proxy|no_proxy|PIP_\w+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)$", re.IGNORECASE
)
_FOLDER = re.compile(r"(?:file://)?(/[\w./-]+)")


def mirror() -> str:
    """Give the mirror of Debian's archive that this host uses."""
    text = Path("/etc/os-release").read_text()
    codename = re.search(r"^VERSION_CODENAME=(\S+)", text, re.MULTILINE)
    return archive_of(read_sources(), codename[1] if codename else "").uris[0]


def sources(release: Release) -> str:
    """Give the one line of sources.list that a bare tree has."""
    return f"deb {mirror()} {release} main"


def hand_in(tree: Path) -> None:
    """Write this host's settings into a tree, so that the network works there as here."""
    dumped = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True)
    kept = [line for line in dumped.stdout.splitlines() if _APT.match(line)]
    (tree / "etc/apt/apt.conf.d/99this-host").write_text("\n".join([*kept, ""]))
    shutil.copyfile(Path("/") / _CA, tree / _CA)
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(Path("/etc") / name, tree / "etc" / name)
    with (tree / "etc/pip.conf").open("w") as file:
        _pip().write(file)
    exports = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted(os.environ.items())
        if _VARIABLES.match(name)
    ]
    (tree / "etc/profile.d/this-host.sh").write_text("".join(exports))


def folders() -> list[Path]:
    """Name the folders on this host that pip takes packages from."""
    named = " ".join([value for _, value in _pip().items("global")])
    named += " ".join(value for name, value in os.environ.items() if name.startswith("PIP_"))
    found = [Path(path) for path in _FOLDER.findall(re.sub(r"https?://\S+", " ", named))]
    # An index is a folder beside the files that it links to.
    roots = {path.parent if path.name == "simple" else path for path in found}
    return sorted(root for root in roots if root.is_dir())


def _pip() -> configparser.ConfigParser:
    settings = configparser.ConfigParser(interpolation=None, strict=False)
    # The later file wins, as with pip itself.
    settings.read([Path(name).expanduser() for name in _PIP_FILES])
    if not settings.has_section("global"):
        settings.add_section("global")
    return settings

"""The line that installs a program on this host: distributions differ in command and names."""

from collections.abc import Mapping

from dlcontainer.system.machine import Host, find_program

# The distribution's command -> its names for packages, where they are not Debian's.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "apt-get": {},
    "dnf": {"uidmap": "shadow-utils"},
    "zypper": {"uidmap": "shadow", "squashfs-tools": "squashfs"},
}


def line(host: Host, package: str) -> str:
    """Give the command that installs a package, which is named as in Debian."""
    for command, names in _NAMES.items():
        if find_program(command, host.environ) is not None:
            return f"{command} install {names.get(package, package)}"
    return f"install the package {package}"

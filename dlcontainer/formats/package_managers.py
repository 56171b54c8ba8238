"""The package managers of distributions: how each installs, and what it leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.recipes.distributions import Manager


@dataclass(frozen=True, kw_only=True, slots=True)
class _ManagerCommands:
    """Commands around a list of packages, and what is removed in the end."""

    before: tuple[str, ...]
    install: str
    after: tuple[str, ...]
    # between a package's name and its version
    pin: str
    clean: tuple[str, ...]


# Weak dependencies ("recommends") are left out everywhere: what an image needs is named.
# Sources: apt-get(8); dnf.conf(5) `install_weak_deps`, dnf(8) "SPECIFYING PACKAGES"; yum(8);
# zypper(8) `install --no-recommends`.
_KNOWN: dict[Manager, _ManagerCommands] = {
    "apt": _ManagerCommands(
        before=("apt-get update",),
        install="apt-get install --yes --no-install-recommends",
        after=("rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb",),
        pin="=",
        clean=(
            "rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/aux-cache",
            "rm -rf /var/log/apt /var/log/dpkg.log /var/log/alternatives.log",
        ),
    ),
    "dnf": _ManagerCommands(
        before=(),
        install="dnf install --assumeyes --setopt=install_weak_deps=False",
        after=("dnf clean all",),
        pin="-",
        clean=(
            "rm -rf /var/cache/dnf /var/cache/ldconfig/aux-cache",
            "rm -rf /var/log/dnf.log /var/log/dnf.librepo.log /var/log/dnf.rpm.log",
            "rm -rf /var/log/hawkey.log",
        ),
    ),
    "yum": _ManagerCommands(
        before=(),
        install="yum install --assumeyes",
        after=("yum clean all",),
        pin="-",
        clean=("rm -rf /var/cache/yum /var/cache/ldconfig/aux-cache", "rm -rf /var/log/yum.log"),
    ),
    "zypper": _ManagerCommands(
        before=("zypper --non-interactive refresh",),
        install="zypper --non-interactive install --no-recommends",
        after=("zypper clean --all",),
        pin="=",
        clean=(
            "rm -rf /var/cache/zypp /var/cache/ldconfig/aux-cache",
            "rm -rf /var/log/zypp /var/log/zypper.log",
        ),
    ),
}


def install(manager: Manager, packages: Sequence[str]) -> list[Text]:
    """Return the commands that install packages, each NAME or NAME=VERSION."""
    commands = _KNOWN[manager]
    names = " ".join(quote(package.replace("=", commands.pin, 1)) for package in packages)
    return [
        Text(line) for line in (*commands.before, f"{commands.install} {names}", *commands.after)
    ]


def cleaning(manager: Manager | None) -> list[Text]:
    """Return the commands that leave nothing of the build behind: caches and logs.

    Nothing under /tmp, /var/tmp or a home: engines bind the host's there while they build, so a
    line that empties them would empty the host's.
    """
    if manager is None:
        return [Text("rm -rf /var/cache/ldconfig/aux-cache")]
    return [Text(line) for line in _KNOWN[manager].clean]

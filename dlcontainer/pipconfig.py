"""The host's pip configuration: where it finds packages, from its files and variables."""

import configparser
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote as quote_url
from urllib.parse import unquote, urlsplit

from dlcontainer.machine import Host


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """What of pip's settings decides where packages come from."""

    index: str | None = None
    extra_indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    no_index: bool = False
    timeout: str | None = None
    retries: str | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """All places named: none of them may stay in an image."""
        return tuple(
            place for place in (self.index, *self.extra_indexes, *self.find_links) if place
        )


def files(host: Host) -> list[Path]:
    """Name pip's configuration files, lowest precedence first.

    Source: pip's documentation, "Configuration", "Location" and "Loading order".
    """
    environ = host.environ
    config_home = Path(environ.get("XDG_CONFIG_HOME") or host.home / ".config")
    folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    found = [Path(folder) / "pip/pip.conf" for folder in folders if folder]
    found += [Path("/etc/pip.conf"), host.home / ".pip/pip.conf", config_home / "pip/pip.conf"]
    found.append(Path(sys.prefix) / "pip.conf")
    override = environ.get("PIP_CONFIG_FILE")
    if override == os.devnull:
        return []
    return [*found, Path(override)] if override else found


def read(host: Host) -> PipSettings:
    """Read the host's settings: files, then PIP_* variables over them."""
    settings: dict[str, str] = {}
    for path in files(host):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text())
        except (OSError, configparser.Error, UnicodeDecodeError):
            # pip reports a broken file itself, at its first call in the build.
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {
                    key.lower().replace("_", "-"): value for key, value in parser.items(section)
                }
    for name, value in host.environ.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].lower().replace("_", "-")] = value
    return PipSettings(
        index=settings.get("index-url"),
        extra_indexes=tuple(settings.get("extra-index-url", "").split()),
        find_links=tuple(settings.get("find-links", "").split()),
        trusted_hosts=tuple(settings.get("trusted-host", "").split()),
        no_index=settings.get("no-index", "").lower() in {"1", "true", "yes", "on"},
        timeout=settings.get("timeout") or settings.get("default-timeout"),
        retries=settings.get("retries"),
    )


def with_wheels(settings: PipSettings, wheels: tuple[str, ...]) -> PipSettings:
    """Add folders of wheels to the places that pip looks into."""
    return replace(settings, find_links=(*wheels, *settings.find_links))


def inside(settings: PipSettings, folder: str) -> tuple[str, list[tuple[Path, str]]]:
    """Give the pip.conf for the inside of a build, and the host folders to bind for it.

    Folders and file:// addresses become folders under `folder`; those that are not there are
    left out, as pip itself would pass over them.
    """
    binds: list[tuple[Path, str]] = []

    def moved(place: str) -> str | None:
        path = _local(place)
        if path is None:
            return place
        if not path.is_dir():
            return None
        for bound, target in binds:
            if bound == path:
                break
        else:
            target = f"{folder}/folder-{len(binds)}"
            binds.append((path, target))
        return f"file://{quote_url(target)}" if place.startswith("file:") else target

    lines = ["[global]", "disable-pip-version-check = true"]
    if settings.index and (index := moved(settings.index)):
        lines.append(f"index-url = {index}")
    for key, places in (
        ("extra-index-url", settings.extra_indexes),
        ("find-links", settings.find_links),
    ):
        kept = [place for place in map(moved, places) if place]
        if kept:
            lines.append(f"{key} =")
            lines += [f"    {place}" for place in kept]
    if settings.trusted_hosts:
        lines.append(f"trusted-host = {' '.join(settings.trusted_hosts)}")
    if settings.no_index:
        lines.append("no-index = true")
    for key, value in (("timeout", settings.timeout), ("retries", settings.retries)):
        if value and re.fullmatch(r"[0-9.]+", value):
            lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n", binds


def _local(place: str) -> Path | None:
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    if "://" in place:
        return None
    return Path(place).expanduser().absolute()

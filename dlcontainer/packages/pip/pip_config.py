"""The host's pip configuration: where it finds packages, from its files and variables."""

import configparser
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote as quote_url
from urllib.parse import unquote, urlsplit

from dlcontainer.errors import ConfigError
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine

# Where the files of an index in a folder lie beside it: its pages link to ../../packages/… (the
# layout of bandersnatch, PyPI's own mirror program) or to ../../files/… (mirrors made by hand).
# No other name is taken from a page: it could be that of any folder beside the index.
_BESIDE_INDEX = ("packages", "files")


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
    # Files that bound what pip chooses: a centre's cap on versions. They name no place.
    constraints: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """All places named: none of them may stay in an image."""
        return tuple(
            place for place in (self.index, *self.extra_indexes, *self.find_links) if place
        )


# The whole machine's, of the distribution or the administrator.
SYSTEM = Path("/etc/pip.conf")


def files(host: HostMachine) -> list[Path]:
    """Name pip's configuration files, lowest precedence first.

    Source: pip's documentation, "Configuration", "Location" and "Loading order".
    """
    environ = host.environ
    config_home = variables.folder(environ, "XDG_CONFIG_HOME") or host.home / ".config"
    folders = (variables.text(environ, "XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    override = variables.text(environ, "PIP_CONFIG_FILE")
    if override == os.devnull:
        return []
    paths = [Path(folder) / "pip/pip.conf" for folder in folders if folder.startswith("/")]
    paths.append(SYSTEM)
    if not (override and Path(override).exists()):
        paths += [host.home / ".pip/pip.conf", config_home / "pip/pip.conf"]
    paths.append(Path(sys.prefix) / "pip.conf")
    return [*paths, Path(override)] if override else paths


def read(host: HostMachine) -> PipSettings:
    """Read the host's settings: files, then PIP_* variables over them."""
    # [install] comes over [global], whichever file either stands in.
    by_section: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in files(host):
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(path.read_text())
        except (OSError, configparser.Error, UnicodeDecodeError):
            # pip reports a broken file itself, at its first call in the build.
            continue
        for section, options in by_section.items():
            if parser.has_section(section):
                pairs = parser.items(section)
                options |= {key.lower().replace("_", "-"): value for key, value in pairs if value}
    settings = by_section["global"] | by_section["install"]
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
        constraints=tuple(settings.get("constraint", "").split()),
    )


def with_wheels(settings: PipSettings, wheels: tuple[str, ...]) -> PipSettings:
    """Add folders of wheels to the places that pip looks into."""
    return replace(settings, find_links=(*wheels, *settings.find_links))


def inside(settings: PipSettings, folder: str) -> tuple[str, list[tuple[Path, str]]]:
    """Return the pip.conf for the inside of a build, and the host folders to bind for it.

    Folders and file:// addresses become folders under `folder`; those that are not there are
    left out, as pip itself would pass over them.
    """
    binds: list[tuple[Path, str]] = []
    targets: dict[tuple[Path, bool], str] = {}

    def moved(place: str, *, is_index: bool = False) -> list[str]:
        path = _local(place)
        if path is None:
            return [_one_line(place)]
        if not path.is_dir():
            return []
        if (path, is_index) not in targets:
            top = f"{folder}/folder-{len(targets)}"
            targets[path, is_index] = f"{top}/index" if is_index else top
            binds.append((path, targets[path, is_index]))
            siblings = [
                name for name in _BESIDE_INDEX if is_index and (path.parent / name).is_dir()
            ]
            binds.extend((path.parent / name, f"{top}/{name}") for name in siblings)
        inner = targets[path, is_index]
        return [f"file://{quote_url(inner)}" if place.startswith("file:") else inner]

    values = {
        "index-url": moved(settings.index, is_index=True) if settings.index else [],
        "extra-index-url": [
            new for old in settings.extra_indexes for new in moved(old, is_index=True)
        ],
        "find-links": [new for old in settings.find_links for new in moved(old)],
        "trusted-host": list(map(_one_line, settings.trusted_hosts)),
        "no-index": ["true"] if settings.no_index else [],
        "timeout": _number(settings.timeout),
        "retries": _number(settings.retries),
        "disable-pip-version-check": ["true"],
    }
    lines = ["[global]"]
    for key, places in values.items():
        if len(places) == 1:
            lines.append(f"{key} = {places[0]}")
        elif places:
            lines.append("\n    ".join([f"{key} =", *places]))
    return "\n".join(lines) + "\n", binds


def arguments(settings: PipSettings) -> list[str]:
    """Return pip's options for these settings: where nothing but they shall count."""
    argv = ["--index-url", settings.index] if settings.index else []
    for option, places in (
        ("--extra-index-url", settings.extra_indexes),
        ("--find-links", settings.find_links),
        ("--trusted-host", settings.trusted_hosts),
    ):
        argv += [part for place in places for part in (option, place)]
    argv += ["--no-index"] if settings.no_index else []
    for option, value in (("--timeout", settings.timeout), ("--retries", settings.retries)):
        argv += [part for number in _number(value) for part in (option, number)]
    return argv


def address(place: str) -> str | None:
    """Return a place as an address, a folder as file://; None for a folder that is not there."""
    path = _local(place)
    if path is None:
        return place
    return path.as_uri() if path.is_dir() else None


def _one_line(place: str) -> str:
    # A further line of the file would be a further setting.
    if not place.isprintable():
        raise ConfigError(
            "pip's configuration cannot hold an address with a control character",
            where="index-url, extra-index-url, find-links or trusted-host",
            next_step="correct it in the host's pip.conf or PIP_* variables, or set "
            "routing.pip of the site",
        )
    return place


def _number(text: str | None) -> list[str]:
    return [text] if text and re.fullmatch(r"[0-9.]+", text) else []


def _local(place: str) -> Path | None:
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    if "://" in place:
        return None
    return Path(place).expanduser().absolute()

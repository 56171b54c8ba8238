"""What an image has installed, by dpkg's own list in it: what apt resolves on top of.

The image's text is somebody else's, and apt reads it on this host: of each package only the fields
that apt resolves by are handed on, each in one line of the characters that it may have.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.recipes.base import System

STATUS = "/var/lib/dpkg/status"
OS_RELEASES = ("/usr/lib/os-release", "/etc/os-release")
WANTED = (STATUS, *OS_RELEASES)

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~_-]*")
_TEXT = re.compile(r"[ -~]*")
# "want ok state": dpkg(1), "Package selection states", "Package states".
_STATE = re.compile(
    r"(?:install|hold|deinstall|purge|unknown) (?:ok|reinstreq) (?P<state>not-installed|"
    r"config-files|half-installed|unpacked|half-configured|triggers-awaited|triggers-pending|"
    r"installed)"
)
_GONE = ("not-installed", "config-files")
# What apt resolves by: deb-control(5).
_FIELDS = {
    "Package": _WORD,
    "Status": _STATE,
    "Architecture": _WORD,
    "Version": _WORD,
    "Essential": _TEXT,
    "Protected": _TEXT,
    "Priority": _TEXT,
    "Multi-Arch": _TEXT,
    "Provides": _TEXT,
    "Pre-Depends": _TEXT,
    "Depends": _TEXT,
    "Recommends": _TEXT,
    "Suggests": _TEXT,
    "Breaks": _TEXT,
    "Conflicts": _TEXT,
    "Replaces": _TEXT,
}
_NEEDED = ("Package", "Status", "Architecture", "Version")


@dataclass(frozen=True, kw_only=True, slots=True)
class DpkgPackage:
    """One package of an image: its paragraph holds what apt resolves by, and nothing else."""

    name: str
    arch: str
    paragraph: str


def read(files: Mapping[str, str], stated: System, image: str) -> Sequence[DpkgPackage]:
    """Read the packages of an image from its files, by path.

    Raises ConfigError where it is of another release than the recipe states, or has no dpkg and
    apt, BuildError for a list that dpkg can't have written.
    """
    _require_release(files, stated, image)
    status = files.get(STATUS)
    installed = [] if status is None else list(_installed(status, image))
    if not any(package.name == "apt" for package in installed):
        raise ConfigError(
            "cannot lock OS packages on an image without dpkg and apt",
            where=image,
            why=f"it has no {STATUS}" if status is None else f"its {STATUS} does not list apt",
            next_step="build without --locked, or use a base of Debian or Ubuntu",
        )
    return installed


def _require_release(files: Mapping[str, str], stated: System, image: str) -> None:
    text = next((files[path] for path in OS_RELEASES if path in files), None)
    lines = (line.partition("=") for line in (text or "").split("\n"))
    fields = {key.strip(): value.strip().strip("\"'") for key, _, value in lines}
    name, releases = fields.get("ID"), [fields.get("VERSION_CODENAME"), fields.get("VERSION_ID")]
    if name == stated.distribution and stated.release in releases:
        return
    has = " ".join(ascii(word)[1:-1] for word in (name, *releases) if word)
    raise ConfigError(
        f"the base is not {stated.distribution} {stated.release}, as base.system says",
        where=image,
        why=f"its os-release says {has}" if has else "it has no os-release file that confirms this",
        next_step="correct base.system in the recipe, or pin another image",
    )


def _installed(text: str, image: str) -> Iterator[DpkgPackage]:
    for number, paragraph in enumerate(text.split("\n\n"), 1):
        if not paragraph.strip("\n"):
            continue
        fields = _fields(paragraph)
        missing = [name for name in _NEEDED if name not in fields]
        state = _STATE.fullmatch(fields.get("Status", ""))
        if state is not None and state["state"] in _GONE:
            continue
        if missing:
            raise _refused(image, number, f"{missing[0]} is missing")
        for name, value in fields.items():
            if not _FIELDS[name].fullmatch(value):
                raise _refused(image, number, f"{name}: {ascii(value)[:80]}")
        lines = [f"{name}: {value}" for name, value in fields.items()]
        yield DpkgPackage(
            name=fields["Package"],
            arch=fields["Architecture"],
            paragraph="\n".join(lines) + "\n",
        )


def _fields(paragraph: str) -> dict[str, str]:
    """Return the fields that are handed on; further lines of one belong to it."""
    fields: dict[str, list[str]] = {}
    last = ""
    for line in paragraph.strip("\n").split("\n"):
        if line[:1] in (" ", "\t"):
            if last in fields:
                fields[last].append(line.strip())
            continue
        last, _, value = line.partition(":")
        if last in _FIELDS:
            fields[last] = [value.strip()]
    return {name: " ".join(fields[name]) for name in _FIELDS if name in fields}


def _refused(image: str, number: int, why: str) -> BuildError:
    return BuildError(
        f"cannot use {STATUS} of the base",
        where=image,
        why=f"paragraph {number}: {why}",
        next_step="pin another image, and do not build from this one: dpkg did not write this file",
    )

"""What a layer may not do to the image below: each file of it is held against each path there.

Only folders may be in both. A new file can replace one that stays: a module is found before
another one of its name, byte code before its source, a command before another on PATH, a library
before another in the loader's folders; and some files run at each start of Python.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from packaging.utils import canonicalize_name

from dlcontainer.authoring.extension.wheel_files import LayerFile
from dlcontainer.errors import MisfitError
from dlcontainer.image import layout

_OWN = (f"{layout.FOLDER}/", "/.singularity.d/")
_SETTINGS = ("/etc/", "/usr/etc/", "/usr/local/etc/")
_LOADER = re.compile(
    r"/(?:usr/)?(?:local/)?lib(?:32|64)?/(?:[^/]+-linux-gnu[^/]*/)?[^/]+\.so(?:\.[^/]*)?"
)
# Folders of commands that every image has on its PATH.
_COMMANDS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_AT_START = ("sitecustomize", "usercustomize")
_METADATA = (".dist-info", ".egg-info")
_MODULE = re.compile(r"[^.]+(?:\.(?:py|pyc|pyi|so|[\w-]+\.so))?")
_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class BelowLayer:
    """The image below: the kind of each path, its folders of modules and of commands."""

    kinds: Mapping[str, str]
    sites: Sequence[str]
    scripts: str

    @cached_property
    def names(self) -> Mapping[str, Sequence[str]]:
        """The names in each folder."""
        names: dict[str, list[str]] = {}
        for path in self.kinds:
            above, _, name = path.rpartition("/")
            names.setdefault(above or "/", []).append(name)
        return names

    @cached_property
    def _modules(self) -> dict[str, Mapping[str, Sequence[str]]]:
        return {}

    def modules(self, folder: str) -> Mapping[str, Sequence[str]]:
        """Return what Python may import from a folder: the name of a module -> its files."""
        if folder not in self._modules:
            stems: dict[str, list[str]] = {}
            for name in filter(_MODULE.fullmatch, self.names.get(folder, ())):
                stems.setdefault(_stem(name), []).append(name)
            self._modules[folder] = stems
        return self._modules[folder]

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder of the image; nothing above the root is asked."""
        return path == "/" or self.kinds.get(path) == "d"

    def is_package(self, folder: str) -> bool:
        """Return whether a folder is a package of modules, by its first file."""
        return "__init__" in self.modules(folder)

    def site_of(self, path: str) -> str | None:
        """Return the folder of modules that a path lies in."""
        return next((site for site in self.sites if path.startswith(f"{site}/")), None)


def require(files: Sequence[LayerFile], below: BelowLayer, base: str) -> None:
    """Refuse a layer that would change the image below; raises MisfitError with each reason."""
    faults = list(dict.fromkeys(_faults(files, below)))
    if not faults:
        return
    more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
    raise MisfitError(
        f"the packages would change what is in {base}",
        why="\n    ".join([*faults[:_SHOWN], *more]),
        next_step="leave these packages out; or build an image of a recipe that has them "
        "(docs/image/own-stack.md)",
    )


def _faults(files: Sequence[LayerFile], below: BelowLayer) -> Iterator[str]:
    heads = (posixpath.split(file.path) for file in files)
    packages = {folder for folder, name in heads if _stem(name) == "__init__"}
    for file in files:
        reason = _reason(file.path, below, packages)
        if reason is not None:
            yield f"{file.wheel.title}: {file.path} {reason}"


def _reason(path: str, below: BelowLayer, packages: Collection[str]) -> str | None:
    return (
        _of_system(path)
        or _of_both(path, below)
        or _of_start(path, below)
        or _of_package(path, below)
        or _of_shadow(path, below, packages)
        or _of_command(path, below)
    )


def _of_system(path: str) -> str | None:
    if path.startswith(_OWN):
        return "describes the image itself"
    if path.startswith(("/etc/ld.so", "/usr/etc/ld.so")):
        return "changes the libraries that all programs load"
    if path.startswith(_SETTINGS):
        return "is a setting of the system"
    if _LOADER.fullmatch(path):
        return "is a library in a folder where all programs look for theirs"
    return None


def _of_both(path: str, below: BelowLayer) -> str | None:
    if path in below.kinds:
        return "is in the image already"
    above = posixpath.dirname(path)
    while above not in below.kinds and above != "/":
        above = posixpath.dirname(above)
    if not below.is_folder(above):
        return f"lies below {above}, which is no folder in the image"
    return None


def _of_start(path: str, below: BelowLayer) -> str | None:
    """Say what runs at each start of Python, or changes where it looks for modules."""
    folder, name = posixpath.split(path)
    site = below.site_of(path)
    if folder == site and name.endswith(".pth"):
        return "runs at each start of Python, or adds folders of modules"
    if site is None:
        return None
    first = path.removeprefix(f"{site}/").removeprefix("__pycache__/").split("/")[0]
    if _stem(first) in _AT_START:
        return "runs at each start of Python"
    return None


def _of_package(path: str, below: BelowLayer) -> str | None:
    """Say which package of the image, or its metadata, would get a file more."""
    site, folder = below.site_of(path), posixpath.dirname(path)
    while site is not None and folder != site and folder != "/":
        if below.is_folder(folder):
            if folder.endswith(_METADATA):
                return f"is in the metadata of a package of the image: {posixpath.basename(folder)}"
            if below.is_package(folder):
                return f"is in a package of the image: {posixpath.basename(folder)}"
        folder = posixpath.dirname(folder)
    return None


def _of_shadow(path: str, below: BelowLayer, packages: Collection[str]) -> str | None:
    """Say which module or distribution of the image has the same name at another path."""
    site = below.site_of(path)
    if site is None:
        return None
    first = path.removeprefix(f"{site}/").split("/")[0]
    if first.endswith(_METADATA):
        return _of_distribution(first, below)
    shared = posixpath.dirname(path)
    while shared != site and not below.is_folder(shared):
        shared = posixpath.dirname(shared)
    name = path.removeprefix(f"{shared}/").split("/")[0]
    if "__pycache__" in (name, posixpath.basename(shared)):
        return _of_source(path, below)
    if shared != site and _stem(name) == "__init__":
        return f"makes a package of a folder of the image: {posixpath.basename(shared)}"
    folders = [shared] if shared != site else below.sites
    for folder in folders:
        for name_below in (
            below.modules(folder).get(_stem(name), ()) if _MODULE.fullmatch(name) else ()
        ):
            is_part = f"{shared}/{name}" not in packages and below.is_folder(
                f"{folder}/{name_below}"
            )
            if not is_part or below.is_package(f"{folder}/{name_below}"):
                return f"has the name of a module of the image: {folder}/{name_below}"
    return None


def _of_source(path: str, below: BelowLayer) -> str | None:
    """Say whose byte code a file in a `__pycache__` is: Python takes it for the source."""
    folder = posixpath.dirname(path).partition("/__pycache__")[0]
    sources = below.modules(folder).get(_stem(posixpath.basename(path)), ())
    return f"is byte code of a module of the image: {folder}/{sources[0]}" if sources else None


def _of_distribution(name: str, below: BelowLayer) -> str | None:
    package = canonicalize_name(name.partition("-")[0])
    for site in below.sites:
        for name_below in below.names.get(site, ()):
            stem = posixpath.splitext(name_below)[0].partition("-")[0]
            if name_below.endswith(_METADATA) and canonicalize_name(stem) == package:
                return f"describes a package that the image has: {site}/{name_below}"
    return None


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _of_command(path: str, below: BelowLayer) -> str | None:
    folder, name = posixpath.split(path)
    if folder != below.scripts:
        return None
    for commands in _COMMANDS:
        if f"{commands}/{name}" in below.kinds:
            return f"has the name of a command of the image: {commands}/{name}"
    return None

"""Where recipes/, templates/ and site-configs/ are: the user's, a centre's, or what is shipped."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dlcontainer import installation
from dlcontainer.config.suggestions import suggest
from dlcontainer.errors import ConfigError

Kind = Literal["recipes", "templates", "site-configs"]
RootOrigin = Literal["user", "centre", "checkout", "wheel"]

KINDS: tuple[Kind, ...] = get_args(Kind)
NOUNS: dict[Kind, str] = {
    "recipes": "recipe",
    "templates": "template folder",
    "site-configs": "site config",
}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
PROBE = installation.PACKAGE / "probe"


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A folder that holds some of the three; a centre's has no templates."""

    origin: RootOrigin
    path: Path
    # Refuses a file of this folder that others could have written: ConfigError, OSError.
    vet: Callable[[Path, Path], None] | None = None

    @property
    def is_shipped(self) -> bool:
        """Whether it came with this package."""
        return self.origin in ("checkout", "wheel")


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenResource:
    """A site or recipe of a name that a folder before its own has too."""

    name: str
    path: Path
    by: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceFolders:
    """The folders that are searched, the first wins."""

    roots: tuple[Root, ...]

    def names(self, kind: Kind) -> list[str]:
        """List what can be found: recipe folders, site configs, folders of templates."""
        names: set[str] = set()
        for root in self._roots(kind):
            names.update(self._names_of(root, kind))
        return sorted(names)

    def _names_of(self, root: Root, kind: Kind) -> list[str]:
        try:
            return list(_names(root.path, kind))
        except OSError as error:
            raise _unreadable(root.path / kind, error) from error

    def origin(self, path: Path) -> str:
        """Say where a file that was found is from: yours, shipped, or the centre's folder."""
        root = next(root for root in self.roots if path.is_relative_to(root.path))
        if root.is_shipped:
            return "shipped"
        return str(root.path) if root.origin == "centre" else "yours"

    def hidden(self, kind: Kind) -> list[HiddenResource]:
        """List what no name leads to, since a folder before its own has the name too."""
        taken: dict[str, Path] = {}
        hidden: list[HiddenResource] = []
        for root in self._roots(kind):
            for name in sorted(self._names_of(root, kind)):
                path = _path(root.path, kind, name)
                if taken.setdefault(name, path) != path:
                    hidden.append(HiddenResource(name=name, path=path, by=taken[name]))
        return hidden

    def _roots(self, kind: Kind) -> list[Root]:
        return [root for root in self.roots if kind != "templates" or root.origin != "centre"]

    def find(self, kind: Kind, name: str) -> Path:
        """Return the recipe.yaml, the site config or the template folder of this name.

        Raises ConfigError for a centre's that others could have written.
        """
        if NAME.fullmatch(name):
            for root in self._roots(kind):
                path = _path(root.path, kind, name)
                try:
                    if _is_there(path, kind):
                        if root.vet is not None:
                            root.vet(root.path, path)
                        return path
                except OSError as error:
                    raise _unreadable(path, error) from error
        searched = ", ".join(str(root.path / kind) for root in self._roots(kind))
        misnamed = self._misnamed(kind, name)
        if misnamed is not None:
            raise ConfigError(
                f"{misnamed} is ignored: its name must end in .yaml",
                next_step=f"mv {shlex.quote(str(misnamed))} "
                f"{shlex.quote(str(misnamed.with_suffix('.yaml')))}",
            )
        raise ConfigError(
            f"there is no {NOUNS[kind]} named '{name}'{suggest(name, self.names(kind))}",
            why=f"searched: {searched}",
            next_step=self._swapped(kind, name),
        )

    def _misnamed(self, kind: Kind, name: str) -> Path | None:
        """Find a file of the name with another ending: .yml, or one in capitals."""
        if kind == "templates" or not NAME.fullmatch(name):
            return None
        for path in (_path(root.path, kind, name) for root in self._roots(kind)):
            with contextlib.suppress(OSError):
                for entry in sorted(path.parent.iterdir()):
                    if entry.stem == path.stem and entry.suffix.lower() in (".yml", ".yaml"):
                        return entry
        return None

    def _swapped(self, kind: Kind, name: str) -> str | None:
        """Return what to type where a name is of the other kind, or is a file of packages."""
        if kind == "recipes" and Path(name).is_file():
            path = shlex.quote(name)
            return f"to build from this file: `dlcontainer build {path} --site SITE --dry-run`"
        swapped_kind: Kind = "recipes" if kind == "site-configs" else "site-configs"
        if kind == "templates" or name not in self.names(swapped_kind):
            return None
        return f"'{name}' is a {NOUNS[swapped_kind]}: `dlcontainer COMMAND RECIPE --site SITE`"

    def template_folders(self) -> list[Path]:
        """List the template folders that exist, the first to be searched first."""
        folders = [root.path / "templates" for root in self._roots("templates")]
        return [folder for folder in folders if folder.is_dir()]

    def display(self, path: Path) -> str:
        """Name a path for messages: what is shipped relative to its root, all else as given."""
        for root in self.roots:
            if root.is_shipped and path.is_relative_to(root.path):
                return path.relative_to(root.path).as_posix()
        return str(path)


def locate(
    user_folder: Path | None, *, centre: Sequence[Root] = (), package: Path = installation.PACKAGE
) -> ResourceFolders:
    """Return where to search: the user's folder, a centre's, then what came with this package."""
    user = () if user_folder is None else (Root(origin="user", path=user_folder),)
    return ResourceFolders(roots=(*user, *centre, _shipped(package)))


def probe_files(folder: Path = PROBE) -> tuple[Path, ...]:
    """List the files of the probe; byte code and the like are none of it."""
    return tuple(sorted(folder.glob("*.py")))


def _shipped(package: Path) -> Root:
    above = installation.checkout(package)
    if above is not None:
        return Root(origin="checkout", path=above)
    return Root(origin="wheel", path=package / "_data")


def _names(root: Path, kind: Kind) -> Iterator[str]:
    folder = root / kind
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if kind == "site-configs":
            if entry.suffix != ".yaml":
                continue
            name = entry.stem
        else:
            name = entry.name
        if NAME.fullmatch(name) and _is_there(_path(root, kind, name), kind):
            yield name


def _path(root: Path, kind: Kind, name: str) -> Path:
    if kind == "recipes":
        return root / kind / name / "recipe.yaml"
    return root / kind / (f"{name}.yaml" if kind == "site-configs" else name)


def _is_there(path: Path, kind: Kind) -> bool:
    return path.is_dir() if kind == "templates" else path.is_file()


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"cannot be read: {error.strerror}", where=str(path))

"""A user's file to a list of wishes: the format is told by the name and the content.

Nothing is fetched and nothing runs; no marker is evaluated for a target.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from dlcontainer.authoring.readers import (
    environment_yml,
    pylock_toml,
    pyproject_toml,
    requirements_txt,
    source_text,
    toml_text,
    uv_lock,
)
from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.authoring.readers.toml_text import TomlText
from dlcontainer.errors import ConfigError, UsageError
from dlcontainer.packages.resolve.wishes import WishFormat, WishList

_TAKEN = "give requirements.txt, pyproject.toml, pylock.toml, uv.lock or environment.yml"
_EMPTY: dict[WishFormat, str] = {
    "requirements": "write a line with a package's name",
    "pyproject": "write [project].dependencies, or ask for an extra or a group of the file",
    "pylock": "write the lock again",
    "uv.lock": "ask for an extra or a group of the project",
    "environment": "write the packages' names under `dependencies:` or `pip:`",
}
# Formats that others read, by the end of the name: what to do instead.
_FOREIGN = {
    "poetry.lock": "give what `poetry export -f requirements.txt` writes",
    "pdm.lock": "give what `pdm export -f requirements` writes",
    "Pipfile": "give what `pipenv requirements` writes",
    "Pipfile.lock": "give what `pipenv requirements` writes",
    "setup.py": "write its install_requires into requirements.txt: no program of a project runs",
    "setup.cfg": "write its install_requires into requirements.txt",
    "pixi.toml": "write the packages into requirements.txt",
    "pixi.lock": "write the packages into requirements.txt",
    "conda-lock.yml": "give the environment.yml that it was made of",
    ".ipynb": "write its imports' packages into requirements.txt",
    ".whl": "write the package's name into requirements.txt, and add its folder (routing.wheels)",
    ".py": _TAKEN,
    ".json": _TAKEN,
    ".sif": _TAKEN,
}


def read(path: Path, *, groups: Sequence[str] = (), extras: Sequence[str] = ()) -> WishList:
    """Read a user's file; `groups` and `extras` are those of pyproject.toml and of locks.

    Raises ConfigError with the place of all that is refused, UsageError for groups and extras
    that the format does not have.
    """
    _refuse_foreign(path)
    source = source_text.load(path)
    if path.name.lower().endswith((".yml", ".yaml")):
        return _plain(source, "environment", groups, extras)
    if path.name.endswith(".toml") or _is_lock(source):
        toml = toml_text.read(source)
        return _of_toml(toml, groups, extras)
    return _plain(source, "requirements", groups, extras)


def _refuse_foreign(path: Path) -> None:
    for end, step in _FOREIGN.items():
        if path.name == end or (end.startswith(".") and path.name.endswith(end)):
            raise ConfigError("no file of this kind is read", where=str(path), next_step=step)


def _is_lock(source: SourceText) -> bool:
    """Return whether a file that is not named so holds TOML of uv: others write `*.lock` too."""
    return source.path.name.endswith(".lock") and bool(re.match(r"version = \d+\n", source.text))


def _plain(
    source: SourceText, format_: WishFormat, groups: Sequence[str], extras: Sequence[str]
) -> WishList:
    if groups or extras:
        raise UsageError(
            f"a file of the format '{format_}' has no groups and no extras: {source.display}",
            next_step="leave them out, or give pyproject.toml, pylock.toml or uv.lock",
        )
    draft = WishDraft(path=source.path, format=format_)
    if format_ == "environment":
        environment_yml.read(source, draft)
    else:
        requirements_txt.read(source, draft)
    return draft.finished(_EMPTY[format_])


def _of_toml(toml: TomlText, groups: Sequence[str], extras: Sequence[str]) -> WishList:
    path, data = toml.source.path, toml.data
    format_: WishFormat = "pyproject"
    if "lock-version" in data:
        format_ = "pylock"
    elif isinstance(data.get("package"), list) or path.name == "uv.lock":
        format_ = "uv.lock"
    elif path.name != "pyproject.toml" and not {"project", "tool", "dependency-groups"} & set(data):
        raise ConfigError(
            "neither pyproject.toml nor a lock: it has no [project] and no lock-version",
            where=str(path),
            next_step=_TAKEN,
        )
    draft = WishDraft(path=path, format=format_)
    readers = {
        "pyproject": pyproject_toml.read,
        "pylock": pylock_toml.read,
        "uv.lock": uv_lock.read,
    }
    readers[format_](toml, draft, groups, extras)
    return draft.finished(_EMPTY[format_])

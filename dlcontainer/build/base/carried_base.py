"""A base made elsewhere: one file with its record beside it, checked before it is used.

FILE        the root tree, packed
FILE.json   what it is: distribution, release, architecture, the lock that it is of, its SHA-256
"""

import getpass
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from dlcontainer import __version__
from dlcontainer.build.base.bootstrap import RootTree
from dlcontainer.build.base.root_tree import BaseTree, root_tree
from dlcontainer.config.field_types import Arch, Line, Name, Strict
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import Sha256
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, foreign_files, guarded_files

SUFFIX = ".json"


class BaseRecord(Strict):
    """What a base is, and who made it; `locked` is the key of the lock's packages."""

    schema_: Literal["dlcontainer/base/1"] = Field(alias="schema")
    distribution: Name
    release: Name
    arch: Arch
    locked: Sha256 | None = None
    sha256: Sha256
    size: int = Field(ge=0)
    made: Line
    maker: Line
    dlcontainer: Line


def write(root_tree: RootTree, tree: BaseTree, target: Path) -> BaseRecord:
    """Copy a base to a file, its record beside it; the record comes last. Raises ConfigError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            guarded_files.file(tree.path) as source,
            atomic_files.replacing(target) as copy,
        ):
            # Whatever the umask: others build from it.
            os.fchmod(copy.fileno(), 0o644)
            if guarded_files.copy(source, copy.fileno()) != tree.sha256:
                raise BuildError(
                    "the base changed during the copy",
                    next_step="make the base again: dlcontainer base make",
                )
            size = os.fstat(copy.fileno()).st_size
            beside(target).unlink(missing_ok=True)
        record = BaseRecord(
            schema="dlcontainer/base/1",
            distribution=root_tree.distribution,
            release=root_tree.release,
            arch=root_tree.arch,
            locked=root_tree.locked,
            sha256=tree.sha256,
            size=size,
            made=tree.made_at,
            maker=getpass.getuser(),
            dlcontainer=__version__,
        )
        text = record.model_dump_json(by_alias=True, exclude_none=True, indent=1)
        atomic_files.write(beside(target), text + "\n")
    except OSError as error:
        raise ConfigError(
            f"can't write {target}: {error.strerror}", next_step="name another path with -o"
        ) from None
    return record


def beside(file: Path) -> Path:
    """Name the record of a base."""
    return file.with_name(file.name + SUFFIX)


def peek(plan: Plan, file: Path, bundle: Bundle | None) -> BaseTree:
    """Return what a base is, by its record alone; raises ConfigError for one of another plan."""
    record = _read(file)
    _require_wanted(root_tree(plan, bundle), record, file)
    return BaseTree(path=file, sha256=record.sha256, made_at=record.made, cached=True)


def take(plan: Plan, file: Path, work: Path, bundle: Bundle | None) -> BaseTree:
    """Copy a base into a build's private folder, checked by its digest.

    Raises ConfigError for one that is not the plan's, BuildError for one that is damaged or that
    somebody wrote who is not trusted: this user, root and engine.builders are.
    """
    base = peek(plan, file, bundle)
    builders = plan.site.engine.builders
    target = work / "carried" / BASE_FILE
    target.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with guarded_files.file(file) as source:
            _require_trusted(source, file, builders)
            with guarded_files.created(target, mode=0o644) as copy:
                sha256 = guarded_files.copy(source, copy)
    except OSError as error:
        raise _refused(file, error.strerror or str(error)) from None
    if sha256 != base.sha256:
        raise BuildError(
            f"{file} does not match its record",
            why=f"its SHA-256 is {sha256[:12]}…; the record has {base.sha256[:12]}…",
            next_step="copy both files again, or make the base again: dlcontainer base make",
        )
    return replace(base, path=target)


def _read(file: Path) -> BaseRecord:
    path = beside(file)
    try:
        with guarded_files.file(path) as handle:
            text = guarded_files.content(handle).decode()
        foreign_files.loads(text)
        return BaseRecord.model_validate_json(text)
    except OSError as error:
        raise _refused(file, f"cannot read its record {path.name}: {error.strerror}") from None
    except (ValueError, ValidationError):
        raise _refused(
            file, f"its record {path.name} is damaged, or another version wrote it"
        ) from None


def _require_trusted(handle: int, file: Path, builders: tuple[str, ...]) -> None:
    info = os.fstat(handle)
    owner = guarded_files.name_of(info.st_uid)
    trusted = info.st_uid in {0, os.getuid()} or owner in builders
    if trusted and not guarded_files.is_open_to_others(info):
        return
    raise BuildError(
        f"the base {file} is not trusted",
        why=f"it belongs to {owner}" if not trusted else "other users can write to it",
        next_step="if you trust the file, copy it and run chmod go-w on the copy; or add "
        "its owner to engine.builders of the site",
    )


def _require_wanted(root_tree: RootTree, record: BaseRecord, file: Path) -> None:
    pairs = (
        ("distribution", root_tree.distribution, record.distribution),
        ("release", root_tree.release, record.release),
        ("architecture", root_tree.arch, record.arch),
        ("lock", root_tree.locked, record.locked),
    )
    for what, expected, recorded in pairs:
        # Without a lock any base of the release serves.
        if expected != recorded and not (what == "lock" and expected is None):
            raise ConfigError(
                f"{file} is not the base of this plan: its {what} is {recorded or 'none'}",
                why=f"the plan needs {expected}",
                next_step="make a base for this recipe and site: dlcontainer base make",
            )


def _refused(file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"`dlcontainer base make` did not write {file}",
        why=why,
        next_step="name a file of `dlcontainer base make` that has its record beside it",
    )

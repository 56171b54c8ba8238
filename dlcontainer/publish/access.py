"""Who can enter the folders that lead to a published module and to its engine."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dlcontainer.publish.ownership import Ownership, group_name
from dlcontainer.system.process import quote

Part = Literal["module", "engine"]
_FOR_ALL: dict[Part, str] = {
    "module": "publish under a folder that all users can enter: --root DIR",
    "engine": "put an engine that all users can start first on PATH, and publish again",
}
_UNUSABLE: dict[Part, str] = {
    "module": "other users can't use the module",
    "engine": "users without an engine on PATH can't use the module, which names {path}",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessBarrier:
    """A folder, or the engine's program, that other users can't enter on the way to `path`.

    `group` is set where the module is for that group alone, and its members can.
    """

    part: Part
    path: Path
    folder: Path
    mode: int
    group: str | None = None
    # None where nothing is wrong.
    fix: str | None = None

    def __str__(self) -> str:
        if self.group is not None:
            return f"only the group {self.group} can use the {self.part}: {self.folder}"
        reason = f"{self.folder} is closed to others (mode {self.mode:04o})"
        return f"{_UNUSABLE[self.part].format(path=self.path)}: {reason}; fix: {self.fix}"


def closed(
    folders: Iterable[Path], engine: Path, ownership: Ownership
) -> tuple[AccessBarrier, ...]:
    """List all that keeps other users from a module's folders, or from the engine it names."""
    paths: list[tuple[Part, Path]] = [("module", path) for path in folders]
    barriers: dict[object, AccessBarrier] = {}
    for part, path in (*paths, ("engine", engine)):
        for folder, info in _way(path):
            if info.st_mode & stat.S_IXOTH:
                continue
            is_groups = (
                ownership.required
                and info.st_gid == ownership.group
                and info.st_mode & stat.S_IXGRP
            )
            barriers.setdefault(
                (part, info.st_dev, info.st_ino),
                AccessBarrier(
                    part=part,
                    path=path,
                    folder=folder,
                    mode=stat.S_IMODE(info.st_mode),
                    group=group_name(ownership.group) if is_groups else None,
                    fix=None if is_groups else _fix(part, folder, info, ownership),
                ),
            )
    return tuple(barriers.values())


def _fix(part: Part, folder: Path, info: os.stat_result, ownership: Ownership) -> str:
    fixes = [_FOR_ALL[part], quote(["chmod", "o+x", str(folder)])]
    if info.st_mode & stat.S_IXGRP and not ownership.required:
        name = group_name(info.st_gid)
        fixes.append(f"if it is for the group {name} only, set modules.group in the site config")
    return "; or: ".join(fixes)


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Go from the root to a path: without links, and as it is spelled."""
    for spelled in (path.resolve(), path.absolute()):
        for step in (*reversed(spelled.parents), spelled):
            try:
                yield step, step.stat()
            except OSError:
                return  # nothing there: it is no matter of modes

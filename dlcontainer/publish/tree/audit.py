"""Audit: every published version, as a user would meet it. It changes nothing and takes no lock."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import (
    audit_links,
    audit_owners,
    audit_users,
    contents,
    farm,
    generation,
    journal,
    layout,
)
from dlcontainer.publish.tree.audit_users import Loader
from dlcontainer.publish.tree.contents import ReleaseFault
from dlcontainer.publish.tree.generation import (
    Generation,
    GenerationEntry,
    NumberedRelease,
    numbered,
)
from dlcontainer.publish.tree.layout import KINDS, MODULES
from dlcontainer.system import digests, foreign_files, guarded_files
from dlcontainer.system.workspace import PREFIX

_MOST_BYTES = 64_000_000
_OF_GENERATION = (tree_lock.MARK, generation.FILE, checksums.FILE, MODULES)


def audit(root: Path, engine: Path | None = None, by: Loader | None = None) -> list[ReleaseFault]:
    """Look at all that is live in a tree; all bytes of each release are read.

    `engine` is one more that users must be able to run; `by` loads each module as they do. Raises
    PublishError for a root that is none.
    """
    try:
        with Folder.at(root) as top:
            return list(dict.fromkeys(_faults(root, top, engine, by)))
    except OSError as error:
        raise PublishError(f"can't read {root}: {error.strerror}") from None


def line(root: Path, fault: ReleaseFault) -> str:
    """Write a fault for people: the module first, its file as it lies in the release."""
    if not fault.module:
        return f"{fault.where}: {fault.why}"
    path = Path(fault.where)
    inside = path.relative_to(root).parts[2:] if path.is_relative_to(root) else path.parts
    return ": ".join(part for part in (fault.module, "/".join(inside), fault.why) if part)


def next_step(root: Path, faults: Iterable[ReleaseFault]) -> str | None:
    """Return the commands that staff type next; None where people must look first."""
    faults = list(faults)
    releases, generations = root / layout.RELEASES, root / layout.GENERATIONS
    damaged = dict.fromkeys(
        fault.module
        for fault in faults
        if fault.module and Path(fault.where).is_relative_to(releases)
    )
    lines = [f"withdraw it: {layout.typed(root, 'unpublish', module)}" for module in damaged]
    if any(Path(fault.where).is_relative_to(generations) for fault in faults):
        lines.append(f"write the links again: {layout.typed(root, 'catalogue', '--renew')}")
    return "\n        ".join(lines) or None


def _faults(
    root: Path, top: Folder, engine: Path | None, by: Loader | None
) -> Iterator[ReleaseFault]:
    yield from _unreachable(root)
    if engine is not None:
        yield from _unreachable(engine)
    for name in guarded_files.names(top.number):
        if name.startswith(PREFIX):
            yield ReleaseFault(
                where=str(root / name),
                why="a publication is in progress, or was killed: a run that begins a minute "
                "later removes this folder",
            )
    number = layout.current(top)
    if number is None:
        yield ReleaseFault(where=str(root / layout.CURRENT), why="nothing is published")
        return
    if top.info(MODULES) is None or layout.link_text(top, MODULES) != layout.MODULES_TARGET:
        yield ReleaseFault(
            where=str(root / MODULES), why=f"it is not a link to {layout.MODULES_TARGET}"
        )
    yield from _journal(root, top, number)
    with top.sub(layout.GENERATIONS) as generations, top.sub(layout.RELEASES) as releases:
        now = generation.read(generations, number)
        yield from links(now, generations, releases)
        yield from _catalogue(number, generations)
        for entry in now.entries:
            for release in entry.releases:
                yield from _release(entry, release, releases)
        yield from _rollbacks(number, generations, releases)
        yield from _engines(now, releases)
    yield from audit_links.faults(root)
    yield from audit_owners.faults(root, number, frozenset(digest for digest, _ in now.digests))
    if by is not None:
        yield from audit_users.meets(root, now.entries, by)


def _unreachable(path: Path) -> Iterator[ReleaseFault]:
    """Find the folders on the way to a path, from the root down, that users can't enter."""
    real = Path(os.path.realpath(path))
    for place in (*reversed(real.parents), real):
        try:
            mode = place.stat().st_mode
        except OSError as error:
            yield ReleaseFault(where=str(place), why=error.strerror or str(error))
            return
        if not mode & stat.S_IXOTH:
            kind = "enter it" if stat.S_ISDIR(mode) else "run it"
            yield ReleaseFault(
                where=str(place), why=f"other users can't {kind}: its mode is {mode & 0o7777:04o}"
            )


def _engines(now: Generation, releases: Folder) -> Iterator[ReleaseFault]:
    """Find engines that wrappers fall back on, and that users can't run."""
    for engine, modules in audit_users.engines(now.entries, releases).items():
        for fault in _unreachable(engine):
            why = f"{', '.join(modules)} can't fall back on this engine: {fault.where}: {fault.why}"
            yield ReleaseFault(where=str(engine), why=why)


def _catalogue(number: int, generations: Folder) -> Iterator[ReleaseFault]:
    """Compare the catalogue with its checksums; a generation of an earlier version has none."""
    with generations.sub(str(number)) as folder:
        yield from _open_to_all(folder)
        sums = {}
        if folder.info(checksums.FILE) is not None:
            try:
                with folder.open(checksums.FILE) as file:
                    sums = checksums.read(foreign_files.content(file, _MOST_BYTES))
            except (OSError, ValueError) as error:
                yield contents.unreadable(folder.path / checksums.FILE, error)
                return
        for name, sha256 in sums.items():
            path = str(folder.path / name)
            if folder.info(name) is None:
                yield ReleaseFault(where=path, why="it is missing")
                continue
            with folder.open(name) as file:
                if digests.of_open(file) != sha256:
                    yield ReleaseFault(
                        where=path, why=f"its SHA-256 is not the one in {checksums.FILE}"
                    )
        names = {*sums, *_OF_GENERATION}
        for name in sorted(set(guarded_files.names(folder.number)) - names):
            yield ReleaseFault(where=str(folder.path / name), why="it was not published")


def _journal(root: Path, top: Folder, number: int) -> Iterator[ReleaseFault]:
    lines, path = journal.read(top), str(root / journal.FILE)
    if lines.unreadable:
        yield ReleaseFault(where=path, why=f"unreadable lines: {lines.unreadable}")
    if lines.live != number:
        yield ReleaseFault(
            where=path,
            why=f"its last switch is to {lines.live}, but {number} is live: the next run records "
            "it",
        )


def links(now: Generation, generations: Folder, releases: Folder) -> Iterator[ReleaseFault]:
    """Compare each name that users see with the generation's own file."""
    names = sorted({entry.name for entry in now.entries})
    with generations.sub(str(now.number)) as folder, folder.sub(MODULES) as modules:
        for kind in KINDS:
            with modules.sub(kind) as tree:
                yield from _open_to_all(tree)
                yield from _same_names(tree, names)
                for name in names:
                    if tree.info(name) is not None:
                        entries = [entry for entry in now.entries if entry.name == name]
                        with tree.sub(name) as module:
                            yield from _open_to_all(module)
                            yield from _module(kind, entries, module, releases)


def _open_to_all(folder: Folder) -> Iterator[ReleaseFault]:
    mode = stat.S_IMODE(os.fstat(folder.number).st_mode)
    if mode & 0o005 != 0o005:
        yield ReleaseFault(
            where=str(folder.path), why=f"other users can't read it: its mode is {mode:04o}"
        )


def _same_names(folder: Folder, names: Iterable[str]) -> Iterator[ReleaseFault]:
    present, names = set(guarded_files.names(folder.number)), set(names)
    for name in sorted(names - present):
        yield ReleaseFault(where=str(folder.path / name), why="it is missing")
    for name in sorted(present - names):
        yield ReleaseFault(where=str(folder.path / name), why="it was not published")


def _module(
    kind: str, entries: list[GenerationEntry], module: Folder, releases: Folder
) -> Iterator[ReleaseFault]:
    yield from _same_names(module, farm.expected(kind, entries))
    files = [file for entry in entries for file in farm.of(entry)]
    texts = {
        file.name(kind): farm.warned_text(releases, kind, file) for file in files if file.warning
    }
    rc = farm.rc_text(kind, entries)
    texts |= {farm.rc_name(kind): rc} if rc else {}
    for name, text in texts.items():
        if module.info(name) is not None:
            try:
                with module.open(name) as opened:
                    actual = foreign_files.content(opened, _MOST_BYTES)
            except OSError as error:
                yield ReleaseFault(where=str(module.path / name), why=str(error.strerror))
                continue
            if actual != text:
                yield ReleaseFault(where=str(module.path / name), why="its text was changed")
    for file in files:
        name = file.name(kind)
        if not file.warning and module.info(name) is not None:
            target = layout.link_text(module, name)
            if target != file.link(kind):
                yield ReleaseFault(where=str(module.path / name), why=f"it points to {target}")


def _release(
    entry: GenerationEntry, release: NumberedRelease, releases: Folder
) -> Iterator[ReleaseFault]:
    """Compare a release with what it was; each fault names the module that users load."""
    module = entry.named(release)
    for fault in _of_release(entry, release, releases):
        yield replace(fault, module=module)


def _of_release(
    entry: GenerationEntry, listed: NumberedRelease, releases: Folder
) -> Iterator[ReleaseFault]:
    path = releases.path / listed.digest
    faults = list(contents.faults(releases, listed.digest))
    yield from faults
    if faults:
        return
    with releases.sub(listed.digest) as release:
        yield from _open_to_all(release)
        description = contents.described(release)
        number = description.number or listed.number
        if (description.name, description.version, number) != (
            entry.name,
            entry.version,
            listed.number,
        ):
            named = numbered(description.version, number)
            yield ReleaseFault(
                where=str(path),
                why=f"it is {description.name}/{named}, not {entry.name}/"
                f"{numbered(entry.version, listed.number)}",
            )
        # The root may have several names.
        if os.path.realpath(description.folder) != os.path.realpath(path):
            yield ReleaseFault(
                where=str(path), why=f"its modulefiles point to {description.folder}"
            )
        yield from _record(release, description.image)


def _record(release: Folder, image: str) -> Iterator[ReleaseFault]:
    path = str(release.path / "record.json")
    if not release.has_file("record.json"):
        yield ReleaseFault(where=path, why="the image has no record")
        return
    with release.open("record.json") as file:
        try:
            named = foreign_files.loads(foreign_files.content(file, _MOST_BYTES))["image"]["sha256"]
        except (ValueError, KeyError, TypeError):
            named = None
    if named != image:
        yield ReleaseFault(where=path, why="it is not the record of this image")


def _rollbacks(live: int, generations: Folder, releases: Folder) -> Iterator[ReleaseFault]:
    """Find generations that a rollback could not switch to."""
    for number in layout.numbers(generations):
        if number == live:
            continue
        try:
            digests = list(generation.read(generations, number).digests)
        except PublishError as error:
            yield ReleaseFault(where=str(generations.path / str(number)), why=error.what)
            continue
        for digest, entry in digests:
            if releases.info(digest) is None:
                yield ReleaseFault(
                    where=str(generations.path / str(number)),
                    why=f"the release of {entry.module} is missing",
                )

"""What staff do with a published tree; each change is one new generation, or one switch."""

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import (
    audit,
    contents,
    generation,
    journal,
    layout,
    reading,
    store,
    strangers,
)
from dlcontainer.publish.tree.generation import Deprecation, Generation, GenerationEntry
from dlcontainer.publish.tree.journal import JournalLine
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES, PublishedTree
from dlcontainer.publish.tree.store import ReleaseDraft
from dlcontainer.publish.tree.transaction import commit, live, switch
from dlcontainer.system import foreign_files

_MOST_BYTES = 256_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveModule:
    """A module that is live, and the folder that it is in."""

    entry: GenerationEntry
    folder: Path


def publish(tree: PublishedTree, draft: ReleaseDraft) -> Generation:
    """Publish a release as NAME/VERSION; the same release again changes nothing.

    New facts of the site make a new release of the same image. Raises PublishError for another
    image: a version stays what it is. Links that somebody changed are made again.
    """
    base, module = live(tree), f"{draft.name}/{draft.version}"
    old = next((entry for entry in base.entries if entry.module == module), None)
    if old is not None:
        _require_image(tree.releases, old, draft)
    digest = store.add(tree, draft)
    new = (
        replace(old, digest=digest)
        if old
        else GenerationEntry(name=draft.name, version=draft.version, digest=digest)
    )
    is_whole = _is_whole(tree, base)
    if not is_whole:
        tree.note(f"files of generation {base.number} were changed: they are written again")
    return commit(tree, base.having(new), f"publish {module}", again=not is_whole)


def _is_whole(tree: PublishedTree, base: Generation) -> bool:
    if not base.number:
        return True
    try:
        return not list(audit.farm(base, tree.generations, tree.releases))
    except (OSError, PublishError):
        return False


@reading.retried
def standing(root: Path, draft: ReleaseDraft) -> GenerationEntry | None:
    """Return the entry that is live under a draft's name and version; takes no lock.

    Raises PublishError for another image, and for a tree of an earlier version.
    """
    with reading.opened(root) as top:
        number = layout.current(top)
        if number is None:
            return None
        with top.sub(GENERATIONS) as generations:
            entries = generation.read(generations, number).entries
        for entry in entries:
            if (entry.name, entry.version) == (draft.name, draft.version):
                with top.sub(RELEASES) as releases:
                    _require_image(releases, entry, draft)
                return entry
    return None


def _require_image(releases: Folder, old: GenerationEntry, draft: ReleaseDraft) -> None:
    try:
        with releases.sub(old.digest) as release:
            image = contents.described(release).image
    except (OSError, PublishError) as error:
        fault = next(contents.faults(releases, old.digest), None)
        if fault is None:
            raise
        raise contents.damaged(releases, old.digest, old.module, fault) from error
    if image == draft.sha256:
        return
    raise PublishError(
        f"{old.module} is already published with another image",
        where=str(releases.path / old.digest),
        why="users rely on a published version not to change",
        next_step="build it with a version of its own (of a file of packages: build FILE --name "
        "NAME/VERSION; else version: in the recipe), or unpublish this one first: "
        + layout.typed(releases.path.parent, "unpublish", old.module),
    )


def unpublish(tree: PublishedTree, module: str) -> Generation:
    """Take NAME/VERSION back, with its aliases; its release stays until it is collected."""
    return commit(tree, live(tree).without(module), f"unpublish {module}")


def set_default(tree: PublishedTree, module: str) -> Generation:
    """Let `module load NAME` mean this version."""
    base = live(tree)
    chosen = base.entry(module)
    entries = (
        replace(entry, default=entry == chosen)
        for entry in base.entries
        if entry.name == chosen.name
    )
    return commit(tree, base.having(*entries), f"default {module}")


def set_alias(tree: PublishedTree, module: str, alias: str) -> Generation:
    """Let NAME/ALIAS mean this version; an alias of another version moves here."""
    base = live(tree)
    chosen = base.entry(module)
    siblings = [entry for entry in base.entries if entry.name == chosen.name]
    if alias == "default" or alias in {entry.version for entry in siblings}:
        raise PublishError(
            f"{chosen.name}/{alias} can't be an alias",
            why="it is a version" if alias != "default" else "it has a special meaning",
            next_step="choose another name",
        )
    entries = [replace(entry, aliases=_aliases(entry, alias, chosen)) for entry in siblings]
    return commit(tree, base.having(*entries), f"alias {chosen.name}/{alias} = {module}")


def _aliases(entry: GenerationEntry, alias: str, chosen: GenerationEntry) -> tuple[str, ...]:
    rest = {name for name in entry.aliases if name != alias}
    return tuple(sorted(rest | ({alias} if entry == chosen else set())))


def remove_alias(tree: PublishedTree, name: str, alias: str) -> Generation:
    """Remove NAME/ALIAS."""
    base = live(tree)
    with_it = [entry for entry in base.entries if entry.name == name and alias in entry.aliases]
    if not with_it:
        raise PublishError(f"there is no alias {name}/{alias}")
    entries = [
        replace(entry, aliases=tuple(name for name in entry.aliases if name != alias))
        for entry in with_it
    ]
    return commit(tree, base.having(*entries), f"remove alias {name}/{alias}")


def deprecate(tree: PublishedTree, module: str, warning: Deprecation | None) -> Generation:
    """Warn users on loading NAME/VERSION; None takes the warning back."""
    base = live(tree)
    entry = replace(base.entry(module), deprecated=warning)
    what = "deprecate" if warning else "no longer deprecate"
    return commit(tree, base.having(entry), f"{what} {module}")


def rollback(tree: PublishedTree, number: int | None = None) -> Generation:
    """Switch to a generation that was live; without a number to the one before the live one."""
    now = layout.current(tree.top)
    if now is None:
        raise PublishError(
            f"nothing is published in {tree.root}", next_step="publish an image first"
        )
    chosen = number if number is not None else _before(tree, now)
    if chosen not in layout.numbers(tree.generations):
        raise PublishError(
            f"there is no generation {chosen}",
            why="`modules gc` removed it, or it never existed",
            next_step=f"list the generations: {layout.typed(tree.root, 'history')}",
        )
    return switch(tree, chosen, f"rollback to {chosen}")


def _before(tree: PublishedTree, now: int) -> int:
    """Return the generation that the live one was made from: rolling back twice goes back two."""
    base = generation.read(tree.generations, now).base
    if base == 0:
        raise PublishError(
            f"cannot roll back: generation {now} is the first one",
            next_step="unpublish a module instead: "
            + layout.typed(tree.root, "unpublish", "NAME/VERSION"),
        )
    return base


@reading.retried
def require_published(root: Path) -> int | None:
    """Return the live generation's number; raises PublishError for a root that is no tree.

    A mistyped root stays as it is.
    """
    with reading.opened(root) as top:
        number = layout.current(top)
        if number is None:
            raise PublishError(
                f"nothing is published in {root}", next_step="give the root of a published tree"
            )
    return number


@reading.retried
def history(root: Path) -> Sequence[JournalLine]:
    """List all switches, the oldest first; takes no lock."""
    with reading.opened(root) as top:
        return [line for line in journal.read(top).lines if line.state in ("done", "noticed")]


@reading.retried
def listing(root: Path) -> Sequence[LiveModule]:
    """List the modules that are live; takes no lock."""
    with reading.opened(root) as top:
        number = layout.current(top)
        if number is None:
            return []
        with top.sub(GENERATIONS) as generations:
            entries = generation.read(generations, number).entries
    return [LiveModule(entry=entry, folder=root / RELEASES / entry.digest) for entry in entries]


def promote(
    tree: PublishedTree, source: Path, module: str, owners: Collection[str] = ()
) -> Generation:
    """Publish the very release that is live in another tree, every byte of it checked.

    The same digest is the proof that what was tested is what is published. `owners` are users who
    do not publish here, and whose tree is taken all the same.
    """
    strangers.require_none(tree.root, tree.ownership, tree.note)
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(reading.opened(source))
        number = layout.current(top)
        if number is None:
            raise PublishError(f"nothing is published in {source}")
        generations = stack.enter_context(top.sub(GENERATIONS))
        entry = generation.read(generations, number).entry(module)
        now = stack.enter_context(generations.sub(str(number)))
        releases = stack.enter_context(top.sub(RELEASES))
        release = stack.enter_context(releases.sub(entry.digest))
        whose = strangers.ForeignTree(top=top, generation=now, release=release, module=entry.module)
        strangers.require_known(whose, tree, owners)
        contents.require_sound(releases, entry.digest, entry.module)
        description = contents.described(release)
        if release.info(contents.TREE) is not None:
            raise PublishError(
                f"{entry.module} is an unpacked image, which can't be promoted",
                next_step="publish its image file in the other tree: dlcontainer publish --layout "
                "tree",
            )
        files = _files(release, description.folder)
        draft = ReleaseDraft(
            name=entry.name,
            version=entry.version,
            image=stack.enter_context(release.open(contents.IMAGE)),
            sha256=description.image,
            files=files,
            source=release,
        )
        _require_digest(entry, draft)
        return publish(tree, draft)


def _require_digest(entry: GenerationEntry, draft: ReleaseDraft) -> None:
    if store.digest_of_draft(draft) != entry.digest:
        raise PublishError(
            f"{entry.module} changed while it was read",
            next_step="find out who writes to the other tree",
        )


def _files(release: Folder, folder: Path) -> dict[str, bytes]:
    """Read all but the image; modulefiles name PLACEHOLDER again."""
    kept_apart = (contents.IMAGE, contents.FILE, checksums.FILE, tree_lock.MARK)
    files = {}
    for name, _ in contents.files(release):
        if name not in kept_apart:
            with contents.opened(release, name) as file:
                data = foreign_files.content(file, _MOST_BYTES)
            files[name] = contents.moved(name, data, folder, contents.PLACEHOLDER)
    return files

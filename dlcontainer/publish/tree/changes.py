"""What staff do with a published tree; each change is one new generation, or one switch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish.tree import (
    audit,
    generation,
    journal,
    layout,
    marks,
    numbers,
    reading,
    store,
)
from dlcontainer.publish.tree.generation import (
    Deprecation,
    Generation,
    GenerationEntry,
    NumberedRelease,
    numbered,
)
from dlcontainer.publish.tree.journal import JournalLine
from dlcontainer.publish.tree.layout import RELEASES, PublishedTree
from dlcontainer.publish.tree.numbers import Succession
from dlcontainer.publish.tree.store import ImageKey, ReleaseDraft
from dlcontainer.publish.tree.transaction import commit, live, switch


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The number that an image gets in a tree, and the entry of its version there."""

    number: int
    entry: GenerationEntry | None

    @property
    def digest(self) -> str | None:
        """The digest of the release that is live under the number."""
        releases = self.entry.releases if self.entry else ()
        return next((kept.digest for kept in releases if kept.number == self.number), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveModule:
    """A release that users can load, of a version, and the folder that it is in."""

    entry: GenerationEntry
    release: NumberedRelease
    folder: Path

    @property
    def is_newest(self) -> bool:
        """Whether NAME/VERSION loads it."""
        return self.release.digest == self.entry.digest

    @property
    def module(self) -> str:
        """NAME/VERSION; of an older release, with its number."""
        return self.entry.module if self.is_newest else self.entry.named(self.release)

    def is_called(self, module: str) -> bool:
        """Return whether users may call it so."""
        entry = self.entry
        return module in (
            self.module,
            f"{entry.name}/{numbered(entry.version, self.release.number)}",
        )

    @property
    def marks(self) -> str:
        """The version's marks; of an older release, how long it stays."""
        until = self.release.until
        return self.entry.marks if self.is_newest else f"until {until}" if until else "older"


def publish(
    tree: PublishedTree, draft: ReleaseDraft, succession: Succession | None = None
) -> Generation:
    """Publish a release as NAME/VERSION; the same release again changes nothing.

    New facts of the site make a new release of the same image, in its place. Another image becomes
    the next release of the version; without a succession, and for a number that is another
    image's, raises PublishError. Links that somebody changed are made again.
    """
    base = live(tree)
    old = base.find(draft.name, draft.version)
    _require_number(tree, base, draft, succession)
    until = succession.until(tree.clock()) if succession else None
    new = numbers.placed(old, draft, store.add(tree, draft), until)
    is_whole = _is_whole(tree, base)
    if not is_whole:
        tree.note(f"files of generation {base.number} were changed: they are written again")
    if old is None:
        marks.tell_lost(tree, new)
    elif new.older and not old.older:
        marks.tell_no_default(tree, base, new)
    is_first = (draft.number or 1) == 1
    module = draft.key.module if is_first else f"{draft.key.module}-{draft.number}"
    return commit(tree, base.having(new), f"publish {module}", again=not is_whole)


def _require_number(
    tree: PublishedTree, base: Generation, draft: ReleaseDraft, succession: Succession | None
) -> None:
    """Require that a draft has the number that its image gets, and that its names are free."""
    number = numbers.of_image(tree.top, draft.key, succession)
    if draft.number is not None and not numbers.may_be(tree.top, draft.key, draft.number):
        raise PublishError(
            f"{draft.key.module}-{draft.number} is the name of another image here",
            why=f"a number names one image for good; the next free one here is {number}",
            next_step="publish the image itself here: dlcontainer publish --release",
        )
    taken = {f"{entry.name}/{name}" for entry in base.entries for name in entry.names}
    if base.find(draft.name, draft.version) is None and draft.key.module in taken:
        raise PublishError(
            f"{draft.key.module} is already the name of a release, or an alias",
            next_step=f"list what is published: {layout.typed(tree.root, 'list')}",
        )


def _is_whole(tree: PublishedTree, base: Generation) -> bool:
    if not base.number:
        return True
    try:
        return not list(audit.links(base, tree.generations, tree.releases))
    except (OSError, PublishError):
        return False


@reading.retried
def standing(root: Path, key: ImageKey, succession: Succession | None) -> Standing:
    """Return the number that an image gets, and what is live of its version; takes no lock.

    Raises PublishError for another image without a succession, and for a tree of an earlier
    version.
    """
    with reading.opened(root) as top:
        number = numbers.of_image(top, key, succession)
        entry = numbers.live(top).find(key.name, key.version)
    return Standing(number=number, entry=entry)


def unpublish(tree: PublishedTree, module: str) -> Generation:
    """Take NAME/VERSION back, with its aliases, or one release of it by its number.

    Where that was the newest, NAME/VERSION is the one before it. Files stay until they are
    collected.
    """
    base = live(tree)
    chosen = base.release(module)
    if chosen.is_named and chosen.entry.older:
        kept = numbers.without(chosen.entry, chosen.release.number)
        return commit(tree, base.having(kept), f"unpublish {module}")
    marks.tell_leaving(tree, chosen.entry)
    return commit(tree, base.without(chosen.entry.module), f"unpublish {module}")


def expire(tree: PublishedTree, *, dry: bool = False) -> tuple[str, ...]:
    """Take back the older releases that stay no longer, by the day that users were told.

    Return them as NAME/VERSION-NUMBER. `dry` changes nothing.
    """
    base = live(tree)
    today = datetime.fromtimestamp(tree.clock(), UTC).date().isoformat()
    gone, entries = list[str](), list[GenerationEntry]()
    for entry in base.entries:
        over = [kept for kept in entry.older if kept.until is not None and kept.until < today]
        gone += map(entry.named, over)
        stays = tuple(kept for kept in entry.older if kept not in over)
        entries.append(replace(entry, older=stays))
    if gone and not dry:
        commit(tree, base.having(*entries), f"no longer {', '.join(gone)}")
    return tuple(gone)


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
    versions = {name for entry in siblings for name in entry.names - {*entry.aliases}}
    if alias == "default" or alias in versions:
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
    today = datetime.fromtimestamp(tree.clock(), UTC).date()
    if warning and warning.removal and date.fromisoformat(warning.removal) < today:
        tree.note(f"{warning.removal} is past: users are told so from now on")
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
    """List the releases that are live, of each version the newest first; takes no lock."""
    with reading.opened(root) as top:
        entries = numbers.live(top).entries
    return [
        LiveModule(entry=entry, release=release, folder=root / RELEASES / release.digest)
        for entry in entries
        for release in entry.releases
    ]

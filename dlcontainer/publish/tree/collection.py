"""Collection: what nothing can use any more goes, by the time of the journal; in doubt all stays.

A generation goes `keep` after it was left, a release when no generation that stays refers to it.
The time is never read from files that users may write.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dlcontainer.errors import PublishError
from dlcontainer.publish import tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import generation, journal, layout
from dlcontainer.publish.tree.in_use import Inode, OldestJob, OpenFiles
from dlcontainer.publish.tree.layout import PublishedTree
from dlcontainer.system import guarded_files

# How the journal begins the change by which earlier versions turned a tree of before into this one.
_TAKEOVER = "take over"


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionPolicy:
    """How long a generation stays after it was left, and all that speaks for longer.

    `longest_job_s` is the site's longest job and hold; without it nobody knows, and `keep_s` is
    taken at its word.
    """

    keep_s: float
    longest_job_s: float | None = None
    queue: OldestJob = field(default_factory=OldestJob)
    open_files: OpenFiles = field(default_factory=OpenFiles)
    dry: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RetainedFolder:
    """A folder that stays, and the reason."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionResult:
    """Folders that went (or would go), and those that stay though nothing live needs them."""

    removed: tuple[str, ...]
    kept: tuple[RetainedFolder, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    """A folder below the root that may go, unless `why` says something."""

    within: str
    name: str
    why: str | None


def require_long_enough(policy: RetentionPolicy) -> None:
    """Require a time to keep of at least the site's longest job; raises PublishError."""
    longest = policy.longest_job_s
    if longest is not None and policy.keep_s < longest:
        raise PublishError(
            f"{policy.keep_s / 86400:g} days are too few",
            why=f"a job may wait or run for {longest / 86400:g} days with the modules that it "
            "loaded",
            next_step=f"keep at least {longest / 86400:g} days",
        )


def collect(tree: PublishedTree, policy: RetentionPolicy) -> CollectionResult:
    """Remove generations, releases and folders of the earlier layout that are out of use.

    Raises PublishError where the time to keep is shorter than the site's longest job.
    """
    require_long_enough(policy)
    generations = _settled(tree, _generations(tree, policy), policy)
    # One that should go and could not still needs its releases.
    going = {int(path.rpartition("/")[2]) for path in generations.removed}
    rest = [*_releases(tree, policy, going), *_old_versions(tree, policy)]
    settled = _settled(tree, rest, policy)
    return CollectionResult(
        removed=(*generations.removed, *settled.removed), kept=(*generations.kept, *settled.kept)
    )


def _settled(
    tree: PublishedTree, candidates: Iterable[_Candidate], policy: RetentionPolicy
) -> CollectionResult:
    removed, kept = [], []
    for candidate in list(candidates):
        path = f"{candidate.within}/{candidate.name}"
        why = candidate.why or _gone(tree, candidate, policy)
        if why is None:
            removed.append(path)
        else:
            kept.append(RetainedFolder(path=path, why=why))
    return CollectionResult(removed=tuple(removed), kept=tuple(kept))


def _gone(tree: PublishedTree, candidate: _Candidate, policy: RetentionPolicy) -> str | None:
    """Remove a folder; return the reason where it stays."""
    try:
        with _opened(tree, candidate.within) as folder:
            with folder.sub(candidate.name) as inside:
                before = os.fstat(inside.number)
                if not inside.has_file(tree_lock.MARK):
                    return f"it has no file {tree_lock.MARK}: it may belong to somebody else"
            if not policy.dry:
                layout.remove(tree, folder, candidate.name, before)
    except PublishError as error:
        return error.what
    return None


def _opened(tree: PublishedTree, within: str) -> Folder:
    first, *rest = within.split("/")
    folder = tree.top.sub(first)
    for part in rest:
        with folder:
            inner = folder.sub(part)
        folder = inner
    return folder


def _generations(tree: PublishedTree, policy: RetentionPolicy) -> Iterator[_Candidate]:
    live = layout.current(tree.top)
    left_at = journal.left_at(journal.read(tree.top))
    for number in layout.numbers(tree.generations):
        if number == live:
            continue
        why = _too_young(left_at.get(number), tree, policy)
        yield _Candidate(within=layout.GENERATIONS, name=str(number), why=why)


def _too_young(left_at: float | None, tree: PublishedTree, policy: RetentionPolicy) -> str | None:
    """Return why something that was left at a time must stay; None where it may go."""
    if left_at is None:
        return "the time when it was last live is unknown"
    if not policy.queue.is_known:
        return "the scheduler can't be queried"
    if policy.queue.oldest is not None and policy.queue.oldest <= left_at:
        return "a job in the queue was submitted while it was live"
    days = (left_at + policy.keep_s - tree.clock()) / 86400
    return f"it was live too recently: {days:.1f} days to go" if days >= 0 else None


def _releases(
    tree: PublishedTree, policy: RetentionPolicy, going: set[int]
) -> Iterator[_Candidate]:
    staying = [number for number in layout.numbers(tree.generations) if number not in going]
    unread: PublishError | None = None
    needed: set[str] = set()
    for number in staying:
        try:
            needed.update(digest for digest, _ in generation.read(tree.generations, number).digests)
        except PublishError as error:
            unread = error
    for name in guarded_files.names(tree.releases.number):
        if name in needed:
            continue
        info = tree.releases.info(name)
        why = f"a generation can't be read: {unread.what}" if unread else None
        if info is not None and why is None:
            # Of a killed publication: nobody could load it, but somebody may be making it.
            young = tree.clock() - info.st_ctime < min(policy.keep_s, 86400)
            why = "it was made too recently" if young else _open_file(tree.releases, name, policy)
        yield _Candidate(within=layout.RELEASES, name=name, why=why)


def _open_file(folder: Folder, name: str, policy: RetentionPolicy) -> str | None:
    if name in policy.open_files.digests:
        return "a process on this host has it open"
    try:
        with folder.sub(name) as inside:
            info = inside.info("image.sif")
    except (PublishError, OSError) as error:
        return str(error)
    if info is None:
        return None
    inode = Inode(device=info.st_dev, number=info.st_ino)
    return (
        "a process on this host has its image open" if inode in policy.open_files.inodes else None
    )


def _old_versions(tree: PublishedTree, policy: RetentionPolicy) -> Iterator[_Candidate]:
    """List the folders that a takeover left: nobody can load them any more."""
    lines = journal.read(tree.top).lines
    done = [line.at for line in lines if line.state == "done" and line.what.startswith(_TAKEOVER)]
    if not done or tree.top.info(layout.IMAGES) is None:
        return
    with tree.top.sub(layout.IMAGES) as images:
        for name in _visible(images):
            with images.sub(name) as module:
                for version in _visible(module):
                    why = _too_young(done[-1], tree, policy)
                    why = why or _open_file(module, version, policy)
                    yield _Candidate(within=f"{layout.IMAGES}/{name}", name=version, why=why)


def _visible(folder: Folder) -> list[str]:
    return [name for name in guarded_files.names(folder.number) if not name.startswith(".")]

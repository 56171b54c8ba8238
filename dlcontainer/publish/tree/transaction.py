"""One change of a published tree: the tree held, what a killed run left put right, one switch."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.config import resources
from dlcontainer.errors import BuildError, PublishError
from dlcontainer.publish import ownership, tree_lock
from dlcontainer.publish.catalogue import files as catalogue
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import farm, generation, journal, layout, site_commands
from dlcontainer.publish.tree.generation import Generation
from dlcontainer.publish.tree.journal import JournalLine, State
from dlcontainer.publish.tree.layout import (
    CURRENT,
    GENERATIONS,
    MODULES,
    RELEASES,
    Admit,
    PublishedTree,
)
from dlcontainer.publish.tree.site_commands import SiteCommands
from dlcontainer.system.guarded_files import name_of
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import workspace

_WAIT_S = 600.0
# The last version that turns a tree of before 0.6 into one of generations.
_LAST_READER = "0.9.0"


def _silent(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publisher:
    """The publisher, and what a change needs; `group` is the one that the site names."""

    runner: Runner
    note: Callable[[str], None]
    group: str | None = None
    commands: SiteCommands = field(default_factory=SiteCommands)
    # Of long reading and copying.
    line: Callable[[str], None] = _silent
    clock: Callable[[], float] = time.time
    # Of the catalogue: those that are shipped, unless the command knows of others.
    templates: tuple[Path, ...] = ()
    # What each release is held against before it becomes live, whatever brings it in.
    admit: Admit = layout.admit_any
    # Digests of releases for which that was asked before: of an unpacked image, its file.
    admitted: frozenset[str] = frozenset()

    @property
    def who(self) -> str:
        """User and host, for the journal: read from the system, not from the environment."""
        return f"{name_of(os.geteuid())}@{socket.gethostname()}"


@contextlib.contextmanager
def opened(root: Path, hand: Publisher) -> Iterator[PublishedTree]:
    """Hold a tree to change it.

    Raises PublishError for a tree of an earlier version, for one that another publisher holds for
    ten minutes, and where something else stands in the tree's places.
    """
    # Modulefiles name it, and users are anywhere. Links in it stay: sites move what is behind them.
    root = root.absolute()
    with _explained(root), contextlib.ExitStack() as stack:
        owner = ownership.of_root(root, hand.group)
        top = stack.enter_context(Folder.at(root))
        alone = stack.enter_context(_locked(top, owner, hand))
        require_layout(top)
        aside = stack.enter_context(_aside(top, root, hand))
        named = (
            stack.enter_context(layout.shared_folder(top, name, owner, aside))
            for name in (RELEASES, GENERATIONS)
        )
        releases, generations = named
        tree = PublishedTree(
            root=root,
            top=top,
            releases=releases,
            generations=generations,
            aside=aside,
            ownership=owner,
            alone=alone,
            who=hand.who,
            note=hand.note,
            line=hand.line,
            clock=hand.clock,
            stripe=lambda folder: site_commands.stripe(
                hand.commands, folder, hand.runner, hand.note
            ),
            templates=hand.templates or tuple(resources.locate(None).template_folders()),
            admit=hand.admit,
            admitted=set(hand.admitted),
        )
        before = layout.current(top)
        # A killed run may have switched without what follows.
        followed = not _heal(tree)
        try:
            yield tree
        except Exception:
            _follow(tree, hand, before, followed=True)
            raise
        _follow(tree, hand, before, followed=followed)


def _follow(tree: PublishedTree, hand: Publisher, before: int | None, *, followed: bool) -> None:
    """Run what the site has after a switch, under the lock: the last one sees the last switch."""
    if layout.current(tree.top) != before or not followed:
        site_commands.follow(hand.commands, hand.runner, hand.note)


def live(tree: PublishedTree) -> Generation:
    """Return the live generation; the empty one before the first."""
    number = layout.current(tree.top)
    return Generation() if number is None else generation.read(tree.generations, number)


def commit(
    tree: PublishedTree, changed: Generation, what: str, *, again: bool = False
) -> Generation:
    """Make a generation of changed entries and switch to it; where nothing changed, do nothing.

    `changed` comes from `live`; `again` makes one all the same. Raises PublishError where another
    publisher was quicker.
    """
    base = live(tree)
    if changed.entries == base.entries and base.number and not again:
        return base
    _admit(tree, base, changed)
    number = max([journal.read(tree.top).highest, *layout.numbers(tree.generations)]) + 1
    now = journal.stamp(tree.clock())
    fresh = replace(changed, number=number, base=base.number, what=what, who=tree.who, time=now)
    # Before the folder is there: a generation without a line is one of which nothing is known.
    _write(tree, "begin", what, base.number, number)
    _require_turn(tree, what, base.number, number)
    name = f"generation-{number}"
    with tree.aside.make(name) as staged:
        staged.write(tree_lock.MARK, b"dlcontainer/generation/1\n")
        farm.stage(fresh, tree, staged)
        catalogue.stage(fresh, tree, staged)
        layout.settle_modes(staged, tree.ownership)
    if not layout.settle(tree, name, tree.generations, str(number)):
        raise _at_work(tree.root)
    _point(tree, number)
    _finish(tree, what, base.number, number)
    return fresh


def switch(tree: PublishedTree, number: int, what: str) -> Generation:
    """Switch to a generation that is there; raises PublishError where it is not complete."""
    base, target = layout.current(tree.top) or 0, generation.read(tree.generations, number)
    for digest, entry in target.digests:
        if tree.releases.info(digest) is None:
            raise PublishError(
                f"generation {number} is not complete: the release of {entry.module} is missing",
                where=str(tree.root / RELEASES / digest),
                next_step=f"choose another generation: {layout.typed(tree.root, 'history')}",
            )
    if number != base:
        _admit(tree, live(tree), target)
        _write(tree, "begin", what, base, number)
        _require_turn(tree, what, base, number)
        _point(tree, number)
        _finish(tree, what, base, number)
    return target


def _admit(tree: PublishedTree, base: Generation, target: Generation) -> None:
    """Hold each release that is not live yet against what is asked: its bytes here go live.

    They are in the tree by now, where only its publishers write.
    """
    digests = {digest for digest, _ in base.digests}
    for digest, entry in target.digests:
        if digest not in digests:
            with tree.releases.sub(digest) as release:
                layout.require_admitted(tree, release, digest, entry.module)


def _require_turn(tree: PublishedTree, what: str, base: int, number: int) -> None:
    """Without locks, the order of the journal decides: whoever began first goes on."""
    if tree.alone:
        return
    begun = journal.unfinished(journal.read(tree.top))
    ours = (base, number, tree.who)
    if begun and (begun[0].left, begun[0].entered, begun[0].who) == ours:
        return
    _write(tree, "undone", what, base, number)
    raise _at_work(tree.root)


def _point(tree: PublishedTree, number: int) -> None:
    # First, so that both paths that users may have show the first generation at one moment.
    if tree.top.info(MODULES) is None:
        layout.set_link(tree, MODULES, layout.MODULES_TARGET)
    layout.set_link(tree, CURRENT, f"{GENERATIONS}/{number}")


def _finish(tree: PublishedTree, what: str, before: int, entered: int) -> None:
    try:
        _write(tree, "done", what, before, entered)
    except (OSError, PublishError) as error:
        # It is live: to fail now would say the opposite. The next run writes the line.
        tree.note(f"generation {entered} is live, but the journal could not be written: {error}")


def _write(tree: PublishedTree, state: State, what: str, before: int, entered: int) -> None:
    now = journal.stamp(tree.clock())
    line = JournalLine(time=now, who=tree.who, what=what, state=state, left=before, entered=entered)
    journal.append(tree.top, tree.ownership, line)


def _heal(tree: PublishedTree) -> bool:
    """Put right what a killed run left: lines of the journal, and the link to the modules.

    True where a switch happened of which the journal did not know.
    """
    lines, number = journal.read(tree.top), layout.current(tree.top)
    begun = [] if tree.alone else journal.unfinished(lines)
    if any(tree.clock() - line.at < tree_lock.GRACE_S for line in begun):
        raise _at_work(tree.root)
    settled = journal.settled(lines, number, journal.stamp(tree.clock()), tree.who)
    for line in settled:
        journal.append(tree.top, tree.ownership, line)
    if number is not None and tree.top.info(MODULES) is None:
        layout.set_link(tree, MODULES, layout.MODULES_TARGET)
    return any(line.state != "undone" for line in settled)


def _at_work(root: Path) -> PublishError:
    return PublishError(
        f"another publisher is at work in {root}", next_step="try again in a minute"
    )


def require_layout(top: Folder) -> None:
    """Refuse a tree whose modules are no link to what is live; raises PublishError."""
    info = top.info(MODULES)
    if info is None:
        return
    if stat.S_ISDIR(info.st_mode):
        raise PublishError(
            f"{top.path} is a tree of dlcontainer 0.5 or earlier",
            why=f"{MODULES} is a folder there, not a link to the live generation",
            next_step=f"convert it once with dlcontainer {_LAST_READER}, the last version that "
            "reads it; loaded modules keep working: " + layout.typed(top.path, "takeover"),
        )
    text = layout.link_text(top, MODULES)
    if text != layout.MODULES_TARGET:
        raise PublishError(
            f"{top.path / MODULES} points to {text!r}, not to {layout.MODULES_TARGET}",
            next_step="find out who changed it, then remove it: the next run creates it again",
        )


@contextlib.contextmanager
def _locked(top: Folder, owner: ownership.Ownership, hand: Publisher) -> Iterator[bool]:
    """Hold the lock of a tree; false where the file system has no locks."""
    number = tree_lock.lock_file(top, owner)
    try:
        yield _take(number, top, hand)
    finally:
        os.close(number)


def _take(number: int, top: Folder, hand: Publisher) -> bool:
    began, is_noted = time.monotonic(), False
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not is_noted:
                hand.note(f"another publisher is at work in {top.path}: waiting")
                is_noted = True
            if time.monotonic() - began > _WAIT_S:
                raise PublishError(
                    f"another publisher has not finished in {top.path}",
                    next_step="find the process that holds its .lock, then try again",
                ) from None
            time.sleep(0.1)
        except OSError:
            return False
        else:
            return True


@contextlib.contextmanager
def _aside(top: Folder, root: Path, hand: Publisher) -> Iterator[Folder]:
    """Yield a private folder below the root, held open."""
    try:
        with (
            workspace(root, hand.runner, hand.note, hands_on=True) as path,
            top.sub(path.name) as aside,
        ):
            info = os.fstat(aside.number)
            if info.st_uid != os.geteuid() or info.st_mode & 0o077:
                raise PublishError(
                    f"{path} was replaced while dlcontainer created it",
                    next_step="find out who else writes to this folder, then try again",
                )
            yield aside
    except BuildError as error:
        raise PublishError(error.what, why=error.why) from None


@contextlib.contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        stale = error.errno == errno.ESTALE
        raise PublishError(
            f"can't change {root}: {error.strerror}",
            where=str(error.filename) if error.filename else None,
            why="the live generation is complete: it is the old one or the new one",
            next_step="try again"
            if stale
            else "make sure that you can write there and that there is space, then try again",
        ) from None

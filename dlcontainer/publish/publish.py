"""Publish: image -> a version in the module tree. Whatever a user can see there works.

Everything of a version is staged in a hidden folder of the same file system, then renamed to its
place; the links by which users see it come last. Killed anywhere, it leaves nothing visible, and
the next publisher removes what is left.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.errors import BuildError, ChecksFailedError, ConfigError, PublishError
from dlcontainer.image.record import Record
from dlcontainer.proof import reach
from dlcontainer.publish import (
    access,
    existing,
    host_libraries,
    launch_files,
    module_tree,
    offered,
    ownership,
    releases,
    staging,
)
from dlcontainer.publish.module_tree import Locked, Place
from dlcontainer.publish.modulefiles import LastResort, Release
from dlcontainer.publish.offered import Offered
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.publish.staging import Checks, Version
from dlcontainer.sites.site import Site, Target
from dlcontainer.system import digests
from dlcontainer.system.machine import free_mb
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress
from dlcontainer.system.workspace import reap, workspace

# ':' parts PATH and MODULEPATH; Environment Modules finds nothing below a path with $ [ ] { or \,
# and Lmod's reader of Tcl modulefiles takes what follows a '"' for code (both tried).
_UNFIT = ':$[]{}\\"`'


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """Everything a publication needs; `check` looks at an image and compares it with its record."""

    resort: LastResort
    runner: Runner
    templates: tuple[Path, ...]
    progress: Progress
    check: Callable[[Path, Record], Checks]
    # The site in another epoch, or on another kind of node; without it, it has one of each.
    at: Callable[[Target], Site] | None = None
    # Of the publisher: what the site's facts about files use.
    environ: Mapping[str, str] = field(default_factory=dict)
    # By which `module help` says how far the site got.
    proofs: reach.Files | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A version in the tree; `new` is false where it was there already, identical."""

    place: Place
    new: bool
    # Folders that other users can't enter.
    closed: tuple[access.Closed, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """One image on its way to its place; `top` is the root, held open."""

    given: Offered
    release: Release
    site: Site
    epochs: Mapping[str, Site]
    place: Place
    top: Folder
    own: Ownership
    shop: Shop


def publish(image: Path, site: Site, root: Path | None, shop: Shop) -> Published:
    """Publish an image as a module of its recipe's name and version.

    Raises PublishError for an image that isn't what its record says or fails a check, for another
    image under the same version, for a published one that is damaged, for a root that can't be
    written.
    """
    chosen = _root(root, site)
    with _explained(chosen), offered.opened(image) as given:
        release = releases.described(given, site)
        site = _site_of(given.record.record, site, shop)
        epochs = launch_files.sites_of(site, shop.at, release)
        place = Place(root=chosen, name=release.name, version=release.version)
        own = _prepared_root(place.root, site)
        with Folder.at(place.root) as top:
            work = _Work(
                given=given,
                release=release,
                site=site,
                epochs=epochs,
                place=place,
                top=top,
                own=own,
                shop=shop,
            )
            new, engine = _published(work), shop.resort.engine
            return Published(place=place, new=new, closed=access.closed(place, engine, own))


def _site_of(written: Record, site: Site, shop: Shop) -> Site:
    """Give the site as the image was built for it: in its epoch, on its kind of node."""
    content = written.content
    built_for = Target(epoch=content.epoch, node_type=content.node_type)
    if shop.at is None or built_for == Target(epoch=site.epoch, node_type=site.node_type):
        return site
    try:
        return shop.at(built_for)
    except ConfigError as error:
        raise PublishError(
            f"the image is for {built_for.named(site.name)}, which is not in the site's file",
            why=str(error),
            next_step="publish it with the site's file that it was built with, or build it again",
        ) from error


def _published(work: _Work) -> bool:
    """Publish; false where the version was there already, identical."""
    place, shop = work.place, work.shop
    if place.visible():
        _require_same(work)
        with contextlib.ExitStack() as held:
            if not all(map(os.path.lexists, place.links)):
                _link(work, held.enter_context(_staging(work)))
        reap(place.root, shop.runner, shop.progress.note)
        return False
    checks = shop.check(work.given.path, work.given.record.record)
    _require_ok(checks)
    mpi = launch_files.swaps(work.site, work.release)
    if mpi is not None:
        host_libraries.require_fit(mpi, work.release, shop.environ, shop.progress.note)
    with (
        module_tree.locked(place, work.top, work.own, shop.progress.note) as locked,
        _staging(work) as aside,
    ):
        if place.visible():
            _require_same(work)
            _link(work, aside)
            return False
        _clear(work, locked, aside)
        _require_space(work.given.size, place.root)
        shop.progress.step(f"copy the image to {place.root}")
        with aside.make("version") as staged:
            staging.stage(_version(work, checks), staged, shop.progress)
            module_tree.settle_modes(staged, work.own)
        aside.rename("version", locked.folder, place.version)
        locked.folder.sync()
        _link(work, aside)
    return True


def _root(given: Path | None, site: Site) -> Path:
    if given is None and site.modules.root is None:
        raise ConfigError(
            f"no folder to publish in: the site {site.name} names none",
            next_step="give --root DIR, or write modules.root in the site config",
        )
    root = given if given is not None else Path(str(site.modules.root))
    bad = sorted({character for character in str(root) if character in _UNFIT})
    if bad or not str(root).isprintable():
        raise ConfigError(
            f"can't publish in {str(root)!r}",
            why="module systems can't load from a path with "
            + (" ".join(bad) if bad else "a control character"),
            next_step="give another folder: --root DIR",
        )
    return root


def _prepared_root(root: Path, site: Site) -> Ownership:
    missing = [path for path in (root, *root.parents) if not path.exists()]
    for path in reversed(missing):
        with Folder.at(path.parent) as parent:
            try:
                made = parent.make(path.name)
            except FileExistsError:
                continue  # another publisher's
            with made:
                os.fchmod(made.number, 0o755)
    return ownership.of_root(root, site.modules.group)


@contextlib.contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except ChecksFailedError as error:
        raise PublishError(
            error.what, where=error.where, why=error.why, next_step=error.next_step
        ) from None
    except OSError as error:
        raise PublishError(
            f"can't publish in {root}: {error.strerror}",
            where=str(error.filename) if error.filename else None,
            next_step="publish where you may write and there is space: --root DIR",
        ) from None


@contextlib.contextmanager
def _staging(work: _Work) -> Iterator[Folder]:
    """Give a private folder below the root, held open."""
    try:
        with (
            workspace(work.place.root, work.shop.runner, work.shop.progress.note) as path,
            work.top.sub(path.name) as aside,
        ):
            info = os.fstat(aside.number)
            if info.st_uid != os.geteuid() or info.st_mode & 0o077:
                raise PublishError(
                    f"{path} was replaced while it was made",
                    next_step="find out who writes there, and try again",
                )
            yield aside
    except BuildError as error:
        raise PublishError(error.what, why=error.why) from None


def _require_same(work: _Work) -> None:
    existing.require_same(work.place, work.release, work.top, work.shop.progress)
    if digests.of_open(work.given.image) != work.release.sha256:
        raise PublishError(
            f"{work.given.path} is not the image of its record", next_step="build the image again"
        )


def _clear(work: _Work, locked: Locked, aside: Folder) -> None:
    """Remove a version that a killed publisher left half-made, or that was hidden by hand."""
    place = work.place
    there = locked.folder.info(place.version)
    if there is None:
        return
    if not locked.alone and time.time() - there.st_ctime < module_tree.GRACE_S:
        raise PublishError(
            f"another publisher of {place.name}/{place.version} is at work",
            next_step="try again in a minute",
        )
    module_tree.clear(locked.folder, place, aside)


def _link(work: _Work, aside: Folder) -> None:
    """Make the links that are missing."""
    for link, name in work.place.links.items():
        if not module_tree.require_link(link, work.place, name):
            module_tree.make_link(link, work.place, work.top, work.own, aside)


def _version(work: _Work, checks: Checks) -> Version:
    proofs = work.shop.proofs
    return Version(
        offered=work.given,
        release=work.release,
        site=work.site,
        epochs=work.epochs,
        folder=work.place.folder,
        checks=checks,
        resort=work.shop.resort,
        templates=work.shop.templates,
        reached=tuple(reach.lines(proofs, work.site)) if proofs else (),
    )


def _require_ok(checks: Checks) -> None:
    failed = [
        str(check["name"])
        for check in checks
        if not check["ok"] and check.get("state") != "not tried"
    ]
    if failed or not checks:
        raise PublishError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}",
            why="only what works is published",
            next_step="see why: dlcontainer validate IMAGE",
        )


def _require_space(size: int, root: Path) -> None:
    wanted, free = size // 1_000_000 + 1, free_mb(root)
    if free < wanted:
        raise PublishError(
            f"the image needs {wanted} MB, {root} has {free} MB",
            next_step="make room, or give another folder: --root DIR",
        )

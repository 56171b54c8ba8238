"""The base: a distribution's minimal root tree, made outside the image and kept for a day."""

import contextlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build.base import attempts, bootstrap
from dlcontainer.build.base.bootstrap import BaseMaker, RootTree
from dlcontainer.config.field_types import ARCHES
from dlcontainer.engines import base_modes, emulation
from dlcontainer.errors import BuildError
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.packages import locked_base
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.apt.mirror_faults import MirrorFaultError
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, digests, file_locks, foreign_files, guarded_files
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.workspace import settle

# A base holds the distribution's security updates of the day it was made.
MAX_AGE_S = 24 * 3600.0
# Where the mirror does not hold the packages of a new one, an older one serves: for so long an
# index of Debian's updates is valid (Valid-Until of bookworm-security and bookworm-updates).
SPARE_AGE_S = 7 * MAX_AGE_S

# Raise it when the way a base is made changes: older ones in caches are then not used.
_MAKER = 3
_NOTE = "base.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseTree:
    """A base on disk, and what is known of it."""

    path: Path
    sha256: str
    made_at: str
    cached: bool


def prepare(
    plan: Plan, routed: PreparedRouting, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    """Return the base of a plan: a fresh enough one from the cache, or a new one.

    Where the mirror does not hold the packages, one of the last week from the cache, with a note;
    not where the maker takes none of before a refresh. `work` is a private folder. Raises
    BuildError with the last lines of what failed.
    """
    return _prepare(root_tree(plan, routed.bundle), routed, maker, work, log)


def prepare_companion(
    plan: Plan, routed: PreparedRouting, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    """Return the root tree of the same release for this host's own architecture, with tools.

    As `prepare`; what it holds serves while an emulated image is made, and is no part of it.
    """
    return _prepare(companion_tree(plan, maker.host), routed, replace(maker, since=None), work, log)


def root_tree(plan: Plan, bundle: Bundle | None = None) -> RootTree:
    """Return which root tree a plan's image starts from."""
    base = plan.recipe.base
    return RootTree(
        distribution=str(base.distribution),
        release=str(base.release),
        arch=plan.site.arch,
        locked=bundle.lock.base_key if bundle else None,
    )


def companion_tree(plan: Plan, host: HostMachine) -> RootTree:
    """Return which root tree has this host's own programs of the release."""
    arch = next(arch for arch in ARCHES if arch == host.arch)
    return replace(root_tree(plan), arch=arch, packages=("openssl", "python3-minimal"))


def _prepare(
    root_tree: RootTree, routed: PreparedRouting, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    folder = _folder(root_tree, maker.cache)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    waiting = "waiting for another build that is making this base"
    with file_locks.in_turn(folder, maker.on_wait, waiting):
        # Another build may have made it while this one waited.
        kept = _recall(root_tree, maker.cache, _age_limit(maker.since))
        if kept is not None:
            return kept
        try:
            return _make(root_tree, routed, maker, work, log)
        except MirrorFaultError as error:
            spare = None if maker.since else _recall(root_tree, maker.cache, SPARE_AGE_S)
            if spare is None:
                raise error.told from None
            maker.on_wait(f"{error.told.what}: {error.told.why}")
            maker.on_wait(f"using the cached base of {spare.made_at}, without later security fixes")
            return spare


def recall(
    plan: Plan, cache: Path, bundle: Bundle | None = None, since: float | None = None
) -> BaseTree | None:
    """Return the base of a plan if a fresh enough one is in the cache; of a lock: the locked
    one.
    """
    return _recall(root_tree(plan, bundle), cache, _age_limit(since))


def _age_limit(since: float | None) -> float:
    return MAX_AGE_S if since is None else time.time() - since


def _folder(root_tree: RootTree, cache: Path) -> Path:
    return cache / "bases" / root_tree.name


def _make(
    root_tree: RootTree, routed: PreparedRouting, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    folder = _folder(root_tree, maker.cache)
    for leftover in folder.glob(".*"):
        leftover.unlink()  # of a killed maker: this one holds the lock
    tar = work / "rootfs.tar"
    bundle = routed.bundle if root_tree.locked else None
    if bundle is not None:
        locked_base.stage(bundle, work, maker.runner)
    env = dict(emulation.environment(root_tree.arch)) if root_tree.arch != maker.host.arch else {}
    mode = base_modes.require(bootstrap.mmdebstrap(maker.host), maker.host, maker.runner)
    if mode.own_files:
        # A subordinate user could not enter a private folder; all others leave nothing elsewhere.
        env = {**env, "TMPDIR": str(work)}

    def attempt(prepared: PreparedRouting) -> None:
        argv = mode.around(bootstrap.mmdebstrap_argv(root_tree, prepared, maker.host, tar))
        bootstrap.stage(root_tree, prepared, work)
        try:
            bootstrap.run(maker, argv, {**env, **prepared.environment}, log)
        finally:
            bootstrap.unstage(work)

    is_foreign = root_tree.arch != maker.host.arch
    attempts.make(attempt, routed, root_tree.release, maker.on_wait, is_foreign=is_foreign)
    apt_config.take_lists(work / "lists", routed.folder)
    if bundle is not None:
        locked_base.check(bundle.lock, tar)
    clean = work / "clean.tar"
    bootstrap.without_devices(tar, clean)
    tar.unlink()
    squash = work / BASE_FILE
    bootstrap.run(maker, bootstrap.squash_argv(maker.host, clean, squash), {}, log)
    clean.unlink()
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sha256 = _keep(squash, folder, moment)
    return BaseTree(path=folder / BASE_FILE, sha256=sha256, made_at=moment, cached=False)


def _keep(squash: Path, folder: Path, moment: str) -> str:
    """Keep a base in the cache; return its SHA-256."""
    aside = folder / f".{BASE_FILE}.{os.getpid()}"
    try:
        # The cache may lie on another file system: copy beside the target, then rename.
        with (
            guarded_files.file(squash) as source,
            guarded_files.created(aside, mode=0o644) as target,
        ):
            sha256 = guarded_files.copy(source, target)
        squash.unlink()
        (folder / _NOTE).unlink(missing_ok=True)
        settle(aside, folder / BASE_FILE)
        note = {"maker": _MAKER, "sha256": sha256, "made": moment}
        atomic_files.write(folder / _NOTE, json.dumps(note) + "\n", mode=0o600)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BuildError(
            f"cannot write the base to the cache {folder}: {error.strerror}",
            next_step="free space there (`dlcontainer cache prune`), or set XDG_CACHE_HOME "
            "to another folder",
        ) from None
    return sha256


def _recall(root_tree: RootTree, cache: Path, max_age_s: float) -> BaseTree | None:
    folder = _folder(root_tree, cache)
    path = folder / BASE_FILE
    try:
        record = foreign_files.loads(guarded_files.read_own(folder / _NOTE))
        if record["maker"] != _MAKER:
            return None
        with guarded_files.file(path) as base:
            guarded_files.require_own(base)
            age = time.time() - os.fstat(base).st_mtime
            # A locked one holds the packages of its lock: it does not age.
            if not (root_tree.locked or 0 <= age < max_age_s):
                return None
            if digests.of_open(base) != record["sha256"]:
                return None
        with contextlib.suppress(OSError):
            os.utime(folder / _NOTE)  # used: pruned last
        return BaseTree(path=path, sha256=record["sha256"], made_at=record["made"], cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None

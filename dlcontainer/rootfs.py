"""The base: a distribution's minimal root tree, made outside the image and kept for a day."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import aptconfig, basemaker, basemode, emulation, lockedbase
from dlcontainer.basemaker import BaseMaker, RootTree
from dlcontainer.bundle import Bundle
from dlcontainer.errors import BuildError
from dlcontainer.fields import ARCHES
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.machine import Host
from dlcontainer.plan import Plan
from dlcontainer.routing import Routed
from dlcontainer.workspace import settle

# A base holds the distribution's security updates of the day it was made.
MAX_AGE_S = 24 * 3600.0

# Raise it when the way a base is made changes: older ones in caches are then not used.
_MAKER = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseTree:
    """A base on disk, and what is known of it."""

    path: Path
    sha256: str
    made: str
    cached: bool


def prepare(plan: Plan, routed: Routed, maker: BaseMaker, work: Path, log: Path) -> BaseTree:
    """Give the base of a plan: a fresh enough one from the cache, or a new one.

    `work` is a private folder. Raises BuildError with the last lines of what failed.
    """
    return _prepare(root_tree(plan, routed.bundle), routed, maker, (work, log))


def prepare_companion(
    plan: Plan, routed: Routed, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    """Give the root tree of the same release for this host's own architecture, with tools.

    As `prepare`; what it holds serves while an emulated image is made, and is no part of it.
    """
    return _prepare(companion_tree(plan, maker.host), routed, maker, (work, log))


def root_tree(plan: Plan, bundle: Bundle | None = None) -> RootTree:
    """Say which root tree a plan's image starts from."""
    base = plan.recipe.base
    return RootTree(
        distribution=str(base.distribution),
        release=str(base.release),
        arch=plan.site.arch,
        locked=bundle.lock.base_key if bundle else None,
    )


def companion_tree(plan: Plan, host: Host) -> RootTree:
    """Say which root tree has this host's own programs of the release."""
    arch = next(arch for arch in ARCHES if arch == host.arch)
    return replace(root_tree(plan), arch=arch, packages=("openssl", "python3-minimal"))


def _prepare(
    wanted: RootTree, routed: Routed, maker: BaseMaker, places: tuple[Path, Path]
) -> BaseTree:
    folder = _folder(wanted, maker.cache)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder, maker.on_wait):
        kept = _recall(wanted, maker.cache)
        if kept is not None:
            return kept
        work, log = places
        return _make(wanted, routed, maker, (work, folder, log))


def recall(plan: Plan, cache: Path, bundle: Bundle | None = None) -> BaseTree | None:
    """Give the base of a plan if a fresh enough one is in the cache; of a lock: the locked one."""
    return _recall(root_tree(plan, bundle), cache)


def _folder(wanted: RootTree, cache: Path) -> Path:
    return cache / "bases" / wanted.name


def _make(
    wanted: RootTree, routed: Routed, maker: BaseMaker, places: tuple[Path, Path, Path]
) -> BaseTree:
    work, folder, log = places
    for left in folder.glob(".*"):
        left.unlink()  # of a killed maker: this one holds the lock
    tar = work / "rootfs.tar"
    bundle = routed.bundle if wanted.locked else None
    if bundle is not None:
        lockedbase.stage(bundle, work, maker.runner)
    env = dict(emulation.environment(wanted.arch)) if wanted.arch != maker.host.arch else {}
    mode = basemode.require(basemaker.mmdebstrap(maker.host), maker.host, maker.runner)
    argv = mode.around(basemaker.mmdebstrap_argv(wanted, routed, maker.host, tar))
    if mode.own_files:
        # A subordinate user could not enter a private folder; all others leave nothing elsewhere.
        env = {**env, "TMPDIR": str(work)}
    basemaker.run(maker, argv, {**env, **routed.environment}, log)
    aptconfig.take_lists(work / "lists", routed.folder)
    if bundle is not None:
        lockedbase.check(bundle.lock, tar)
    clean = work / "clean.tar"
    basemaker.without_devices(tar, clean)
    tar.unlink()
    squash = work / BASE_FILE
    basemaker.run(maker, basemaker.squash_argv(maker.host, clean, squash), {}, log)
    clean.unlink()
    sha256, made = _sha256(squash), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _keep(squash, folder, {"maker": _MAKER, "sha256": sha256, "made": made})
    return BaseTree(path=folder / BASE_FILE, sha256=sha256, made=made, cached=False)


def _keep(squash: Path, folder: Path, said: Mapping[str, object]) -> None:
    aside, note = folder / f".{BASE_FILE}.{os.getpid()}", folder / f".base.json.{os.getpid()}"
    try:
        # The cache may lie on another file system: copy beside the target, then rename.
        shutil.copyfile(squash, aside)
        squash.unlink()
        (folder / "base.json").unlink(missing_ok=True)
        settle(aside, folder / BASE_FILE)
        note.write_text(json.dumps(said) + "\n")
        settle(note, folder / "base.json")
    except OSError as error:
        for left in (aside, note):
            left.unlink(missing_ok=True)
        raise BuildError(
            f"can't keep the base in {folder}: {error.strerror}",
            next_step="make room there (`dlcontainer cache prune`), or take another cache: "
            "XDG_CACHE_HOME",
        ) from None


def _recall(wanted: RootTree, cache: Path) -> BaseTree | None:
    folder = _folder(wanted, cache)
    path = folder / BASE_FILE
    try:
        record = json.loads((folder / "base.json").read_text())
        age = time.time() - path.stat().st_mtime
        # A locked one holds the packages of its lock: it does not age.
        if not (wanted.locked or 0 <= age < MAX_AGE_S) or _sha256(path) != record["sha256"]:
            return None
        if record["maker"] != _MAKER:
            return None
        with contextlib.suppress(OSError):
            os.utime(folder / "base.json")  # used: pruned last
        return BaseTree(path=path, sha256=record["sha256"], made=record["made"], cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(folder: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # Two builders at once: the second waits and takes what the first made.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait("another build is making this base: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            on_wait(f"{folder} has no locks: two builds at once would both make the base")
        yield
    finally:
        os.close(lock)

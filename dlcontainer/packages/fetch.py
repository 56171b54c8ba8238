"""Fetching: lock -> bundle, a folder with all that a build needs. The lock comes into it last."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages import carried_image, download, host_access, lock_resolver
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.apt.apt_resolver import Apt
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import Lock, OsPin
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.oci_layout import OciLayout
from dlcontainer.system import machine
from dlcontainer.system.environ import proxies
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Meter, Progress, watching
from dlcontainer.system.workspace import settle, settling, workspace

_PART = ".part"
_PLACES = (bundles.DEBS, bundles.WHEELS, bundles.SOURCES)
_OWN = {bundles.LOCK_FILE, bundles.BASE, *_PLACES, *bundles.LISTS, _PART}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetcher:
    """Who fetches: this user, here; `siblings` are folders of bundles whose files may be shared."""

    host: HostMachine
    runner: Runner
    scratch: Path
    progress: Progress
    siblings: tuple[Path, ...] = ()


def kept(plan: Plan, lock: Lock, fetcher: Fetcher, cache: Path) -> Bundle:
    """Return the bundle of a lock from the cache, fetching the rest; raises as `fetch` does."""
    folder = cache / "locked" / lock.digest[:24]
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    siblings = tuple(path for path in folder.parent.iterdir() if path != folder)
    sharing = Fetcher(
        host=fetcher.host,
        runner=fetcher.runner,
        scratch=fetcher.scratch,
        progress=fetcher.progress,
        siblings=siblings,
    )
    return _collect(plan, lock, sharing, folder, with_image=False)


def fetch(
    plan: Plan, lock: Lock, fetcher: Fetcher, folder: Path, *, with_image: bool = True
) -> Bundle:
    """Fetch all that a lock names into a folder, and check it; what is there and right stays.

    Also the image that it starts from, unless it is to be left out. The lock comes last into the
    folder: without it the folder is no bundle. Raises ConfigError for a folder of something else,
    BuildError for what is missing, is not what the lock says, or does not fit on the disk.
    """
    return _collect(plan, lock, fetcher, folder, with_image=with_image)


def _collect(plan: Plan, lock: Lock, fetcher: Fetcher, folder: Path, *, with_image: bool) -> Bundle:
    _make_folder(folder)
    carried = None
    with _disk(folder), settling(folder), _parted(folder) as part:
        (folder / bundles.LOCK_FILE).unlink(missing_ok=True)
        for name in _PLACES:
            (folder / name).mkdir(exist_ok=True)
        _share(lock, fetcher.siblings, folder)
        missing = [name for name, sha in bundles.named_files(lock) if not _right(folder, name, sha)]
        if missing:
            _fetch_missing(plan, lock, fetcher, folder, missing)
        _remove_strays(lock, folder)
        if with_image and lock.base.image:
            carried = _image(lock.base.image, plan, fetcher, folder / bundles.BASE)
        debs = folder / bundles.DEBS
        bundles.write_lists(lock, lock.os_pins, debs, part, fetcher.runner)
        for name in bundles.LISTS:
            settle(part / name, folder / name)
        locks.write(part / bundles.LOCK_FILE, lock)
        settle(part / bundles.LOCK_FILE, folder / bundles.LOCK_FILE)
    return Bundle(folder=folder, lock=lock, image=carried)


def _image(image: str, plan: Plan, fetcher: Fetcher, folder: Path) -> OciLayout:
    fetcher.progress.step(f"image: {plan.recipe.base.title}")
    access = host_access.registry_way(plan, fetcher.host)
    with watching(folder, _meter(fetcher, "image", None)):
        return carried_image.fetch(image, plan.site.arch, access, folder)


def _fetch_missing(
    plan: Plan, lock: Lock, fetcher: Fetcher, folder: Path, missing: Sequence[str]
) -> None:
    part = folder / _PART
    with (
        proxies.naming_faults(proxies_of(plan.site.routing, fetcher.host)),
        workspace(fetcher.scratch, fetcher.runner, fetcher.progress.note) as work,
    ):
        resolver = lock_resolver.resolver_of(
            plan, fetcher.host, fetcher.runner, work, fetcher.progress
        )
        debs = [pin for pin in _unique(lock.os_pins) if f"{bundles.DEBS}/{pin.file}" in missing]
        if debs:
            size = sum(pin.size for pin in debs) / 1e6
            _require_room(folder, size)
            fetcher.progress.step(f"OS packages: {len(debs)} to fetch, {size:.1f} MB")
            resolver.apt.update()
            _refuse_moved(debs, resolver.apt)
            try:
                with watching(part, _meter(fetcher, "OS packages", sum(pin.size for pin in debs))):
                    resolver.apt.download(debs, part)
            except BuildError:
                _keep_whole(debs, part, folder / bundles.DEBS)
                raise
            for pin in debs:
                _take(part / pin.file, folder / bundles.DEBS / pin.file, pin.sha256)
        for source in lock.sources:
            if f"{bundles.SOURCES}/{source.name}" in missing:
                fetcher.progress.step(f"source archive {source.name}")
                url = str(plan.recipe.upstreams[source.name].url)
                download.download(url, part / source.name, resolver.access, fetcher.progress.phase)
                target = folder / bundles.SOURCES / source.name
                _take(part / source.name, target, source.sha256)
        wheels = [pin for pin in lock.wheels if f"{bundles.WHEELS}/{pin.file}" in missing]
        if wheels and resolver.pip is not None:
            fetcher.progress.step(f"Python packages: {len(wheels)} to fetch")
            # Different versions of one package can be in two steps: one call each step.
            for step in lock.steps:
                chosen = [pin for pin in step.python_packages if pin in wheels]
                if chosen:
                    title = f"step {step.name}, {len(chosen)} Python packages"
                    with watching(part, _meter(fetcher, title, None)):
                        resolver.pip.download(
                            chosen, tuple(resolver.access.upstreams.values()), part
                        )
                for wheel in chosen:
                    target = folder / bundles.WHEELS / wheel.file
                    _take(part / wheel.file, target, wheel.sha256)


def _meter(fetcher: Fetcher, title: str, total: int | None) -> Meter:
    return Meter(tell=fetcher.progress.phase, title=title, total=total)


def _require_room(folder: Path, size_mb: float) -> None:
    free = machine.free_mb(folder)
    if free < size_mb:
        raise BuildError(
            f"{folder} has {free} MB free; the OS packages alone need {size_mb:.0f} MB",
            next_step="free space, or name another folder with -o",
        )


def _keep_whole(pins: Iterable[OsPin], part: Path, target: Path) -> None:
    """Keep what came before a failure: the next fetch goes on from there."""
    for pin in pins:
        if bundles.sha256_of(part / pin.file) == pin.sha256:
            settle(part / pin.file, target / pin.file)


def _refuse_moved(pins: Sequence[OsPin], apt: Apt) -> None:
    """Refuse packages that the mirrors have no more, or have with other bytes."""
    offered = {(pin.name, pin.arch, pin.version): pin for pin in apt.offered(p.name for p in pins)}
    moved = []
    for pin in pins:
        now = offered.get((pin.name, pin.arch, pin.version))
        versions = sorted(v for name, arch, v in offered if (name, arch) == (pin.name, pin.arch))
        if now is None:
            has = f"it has {', '.join(versions)}" if versions else "it has none"
            moved.append(f"the mirror no longer has {pin.name} {pin.version}: {has}")
        elif now.sha256 != pin.sha256:
            moved.append(
                f"{pin.name} {pin.version} has the checksum {now.sha256[:12]}… there, the "
                f"lock has {pin.sha256[:12]}…"
            )
    if moved:
        raise BuildError(
            "the mirror no longer has the locked packages",
            why="\n    ".join(["", *moved[:10]]),
            next_step="run `dlcontainer lock` for the mirror's present packages, or build "
            "from a snapshot mirror or a bundle of `dlcontainer fetch`, which "
            "keep the locked ones",
        )


def _take(source: Path, target: Path, sha256: str) -> None:
    digest = bundles.sha256_of(source)
    if digest != sha256:
        raise BuildError(
            f"wrong checksum: {target.name} differs from the lock",
            why=f"the file has {digest[:12]}…, the lock has {sha256[:12]}…"
            if digest
            else "nothing was fetched",
            next_step="find out whether the mirror or the lock is right before you use the file",
        )
    settle(source, target)


def _right(folder: Path, name: str, sha256: str) -> bool:
    return bundles.sha256_of(folder / name) == sha256


def _share(lock: Lock, siblings: Iterable[Path], folder: Path) -> None:
    for name, _ in bundles.named_files(lock):
        for sibling in siblings:
            if (sibling / name).is_file() and not (folder / name).exists():
                with contextlib.suppress(OSError):
                    os.link(sibling / name, folder / name)


def _remove_strays(lock: Lock, folder: Path) -> None:
    named = {name for name, _ in bundles.named_files(lock)}
    for place in _PLACES:
        for path in (folder / place).iterdir():
            if f"{place}/{path.name}" not in named:
                path.unlink()


def _unique(pins: Iterable[OsPin]) -> list[OsPin]:
    return list({pin.file: pin for pin in pins}.values())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted({path.name for path in folder.iterdir()} - _OWN)
    except OSError as error:
        raise BuildError(
            f"can't make {folder}: {error.strerror}", next_step="name another folder with -o"
        ) from None
    if foreign:
        raise ConfigError(
            f"{folder} contains other files: {', '.join(foreign[:3])}",
            next_step="name a new or empty folder with -o",
        )


@contextlib.contextmanager
def _parted(folder: Path) -> Iterator[Path]:
    """Yield a folder for what is on its way; a killed fetch's goes first."""
    part = folder / _PART
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"can't write in {folder}: {error.strerror}",
            next_step="free space, or name another folder with -o; fetched files are kept",
        ) from None

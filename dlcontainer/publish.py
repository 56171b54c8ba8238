"""Publish: image -> a version in the module tree. Whatever a user can see there works.

Everything of a version is staged in a hidden folder of the same file system, then renamed to its
place; the links by which users see it come last. Killed anywhere, it leaves nothing visible, and
the next publisher removes what is left.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import modulefiles, record, sbom, tree
from dlcontainer.errors import BuildError, ChecksFailedError, ConfigError, PublishError
from dlcontainer.machine import free_mb
from dlcontainer.modulefiles import LastResort, Release
from dlcontainer.progress import Progress
from dlcontainer.releases import described
from dlcontainer.shell import Runner
from dlcontainer.siteconfig import Site
from dlcontainer.tree import Ownership, Place
from dlcontainer.workspace import reap, remove, workspace

# What was looked at, each with its name, whether it holds and what was seen.
Checks = Sequence[Mapping[str, object]]


# ':' parts PATH and MODULEPATH; Environment Modules finds nothing below a path with $ [ ] { or \,
# and Lmod's reader of Tcl modulefiles takes what follows a '"' for code (both tried).
_UNFIT = ':$[]{}\\"`'


@dataclass(frozen=True, kw_only=True, slots=True)
class Shop:
    """Who publishes, with what."""

    resort: LastResort
    runner: Runner
    templates: tuple[Path, ...]
    progress: Progress
    check: Callable[[], Checks]


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A version in the tree; `new` is false where it was there already, identical."""

    place: Place
    new: bool


def publish(image: Path, site: Site, root: Path | None, shop: Shop) -> Published:
    """Publish an image as a module of its recipe's name and version.

    Raises PublishError for an image that isn't what its record says or fails a check, for another
    image under the same version, for a root that can't be written.
    """
    chosen = _root(root, site)
    with _explained(chosen):
        release = described(image, site)
        place = Place(root=chosen, name=release.name, version=release.version)
        own = _prepared_root(place.root, site)
        if place.visible() and _is_identical(place, release, image):
            return _already(place, own, shop)
        checks = shop.check()
        _require_ok(checks)
        with (
            tree.locked(place, own, shop.progress.note) as alone,
            _staging(place.root, shop) as aside,
        ):
            if _is_taken(place, release, image, alone=alone, runner=shop.runner):
                return _already(place, own, shop, aside=aside / "link")
            shop.progress.step(f"copy the image to {place.root}")
            staged = aside / "version"
            _stage(image, staged, (release, site, place, shop), checks)
            tree.settle_modes(staged, own)
            own.folder(place.folder.parent)
            staged.rename(place.folder)
            tree.sync(place.folder.parent)
            _link(place, own, aside / "link")
    return Published(place=place, new=True)


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
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    return tree.ownership(root, site.modules.group)


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
def _staging(root: Path, shop: Shop) -> Iterator[Path]:
    try:
        with workspace(root, shop.runner, shop.progress.note) as path:
            yield path
    except BuildError as error:
        raise PublishError(error.what, why=error.why) from None


def _published_sha256(place: Place) -> str | None:
    written = record.read(place.folder / "record.json")
    return None if written is None else written.sha256


def _is_identical(place: Place, release: Release, image: Path) -> bool:
    """Tell whether a version is this image; raises PublishError where it is another."""
    if _published_sha256(place) != release.sha256:
        raise PublishError(
            f"{place.name}/{place.version} is published already, and is another image",
            where=str(place.folder),
            why="who uses a version relies on it to stay what it is",
            next_step="give the recipe a new version, or remove the old one by hand: "
            "docs/publish.md",
        )
    with image.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != release.sha256:
            raise PublishError(f"{image} is not the image of its record")
    return True


def _is_taken(place: Place, release: Release, image: Path, *, alone: bool, runner: Runner) -> bool:
    """Look again, with the lock: is the version there, and identical? Removes a half-made one."""
    if not place.folder.exists() or place.visible():
        return place.visible() and _is_identical(place, release, image)
    age = time.time() - place.folder.stat().st_ctime
    if not alone and age < tree.GRACE_S:
        raise PublishError(
            f"another publisher of {place.name}/{place.version} is at work",
            next_step="try again in a minute",
        )
    remove(place.folder, runner)
    return False


def _already(place: Place, own: Ownership, shop: Shop, *, aside: Path | None = None) -> Published:
    reap(place.root, shop.runner, shop.progress.note)
    missing = [link for link in place.links if not link.exists()]
    if missing and aside is not None:
        _link(place, own, aside)
    elif missing:
        with _staging(place.root, shop) as folder:
            _link(place, own, folder / "link")
    return Published(place=place, new=False)


def _link(place: Place, own: Ownership, aside: Path) -> None:
    for link, name in place.links.items():
        own.link(link, place.folder / name, aside)


def _require_ok(checks: Checks) -> None:
    failed = [str(check["name"]) for check in checks if not check["ok"]]
    if failed or not checks:
        raise PublishError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}",
            why="only what works is published",
            next_step="see why: dlcontainer validate IMAGE",
        )


def _stage(
    image: Path, staged: Path, what: tuple[Release, Site, Place, Shop], checks: Checks
) -> None:
    release, site, place, shop = what
    _require_space(image, place.root)
    (staged / "bin").mkdir(parents=True)
    if tree.copy(image, staged / "image.sif") != release.sha256:
        raise PublishError(
            f"{image} is not the image of its record",
            why="the SHA-256 of what was copied is another one",
            next_step="build the image again",
        )
    tree.copy(record.beside(image), staged / "record.json")
    bill = image.with_suffix(sbom.SUFFIX)
    if bill.is_file():
        tree.copy(bill, staged / f"sbom{sbom.SUFFIX}")
    log = image.with_suffix(".log")
    if log.is_file():
        tree.copy(log, staged / "build.log")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {
        "schema": "dlcontainer/checks/1",
        "finished": now,
        "image_sha256": release.sha256,
        "checks": list(checks),
    }
    (staged / "checks.json").write_text(json.dumps(body, indent=1) + "\n")
    templates = list(shop.templates)
    texts = modulefiles.modulefiles(release, place.folder, now, templates)
    for name, text in zip(("module.lua", "module.tcl"), texts, strict=True):
        (staged / name).write_text(text)
    for command, text in modulefiles.wrappers(release, site, shop.resort, templates).items():
        (staged / "bin" / command).write_text(text)


def _require_space(image: Path, root: Path) -> None:
    wanted, free = image.stat().st_size // 1_000_000 + 1, free_mb(root)
    if free < wanted:
        raise PublishError(
            f"the image needs {wanted} MB, {root} has {free} MB",
            next_step="make room, or give another folder: --root DIR",
        )

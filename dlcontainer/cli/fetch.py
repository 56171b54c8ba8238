"""`dlcontainer fetch`: all that a build needs in one folder, for a machine without a network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.build.base.finished import BaseFinisher
    from dlcontainer.cli.context import CliContext
    from dlcontainer.packages.bundle import Bundle
    from dlcontainer.packages.lock_resolver import Locker
    from dlcontainer.packages.lockfile import Lock
    from dlcontainer.planning.plan import Plan


def fetch(
    site: options.Site,
    folder: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for the bundle and nothing else."
        ),
    ],
    recipe: options.Recipe = None,
    locked: Annotated[
        Path | None,
        typer.Option(
            "--locked", metavar="FILE", help="Use this lock. Default: resolve the packages again."
        ),
    ] = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    with_base: Annotated[
        bool,
        typer.Option(
            "--base/--no-base",
            help="Include the base, so that `build --offline` needs no apt and no registry.",
        ),
    ] = True,
    settings: options.Set = None,
    tmpdir: options.Tmpdir = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Download packages, wheels and the lock into a folder for `build --offline`."""
    from dlcontainer.cli.context import here
    from dlcontainer.packages import fetch as fetching
    from dlcontainer.packages import lock_resolver
    from dlcontainer.sites.site import SiteTarget

    world = here()
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    settled = world.plan(recipe, site, settings, meant, variant, cpu=cpu)
    console = output.Console(verbose=verbose, events=as_json)
    runner = console.runner(world.environ)
    scratch = (tmpdir or world.scratch).absolute()
    locker = lock_resolver.Locker(
        host=world.host, runner=runner, scratch=scratch, cache=world.cache, progress=console
    )
    lock = _lock_of(settled, locked, locker)
    fetcher = fetching.Fetcher(host=world.host, runner=runner, scratch=scratch, progress=console)
    with console.beating():
        bundle = fetching.fetch(settled, lock, fetcher, folder.absolute(), with_image=with_base)
    _carry_base(world, settled, bundle, console, tmpdir, carry=with_base)
    size = sum(path.stat().st_size for path in bundle.folder.rglob("*") if path.is_file())
    if as_json:
        facts = lock_resolver.facts(lock)
        output.emit("fetch", {"folder": str(bundle.folder), **facts, "bytes": size})
        return
    console.end(f"done: {size / 1e6:.0f} MB")
    output.copied(str(bundle.folder))


def _lock_of(settled: "Plan", locked: Path | None, locker: "Locker") -> "Lock":
    """Read the lock that is named; else resolve the plan's packages."""
    from dlcontainer.packages import lock_resolver
    from dlcontainer.packages import lockfile as locks

    if locked is None:
        return lock_resolver.lock(settled, locker)
    lock = locks.read(locked)
    lock.require(settled, str(locked))
    return lock


def _carry_base(
    world: "CliContext",
    settled: "Plan",
    bundle: "Bundle",
    console: output.Console,
    tmpdir: Path | None,
    *,
    carry: bool,
) -> None:
    """Put the finished base into a bundle; one of before goes first. An image is there already."""
    import shutil

    from dlcontainer.build.base import finished
    from dlcontainer.packages import bundle as bundles
    from dlcontainer.system import file_locks

    if bundle.image is not None:
        return
    shutil.rmtree(bundle.folder / bundles.BASE, ignore_errors=True)
    if carry and not settled.recipe.base.image:
        target = bundle.folder / bundles.BASE / bundles.BASE_FILE
        with file_locks.building(world.cache, console.note):
            finished.make(settled, bundle, finisher(world, console, tmpdir), target)


def finisher(world: "CliContext", console: output.Console, tmpdir: Path | None) -> "BaseFinisher":
    """Return what makes finished bases for this user."""
    from dlcontainer.build.base.finished import BaseFinisher

    return BaseFinisher(
        host=world.host,
        runner=console.runner(world.environ),
        cache=world.cache,
        scratch=(tmpdir or world.scratch).absolute(),
        progress=console,
    )


def bundle_of(
    world: "CliContext",
    settled: "Plan",
    console: output.Console,
    *,
    locked: Path | None,
    offline: Path | None,
    dry_run: bool,
) -> "Bundle | None":
    """Return what a build takes its packages from: --locked FILE, --offline DIR, both or neither.

    A dry run checks the lock, and fetches nothing.
    """
    from dlcontainer.errors import ConfigError
    from dlcontainer.packages import bundle as bundles
    from dlcontainer.packages import fetch as fetching
    from dlcontainer.packages import lockfile as locks

    lock = locks.read(locked) if locked else None
    if lock is not None:
        lock.require(settled, str(locked))
    if offline is not None:
        console.step(f"check the files of {offline} against its lock")
        bundle = bundles.opened(offline.absolute())
        bundle.lock.require(settled, str(offline / bundles.LOCK_FILE))
        if lock is not None and lock.digest != bundle.lock.digest:
            raise ConfigError(
                f"{offline} has a different lock than {locked}",
                next_step=f"dlcontainer lock --diff {locked} {offline / bundles.LOCK_FILE}",
            )
        return bundle
    if lock is None or dry_run:
        return None
    fetcher = fetching.Fetcher(
        host=world.host,
        runner=console.runner(world.environ),
        scratch=world.scratch,
        progress=console,
    )
    return fetching.kept(settled, lock, fetcher, world.cache)

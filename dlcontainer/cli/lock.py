"""`dlcontainer lock`: the exact packages of a plan; what moved since; what differs between two."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.packages.lock_diff import LockChange
    from dlcontainer.packages.lock_resolver import Locker
    from dlcontainer.packages.lockfile import Lock
    from dlcontainer.planning.plan import Plan


def lock(
    recipe: options.Recipe = None,
    site: options.OptionalSite = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Lock to write. Default: locks/NAME.lock.json."
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", metavar="FILE", help="Resolve again, and show what changed since this lock."
        ),
    ] = None,
    update: Annotated[
        list[str] | None,
        typer.Option(
            "--update",
            metavar="PACKAGE|all",
            help="Take the newest version of this package, or of all that its source makes, into "
            "the lock that is there, with what it needs; no other package moves. Repeatable.",
        ),
    ] = None,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--diff", metavar="OLD NEW", help="Show what differs between two locks."),
    ] = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    settings: options.Set = None,
    tmpdir: options.Tmpdir = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Resolve a plan's packages and write them to a lock, with versions and checksums."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.packages import lock_resolver
    from dlcontainer.packages import lockfile as locks
    from dlcontainer.packages.lock_diff import compare
    from dlcontainer.sites.site import SiteTarget

    if diff is not None:
        _diff(*diff, alone=not (check or target or update), as_json=as_json)
        return
    if check and update:
        raise UsageError("--check and --update exclude each other", next_step="leave one out")
    before = locks.read(check) if check else None
    if before is not None:
        # What the lock is of; a recipe or a site that was given as a path must be given again.
        recipe, site = recipe or before.recipe, site or before.site
        variant = variant or before.variant
    world, meant = here(), SiteTarget(node_type=node_type, epoch=epoch)
    settled = world.plan(
        recipe, options.required_site(site, "lock", recipe), settings, meant, variant, cpu=cpu
    )
    console = output.Console(verbose=verbose, events=as_json)
    path = target or Path("locks") / f"{settled.name}.lock.json"
    locker = _locker(world, console, tmpdir)
    if update:
        _update(settled, path, update, locker, console, as_json=as_json)
        return
    with console.beating():
        locked_packages = lock_resolver.lock(settled, locker)
    if before is not None:
        changes = compare(before, locked_packages)
        _show(changes, "lock-check", as_json=as_json)
        raise typer.Exit(1 if changes else 0)
    locks.write(path, locked_packages)
    _say_written(path, locked_packages, as_json=as_json)


def _diff(old: Path, new: Path, *, alone: bool, as_json: bool) -> None:
    from dlcontainer.errors import UsageError
    from dlcontainer.packages import lockfile as locks
    from dlcontainer.packages.lock_diff import compare

    if not alone:
        raise UsageError(
            "--diff takes exactly two lock files and no other option",
            next_step="--diff OLD NEW",
        )
    _show(compare(locks.read(old), locks.read(new)), "lock-diff", as_json=as_json)


def _update(
    settled: "Plan",
    path: Path,
    names: "Sequence[str]",
    locker: "Locker",
    console: output.Console,
    *,
    as_json: bool,
) -> None:
    """Take newer versions into the lock that is there, and say what moved."""
    from dlcontainer.errors import ConfigError
    from dlcontainer.packages import lock_resolver, lock_update
    from dlcontainer.packages import lockfile as locks
    from dlcontainer.packages.lock_diff import compare

    if not path.exists():
        raise ConfigError(
            f"there is no lock {path} to update",
            next_step="write it first: the same line without --update",
        )
    before = locks.read(path)
    before.require(settled, str(path))
    with console.beating():
        if "all" in names:
            after = lock_resolver.lock(settled, locker)
        else:
            request = lock_update.LockUpdate(lock=before, display=str(path), names=names)
            after = lock_update.update(request, settled, locker)
    changes = compare(before, after)
    if changes:
        locks.rewrite(path, after, before)
    for name in sorted({pin.name for pin in before.wheels} & set(names)):
        console.note(
            f"{name}: the recipe pins its version; newer releases: dlcontainer recipe outdated "
            f"{settled.recipe.name}"
        )
    _show(changes, "lock-update", as_json=as_json)
    if changes and not as_json:
        _say_written(path, after, as_json=False)


def _locker(world: "CliContext", console: output.Console, tmpdir: Path | None) -> "Locker":
    from dlcontainer.packages import lock_resolver

    return lock_resolver.Locker(
        host=world.host,
        runner=console.runner(world.environ),
        scratch=(tmpdir or world.scratch).absolute(),
        cache=world.cache,
        progress=console,
    )


def _say_written(path: Path, lock: "Lock", *, as_json: bool) -> None:
    from dlcontainer.packages import lock_resolver

    facts = lock_resolver.facts(lock)
    if as_json:
        output.emit("lock-written", {"file": str(path), "digest": lock.digest, **facts})
        return
    size = f"{facts['bytes'] / 1e6:.0f} MB"
    output.say(
        f"{path}: {facts['os_packages']} OS packages ({size}), "
        f"{facts['python_packages']} Python packages"
    )


def _show(changes: "Sequence[LockChange]", schema: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(
            schema, {"same": not changes, "changes": [asdict(change) for change in changes]}
        )
    elif changes:
        rows = [
            (change.part, change.name, change.old or "-", change.new or "-") for change in changes
        ]
        output.say(output.table(rows, head=("where", "package", "old", "new")))
    else:
        output.say("the locks are the same" if schema == "lock-diff" else "nothing changed")

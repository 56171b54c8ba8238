"""`dlcontainer modules gc`: what nothing can use any more goes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Root, TreeSelection
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.publish.tree.collection import CollectionResult, RetentionPolicy
    from dlcontainer.publish.tree.in_use import OldestJob

_DAY_S = 86_400.0


def gc(
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            metavar="DAYS",
            min=0,
            help="Days to keep a generation after it was replaced. Default: the site's.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")
    ] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Remove generations and releases that nothing can use any more; keep them when in doubt."""
    from dlcontainer.publish.tree import changes, collection, transaction

    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    changes.require_published(where.root)
    policy = _policy(where, keep, dry_run=dry_run)
    with transaction.opened(where.root, where.hand()) as tree:
        collection.require_long_enough(policy)
        expired = changes.expire(tree, dry=dry_run)
        collected = collection.collect(tree, policy)
    if as_json:
        output.emit(
            "modules-gc",
            {
                "root": str(where.root),
                "dry_run": dry_run,
                "expired": list(expired),
                "removed": list(collected.removed),
                "kept": [asdict(kept) for kept in collected.kept],
            },
        )
    else:
        for module in expired:
            output.say(f"{'would take back' if dry_run else 'took back'}  {module}")
        _show(collected, dry_run=dry_run)


def _policy(where: TreeSelection, keep: int | None, *, dry_run: bool) -> "RetentionPolicy":
    """Settle how long all stays, and ask the scheduler and this host's processes."""
    from dlcontainer.publish.tree import in_use
    from dlcontainer.publish.tree.collection import RetentionPolicy

    modules = where.site.modules if where.site else None
    days = keep if keep is not None else (modules.keep_days if modules else None)
    if days is None:
        raise UsageError(
            "no retention period is set for old generations",
            next_step="give --keep DAYS, no less than the longest job and hold, or set "
            "modules.keep_days in the site config",
        )
    longest = modules.longest_job_days if modules else None
    if longest is None:
        where.console.note(
            "the longest job is unknown (modules.longest_job_days): the retention "
            "period is taken as given"
        )
    return RetentionPolicy(
        keep_s=days * _DAY_S,
        longest_job_s=None if longest is None else longest * _DAY_S,
        queue=_queue(where),
        open_files=in_use.seen(),
        dry=dry_run,
    )


def _queue(where: TreeSelection) -> "OldestJob":
    from dlcontainer.cli.context import here
    from dlcontainer.publish.tree import in_use
    from dlcontainer.publish.tree.in_use import OldestJob
    from dlcontainer.schedulers import SCHEDULERS

    if where.site is None:
        where.console.note(
            "without --site no scheduler is asked for jobs: only the age of a generation decides"
        )
        return OldestJob()
    scheduler = where.site.scheduler.kind
    argv = where.site.modules.submissions or SCHEDULERS[scheduler].submissions
    if not argv:
        if scheduler != "none":
            where.console.note(
                f"{scheduler} is not asked for jobs (modules.submissions): only the "
                "age of a generation decides"
            )
        return OldestJob()
    return in_use.queue(argv, where.console.runner(here().environ))


def _show(collected: "CollectionResult", *, dry_run: bool) -> None:
    for path in collected.removed:
        output.say(f"{'would remove' if dry_run else 'removed'}  {path}")
    for kept in collected.kept:
        output.say(f"kept  {kept.path}: {kept.why}")
    output.say(f"{len(collected.removed)} {'would be removed' if dry_run else 'removed'}")


COMMANDS: Mapping[str, Callable[..., None]] = {"gc": gc}

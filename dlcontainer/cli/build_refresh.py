"""`dlcontainer build --refresh`: newer packages of some kinds, and what they changed."""

import calendar
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import output
from dlcontainer.engines.engine import RefreshKind
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.build.build import BuiltImage
    from dlcontainer.build.context import BuildContext
    from dlcontainer.build.refresh import ImageBefore, RefreshAnswer
    from dlcontainer.cli.build_context import BuildRequest
    from dlcontainer.cli.context import CliContext
    from dlcontainer.image.record import Record
    from dlcontainer.inspection.changes import ImageChange
    from dlcontainer.planning.plan import Plan

Kind = Annotated[
    RefreshKind | None,
    typer.Option(
        "--refresh",
        help="Take the mirrors' newest packages: of the base; of the base and all steps that "
        "install OS packages (os); or Python packages, within the recipe's pins.",
        rich_help_panel="Packages",
    ),
]
_MOVES = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshRun:
    """A refresh under way: what it was asked for, the image before it, what the mirrors have."""

    answer: "RefreshAnswer"
    before: "ImageBefore | None"

    def changes(self, image: "BuiltImage") -> "tuple[ImageChange, ...]":
        """Return the packages that moved; none where no image was there."""
        from dlcontainer.image import listed_packages
        from dlcontainer.inspection import compare

        if self.before is None:
            return ()
        return compare.packages(self.before.packages, listed_packages.read(image.places.sbom))


def require_alone(kind: RefreshKind | None, request: "BuildRequest", typed: Sequence[str]) -> None:
    """Refuse a refresh beside what rules it out; `typed` names further options that were typed."""
    if kind is None:
        return
    if request.locked or request.offline:
        raise UsageError(
            "--refresh takes newer packages, and a lock allows none",
            next_step="update the lock (dlcontainer lock RECIPE --site SITE -o LOCK --update "
            "PACKAGE), then build --locked LOCK",
        )
    if typed:
        raise UsageError(f"--refresh and {typed[0]} exclude each other", next_step="leave one out")


def begin(
    world: "CliContext",
    settled: "Plan",
    context: "BuildContext",
    target: Path,
    kind: RefreshKind,
    console: output.Console,
) -> RefreshRun:
    """Say what is in the image that is there, and ask what mirrors and indexes have.

    `context` has what the last refresh made.
    """
    from dlcontainer.build import refresh
    from dlcontainer.build.cache import previous
    from dlcontainer.packages.lock_resolver import Locker

    outputs = previous.places(settled, context, target)
    before = refresh.before(outputs.record, outputs.sbom)
    console.note(f"refreshing {kind}; {_dates(before)}")
    locker = Locker(
        host=world.host,
        runner=console.runner(world.environ),
        scratch=world.scratch.absolute(),
        cache=world.cache,
        progress=console,
    )
    with console.beating():
        answer = refresh.ask(settled, context, kind, before, locker)
    for note in answer.notes:
        console.note(note)
    for move in answer.moves[:_MOVES]:
        console.note(f"{move.name} {move.before} -> {move.after}")
    if len(answer.moves) > _MOVES:
        console.note(f"... and {len(answer.moves) - _MOVES} more")
    return RefreshRun(answer=answer, before=before)


def _dates(before: "ImageBefore | None") -> str:
    if before is None:
        return "no image with a bill of materials is there to compare with"
    return f"the image there has {dates(before.record)}"


def dates(record: "Record") -> str:
    """Say how old an image's base and packages are."""
    from dlcontainer.build.cache import age

    base = record.base.made if record.base else None
    image = record.base.image if record.base else None
    base_age = f"the base {image}" if image else f"a base of {_old(base)}"
    return f"{base_age}, and packages of {_old(age.packages(record))}"


def _old(moment: str | None) -> str:
    """Return the day of a moment (UTC, ISO 8601), and how many days ago that was."""
    try:
        began = calendar.timegm(time.strptime(moment or "", "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return "unknown date"
    days = int(max(time.time() - began, 0) // 86400)
    return f"{str(moment)[:10]}, {days} {'day' if days == 1 else 'days'} old"


def show(run: RefreshRun, image: "BuiltImage", console: output.Console) -> None:
    """Say what the refresh changed, or that there is nothing newer."""
    when = f"asked at {run.answer.refreshed.asked_at}"
    mirror = "; ".join(run.answer.refreshed.mirror)
    states = f", of {mirror}" if mirror else ""
    if not run.answer.is_newer:
        console.end(f"nothing newer ({run.answer.refreshed.kind}), {when}{states}")
        return
    console.note(f"{when}{states}")
    if run.before is None:
        return
    changes = run.changes(image)
    rows = [
        (
            change.name,
            change.how,
            f"{change.before or '-'} -> {change.after or '-'}",
            f"{(change.size_after - change.size_before) / 1e6:+.1f} MB",
        )
        for change in changes
    ]
    old = run.before.record.image.size
    count = "1 package" if len(changes) == 1 else f"{len(changes)} packages"
    title = f"{count} changed; the image: {old / 1e6:.0f} -> {image.size / 1e6:.0f} MB"
    output.say("\n".join([title, *([output.table(rows)] if rows else [])]))


def facts(run: RefreshRun, image: "BuiltImage") -> dict[str, object]:
    """Return what the refresh asked and changed, as JSON has it."""
    before, answer = run.before, run.answer
    changes = run.changes(image) if answer.is_newer else ()
    return {
        "kind": answer.refreshed.kind,
        "asked_at": answer.refreshed.asked_at,
        "mirror": list(answer.refreshed.mirror),
        "newer": answer.is_newer,
        "notes": list(answer.notes),
        "size_before": before.record.image.size if before else None,
        "sha256_before": before.record.image.sha256 if before else None,
        "packages": [{**asdict(change), "how": change.how} for change in changes],
    }

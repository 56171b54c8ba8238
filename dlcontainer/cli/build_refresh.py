"""`dlcontainer build --refresh`: newer packages of some kinds, and what they changed."""

import calendar
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import output
from dlcontainer.engines.engine import RefreshKind
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.build.build import BuiltImage
    from dlcontainer.build.cache.previous import BuildOutputs
    from dlcontainer.build.context import BuildContext
    from dlcontainer.build.package_moves import PackageMove
    from dlcontainer.build.refresh import ImageBefore, RefreshAnswer, RefreshStart
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
    # the compression level of what is built
    level: int | None = None

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
        raise UsageError(
            f"--refresh and {typed[0]} exclude each other",
            next_step="leave one out; --refresh with --dry-run says what is newer",
        )


def at_its_level(
    context: "BuildContext", outputs: "BuildOutputs", console: output.Console
) -> "BuildContext":
    """Return a context with the compression level of the image that is there, if it has one."""
    from dlcontainer.build import refresh
    from dlcontainer.engines import apptainer

    before = refresh.before(outputs.record, outputs.sbom)
    level = apptainer.level_of(before.record.engine.squash or ()) if before else None
    if level is None or level == context.level:
        return context
    console.note(f"--level {level}, as the image there")
    return replace(context, level=level)


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
    from dlcontainer.build.cache import previous
    from dlcontainer.build.refresh import RefreshStart, before

    outputs = previous.places(settled, context, target)
    image = before(outputs.record, outputs.sbom)
    start = RefreshStart(kind=kind, image=image, last=context.refreshed, base=context.base)
    run = replace(_asked(world, settled, start, console), level=context.level)
    for move in run.answer.moves[:_MOVES]:
        console.note(f"{move.name} {move.before} -> {move.after}")
    if len(run.answer.moves) > _MOVES:
        console.note(f"... and {len(run.answer.moves) - _MOVES} more")
    order = image.record.engine.order if image else None
    if order and context.order is None and run.answer.is_newer:
        console.note("the image there has its files in the order of a trace: --order-from keeps it")
    return run


def _asked(
    world: "CliContext", settled: "Plan", start: "RefreshStart", console: output.Console
) -> RefreshRun:
    from dlcontainer.build import refresh
    from dlcontainer.packages.lock_resolver import Locker

    console.note(f"refreshing {start.kind}; {_dates(start.image)}")
    locker = Locker(
        host=world.host,
        runner=console.runner(world.environ),
        scratch=world.scratch.absolute(),
        cache=world.cache,
        progress=console,
    )
    with console.beating():
        answer = refresh.ask(settled, start, locker)
    for note in answer.notes:
        console.note(note)
    return RefreshRun(answer=answer, before=start.image)


def tell(
    world: "CliContext",
    settled: "Plan",
    request: "BuildRequest",
    target: Path,
    kind: RefreshKind,
    console: output.Console,
    *,
    as_json: bool,
) -> None:
    """Say whether a refresh would take anything newer, and build nothing; needs no engine.

    Exits with 1 where it would, or where only a build can tell.
    """
    from dlcontainer.build import refresh
    from dlcontainer.build.cache import previous, refreshes

    outputs = previous.places_of(settled, request.outcome, target)
    start = refresh.RefreshStart(
        kind=kind,
        image=refresh.before(outputs.record, outputs.sbom),
        last=refreshes.last(settled, world.cache, outputs.record),
        base=request.base,
    )
    tag = refresh.base_tag(settled, world.host) if kind != "python" else None
    if kind == "base" and tag is not None:
        run = _of_tag(tag, start)
        take = f"{refresh.pin_command(settled)}, then build"
    else:
        run = _asked(world, settled, start, console)
        take = "the line without --dry-run takes it"
    for move in tag or () if kind == "os" else ():
        console.note(f"{move.name}: {move.before} was pinned, and now has {move.after}")
    answer = run.answer
    if as_json:
        moves = [asdict(move) for move in answer.moves]
        output.emit("refresh", {**_facts(run), "packages": moves})
    elif answer.is_newer:
        if answer.moves:
            rows = [(move.name, move.before, move.after) for move in answer.moves]
            output.say(output.table(rows, head=("package", "there", "newer")))
        state = "newer" if answer.is_told else "perhaps newer"
        state = state if run.before else "no image is there yet"
        console.end(f"{state} ({kind}), {_asked_at(run)}; {take}")
    else:
        console.end(f"nothing newer ({kind}), {_asked_at(run)}")
    if answer.is_newer:
        raise typer.Exit(1)


def _of_tag(moves: "tuple[PackageMove, ...]", start: "RefreshStart") -> RefreshRun:
    """Return the answer of a registry about the base alone."""
    from dlcontainer.build.refresh import RefreshAnswer
    from dlcontainer.image.record import RefreshProvenance

    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    answer = RefreshAnswer(
        refreshed=RefreshProvenance(asked_at=moment, kind=start.kind),
        moves=moves,
        is_newer=bool(moves),
        base_since=None,
        notes=(),
    )
    return RefreshRun(answer=answer, before=start.image)


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
    if not run.answer.is_newer:
        again = "" if image.unchanged else f"; {_why_again(run)}"
        console.end(f"nothing newer ({run.answer.refreshed.kind}), {_asked_at(run)}{again}")
        return
    console.note(_asked_at(run))
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


def _asked_at(run: RefreshRun) -> str:
    refreshed = run.answer.refreshed
    states = f", of {'; '.join(refreshed.mirror)}" if refreshed.mirror else ""
    return f"asked at {refreshed.asked_at}{states}"


def _why_again(run: RefreshRun) -> str:
    """Say why an image was made again whose packages are the newest."""
    from dlcontainer.engines import apptainer

    level = apptainer.level_of(run.before.record.engine.squash or ()) if run.before else None
    if level is not None and run.level is not None and level != run.level:
        return f"packed again from the same packages: --level {run.level}, it had {level}"
    return "made again from the same packages: the recipe or other words of the line changed"


def facts(run: RefreshRun, image: "BuiltImage") -> dict[str, object]:
    """Return what the refresh asked and changed, as JSON has it."""
    changes = run.changes(image) if run.answer.is_newer else ()
    return {
        **_facts(run),
        "packages": [{**asdict(change), "how": change.how} for change in changes],
    }


def _facts(run: RefreshRun) -> dict[str, object]:
    before, answer = run.before, run.answer
    return {
        "kind": answer.refreshed.kind,
        "asked_at": answer.refreshed.asked_at,
        "mirror": list(answer.refreshed.mirror),
        "newer": answer.is_newer,
        "told": answer.is_told,
        "notes": list(answer.notes),
        "size_before": before.record.image.size if before else None,
        "sha256_before": before.record.image.sha256 if before else None,
    }

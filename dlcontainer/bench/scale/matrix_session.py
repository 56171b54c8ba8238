"""Measure a matrix: rounds of all cells, a line a launch; one that fails costs its cell alone."""

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import __version__, schedulers
from dlcontainer.bench.measure import declaration, outlook, ranked_launch, ranks
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.samples import comparable, hash_chain
from dlcontainer.bench.samples.declared_file import digest
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.line_kinds import ResumeRecord
from dlcontainer.bench.samples.records import SURROUNDINGS, Json
from dlcontainer.bench.scale import commands, matrix, matrix_file, page_cache
from dlcontainer.bench.scale.cells import Expansion, MatrixCell
from dlcontainer.bench.scale.matrix_context import WARMING, MatrixSubject, ScaleContext
from dlcontainer.bench.scale.matrix_records import (
    CellLaunch,
    ColdState,
    MatrixDeclaration,
    MatrixHeader,
    MatrixSession,
    OmittedRecord,
)
from dlcontainer.bench.scale.staging import MountedBody, StagingArea
from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem.mount_watch import MountWatch
from dlcontainer.lab.slowfs.counters import CounterSnapshot
from dlcontainer.system.machine import mount_of

_GAP_S = 0.2
# Of the machine's facts, those that pass.
_PASSING = frozenset({"busy_cores", "load_1min"})


def run(context: ScaleContext, expansion: Expansion) -> Path:
    """Measure all rounds of all cells; return the file.

    A launch that fails is recorded, its cell is given up, and the others go on. Raises
    BenchDataError at the end where that happened, and before where nothing can be measured.
    """
    cells, settings = expansion.cells, context.settings
    if not cells:
        raise _nothing(expansion)
    header = _header(context, expansion)
    done, failed = _begun(settings.cut, header)
    context.ranks_folder.mkdir(mode=0o700)
    orders = matrix.rounds(range(len(cells)), settings.rounds, settings.seed)
    with (
        _places(context) as places,
        matrix_file.FORMAT.writer(settings.output, header, after=settings.cut) as writer,
    ):
        if settings.cut is not None:
            writer.write(
                ResumeRecord(started=declaration.now(), dropped_bytes=settings.cut.dropped)
            )
        for number, order in enumerate(orders):
            for place, index in enumerate(order, start=1):
                if index in failed or (index, number) in done:
                    continue
                # Progress, never a value: who sees a trend could stop when it pleases.
                context.execution.progress.step(
                    f"round {number + 1} of {len(orders)}, cell {place} of {len(order)}: "
                    f"{cells[index].name}"
                )
                time.sleep(_GAP_S)
                launched = _measured(cells[index], index, number, context, places)
                writer.write(launched)
                if launched.error is not None:
                    failed[index] = launched.error
                    context.execution.progress.note(
                        f"giving up on the cell {cells[index].name}: {launched.error}"
                    )
        reason = f"{len(failed)} of {len(cells)} cells failed" if failed else "all rounds measured"
        writer.end(complete=not failed, reason=reason)
    if failed:
        raise _failed(settings.output, cells, failed)
    return settings.output


@contextmanager
def _places(context: ScaleContext) -> Iterator[StagingArea]:
    with ExitStack() as stack:
        yield StagingArea(context=context, stack=stack)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn:
    """A cell's launch in a round, and the machine's load when it began."""

    cell: int
    round: int
    started: str
    load: float


def _measured(
    cell: MatrixCell, index: int, number: int, context: ScaleContext, places: StagingArea
) -> CellLaunch:
    """Launch a cell once; what goes wrong is in the record, not raised."""
    turn = _Turn(cell=index, round=number, started=declaration.now(), load=os.getloadavg()[0])
    try:
        with places.shown(cell) as mounted, commands.kept(cell, mounted.path, context) as kept:
            shown = mounted
            if cell.state == "warm":
                warming = _performed(_warming(cell), mounted, context, kept)
                if warming.status != "ok":
                    return _record(warming, mounted, turn)
                shown = replace(mounted, before=_warm(mounted))
            before, counters = page_cache.read_bytes(), _seen(shown)
            with MountWatch(context.bench.work) as watch:
                outcome = _performed(cell, shown, context, kept)
            return replace(
                _record(outcome, shown, turn),
                read_bytes=page_cache.read_bytes() - before,
                mounted=watch.seen(),
                stand_in=_reached(counters, _seen(shown)),
            )
    except BenchDataError as error:
        return CellLaunch(
            cell=index, round=number, started=turn.started, t_last_s=None, ready_s=0.0,
            before=ColdState(method="none", resident=None, data=None, names=None),
            read_bytes=None, mounted={}, load_1min=round(turn.load, 2), error=str(error),
        )  # fmt: skip


def _warming(cell: MatrixCell) -> MatrixCell:
    """Return the launch that warms: one rank reads all that any reads; other nodes need their
    own.
    """
    return cell if cell.nodes > 1 else replace(cell, ranks=1, start=WARMING)


def _performed(
    cell: MatrixCell, shown: MountedBody, context: ScaleContext, kept: Path | None
) -> LaunchOutcome:
    timeout = context.settings.timeout_s
    gathering = ranks.gather(context.rank_group(cell), context.ranks_folder, timeout)
    command = commands.ready(cell, shown.path, gathering, context, kept)
    try:
        return ranked_launch.perform(command.launch, gathering, context.runner, timeout)
    finally:
        commands.leave(command.point, cell, context)


def _warm(shown: MountedBody) -> ColdState:
    if shown.counters is not None:
        return shown.before
    return page_cache.warmed(shown.body.path, shown.before.method)


def _seen(shown: MountedBody) -> CounterSnapshot | None:
    return shown.counters.counted() if shown.counters else None


def _reached(
    before: CounterSnapshot | None, after: CounterSnapshot | None
) -> dict[str, Json] | None:
    if before is None or after is None:
        return None
    return {
        "metadata": after.metadata - before.metadata,
        "reads": after.reads - before.reads,
        "bytes": after.bytes - before.bytes,
    }


def _record(outcome: LaunchOutcome, shown: MountedBody, turn: _Turn) -> CellLaunch:
    return CellLaunch(
        cell=turn.cell,
        round=turn.round,
        started=turn.started,
        t_last_s=outcome.values.get("wall_s") if outcome.status == "ok" else None,
        ready_s=round(shown.body.seconds, 3),
        before=shown.before,
        read_bytes=None,
        mounted={},
        ranks=tuple(_rank(rank) for rank in outcome.ranks),
        load_1min=round(turn.load, 2),
        error=None if outcome.status == "ok" else outcome.reason or outcome.status,
        stderr=outcome.stderr if outcome.status != "ok" else (),
    )


def _rank(rank: Mapping[str, Json]) -> dict[str, Json]:
    # What an import has nothing of.
    return {name: value for name, value in rank.items() if value not in (None, [])}


def _header(context: ScaleContext, expansion: Expansion) -> MatrixHeader:
    settings = context.settings
    matrix = hash_chain.plain_json(settings.matrix.model_dump(mode="json", by_alias=True))
    declared = MatrixDeclaration(
        matrix=matrix,  # type: ignore[arg-type]  # JSON, from JSON
        cells=expansion.cells,
        rounds=settings.rounds,
        seed=settings.seed,
        module=settings.module,
        site=settings.site,
        subjects={name: _subject(source, context) for name, source in context.sources.items()},
        launchers={
            f"{group.ranks} ranks on {nodes} nodes": list(group.launcher)
            for (nodes, _, _), group in context.rank_groups.items()
        },
    )
    return MatrixHeader(
        declared=declared,
        declared_sha256=digest(declared),
        left_out=tuple(
            OmittedRecord(cell=gone.cell.name, why=gone.why) for gone in expansion.left_out
        ),
        machine=_machine(context),
        started=declaration.now(),
        dlcontainer=__version__,
    )


def _subject(source: MatrixSubject, context: ScaleContext) -> dict[str, Json]:
    surroundings = context.bench.surroundings.declared() if source.image else {}
    if not surroundings:
        return source.described()
    # An image that runs in other surroundings is another subject: --resume refuses it.
    return {
        **source.described(),
        SURROUNDINGS: {name: list(values) for name, values in surroundings.items()},
    }


def _machine(context: ScaleContext) -> dict[str, Json]:
    host, bench, load = context.execution.host, context.bench, outlook.load()
    facts: dict[str, Json] = {
        "node": platform.node(),
        "allocation": schedulers.allocation(host.environ),
        "boot_id": declaration.boot_id(),
        "arch": host.arch,
        "kernel": host.kernel,
        "cpu_model": host.cpu_model,
        "cores": host.cores,
        "memory_mb": host.memory_mb,
        "engine": bench.execution.capabilities.version,
        "engine_mode": bench.execution.capabilities.run_mode,
        "drop_caches": page_cache.can_drop_caches(),
        "local_on": mount_of(bench.work).kind,
        "load_1min": load.load_1min,
        "busy_cores": load.busy_cores,
    }
    if context.settings.shared is not None:
        facts["shared_on"] = mount_of(context.settings.shared).kind
    for name, source in context.sources.items():
        facts[f"{name}_on"] = mount_of(source.original).kind
    return facts


def _begun(
    cut: MatrixSession | None, header: MatrixHeader
) -> tuple[set[tuple[int, int]], dict[int, str]]:
    """Return what is measured already, and the cells that were given up."""
    if cut is None:
        return set(), {}
    pairs = (
        ("", cut.header.declared, header.declared),
        ("machine.", cut.header.machine, header.machine),
    )
    for prefix, old, new in pairs:
        before, now = (comparable.flat(hash_chain.plain_json(plain(facts))) for facts in (old, new))
        for name in dict.fromkeys([*before, *now]):
            if before.get(name) != now.get(name) and name not in _PASSING:
                raise BenchDataError(
                    "the matrix or the machine differs from that of the file",
                    why=f"{prefix}{name}: {comparable.shown(before.get(name))} in the file, now "
                    f"{comparable.shown(now.get(name))}",
                    next_step="repeat the matrix and options of the first run on the same machine, "
                    "or measure into a new file",
                )
    done = {(launch.cell, launch.round) for launch in cut.launches}
    return done, {launch.cell: launch.error for launch in cut.launches if launch.error}


def _nothing(expansion: Expansion) -> BenchDataError:
    return BenchDataError(
        "no cell of the matrix can be measured here",
        why="; ".join(f"{gone.cell.name}: {gone.why}" for gone in expansion.left_out[:8]),
        next_step="change the factors, or measure on a machine that supports them",
    )


def _failed(path: Path, cells: Sequence[MatrixCell], failed: Mapping[int, str]) -> BenchDataError:
    texts = [f"{cells[index].name}: {why.splitlines()[0]}" for index, why in failed.items()]
    return BenchDataError(
        f"{len(failed)} of {len(cells)} cells failed; the others were measured",
        where=str(path),
        why="; ".join(texts[:8]),
        next_step="write a report of the other cells, or fix the cause and measure again",
    )

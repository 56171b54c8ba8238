"""Read a study's folder back: its declaration, and every session verified against it."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.probes import byte_sizes
from dlcontainer.bench.probes.inputs.waiting import WAITED
from dlcontainer.bench.samples import hash_chain, reader
from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.bench.samples.rows.row_records import FIGURES
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.study import study_folder, study_points
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    ExtraPlan,
    IdleNeighbours,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
    StudyPlan,
)
from dlcontainer.errors import BenchDataError

# What a rank's own step took while nobody talked, s: a figure of each rank.
APART = "apart_s_per_step"
_WALL = "wall_s"
_BACKEND = "backend"


def read(folder: Path) -> MeasuredStudy:
    """Read a study; a point without its session, or whose session was cut, is not complete.

    Raises BenchDataError for a declaration or a session that was changed, and for a session of
    another image, site, recipe, workload or point.
    """
    plan = study_folder.read(folder)
    by_file: dict[str, Series] = {}
    for session in study_points.sessions(plan):
        series = _session(folder / session.file, session, plan)
        if series is not None:
            by_file[session.file] = series
    _require_different(by_file.values())
    seals = [f"{name} {series.seal}" for name, series in sorted(by_file.items())]
    extras = [(extra, by_file[extra.file]) for extra in plan.extras if extra.file in by_file]
    return MeasuredStudy(
        folder=folder,
        plan=plan,
        points=tuple(_point(point, by_file.get(point.file)) for point in plan.points),
        messages=tuple(
            message
            for extra, series in extras
            if extra.kind == "messages"
            for message in _messages(extra, series)
        ),
        idle_neighbours=tuple(
            neighbours
            for extra, series in extras
            if extra.kind == "idle_neighbours"
            for neighbours in _neighbours(extra, series)
        ),
        digest=hash_chain.digest("\n".join([study_folder.digest(plan), *seals])),
        backend=_backend(extras),
        counted_parameters=_parameters(by_file.values()),
    )


def _backend(extras: "Sequence[tuple[ExtraPlan, Series]]") -> str:
    """Return the backend that the messages went through; empty where none were measured."""
    workloads = (
        series.session.declared.workload for extra, series in extras if extra.kind == "messages"
    )
    return next((str(work[_BACKEND]) for work in workloads if work.get(_BACKEND)), "")


def _parameters(sessions: Iterable[Series]) -> int | None:
    for series in sessions:
        count = _attested(series, "parameters")
        if count:
            return count
    return None


def _attested(series: Series, name: str) -> int | None:
    """Return a number of what the ranks trained, as the first side that has it attests it."""
    works = (stack.facts.get("workload") for stack in series.stacks)
    counts = (work.get(name) for work in works if isinstance(work, Mapping))
    return next((count for count in counts if isinstance(count, int)), None)


def _session(path: Path, session: StudySession, plan: StudyPlan) -> Series | None:
    """Read a session that is there and has more than its warm-up; verified against the study."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    series = reader.read(path)
    study_folder.require_same(series, session, plan)
    for sample in series.samples:
        if sample.ok and sorted(map(_rank, sample.ranks)) != list(range(session.ranks)):
            raise BenchDataError(
                f"a launch of {len(sample.ranks)} ranks in a session of {session.ranks}",
                where=f"{path}:{sample.line}",
                why="the launches of one point have the same ranks, each once",
                next_step="restore the file from where it was measured, or measure again",
            )
    return series


def _rank(rank: Mapping[str, Json]) -> int:
    number = rank.get("rank")
    return number if isinstance(number, int) else -1


def _require_different(read_sessions: Iterable[Series]) -> None:
    """Refuse one session under two names."""
    paths: dict[str, Path] = {}
    for series in read_sessions:
        earlier = paths.setdefault(series.seal, series.path)
        if earlier != series.path:
            raise BenchDataError(
                "two files hold the same session",
                where=str(series.path),
                why=f"it is a copy of {earlier.name}",
                next_step="restore the file from where it was measured, or measure again",
            )


def _point(plan: PointPlan, series: Series | None) -> MeasuredPoint:
    if series is None:
        return MeasuredPoint(plan=plan, arms={}, complete=False)
    declared, used = series.session.declared, _used(series)
    samples = {arm: [series.samples[index] for index in used[arm]] for arm in used}
    return MeasuredPoint(
        plan=plan if plan.global_batch else _with_batch(plan, series),
        arms={arm: _steps(samples[arm], declared.steps) for arm in declared.sides.names},
        complete=series.complete,
        emulated=_emulated(series),
    )


def _with_batch(plan: PointPlan, series: Series) -> PointPlan:
    """Return a point with the batch that a user's own build() was seen to give."""
    batch = _attested(series, "batch")
    return replace(plan, global_batch=batch * plan.strategy.batches) if batch else plan


def _used(series: Series) -> dict[ArmName, Sequence[int]]:
    """Return the launches of whole pairs by their indices, in the order of pairs."""
    pairs = pairing.of(series)["pair"]
    names = series.session.declared.sides.names
    return dict(zip(names, (pairs.reference, pairs.candidate), strict=True))


def _steps(samples: Sequence[Sample], steps: int) -> ArmSteps:
    apart = [tuple(_figures(sample, APART)) for sample in samples]
    return ArmSteps(
        step_s=tuple(_wall(sample) / steps for sample in samples),
        # Of some ranks alone it would be nobody's figure.
        apart_s=tuple(apart)
        if all(
            len(ranks) == len(sample.ranks) for ranks, sample in zip(apart, samples, strict=True)
        )
        else (),
        input_s=tuple(_mean(list(_figures(sample, WAITED))) for sample in samples),
    )


def _wall(sample: Sample) -> float:
    wall = sample.figure(_WALL)
    if wall is None:
        raise ValueError("a launch of a pair without its time")
    return wall


def _figures(sample: Sample, name: str) -> Iterator[float]:
    """Yield a figure of each rank, in the order of ranks, as far as they have it."""
    for rank in sorted(sample.ranks, key=_rank):
        values = rank.get("values")
        figure = values.get(name) if isinstance(values, Mapping) else None
        if isinstance(figure, int | float) and not isinstance(figure, bool) and figure >= 0:
            yield float(figure)


def _mean(figures: Sequence[float]) -> float:
    return math.fsum(figures) / len(figures) if figures else 0.0


def _emulated(series: Series) -> str:
    cores = series.session.machine.get("cores")
    per_node = series.session.declared.workload.get("ranks_per_node")
    if not isinstance(cores, int) or not isinstance(per_node, int):
        return ""
    return study_points.emulated(per_node, cores)


def _messages(extra: ExtraPlan, series: Series) -> Iterator[Message]:
    plan = series.session.declared.rows
    for arm, used in _used(series).items():
        for number, parameters in enumerate(plan.rows if plan and used else ()):
            column = partial(_column, series, number, used)
            yield Message(
                operation=str(parameters.get("operation")),
                ranks=extra.ranks,
                nodes=extra.nodes,
                bytes=byte_sizes.of(parameters),
                arm=arm,
                least_s=min(column("best")),
                median_s=statistics.median(column("median")),
            )


def _column(series: Series, number: int, used: Sequence[int], part: str) -> Sequence[float]:
    return series.launches.column(f"{FIGURES}.{number}.{part}", used)


def _neighbours(extra: ExtraPlan, series: Series) -> Iterator[IdleNeighbours]:
    steps = series.session.declared.steps
    for arm, used in _used(series).items():
        samples = [series.samples[index] for index in used]
        if samples:
            yield IdleNeighbours(
                ranks=extra.ranks,
                arm=arm,
                step_s=tuple(_mean(list(_figures(sample, _WALL))) / steps for sample in samples),
            )

"""Settle what a matrix is measured with: its subjects, its ranks, what is not available here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.measure import arms, bench_image, launcher, native_twin
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.launcher import RankOptions
from dlcontainer.bench.measure.ranks import RankGroup
from dlcontainer.bench.probes.import_ import IMPORT
from dlcontainer.bench.scale.availability import Here
from dlcontainer.bench.scale.cells import Cell, Expansion, expand
from dlcontainer.bench.scale.context import WARMING, ScaleContext, ScaleSettings, Source
from dlcontainer.bench.scale.matrix import IMAGE, NATIVE
from dlcontainer.errors import UsageError
from dlcontainer.planning.plan import Plan, native_twin_reason
from dlcontainer.system.process import ProcessRunner

_Key = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What the command line gives beside the matrix; `folder` is the matrix file's."""

    plan: Plan
    image: BenchImage
    native: Path | None
    ranks: RankOptions
    folder: Path
    probe_files: tuple[Path, ...]


def settle(
    settings: ScaleSettings, given: Given, bench: BenchContext, runner: ProcessRunner
) -> "Settled":
    """Give the context and the cells; raises UsageError where no rank can be started at all."""
    everything = expand(settings.matrix)
    used = {cell.subject for cell in everything.cells}
    images = _images(settings, given, bench, used)
    sources, no_native = _trees(settings, given, bench, used)
    rank_groups, no_rank_group = _rank_groups(everything.cells, given, bench.execution.host.environ)
    context = ScaleContext(
        settings=settings,
        sources={**images, **sources},
        bench=bench,
        runner=runner,
        probe=arms.probe_copy(given.probe_files, bench.work),
        rank_groups=rank_groups,
    )
    here = Here(context=context, no_native=no_native, no_rank_group=no_rank_group)
    return Settled(context=context, expansion=everything.without(here.lacks))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What is measured, and with what."""

    context: ScaleContext
    expansion: Expansion


def _images(
    settings: ScaleSettings, given: Given, bench: BenchContext, used: set[str]
) -> dict[str, Source]:
    found = {}
    if IMAGE in used:
        found[IMAGE] = given.image
    for name, source in settings.matrix.subjects.items():
        if source.image is not None and name in used:
            found[name] = bench_image.read(
                (given.folder / source.image).absolute(),
                bench.execution.host.arch,
                given.plan.site.owners,
            )
    for own in found.values():
        bench_image.require_trust(own, settings.site)
        # It runs, and carries the probe: said before anything is measured.
        arms.container(bench, own, IMPORT)
    return {
        name: Source(name=name, image=own, environment=own.environment)
        for name, own in found.items()
    }


def _trees(
    settings: ScaleSettings, given: Given, bench: BenchContext, used: set[str]
) -> tuple[dict[str, Source], str]:
    """Give the Python folders, and why there is no native one."""
    found, why = {}, ""
    for name, source in settings.matrix.subjects.items():
        if source.prefix is not None and name in used:
            found[name] = _tree(name, given.folder / source.prefix, given, "given by the matrix")
    if NATIVE in used:
        if given.native is not None:
            found[NATIVE] = _tree(NATIVE, given.native, given, "given by --native")
        else:
            why = native_twin_reason(given.plan.recipe, given.plan.site, bench.execution.host) or ""
            if why:
                why = f"no native twin: {why}"
            else:
                prefix = native_twin.prepare(given.plan, bench)
                found[NATIVE] = _tree(NATIVE, prefix, given, "same recipe, same wheels")
    return found, why


def _tree(name: str, prefix: Path, given: Given, why: str) -> Source:
    if not (prefix / "bin/python").exists():
        raise UsageError(
            f"{prefix}: there is no bin/python in it",
            next_step="give the folder of a virtual environment or installation",
        )
    environment = bench_image.declared(given.image, given.plan.environment).environment
    return Source(name=name, prefix=prefix.absolute(), environment=environment, why=why)


def _rank_groups(
    cells: tuple[Cell, ...], given: Given, environ: Mapping[str, str]
) -> tuple[dict[_Key, RankGroup], dict[_Key, str]]:
    rank_groups: dict[_Key, RankGroup] = {}
    lacking: dict[_Key, str] = {}
    one = replace(given.ranks, ranks=1, start=WARMING)
    # Without one rank there is nothing to measure: that is no cell's reason.
    rank_groups[1, 1, WARMING] = launcher.rank_group(one, given.plan.site.scheduler, environ)
    for cell in cells:
        key = (cell.nodes, cell.ranks, cell.start)
        own = replace(
            one,
            ranks=cell.nodes * cell.ranks,
            per_node=cell.ranks,
            nodes=cell.nodes,
            start=cell.start,
        )
        try:
            rank_groups[key] = launcher.rank_group(own, given.plan.site.scheduler, environ)
        except UsageError as error:
            lacking[key] = f"{error.what} ({error.why})" if error.why else error.what
    return rank_groups, lacking

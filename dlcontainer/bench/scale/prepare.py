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
from dlcontainer.bench.scale.availability import CellAvailability
from dlcontainer.bench.scale.cells import Expansion, MatrixCell, expand
from dlcontainer.bench.scale.matrix import IMAGE, NATIVE
from dlcontainer.bench.scale.matrix_context import (
    WARMING,
    MatrixSubject,
    ScaleContext,
    ScaleSettings,
)
from dlcontainer.errors import UsageError
from dlcontainer.planning.plan import Plan, native_twin_reason
from dlcontainer.system.process import ProcessRunner

_Key = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixInputs:
    """What the command line gives beside the matrix; `folder` is the matrix file's."""

    plan: Plan
    image: BenchImage
    native: Path | None
    ranks: RankOptions
    folder: Path
    probe_files: tuple[Path, ...]


def settle(
    settings: ScaleSettings, inputs: MatrixInputs, bench: BenchContext, runner: ProcessRunner
) -> "PreparedMatrix":
    """Return the context and the cells; raises UsageError where no rank can be started at all."""
    everything = expand(settings.matrix)
    used = {cell.subject for cell in everything.cells}
    images = _images(settings, inputs, bench, used)
    sources, no_native = _trees(settings, inputs, bench, used)
    rank_groups, no_rank_group = _rank_groups(
        everything.cells, inputs, bench.execution.host.environ
    )
    context = ScaleContext(
        settings=settings,
        sources={**images, **sources},
        bench=bench,
        runner=runner,
        probe=arms.probe_copy(inputs.probe_files, bench.work),
        rank_groups=rank_groups,
    )
    availability = CellAvailability(
        context=context, no_native=no_native, no_rank_group=no_rank_group
    )
    return PreparedMatrix(context=context, expansion=everything.without(availability.lacks))


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedMatrix:
    """What is measured, and with what."""

    context: ScaleContext
    expansion: Expansion


def _images(
    settings: ScaleSettings, inputs: MatrixInputs, bench: BenchContext, used: set[str]
) -> dict[str, MatrixSubject]:
    images = {}
    if IMAGE in used:
        images[IMAGE] = inputs.image
    for name, source in settings.matrix.subjects.items():
        if source.image is not None and name in used:
            images[name] = bench_image.read(
                (inputs.folder / source.image).absolute(),
                bench.execution.host.arch,
                inputs.plan.site.owners,
            )
    for image in images.values():
        bench_image.require_trust(image, settings.site)
        # It runs, and carries the probe: said before anything is measured.
        arms.container(bench, image, IMPORT)
    return {
        name: MatrixSubject(name=name, image=image, environment=image.environment)
        for name, image in images.items()
    }


def _trees(
    settings: ScaleSettings, inputs: MatrixInputs, bench: BenchContext, used: set[str]
) -> tuple[dict[str, MatrixSubject], str]:
    """Return the Python folders, and why there is no native one."""
    trees, why = {}, ""
    for name, source in settings.matrix.subjects.items():
        if source.prefix is not None and name in used:
            trees[name] = _tree(name, inputs.folder / source.prefix, inputs, "given by the matrix")
    if NATIVE in used:
        if inputs.native is not None:
            trees[NATIVE] = _tree(NATIVE, inputs.native, inputs, "given by --native")
        else:
            why = (
                native_twin_reason(inputs.plan.recipe, inputs.plan.site, bench.execution.host) or ""
            )
            if why:
                why = f"no native twin: {why}"
            else:
                prefix = native_twin.prepare(inputs.plan, bench)
                trees[NATIVE] = _tree(NATIVE, prefix, inputs, "same recipe, same wheels")
    return trees, why


def _tree(name: str, prefix: Path, inputs: MatrixInputs, why: str) -> MatrixSubject:
    if not (prefix / "bin/python").exists():
        raise UsageError(
            f"{prefix}: no bin/python in this folder",
            next_step="give the folder of a virtual environment or installation",
        )
    environment = bench_image.declared(inputs.image, inputs.plan.environment).environment
    return MatrixSubject(name=name, prefix=prefix.absolute(), environment=environment, why=why)


def _rank_groups(
    cells: tuple[MatrixCell, ...], inputs: MatrixInputs, environ: Mapping[str, str]
) -> tuple[dict[_Key, RankGroup], dict[_Key, str]]:
    rank_groups: dict[_Key, RankGroup] = {}
    lacking: dict[_Key, str] = {}
    single = replace(inputs.ranks, ranks=1, start=WARMING)
    # Without one rank there is nothing to measure: that is no cell's reason.
    rank_groups[1, 1, WARMING] = launcher.rank_group(single, inputs.plan.site.scheduler, environ)
    for cell in cells:
        key = (cell.nodes, cell.ranks, cell.start)
        full = replace(
            single,
            ranks=cell.nodes * cell.ranks,
            per_node=cell.ranks,
            nodes=cell.nodes,
            start=cell.start,
        )
        try:
            rank_groups[key] = launcher.rank_group(full, inputs.plan.site.scheduler, environ)
        except UsageError as error:
            lacking[key] = f"{error.what} ({error.why})" if error.why else error.what
    return rank_groups, lacking

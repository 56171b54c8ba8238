"""From a session's raw samples to its verdict: pairs, gates, figures. Pure."""

from dataclasses import dataclass
from itertools import chain

from dlcontainer.bench.analysis import (
    contrasts,
    far_launches,
    interim,
    metrics,
    pairing,
    rows,
    seconds,
)
from dlcontainer.bench.analysis.calibration import PREFIX, KernelReading
from dlcontainer.bench.analysis.contrasts import ArmContrast
from dlcontainer.bench.analysis.far_launches import FarLaunches
from dlcontainer.bench.analysis.interim import ByRole
from dlcontainer.bench.analysis.metrics import MetricFamily
from dlcontainer.bench.analysis.pairing import LaunchPairs, PairFigure
from dlcontainer.bench.analysis.rows import RowReading
from dlcontainer.bench.analysis.seconds import Seconds
from dlcontainer.bench.analysis.verdict import SessionVerdict
from dlcontainer.bench.samples.comparable import FactDifference, LossCheck
from dlcontainer.bench.samples.launch_table import Selection
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.samples.rows.row_records import FIGURES
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.traits import Traits
from dlcontainer.errors import BenchDataError


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """All that a report says of one session; a report computes nothing itself."""

    series: Series
    traits: Traits
    alpha: float
    pairs: dict[Role, LaunchPairs]
    failed: Selection
    main: PairFigure | None
    control: PairFigure | None
    candidate_control: PairFigure | None
    joiner: PairFigure | None
    secondary: tuple[PairFigure, ...]
    family: MetricFamily | None
    differences: tuple[FactDifference, ...]
    losses: LossCheck | None
    verdict: SessionVerdict
    contrasts: tuple[ArmContrast, ...] = ()
    far: tuple[FarLaunches, ...] = ()
    # What a launch takes longer, of the first rank of a node and of one that joins its mount.
    seconds: Seconds | None = None
    joiner_seconds: Seconds | None = None
    calibration: tuple[KernelReading, ...] = ()
    rows: tuple[RowReading, ...] = ()


def analyse(series: Series, traits: Traits) -> Analysis:
    """Judge one session by its probe's traits.

    Raises BenchDataError where it has no samples or no order in them.
    """
    declared = series.session.declared
    if not series.launches:
        raise BenchDataError(
            "no samples",
            where=str(series.path),
            why=series.end.reason if series.end and series.end.reason else None,
            next_step="measure again: dlcontainer bench",
        )
    rules = interim.rules(series, equivalence=traits.equivalence)
    pairs = pairing.of(series)
    figures = {
        role: pairing.figure(
            declared.metric, role, pairs[role], rules.alpha,
            () if role in pairing.CONTROLS else pairing.controls_of(pairs),
        )
        for role in pairing.ROLES
    }  # fmt: skip
    gates = interim.gates(series)
    secondary = _secondary(series, pairs, rules.alpha)
    main = figures["pair"]
    return Analysis(
        series=series,
        traits=traits,
        alpha=rules.alpha,
        pairs=pairs,
        failed=series.launches.at(series.launches.where(lambda kind: not kind.ok)),
        main=main,
        control=figures["control"],
        candidate_control=figures["candidate_control"],
        joiner=figures["joiner"],
        secondary=secondary,
        family=metrics.family(rules, main, secondary, declared.secondary) if main else None,
        differences=gates.differences,
        losses=gates.losses,
        calibration=gates.calibration,
        verdict=interim.verdict(series, rules, pairs, gates.refusals),
        contrasts=contrasts.of(series, rules, pairs, gates.refusals),
        far=far_launches.of(
            series, declared.margin, [pairs[r] for r in ("pair", *pairing.CONTROLS)]
        ),
        seconds=_seconds(series, pairs, "pair", rules.alpha),
        joiner_seconds=_seconds(series, pairs, "joiner", rules.alpha),
        rows=rows.of(series, pairs, rules.alpha),
    )


def _seconds(series: Series, pairs: ByRole, role: Role, alpha: float) -> Seconds | None:
    metric, controls = series.session.declared.metric, pairing.controls_of(pairs)
    return seconds.of(metric, pairs[role], controls, 1 - alpha)


def _secondary(series: Series, by_role: ByRole, alpha: float) -> tuple[PairFigure, ...]:
    declared, pairs = series.session.declared, by_role["pair"]
    controls = pairing.controls_of(by_role)
    launched = chain.from_iterable(zip(pairs.reference, pairs.candidate, strict=True))
    kinds = series.launches.kinds_of(launched)
    candidates = [*declared.secondary, *(name for kind in kinds for name in kind.figures), "wall_s"]
    names = dict.fromkeys(candidates if pairs else ())
    names.pop(declared.metric, None)
    # They have a table of their own.
    figure_names = [name for name in names if not name.startswith((PREFIX, f"{FIGURES}."))]
    figures = (pairing.figure(name, "pair", pairs, alpha, controls) for name in figure_names)
    return tuple(figure for figure in figures if figure is not None)

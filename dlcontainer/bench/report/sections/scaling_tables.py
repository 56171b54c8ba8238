"""The tables of a scaling study."""

from collections.abc import Iterator, Sequence

from dlcontainer.bench.report.sections import scaling_cells as cells
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study import study_analysis
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_analysis import ForeseenStudy, PointAnalysis

_MEANT = (
    "Shares of the arm's own mean step, with 95 % intervals over launches; they add up to what is "
    "lost, 1 - efficiency. Idle neighbours: the mean of the ranks' own steps while nobody talks, "
    "beyond the base. Waiting: the slowest rank's own step beyond that mean. Exposed "
    "communication: the step beyond the slowest rank's own. Input: the wait for samples beyond "
    "the base's."
)


def points(readings: Sequence[PointAnalysis], anchor: str) -> Table:
    """Return every point: seconds of a step, efficiencies, the container against the native."""
    arms = list(dict.fromkeys(arm for point in readings for arm in point.point.arms))
    ends = f"{arms[-1]} / {arms[0]}" if arms else "ratio"
    return Table(
        name="Points",
        head=(
            "ranks", "strategy", *(f"{arm}, s" for arm in arms),
            *(f"efficiency, {arm}" for arm in arms), ends, "verdict",
        ),
        rows=tuple(_row(point, arms) for point in readings),
        note="Seconds of a step are means over launches. The ratio is that of pairs, with the "
        "interval of its session; few pairs give no verdict.",
        numeric=True,
        anchor=anchor,
    )  # fmt: skip


def _row(point: PointAnalysis, arms: Sequence[str]) -> tuple[str, ...]:
    readings = [point.efficiencies.get(arm) for arm in arms]
    efficiencies = (
        ("1" if reading.is_base else cells.bracketed(reading.efficiency)) if reading else "-"
        for reading in readings
    )
    difference = point.verdict.difference if point.verdict else None
    return (
        str(point.ranks),
        point.strategy,
        *(f"{reading.step_s:.4g}" if reading else "-" for reading in readings),
        *efficiencies,
        cells.bracketed(difference) if difference else "-",
        cells.verdict_cell(point.verdict),
    )


def losses(readings: tuple[PointAnalysis, ...]) -> tuple[Table, ...]:
    """Return what is lost at the most ranks, by term."""
    finals = study_analysis.last(readings)
    names = ", ".join(counted(point.ranks, "rank") for point in finals[:1])
    return tuple(_losses(f"What is lost at {names}", finals, note=_MEANT))


def all_losses(readings: tuple[PointAnalysis, ...]) -> tuple[Table, ...]:
    """Return what is lost at the points below, by term."""
    finals = study_analysis.last(readings)
    below = tuple(point for point in readings if point not in finals)
    return tuple(_losses("What is lost at the points below", below, note=""))


def _losses(name: str, readings: Sequence[PointAnalysis], note: str) -> Iterator[Table]:
    shown = [point for point in readings if point.losses]
    arms = list(dict.fromkeys(arm for point in shown for arm in point.losses))
    rows = [row for point in shown for row in _terms(point, arms)]
    if rows:
        yield Table(
            name=name,
            head=("ranks", "strategy", "term", *arms),
            rows=tuple(rows),
            note=note,
            numeric=True,
        )


def _terms(point: PointAnalysis, arms: Sequence[str]) -> Iterator[tuple[str, ...]]:
    of_arms = [point.losses.get(arm) for arm in arms]
    names = dict.fromkeys(term.name for loss in of_arms if loss for term in loss.terms)
    place = (str(point.ranks), point.strategy)
    yield (
        *place,
        "all that is lost",
        *(cells.share(loss.total) if loss else "-" for loss in of_arms),
    )
    for name in names:
        row = []
        for loss in of_arms:
            terms = {term.name: term.share for term in loss.terms} if loss else {}
            row.append(cells.share(terms[name]) if name in terms else "-")
        yield (*place, name, *row)


def foreseen(ahead: ForeseenStudy | None) -> tuple[Table, ...]:
    """Return each later point beside what the first ones foretold of it."""
    comparisons = ahead.comparisons if ahead else ()
    if ahead is None or not comparisons:
        return ()
    ranks = " and ".join(map(str, ahead.ranks))
    return (
        Table(
            name=f"Measured and foreseen, {ahead.arm}",
            head=("ranks", "strategy", "efficiency", "foreseen", "reading"),
            rows=tuple(
                (
                    str(point.ranks), point.strategy, cells.bracketed(point.measured),
                    f"[{point.foreseen.low:.3f}, {point.foreseen.high:.3f}]",
                    f"BELOW: {point.term}" if point.is_below else "not surely below",
                )
                for point in comparisons
            ),
            note=f"Foreseen by the step model, calibrated at {ranks} ranks, with 90 % intervals. "
            "BELOW: the whole interval of what was measured lies under what was foreseen; the term "
            "is the one that takes the most beyond it.",
            numeric=True,
        ),
    )  # fmt: skip


def sessions(judged: JudgedStudy) -> Table:
    """Return the sessions of the points, each of which `report` shows in full."""
    rows = []
    for point in judged.study.points:
        analysis, nodes = judged.session(point), str(point.plan.nodes)
        if analysis is None:
            rows.append((point.plan.file, nodes, "not measured", "", "", ""))
            continue
        series = analysis.series
        pairs = counted(len(analysis.pairs["pair"]), "pair")
        load = series.session.machine.get("load_1min")
        loaded = f"{load:.1f}" if isinstance(load, int | float) else ""
        begun = (series.session.started, loaded, series.seal[:12])
        rows.append((point.plan.file, nodes, f"{pairs}: {verdict_text.headline(analysis)}", *begun))
    return Table(
        name="The sessions of the points",
        head=("file", "nodes", "verdict", "started", "load", "seal"),
        rows=tuple(rows),
        note="`dlcontainer report FILE` shows one in full: what each side attests, its controls, "
        "every pair.",
    )


def messages(judged: JudgedStudy) -> tuple[Table, ...]:
    """Return the messages between ranks that were measured beside the points."""
    rows = [
        (message.operation, str(message.ranks), str(message.nodes), f"{message.bytes:,}",
         message.arm, f"{1e6 * message.least_s:,.1f}", f"{1e6 * message.median_s:,.1f}")
        for message in judged.study.messages
    ]  # fmt: skip
    table = Table(
        name="Messages between ranks",
        head=("operation", "ranks", "nodes", "bytes", "arm", "least, us", "median, us"),
        rows=tuple(rows),
        numeric=True,
    )
    return (table,) if rows else ()


def facts(judged: JudgedStudy) -> Table:
    """Return what the study declares."""
    study, plan = judged.study, judged.study.plan
    rows = [
        ("site", plan.site),
        ("recipe", plan.recipe),
        ("image", f"sha256 {plan.image_sha256}"),
        ("workload", plan.workload),
        ("precision", plan.precision),
        ("scaling", plan.scaling),
        ("allocation", "one for all points" if plan.one_allocation else "one for each point"),
        ("created", plan.created),
        ("dlcontainer", plan.version),
        ("digest", f"sha256 {study.digest}, of the declaration and of all sessions"),
    ]
    return Table(name="The study", head=("fact", "value"), rows=tuple(rows))

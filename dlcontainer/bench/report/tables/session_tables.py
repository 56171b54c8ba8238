"""The tables of a session."""

from collections.abc import Iterator

from dlcontainer.bench.analysis import contrasts
from dlcontainer.bench.analysis.across_sessions import PooledSessions
from dlcontainer.bench.analysis.metrics import MetricFamily, MetricReading
from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.table import Table, ranges
from dlcontainer.bench.report.tables import calibration_table, row_tables, site_tables
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import comparable, owners
from dlcontainer.bench.samples.comparable import FactDifference
from dlcontainer.bench.samples.owners import Owner
from dlcontainer.bench.samples.records import SURROUNDINGS
from dlcontainer.bench.samples.traits import ProbeTable

_SYSTEM = "system_library_builds."
_VARIABLES = "variables."
_MEANINGS: dict[Owner, str] = {
    "surroundings": "another experiment",
    "image": "the image's: other bits",
    "engine": "the engine's",
}
_REBUILT = "other builds of the distribution"


def title(analysis: Analysis) -> str:
    """Name a session."""
    declared = analysis.series.session.declared
    recipe = declared.recipe or "an image"
    return f"{declared.probe}, {declared.question}: {recipe} at {declared.site or 'this site'}"


def subtitle(analysis: Analysis) -> str:
    """Return when and with what a session ran."""
    session = analysis.series.session
    named = [
        f"{arm} ({session.arms[arm].what})" if arm in session.arms else arm
        for arm in session.declared.arms
    ]
    return f"{' against '.join(named)}; {session.started}; dlcontainer {session.dlcontainer}"


def open_tables(analysis: Analysis) -> list[Table]:
    """Return the tables that everyone should see."""
    return [
        _contrasts(analysis),
        _mounts(analysis),
        _metrics(analysis),
        _differences(analysis),
        calibration_table.of(analysis),
        _secondary(analysis),
        row_tables.times(analysis),
        row_tables.beside(analysis),
        *of_probe(analysis.traits.section),
        site_tables.surroundings(analysis),
        _facts(analysis),
    ]


def of_probe(section: ProbeTable | None) -> Iterator[Table]:
    """Yield the tables of a session's probe."""
    while section is not None:
        yield Table(
            name=section.title, head=section.head, rows=section.rows, note=section.note,
            numeric=True,
        )  # fmt: skip
        section = section.companion


def stacks(analysis: Analysis) -> Table:
    """Return all that both sides attest."""
    facts = {
        f"{stack.arm}, {stack.node}" if stack.node else stack.arm: comparable.flat(stack.facts)
        for stack in analysis.series.stacks
    }
    names = sorted({name for attested in facts.values() for name in attested})
    return Table(
        name="Both stacks in full",
        head=("fact", *facts),
        rows=tuple(
            (name, *(comparable.shown(attested.get(name)) for attested in facts.values()))
            for name in names
        ),
    )


def _contrasts(analysis: Analysis) -> Table:
    """Each two of three arms with the verdict of their own."""
    rows = []
    for item in analysis.contrasts:
        ours, theirs = item.figure.means
        interval = item.figure.interval
        rows.append(
            (
                f"{item.name} ({item.meaning})", item.verdict.word, f"{ours:.4g}", f"{theirs:.4g}",
                f"{interval.ratio:.3f}", verdict_text.bounds(interval), f"{item.p_holm:.2g}",
            )
        )  # fmt: skip
    note = "The verdict of the session is the first row's; each other row keeps the same rules."
    return Table(
        name="Three arms",
        head=("contrast", "verdict", "from, s", "to, s", "ratio", "interval", "p (Holm)"),
        rows=tuple(rows),
        note=f"{note} {contrasts.together(analysis.contrasts)}" if rows else "",
        numeric=True,
    )


def _mounts(analysis: Analysis) -> Table:
    """First rank (it mounts the image) beside one that joins the mount, each with its native."""
    rows = []
    for name, figure in (
        ("first rank, mount included", analysis.main),
        ("a rank that joins the mount", analysis.joiner),
    ):
        if figure is not None:
            ours, theirs = figure.means
            bounds = f"{figure.interval.low:.3f} to {figure.interval.high:.3f}"
            ratio = f"{figure.interval.ratio:.3f}"
            rows.append((name, f"{ours:.3f}", f"{theirs:.3f}", ratio, bounds, str(figure.fitted.n)))
    reference, candidate = analysis.series.session.declared.sides.names
    return Table(
        name="First rank and joiner",
        head=("launch", f"{reference}, s", f"{candidate}, s", "ratio", "interval", "pairs"),
        rows=tuple(rows) if analysis.joiner is not None else (),
        note="Seconds are means. The first rank of a node mounts the image; those after it join.",
        numeric=True,
    )


def _differences(analysis: Analysis) -> Table:
    reference, candidate = analysis.series.session.declared.sides.names
    lines = ranges(stack.line for stack in analysis.series.stacks)
    # Dozens of them, none of which says more than all together; each is in the stacks below.
    system = [d for d in analysis.differences if d.name.startswith(_SYSTEM) and not d.refuses]
    # An engine sets a dozen variables of its own.
    named = [d for d in analysis.differences if d.name.startswith(_VARIABLES) and not d.refuses]
    expected = "expected of a container"
    if candidate == "bare":
        expected = "expected where the image lies elsewhere"
    rows = [
        (item.name, *item.values, _meaning(item, expected))
        for item in analysis.differences
        if item not in system and item not in named
    ]
    if named:
        names = ", ".join(item.name.removeprefix(_VARIABLES) for item in named)
        rows.append((_VARIABLES.rstrip("."), "", names, expected))
    if system:
        count = f"{len(system)} of the distribution's libraries"
        rows.append((_SYSTEM.rstrip("."), count, "other builds, or none", _REBUILT))
    return Table(
        name="What differs between the sides",
        head=("fact", reference, candidate, "meaning"),
        rows=tuple(rows),
        note=f"As each side attests from inside its process (lines {lines}). "
        "Rows in bold forbid the comparison.",
        strong=tuple(i for i, item in enumerate(analysis.differences) if item.refuses),
    )


def _meaning(item: FactDifference, expected: str) -> str:
    if owners.is_in(item.name, owners.REBUILDS) and not item.refuses:
        return _REBUILT
    if item.is_expected and item.name in owners.MODULE_PACK:
        return "the image's module pack"
    if item.is_expected and item.owner != "engine":
        return expected
    return _MEANINGS[item.owner]


def allocations(item: PooledSessions) -> Table:
    """Return each session's ratio beside the others'."""
    rows = []
    for member in item.members:
        session, main = member.series.session, member.main
        place = session.machine.get("allocation") or session.machine.get("node")
        ratio, interval = ("", "")
        if main is not None:
            ratio, interval = f"{main.interval.ratio:.3f}", verdict_text.bounds(main.interval)
        rows.append(
            (str(member.series.path), comparable.shown(place), session.started,
             member.verdict.word, ratio, interval)
        )  # fmt: skip
    return Table(
        name="The sessions",
        head=("file", "allocation or node", "started", "verdict", "ratio", "interval"),
        rows=tuple(rows),
        note="A session outside of a batch job is taken as an allocation of its own.",
        numeric=True,
    )


def _metrics(analysis: Analysis) -> Table:
    """All declared metrics together: the same on all, or different on some."""
    family = analysis.family
    rows = [_reading_row(reading) for reading in family.readings] if family else []
    return Table(
        name="The declared metrics together",
        head=("metric", "margin", "ratio", "interval", "p (Holm)", "reading"),
        rows=tuple(rows) if len(rows) > 1 else (),
        note="Within its margin: the whole interval is. Different: p, by Holm's correction over "
        f"all of these metrics, is at most {analysis.alpha:.3g}. The verdict is on the first.",
        numeric=True,
    )


def _reading_row(reading: MetricReading) -> tuple[str, ...]:
    words = ["different"] if reading.is_different else []
    words += ["within its margin"] if reading.is_within else []
    return (
        reading.figure.metric,
        verdict_text.percent(reading.margin),
        f"{reading.equivalence.ratio:.3f}",
        verdict_text.bounds(reading.equivalence),
        f"{reading.p_holm:.2g}",
        ", but ".join(words) or "not shown either way",
    )


def together(family: MetricFamily) -> str:
    """Return what the declared metrics show together."""
    text = "The verdict is the first one's alone. "
    if family.missing:
        text += f"Not measured in every launch: {', '.join(family.missing)}. "
    if family.all_within:
        return text + "The same within their margins on all of them; that takes no correction."
    if family.different:
        names = ", ".join(reading.figure.metric for reading in family.different)
        return text + f"Different on {names}, by Holm's correction over all of them."
    return text + "Neither the same on all of them nor different on one is shown."


def _secondary(analysis: Analysis) -> Table:
    reference, candidate = analysis.series.session.declared.sides.names
    declared = analysis.series.session.declared.secondary
    return Table(
        name="Other figures",
        head=("figure", reference, candidate, "ratio", "interval"),
        rows=tuple(_secondary_row(f) for f in analysis.secondary if f.metric not in declared),
        note="Means, and ratios over the same pairs; for some of these, higher is better. "
        "No verdict is drawn from them.",
        numeric=True,
    )


def _secondary_row(figure: PairFigure) -> tuple[str, ...]:
    ours, theirs = figure.means
    bounds = verdict_text.bounds(figure.interval)
    return (figure.metric, f"{ours:.4g}", f"{theirs:.4g}", f"{figure.interval.ratio:.3f}", bounds)


def _facts(analysis: Analysis) -> Table:
    series = analysis.series
    declared, session = series.session.declared, series.session
    pairs = (
        f"at most {declared.pairs} {'triples' if declared.is_triple else 'A/B'}, "
        f"{declared.joiner_pairs} joining, "
        f"{declared.control_pairs} A/A, {declared.candidate_control_pairs} B/B, "
        f"order drawn with seed {declared.seed}"
    )
    work = {name: value for name, value in declared.workload.items() if name != SURROUNDINGS}
    arms = (
        (name, f"{arm.what}: {arm.why}" if arm.why else arm.what)
        for name, arm in session.arms.items()
    )
    rows = [
        ("question", f"{declared.question}, {declared.probe}"),
        ("metric", declared.metric),
        ("margin", verdict_text.percent(declared.margin)),
        ("looks", f"{', '.join(map(str, series.looks))} {verdict_text.unit(analysis)}"),
        ("level", f"alpha {declared.alpha:g}, {analysis.alpha:g} at each look"),
        ("pairs", pairs),
        *((name, comparable.shown(value)) for name, value in work.items()),
        *arms,
        ("image", f"{declared.image} sha256 {declared.image_sha256}"),
        ("plan", declared.plan_digest),
        *((name, comparable.shown(value)) for name, value in session.machine.items()),
        ("declaration", f"sha256 {series.declared_sha256}"),
        ("seal", f"{series.seal}: the chain of the file's last line"),
    ]
    return Table(
        name="The session",
        head=("fact", "value"),
        rows=tuple(rows),
        note="Declared before the first launch (line 1), hashed into the file.",
    )

"""Two scaling studies side by side: ratio at each point, and what both attest."""

from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.bench.report.sections import scaling_cells as cells
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_comparison import PointRatio, StudyComparison

_MACHINE = "machine."
_NONE = "-"


def names(comparison: StudyComparison) -> tuple[str, str]:
    """Name both studies: by their sites where these differ, else by their folders."""
    studies = comparison.first.study, comparison.second.study
    sites = studies[0].plan.site, studies[1].plan.site
    folders = str(studies[0].folder), str(studies[1].folder)
    return sites if sites[0] != sites[1] else folders


def headline(comparison: StudyComparison) -> str:
    """Return the ratio at the most ranks, or why there is none."""
    first, second = names(comparison)
    if comparison.refusals:
        return f"{first} and {second} can't be compared: {comparison.refusals[0]}"
    last = final(comparison)
    ratio = last.ratio
    return (
        f"At {counted(last.ranks, 'rank')} ({last.strategy}, {last.arm}) a step at {second} takes "
        f"{cells.bracketed(ratio)} of the time at {first}"
    )


def final(comparison: StudyComparison) -> PointRatio:
    """Return the ratio of the candidate at the most ranks."""
    most = max(point.ranks for point in comparison.points)
    return next(point for point in reversed(comparison.points) if point.ranks == most)


def paragraph(comparison: StudyComparison) -> str:
    """Say what the ratios are, and what they are not about."""
    if comparison.refusals:
        return (
            f"No ratio is printed where the work differs: {'; '.join(comparison.refusals)}. "
            "Measure the second study with the first one's options."
        )
    text = (
        "Ratios of mean seconds a step at points of the same work (workload, precision, scaling, "
        "strategy, batch), with 95 % intervals over the launches of both. These are two machines "
        "and two sets of software, each as it is attested below: the ratio is of all that "
        "differs, and no pair of launches ran side by side."
    )
    if comparison.left_out:
        text += f" Without a ratio: {'; '.join(comparison.left_out)}."
    return text


def ratios(comparison: StudyComparison, anchor: str) -> Table:
    """Return each point's seconds of both studies and their ratio."""
    first, second = names(comparison)
    return Table(
        name="Both studies by point",
        head=("ranks", "nodes", "strategy", "arm", f"{first}, s a step", f"{second}, s a step",
              f"{second} / {first}"),
        rows=tuple(
            (
                str(point.ranks), _nodes(point), point.strategy, point.arm,
                f"{point.step_s[0]:.4g}", f"{point.step_s[1]:.4g}", cells.bracketed(point.ratio),
            )
            for point in comparison.points
        ),
        numeric=True,
        anchor=anchor,
    )  # fmt: skip


def _nodes(point: PointRatio) -> str:
    mine, theirs = point.nodes
    return str(mine) if mine == theirs else f"{mine} and {theirs}"


def attestations(comparison: StudyComparison) -> tuple[Table, ...]:
    """Return what both studies attest at the point of the ratio: what differs, then what does not.

    Of each arm and of the machine; every fact once.
    """
    sides = list(_sides(comparison))
    facts = sorted({name for _, attested in sides for name in attested})
    rows = [(name, *(attested.get(name, _NONE) for _, attested in sides)) for name in facts]
    half = len(sides) // 2
    differing = [row for row in rows if row[1 : 1 + half] != row[1 + half :]]
    alike = [row for row in rows if row not in differing]
    head = ("fact", *(name for name, _ in sides))
    tables = (
        Table(name="What the two studies attest, where it differs", head=head,
              rows=tuple(differing)),
        Table(name="What both attest alike", head=head, rows=tuple(alike)),
    )  # fmt: skip
    return tuple(table for table in tables if table.rows)


def _sides(comparison: StudyComparison) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the arms of each study with what they attest, the first study's first."""
    studies = comparison.first, comparison.second
    arms = _arms(studies)
    for study, name in zip(studies, names(comparison), strict=True):
        attested = _attested(study)
        for arm in arms:
            yield f"{name}, {arm}", attested.get(arm, {})


def _arms(studies: Sequence[JudgedStudy]) -> list[str]:
    return list(dict.fromkeys(arm for study in studies for arm in _attested(study)))


def _attested(judged: JudgedStudy) -> dict[str, dict[str, str]]:
    """Return the facts of each arm in the last session, of its first node, and the machine's."""
    last = judged.last
    analysis = judged.session(last) if last else None
    if analysis is None:
        return {}
    machine = {
        f"{_MACHINE}{name}": comparable.shown(fact)
        for name, fact in analysis.series.session.machine.items()
    }
    facts: dict[str, dict[str, str]] = {}
    for stack in analysis.series.stacks:
        flat = {name: comparable.shown(fact) for name, fact in comparable.flat(stack.facts).items()}
        facts.setdefault(stack.arm, {**machine, **flat})
    return facts


def lines(comparison: StudyComparison) -> tuple[str, ...]:
    """Return a line for each ratio, and each reason for none."""
    first, second = names(comparison)
    ratios_ = tuple(
        f"{counted(point.ranks, 'rank')}, {point.strategy}, {point.arm}: {second} / {first} "
        f"{cells.bracketed(point.ratio)}"
        for point in comparison.points
    )
    return (*ratios_, *comparison.left_out, *comparison.refusals[1:])

"""A file whose hashes fit and which no session can have written is refused, with its line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench import probes
from dlcontainer.bench.analysis.across_sessions import across
from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.report import given, html_report, json_report, markdown_report
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import contradictions, reader
from dlcontainer.bench.samples.records import Sample, SessionDeclaration
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from tests import residents
from tests.benchrunner import Bench, ProbeRunner
from tests.judging import analyse
from tests.residents import Truth
from tests.values import TEMPLATES

Change = Callable[[Sample], Sample]


def same(sample: Sample) -> Sample:
    return sample


def forged(
    folder: Path,
    change: Change = same,
    declared: Callable[[SessionDeclaration], SessionDeclaration] = lambda d: d,
) -> Series:
    """Measure a session, then write it again with other values: every hash fits."""
    folder.mkdir(exist_ok=True)
    bench = Bench(folder)
    bench.run(ProbeRunner(wall=lambda _: 0.5), looks=(8,), controls=4, seed=5)
    series = bench.read()
    path = folder / "forged.jsonl"
    session = replace(series.session, declared=declared(series.session.declared))
    with Writer(path, session) as out:
        for stack in series.stacks:
            out.stack(stack)
        for sample in series.samples:
            out.sample(change(sample))
        out.end(complete=True)
    return reader.read(path)


def refuse(series: Series) -> None:
    contradictions.refuse(series, probes.traits(series).ends_at)


def at(index: int, **changes: object) -> Change:
    def change(sample: Sample) -> Sample:
        return replace(sample, **changes) if sample.index == index else sample  # type: ignore[arg-type]

    return change


def test_a_session_as_it_was_measured_is_not_refused(tmp_path: Path) -> None:
    refuse(forged(tmp_path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (at(6, wall_s=0.4), "a wall time of 0.400000 s"),
        (at(6, values={"elapsed_s": 0.1}), "the supervisor saw 0.100 s"),
        (at(6, wall_s=5.0, phases={"runtime": 5.0}), "a wall time of 5.000 s"),
    ],
)
def test_times_that_deny_each_other(tmp_path: Path, change: Change, says: str) -> None:
    series = forged(tmp_path, change)
    with pytest.raises(BenchDataError, match="contradicts itself") as caught:
        refuse(series)
    assert says in f"{caught.value} {caught.value.why}"
    line = series.samples[6].line
    assert str(caught.value.where).endswith(f":{line}")


def test_launches_at_one_instant(tmp_path: Path) -> None:
    long = at(6, wall_s=60.0, phases={"import": 60.0}, values={"elapsed_s": 60.1})
    with pytest.raises(BenchDataError, match=r"began .* s after launch 6"):
        refuse(forged(tmp_path, long))


def test_two_pairs_that_are_the_same_to_the_last_digit(tmp_path: Path) -> None:
    def copied(sample: Sample) -> Sample:
        alike = {"wall_s": 0.5, "phases": {"import": 0.5}}
        return replace(sample, **alike) if sample.role == "pair" else sample  # type: ignore[arg-type]

    with pytest.raises(BenchDataError, match="both times are those of the pair"):
        refuse(forged(tmp_path, copied))


def test_an_order_that_the_seed_does_not_draw(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="where the declared seed draws"):
        refuse(forged(tmp_path, declared=lambda d: replace(d, seed=6)))


def unheld(declared: SessionDeclaration) -> SessionDeclaration:
    """Declare what is held to no rule: the seed draws another order."""
    return replace(declared, seed=6, procedure=1, lost_most=None)


def test_who_forges_an_earlier_procedure_is_believed_by_no_report(tmp_path: Path) -> None:
    earlier = forged(tmp_path, declared=unheld)
    refuse(earlier)
    analyses, _ = given.read([earlier.path])
    first = noted(earlier).partition(". ")[0]
    assert first.startswith("Not checked for contradictions: the file declares procedure 1")
    # The headline is quoted alone, by catalogues too.
    mark = ", not checked for contradictions"
    assert verdict_text.headline(analyses[0]).endswith(mark)
    assert mark in markdown_report.summary(analyses).splitlines()[2]
    assert mark in html_report.html(analyses, [TEMPLATES])
    body = json_report.session(analyses[0])
    assert body["checked_for_contradictions"] is False
    assert str(body["headline"]).endswith(mark)


def test_several_such_sessions_say_so_together(tmp_path: Path) -> None:
    one, other = (forged(tmp_path / name, declared=unheld) for name in ("one", "other"))
    (joint,) = across([analyse(one), analyse(other)])
    assert verdict_text.joint_headline(joint).endswith(", not checked for contradictions")


def test_an_earlier_procedure_with_what_is_newer(tmp_path: Path) -> None:
    newer = forged(tmp_path, declared=lambda d: replace(unheld(d), lost_most=2))
    with pytest.raises(BenchDataError, match="procedure 1 with a limit of lost launches"):
        refuse(newer)


def test_groups_of_an_earlier_procedure(tmp_path: Path) -> None:
    series = groups(tmp_path)
    declared = replace(unheld(series.session.declared), seed=series.session.declared.seed)
    forgery = replace(series, session=replace(series.session, declared=declared))
    with pytest.raises(BenchDataError, match="procedure 1 with resident groups"):
        refuse(forgery)


def test_files_that_are_checked_have_no_such_note(tmp_path: Path) -> None:
    series = forged(tmp_path)
    assert "Not checked" not in noted(series)
    body = json_report.session(analyse(series))
    assert body["checked_for_contradictions"] is True
    assert "contradictions" not in str(body["headline"])


def noted(series: Series) -> str:
    analysis = analyse(series)
    return " ".join(notes(analysis, standings([analysis])[series.seal]))


def groups(folder: Path, change: Change = same) -> Series:
    """Write a session of resident groups, whose processes are alive at once."""
    return reader.read(residents.write(folder / "groups.jsonl", Truth(change=change)))


def test_processes_of_a_group_are_alive_at_once(tmp_path: Path) -> None:
    series = groups(tmp_path)
    first, second = series.samples[:2]
    assert first.started == second.started
    assert first.wall_s > 2  # of launches one after the other it would be denied
    refuse(series)


def test_groups_at_one_instant(tmp_path: Path) -> None:
    def together(sample: Sample) -> Sample:
        begun = "2026-01-05T09:00:00+00:00"
        return replace(sample, started=begun) if sample.pair < 3 else sample

    with pytest.raises(BenchDataError, match=r"launch 2 began 0 s after launch 1"):
        refuse(groups(tmp_path, together))


def test_turns_that_are_longer_than_their_group(tmp_path: Path) -> None:
    def short(sample: Sample) -> Sample:
        return replace(sample, values={**sample.values, "elapsed_s": 1.5 * sample.wall_s})

    with pytest.raises(BenchDataError, match="turns of") as caught:
        refuse(groups(tmp_path, short))
    assert "of the whole group" in str(caught.value.why)

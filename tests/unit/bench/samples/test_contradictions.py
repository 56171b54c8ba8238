"""A file whose hashes fit and which no session can have written is refused, with its line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench import probes
from dlcontainer.bench.report import given, json_report
from dlcontainer.bench.samples import contradictions, reader
from dlcontainer.bench.samples.records import Sample, SessionDeclaration
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from tests import residents
from tests.benchrunner import Bench, ProbeRunner
from tests.residents import Truth

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


def test_json_says_that_a_file_was_checked(tmp_path: Path) -> None:
    """Scripts of 0.7.0 to 0.9.1 ask for it, since files of before 0.7 were not."""
    analyses, _ = given.read([forged(tmp_path).path])
    assert json_report.session(analyses[0])["checked_for_contradictions"] is True


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

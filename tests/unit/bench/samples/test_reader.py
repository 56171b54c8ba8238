import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlcontainer.bench.samples import hash_chain, reader
from dlcontainer.bench.samples.encoding import declared_sha256, to_fields
from dlcontainer.errors import BenchDataError
from tests import benchseries
from tests.benchseries import Plan


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return benchseries.write(tmp_path / "a'; echo x\n.jsonl", Plan(pairs=4, control_pairs=2))


def chained(path: Path, records: list[dict[str, object]]) -> Path:
    """Write records with a chain that fits: what a careful forger or a bug would make."""
    previous, lines = "", []
    for record in records:
        line, previous = hash_chain.encode(record, previous)
        lines.append(line)
    path.write_text("".join(lines))
    return path


def fields(path: Path) -> list[dict[str, object]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != hash_chain.KEY} for line in found]


def test_what_is_written_is_read(written: Path) -> None:
    plan = Plan(pairs=4, control_pairs=2)
    series = reader.read(written)
    assert series.session == benchseries.session(plan)
    assert [stack.arm for stack in series.stacks] == ["native", "container"]
    drawn = benchseries.draw(plan)
    assert len(series.samples) == len(drawn)
    for number, (sample, wanted) in enumerate(zip(series.samples, drawn, strict=True), start=4):
        assert sample.line == number
        assert to_fields(sample) == to_fields(wanted)
    assert series.complete
    assert series.declared_sha256 == declared_sha256(series.session.declared)
    assert series.seal == json.loads(written.read_text().splitlines()[-1])["chain"]


@pytest.mark.parametrize("line", range(1, 16))
def test_an_edited_line_is_found(written: Path, line: int) -> None:
    lines = written.read_text().splitlines(keepends=True)
    before = lines[line - 1]
    lines[line - 1] = before.replace("0", "1", 1) if "0" in before else before.replace("1", "2", 1)
    written.write_text("".join(lines))
    with pytest.raises(BenchDataError) as caught:
        reader.read(written)
    assert str(caught.value.where) == f"{written}:{line}"
    assert caught.value.why
    assert caught.value.next_step


def test_a_removed_a_moved_and_a_doubled_line_are_found(written: Path) -> None:
    lines = written.read_text().splitlines(keepends=True)
    for changed in (
        [*lines[:5], *lines[6:]],
        [*lines[:5], lines[6], lines[5], *lines[7:]],
        [*lines[:6], lines[5], *lines[6:]],
        lines[1:],
    ):
        written.write_text("".join(changed))
        with pytest.raises(BenchDataError, match="hash chain is broken"):
            reader.read(written)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_no_changed_byte_goes_unnoticed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.jsonl"
    if not path.exists():
        benchseries.write(path, Plan(pairs=2, control_pairs=0))
    raw = path.read_bytes()
    place = data.draw(st.integers(0, len(raw) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != raw[place]))
    other = tmp_path / "b.jsonl"
    other.write_bytes(raw[:place] + bytes([byte]) + raw[place + 1 :])
    with pytest.raises(BenchDataError):
        reader.read(other)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_a_cut_file_is_an_incomplete_session_or_no_file(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "a.jsonl"
    if not path.exists():
        benchseries.write(path, Plan(pairs=2, control_pairs=0))
    raw = path.read_bytes()
    cut = tmp_path / "b.jsonl"
    cut.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    if b"\n" not in cut.read_bytes():
        with pytest.raises(BenchDataError, match="no samples"):
            reader.read(cut)
        return
    series = reader.read(cut)
    assert not series.complete
    assert series.end is None


def test_records_that_do_not_fit_are_refused_with_their_line(written: Path) -> None:
    whole = fields(written)
    for line, change, says in (
        (4, {"kind": "novelty"}, "kind of line: 'novelty'"),
        (4, {"wall_s": -1.0}, "wall_s"),
        (4, {"wall_s": "1.0"}, "wall_s"),
        (4, {"wall_s": True}, "wall_s"),
        (4, {"extra": 1}, "extra"),
        (4, {"role": "best"}, "role"),
        (4, {"arm": "unpacked"}, "did not declare"),
        (3, {"arm": "native"}, "second stack"),
        (len(whole), {"samples": 3}, "samples, but its end states 3"),
        (1, {"declared_sha256": "0" * 64}, "declaration"),
        (1, {"kind": "stack"}, "does not fit|extra|arm"),
    ):
        records = [dict(record) for record in whole]
        records[line - 1] |= change
        with pytest.raises(BenchDataError, match=says) as caught:
            reader.read(chained(written, records))
        assert str(caught.value.where).startswith(str(written))


def test_sessions_are_not_merged(written: Path) -> None:
    records = fields(written)
    with pytest.raises(BenchDataError, match="second session"):
        reader.read(chained(written, [*records[:-1], records[0]]))
    with pytest.raises(BenchDataError, match="a line follows the end"):
        reader.read(chained(written, [*records, records[4]]))


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b"[1]\n", b"NaN\n", b"\xff\n", b'{"chain": NaN}\n', b"[" * 9999],
)
def test_what_is_no_session_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(BenchDataError) as caught:
        reader.read(path)
    assert caught.value.next_step


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no.jsonl"):
        with pytest.raises(BenchDataError, match="cannot be read"):
            reader.read(path)

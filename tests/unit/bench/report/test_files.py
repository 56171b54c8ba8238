import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.report import csv_report, html_report, markdown_report, output_files
from dlcontainer.bench.report.figures import ecdf, seconds
from dlcontainer.bench.report.tables import session_tables
from dlcontainer.bench.report.text import scope_text, summary
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError, UsageError
from dlcontainer.system import report_files
from tests import benchseries, benchtriples, rowseries
from tests.benchseries import Plan
from tests.benchtriples import Triples
from tests.judging import analyse
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS, recorded
from tests.unit.bench.report.test_html_report import HOSTILE, TEMPLATES, hostile


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def as_csv(*names: str) -> str:
    out = io.StringIO(newline="")
    csv_report.write([recorded(name).series for name in names], out)
    return out.getvalue()


def test_csv_has_every_launch_with_its_line() -> None:
    text = as_csv("import", "equal")
    found = rows(text)
    samples = [s for name in ("import", "equal") for s in recorded(name).series.samples]
    assert [int(row["line"]) for row in found] == [sample.line for sample in samples]
    assert [float(row["wall_s"]) for row in found] == [sample.wall_s for sample in samples]
    for row, sample in zip(found, samples, strict=True):
        raw = json.loads(Path(row["file"]).read_text().splitlines()[sample.line - 1])
        assert raw["chain"]
        for name, value in raw["values"].items():
            cell = row[f"values.{name}"]
            assert (json.loads(cell) if isinstance(value, list) else float(cell)) == value
        for name, value in raw["phases"].items():
            assert float(row[f"phases.{name}"]) == value
    assert text.count("\r\n") == len(samples) + 1
    assert not re.search(r"(?<!\r)\n", text)


@pytest.mark.parametrize("begin", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1"])  # noqa: RUF001
def test_no_text_is_a_formula(begin: str, tmp_path: Path) -> None:
    text = f'{begin},"x"\ny'
    plan = Plan(
        pairs=2, control_pairs=0,
        change=lambda s: replace(s, error=text, values={**s.values, begin: begin}),
    )  # fmt: skip
    path = benchseries.write(tmp_path / "=a.jsonl", plan)
    out = io.StringIO(newline="")
    csv_report.write([reader.read(path)], out)
    found = rows(out.getvalue())
    assert found[0]["error"] == f"'{text}"
    column = next(name for name in found[0] if name.endswith(begin))
    assert column == f"values.{begin}"
    assert found[0][column] == f"'{begin}"
    assert float(found[0]["wall_s"]) > 0


def test_hostile_csv_is_read_back(tmp_path: Path) -> None:
    analysis = hostile(tmp_path)
    out = io.StringIO(newline="")
    csv_report.write([analysis.series], out)
    found = rows(out.getvalue())
    assert len(found) == len(analysis.series.samples)
    assert [row["error"] for row in found if row["error"]] == [HOSTILE]
    assert None not in found[0]


def test_what_a_terminal_obeys_is_in_no_page(tmp_path: Path) -> None:
    plan = Plan(pairs=2, control_pairs=0)
    session = benchseries.session(plan)
    evil = "\x1b[31mred\u2028line\u202e\x9b"
    session = replace(session, declared=replace(session.declared, site=evil), machine={evil: evil})
    path = tmp_path / "s.jsonl"
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=benchseries.FACTS))
        for sample in benchseries.draw(plan):
            out.sample(sample)
    analysis = analyse(reader.read(path))
    wanted = output_files.targets(tmp_path / "r.html", "html,md")
    output_files.write(wanted, html_report.page([analysis]), [analysis.series], TEMPLATES)
    for target in wanted:
        text = target.path.read_text()
        assert "red" in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
        assert "u001b" in text


def test_hostile_markdown_stays_text(tmp_path: Path) -> None:
    text = markdown_report.page(html_report.page([hostile(tmp_path)]))
    assert text.startswith(markdown_report.MARK)
    rest = text.removeprefix(markdown_report.MARK)
    assert not re.search(r"(?<!\\)<", rest)
    assert "\n# heading" not in text
    assert not re.search(r"^\|.*(?<!\\)`", text, re.MULTILINE)
    for block in text.split("\n\n"):
        if block.startswith("|"):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("a|b\n# c", r"a\|b \# c"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("12) no list", r"12\) no list"),
        ("[x](javascript:y) *b* `c` <i> &amp;", r"\[x\](javascript:y) \*b\* \`c\` \<i\> \&amp;"),
        ("http://x", r"http\://x"),
        ("1.790", "1.790"),
        ("-0.63 %", "-0.63 %"),
        ("---", r"\---"),
        ("===", r"\==="),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_markdown_text(value: str, wanted: str) -> None:
    assert markdown_report.text(value) == wanted


def test_markdown_says_what_the_page_says() -> None:
    text = markdown_report.page(html_report.page([recorded("equal"), recorded("import")]))
    for heading in ("EQUIVALENT within 2 %", "SLOWER by 78 to 81 %", "Claims of the literature"):
        assert heading in text
    assert "What differs between the sides" in text


@pytest.mark.parametrize(
    ("output", "formats", "wanted"),
    [
        ("a.html", "", ["a.html", "a.md", "a.csv"]),
        ("a", "", ["a", "a.md", "a.csv"]),
        ("a.md", "", ["a.md"]),
        ("a.csv", "", ["a.csv"]),
        ("a.html", "html", ["a.html"]),
        ("a.html", "csv, HTML", ["a.html", "a.csv"]),
        ("a.md", "html,md", ["a.html", "a.md"]),
    ],
)
def test_what_is_written(output: str, formats: str, wanted: list[str]) -> None:
    assert [t.path.name for t in output_files.targets(Path(output), formats)] == wanted


def test_an_unknown_format() -> None:
    with pytest.raises(UsageError, match=r"htm.*html"):
        output_files.targets(Path("a.html"), "htm")


def test_neither_samples_nor_foreign_files_are_replaced(tmp_path: Path) -> None:
    output = tmp_path / "notes.html"
    wanted = output_files.targets(output, "")
    output_files.check(wanted, output, [RECORDINGS / "equal.jsonl"])
    with pytest.raises(UsageError, match="own samples"):
        output_files.check(wanted, output, [tmp_path / "notes.csv"])
    settled = html_report.page([recorded("equal")])
    output_files.write(wanted, settled, [recorded("equal").series], TEMPLATES)
    assert {path.name for path in tmp_path.iterdir()} == {"notes.html", "notes.md", "notes.csv"}
    output_files.check(wanted, output, [])  # ours: written again
    for name in ("notes.md", "notes.csv"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text("# mine\n")
        with pytest.raises(UsageError, match="is not a dlcontainer report"):
            output_files.check(wanted, output, [])
        (tmp_path / name).write_text(before, newline="")


def test_a_file_that_fails_half_way_is_not_there(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")

    def half() -> None:
        with report_files.replacing(target) as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(BenchDataError, match="cannot be written"):
        report_files.write("new", tmp_path / "no" / "a.html")


def test_what_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    report_files.require(tmp_path / "a")
    report_files.require(None)
    for target in (tmp_path, tmp_path / "no" / "a"):
        with pytest.raises(BenchDataError, match="cannot be written"):
            report_files.require(target)
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_odd_bytes_can_be_written(tmp_path: Path) -> None:
    report_files.write("a\udcff", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "a\\udcff"


def test_many_launches_are_drawn_by_stretches(tmp_path: Path) -> None:
    path = benchseries.write_quickly(tmp_path / "a.jsonl", Plan(pairs=3000, control_pairs=1000))
    analysis = analyse(reader.read(path))
    page = html_report.html([analysis], TEMPLATES)
    assert len(page.encode()) < 1_000_000
    assert "8,002 launches are too many to draw one by one" in page
    assert str(path) in page
    assert f'id="raw-{analysis.series.seal[:12]}' not in page
    assert 'href="#raw-' not in page
    assert page.count("<figure>") == 5


def test_many_sessions_share_a_page() -> None:
    analyses = []
    for number in range(60):
        series = recorded("equal").series
        seal = f"{number:064x}"
        analyses.append(replace(recorded("equal"), series=replace(series, seal=seal)))
    assert len(html_report.html(analyses, TEMPLATES).encode()) < 3_000_000


def test_ready_times_are_ranks_where_they_are_listed(tmp_path: Path) -> None:
    def ranked(sample: Sample) -> Sample:
        base = sample.wall_s
        ranks: list[dict[str, Json]] = [
            {"rank": 0, "phases": {"runtime": 0.5, "import": base - 0.5}},
            {"rank": 1, "values": {"wall_s": 2 * base}},
            {"rank": 2, "wall_s": 3 * base},
            {"rank": 3},
        ]
        return replace(sample, ranks=tuple(ranks))

    path = benchseries.write(tmp_path / "a.jsonl", Plan(probe="import", change=ranked))
    native, container = ecdf.ready(analyse(reader.read(path)))
    assert (native.unit, len(native.points), len(container.points)) == ("ranks", 36, 36)
    assert native.quantile(1.0) == pytest.approx(3 * native.quantile(0.0), rel=0.1)
    assert "36 ranks" in html_report.html([analyse(reader.read(path))], TEMPLATES)


def test_quantiles_are_of_the_sample() -> None:
    points = tuple((float(n), n) for n in range(1, 11))
    one = ecdf.ReadyTimes(name="a", unit="launches", points=points)
    assert [one.quantile(q) for q in (0.05, 0.5, 0.51, 0.95, 1.0)] == [1, 5, 6, 10, 10]


@pytest.mark.parametrize(
    ("largest", "name"),
    [(5.78e-5, "microseconds"), (0.0578, "milliseconds"), (0.1, "seconds"), (57.8, "seconds")],
)
def test_ticks_are_in_the_unit_of_the_times(largest: float, name: str) -> None:
    axis = seconds.axis([largest * 0.99, largest], 0.0, 100.0)
    assert axis.unit.name == name
    ticks = axis.scale.ticks()
    assert len(ticks) >= 3
    for value, label in ticks:
        # A place for seconds, a label in the unit, which fits beside the axis.
        assert axis.scale.low <= value <= axis.scale.high
        assert float(label) == pytest.approx(value * axis.unit.per_second, rel=1e-3)
        assert len(label) <= 6
    assert axis.scale.at(largest) > axis.scale.at(largest * 0.99)


def test_only_launches_that_are_timed_until_ready_are_ready(tmp_path: Path) -> None:
    kernels = analyse(reader.read(rowseries.write(tmp_path / "a.jsonl", rowseries.Plant())))
    for analysis, title, table, unit in (
        (recorded("import"), "When are they ready?", "Time until ready", "last, s"),
        (recorded("equal"), "How do they scatter?", "Times of the launches", "most, s"),
        (kernels, "How do they scatter?", "Times of the launches", "most, us"),
    ):
        page = html_report.html([analysis], TEMPLATES)
        for words in (title, table, unit):
            assert words in page
        other = {"When are they ready?", "How do they scatter?"} - {title}
        assert not any(words in page for words in other)


def test_a_person_who_was_not_there() -> None:
    said = summary.paragraph(recorded("equal"))
    for words in (
        "training", "native (native twin) and container (image): 12 times side by side",
        "pytorch.sif", "at the site local", "on 5 January 2026 from 09:00",
        "EQUIVALENT within 2 %", "nothing about other machines",
    ):  # fmt: skip
        assert words in said
    assert "Do not quote any figure" in summary.paragraph(recorded("noisy"))
    assert "nothing about many nodes" in summary.paragraph(recorded("import"))
    assert "the two stacks differ" in summary.paragraph(recorded("as-shipped"))


def test_three_arms_are_all_drawn_and_linked(tmp_path: Path) -> None:
    analysis = analyse(reader.read(benchtriples.write(tmp_path / "a.jsonl", Triples())))
    assert [one.name for one in ecdf.ready(analysis)] == ["native", "unpacked", "container"]
    page = html_report.html([analysis], TEMPLATES)
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    assert 'class="step between"' in page


def test_the_engines_variables_are_one_row_and_one_that_refuses_is_its_own(tmp_path: Path) -> None:
    ours: dict[str, Json] = {"variables": {"STRANGE": "set"}}
    theirs: dict[str, Json] = {"variables": {"APPTAINER_NAME": "set", "PS1": "set"}}
    planted = Plan(
        reference={**benchseries.FACTS, **ours}, candidate={**benchseries.INSIDE, **theirs}
    )
    analysis = analyse(reader.read(benchseries.write(tmp_path / "a.jsonl", planted)))
    names = {table.name: table for table in session_tables.open_tables(analysis)}
    rows = names["What differs between the sides"].rows
    assert [row for row in rows if row[0].startswith("variables")] == [
        ("variables.STRANGE", "set", "not stated", "another experiment"),
        ("variables", "", "APPTAINER_NAME, PS1", "expected of a container"),
    ]
    assert analysis.verdict.word == "NOT COMPARABLE"


def test_the_distributions_libraries_are_one_row(tmp_path: Path) -> None:
    ours: dict[str, Json] = {f"lib{n}.so": f"{n:040x}" for n in range(40)}
    theirs: dict[str, Json] = {f"lib{n}.so": f"{n + 1:040x}" for n in range(40)}
    planted = Plan(
        reference={**benchseries.FACTS, "system_library_builds": ours},
        candidate={**benchseries.INSIDE, "system_library_builds": theirs},
    )
    analysis = analyse(reader.read(benchseries.write(tmp_path / "a.jsonl", planted)))
    names = {table.name: table for table in session_tables.open_tables(analysis)}
    rows = names["What differs between the sides"].rows
    assert [row for row in rows if row[0].startswith("system_library_builds")] == [
        (
            "system_library_builds",
            "40 of the distribution's libraries",
            "other builds, or none",
            "other builds of the distribution",
        )
    ]
    # It refuses nothing, and what differs is not the container alone.
    assert scope_text.scope(analysis).endswith(
        "so what differs is the container, together with the distribution's builds of 40 libraries."
    )
    assert any(
        row[0] == "system_library_builds.lib7.so" for row in session_tables.stacks(analysis).rows
    )

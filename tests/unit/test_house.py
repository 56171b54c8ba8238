"""The house stays as it was measured (docs/design.md): rooms, imports and signatures."""

import ast

from tests.values import ROOT
from tools import measure_house

# These only go down: a change that removes one lowers the number.
TUPLES = 0
WIDE = 3
# Walls stand where subjects end: these are warnings, no targets.
MOST, FEWEST = 20, 4
# Folders of few modules, and why they have a wall of their own.
SMALL = {
    "dlcontainer": "the errors alone, which all import",
    "dlcontainer/bench/analysis/steps": "training alone has steps within a launch",
    "dlcontainer/bench/measure/bare": "the arm without an engine, whose tree must be prepared",
    "dlcontainer/bench/probes/learning": "the one probe that trains to an accuracy",
    "dlcontainer/bench/samples/rows": "sessions whose launches have rows",
    "dlcontainer/bench/stats/scatter": "how samples scatter, beside where they lie",
    "dlcontainer/config/yaml_text": "the one reader of YAML, which knows nothing of our fields",
    "dlcontainer/packages/pip": "one package manager, beside `apt/`",
    "dlcontainer/publish/catalogue": "the page of what is live",
    "dlcontainer/publish/unpacked": "images as folders, beside published trees",
}


def test_rooms() -> None:
    counts = measure_house.folders(ROOT)
    assert counts["dlcontainer"] == 1
    rooms = {
        folder: count
        for folder, count in counts.items()
        if folder.partition("/")[2].partition("/")[0] not in measure_house.EXEMPT
    }
    assert {folder: count for folder, count in rooms.items() if count > MOST} == {}
    few = {folder for folder, count in rooms.items() if count < FEWEST}
    assert few == SMALL.keys()


def test_layers() -> None:
    road, bench, lab = measure_house.layers(ROOT)
    assert road <= 8
    assert bench <= 6
    assert lab <= 3


def test_imports_and_signatures() -> None:
    parsed = measure_house.trees(ROOT)
    graph = measure_house.imports(parsed)
    assert measure_house.cycles(graph) == []
    assert measure_house.longest_chain(graph) <= 23
    assert len(measure_house.tuples(parsed)) <= TUPLES
    assert len(measure_house.wide(parsed)) <= WIDE


def test_a_probe_is_named_by_itself_alone() -> None:
    lines = measure_house.probe_words(measure_house.trees(ROOT))
    # The name of a check: `import MODULE`.
    assert [line for line in lines if not line.startswith("dlcontainer.validate.checks:")] == []


def test_a_tuple_is_seen() -> None:

    text = "def f(a: tuple[int, str], b: tuple[int, ...], c: 'tuple[int, int]') -> None: ..."
    assert measure_house.tuples({"m": ast.parse(text)}) == ["m.f(a)", "m.f(c)"]


def test_every_package_says_what_happens_in_it() -> None:
    faces = sorted((ROOT / "dlcontainer").rglob("__init__.py"))
    assert [path for path in faces if not path.read_text().startswith('"""')] == []

"""The house stays as it was measured (docs/why/design.md): rooms, imports and signatures."""

import ast
from collections.abc import Mapping

import pytest

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
    "dlcontainer/publish/unpacked": "images as folders, beside published trees",
    "dlcontainer/schemas": "made from the models of sites and recipes, which know nothing of it",
    "dlcontainer/system/environ": "the one reader of the host's variables",
}
HOMONYMS = 0
MODULE_NAMES = 0
PARTICIPLES = 0
FILLERS_PERCENT = 0.15
GIVE = 5
# A ceiling: the generic words of others shall not take the fillers' place.
GENERIC_PERCENT = 2.5


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
    assert road <= 9
    assert bench <= 6
    assert lab <= 3


@pytest.fixture(scope="module")
def parsed() -> Mapping[str, ast.Module]:
    return measure_house.trees(ROOT)


def test_imports_and_signatures(parsed: Mapping[str, ast.Module]) -> None:
    graph = measure_house.imports(parsed)
    assert measure_house.cycles(graph) == []
    # The static rules are the first half of validate, behind adopt, behind build.
    assert measure_house.longest_chain(graph) <= 24
    assert len(measure_house.tuples(parsed)) <= TUPLES
    assert len(measure_house.wide(parsed)) <= WIDE


def test_a_probe_is_named_by_itself_alone(parsed: Mapping[str, ast.Module]) -> None:
    lines = measure_house.probe_words(parsed)
    # The name of a check: `import MODULE`.
    assert [line for line in lines if not line.startswith("dlcontainer.validate.checks:")] == []


def test_a_tuple_is_seen() -> None:

    text = "def f(a: tuple[int, str], b: tuple[int, ...], c: 'tuple[int, int]') -> None: ..."
    assert measure_house.tuples({"m": ast.parse(text)}) == ["m.f(a)", "m.f(c)"]


def test_names(parsed: Mapping[str, ast.Module]) -> None:
    assert len(measure_house.homonyms(parsed)) <= HOMONYMS
    assert len(measure_house.twins(parsed)) <= MODULE_NAMES
    assert len(measure_house.participles(parsed)) <= PARTICIPLES
    assert len(measure_house.giving(parsed)) <= GIVE
    assert measure_house.share(measure_house.FILLERS, parsed) <= FILLERS_PERCENT
    assert measure_house.share(measure_house.GENERIC, parsed) <= GENERIC_PERCENT


def test_a_participle_is_seen() -> None:
    text = """
class Told: ...
class JobEnded: ...
class Seed: ...
class RankResult:
    class _Kept: ...
"""
    found = measure_house.participles({"m": ast.parse(text)})
    assert found == ["m:2 Told", "m:3 JobEnded", "m:6 _Kept"]


def test_a_name_of_two_classes_is_seen_nested_ones_too() -> None:
    parsed = {"a": ast.parse("class Row: ..."), "b": ast.parse("class Table:\n    class Row: ...")}
    assert measure_house.homonyms(parsed) == ["Row: a:1, b:2"]


def test_a_name_of_three_modules_is_seen() -> None:
    names = ["dlcontainer.a.base", "dlcontainer.b.base", "dlcontainer.a.file", "dlcontainer.base"]
    assert measure_house.twins({name: ast.parse("") for name in names}) == ["base: 3"]


def test_every_kind_of_binding_is_seen() -> None:
    text = """
def f(found, *own, key=None, **given):
    with open(key) as one, [x for other in own] as rows:
        said: int = 1
    for known in rows:
        (here := known)
    try:
        wanted = lambda told: told
    except OSError as left:
        pass
    match rows:
        case [way, *others]:
            pass
"""
    words = measure_house.bound_to(measure_house.FILLERS, {"m": ast.parse(text)})
    text = "found given here known left one other others own said told wanted way"
    assert " ".join(sorted(line.split()[1] for line in words)) == text


def test_a_share_is_of_all_bindings_and_self_is_none() -> None:
    parsed = {"m": ast.parse("class A:\n    def f(self, item, row, cell, mount): return self")}
    assert measure_house.share(measure_house.GENERIC, parsed) == 25.0
    assert measure_house.share(measure_house.FILLERS, parsed) == 0.0


def test_a_docstring_that_gives_is_seen() -> None:
    text = """
def f():
    "Give a row."
def g():
    "Return a row."
def h(): ...
"""
    assert measure_house.giving({"m": ast.parse(text)}) == ["m.f"]


def test_every_package_says_what_happens_in_it() -> None:
    faces = sorted((ROOT / "dlcontainer").rglob("__init__.py"))
    assert [path for path in faces if not path.read_text().startswith('"""')] == []

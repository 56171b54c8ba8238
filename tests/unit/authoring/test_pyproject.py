"""pyproject.toml: what is taken, what is refused, and where."""

from pathlib import Path

import pytest

from dlcontainer.authoring.readers import source_text, toml_text
from tests.unit.authoring.wishes import asked, read, refused

PROJECT = """\
[project]
name = "My.Own"
requires-python = ">=3.10"
dependencies = [
  "numpy>=1.20",
  'torch ; sys_platform == "linux"',  # a comment, with ] and "
  "my-own[plot]; python_version > '3.9'",
]
[project.optional-dependencies]
plot = ["matplotlib", "my_own[deep]"]
deep = ["scipy; os_name=='posix'", "my-own[plot]"]
Other_One = ["tqdm"]
[dependency-groups]
dev = ["pytest", {include-group = "Li_nt"}, "my-own[other-one]"]
li-nt = ["ruff==1", {include-group = "base"}]
base = []
[tool.uv]
constraint-dependencies = ["numpy<3"]
[tool.uv.sources]
torch = { index = "pytorch-cpu" }
unused = { git = "https://h/unused" }
[[tool.uv.index]]
name = "pytorch-cpu"
url = "https://h/whl/cpu"
explicit = true
"""
TORCH = "the index of 'torch' is not taken: the variant brings its own"
OWN = "bind its folder, or add a folder with its wheel: routing.wheels"


def test_a_project(tmp_path: Path) -> None:
    wishes = read(tmp_path / "pyproject.toml", PROJECT)
    assert asked(wishes) == [
        "5: numpy>=1.20",
        '6: torch; sys_platform == "linux"',
        '10: matplotlib; python_version > "3.9"',
        '11: scipy; python_version > "3.9" and os_name == "posix"',
    ]
    assert [str(wish.requirement) for wish in wishes.constraints] == ["numpy<3"]
    assert (wishes.format, wishes.python, wishes.is_locked) == ("pyproject", ">=3.10", False)
    assert wishes.notes == (
        f"{tmp_path}/pyproject.toml:20: {TORCH}",
        f"your own package is not in the image: 'My.Own' ({OWN})",
        "extras that were not asked for: Other_One",
        "groups that were not asked for: dev, li-nt, base",
    )


def test_extras_and_groups_of_a_project(tmp_path: Path) -> None:
    wishes = read(tmp_path / "pyproject.toml", PROJECT, groups=["DEV"], extras=["other.one"])
    assert asked(wishes)[4:] == ["12: tqdm", "14: pytest", "15: ruff==1"]
    text = refused(tmp_path / "pyproject.toml", PROJECT, groups=["devs"], extras=["plott"])
    extra, group = text.splitlines()
    assert extra.startswith("pyproject.toml:9:1: there is no extra 'plott'; did you mean 'plot'?")
    assert group.startswith("pyproject.toml:13:1: there is no group 'devs'; did you mean 'dev'?")
    assert group.endswith("; ask for one of the groups that the file has")


def test_groups_without_a_project(tmp_path: Path) -> None:
    text = '[dependency-groups]\ntest = ["pytest"]\n'
    assert asked(read(tmp_path / "pyproject.toml", text, groups=["test"])) == ["2: pytest"]
    assert "no table [project]" in refused(tmp_path / "pyproject.toml", text)


HEAD = '[project]\nname = "own"\n'
LISTED = f'{HEAD}dependencies = ["b"]\n'
SOURCES = f"{LISTED}[tool.uv.sources]\n"
POETRY = "[tool.poetry.dependencies]\n"
ENTRY = "a requirement is a text"
PROJECTS = [
    (f'{HEAD}dynamic = ["dependencies"]', "3:1: [project].dependencies is dynamic", "PEP 621"),
    (f'{POETRY}numpy = "^1"', "1:1: [tool.poetry.dependencies]", "poetry export"),
    (f'{HEAD}{POETRY}x = "^1"', "3:1: [tool.poetry.dep", "poetry export"),
    ("[tool.black]\nx = 1", "1:1: no table [project]", "write [project].dependencies"),
    (HEAD, "p.toml: the file asks for no package", "ask for an extra"),
    (f"{HEAD}dependencies = []", "p.toml: the file asks for no package", "ask for an extra"),
    (f'{HEAD}dependencies = "x"', "3:1: expected a list of requirements", 'write ["NAME'),
    (f"{HEAD}dependencies = [\n1\n]", f"4:1: {ENTRY}", 'write "NAME'),
    (f'{HEAD}dependencies = [\n {{a = "b"}}]', f"4:2: {ENTRY}", 'write "NAME'),
    (f'{HEAD}dependencies = ["a", "b=1"]', "3:22: not a requirement: 'b=1'", "write b==1"),
    (f'{HEAD}dependencies = ["b @ https://u:secret@h"]', "3:17: 'b': an address", "NAME=="),
    (f'{HEAD}dependencies = ["./b"]', "3:17: a path is not taken", "write NAME=="),
    (f'{LISTED}requires-python = "3"', "4:1: requires-python is no", ">=3.11"),
    (f"{LISTED}requires-python = 3", "4:1: requires-python is no", ">=3.11"),
    (f'{SOURCES}b = {{git = "https://secret"}}', "5:1: 'b' comes from git (tool.uv", "NAME=="),
    (f'{SOURCES}B = [{{path = "../b"}}]', "5:1: 'B' comes from a path", "write NAME=="),
    (f"{SOURCES}[tool.uv.sources.b]\nworkspace = true", "'b' comes from the workspace", "NAME=="),
    (f'{SOURCES}b.url = "https://secret"', "5:1: 'b' comes from an address", "write NAME=="),
    (f'{SOURCES}b = {{index = "mine"}}', "5:1: 'b' comes from an index of its own", "routing.pip"),
    (f'{LISTED}{POETRY}b = {{git = "https://secret"}}', "5:1: 'b' comes from git (", "NAME=="),
    (
        f'{LISTED}{POETRY}b = {{source = "mine"}}',
        "'b' comes from an index of its own",
        "routing.pip",
    ),
    (f'{LISTED}[[tool.uv.index]]\nurl = "https://secret"', "4:1: [[tool.uv.index]]", "routing.pip"),
    (f'{LISTED}[tool.uv]\nextra-index-url = ["secret"]', "5:1: tool.uv.extra-index", "routing.pip"),
    (f'{LISTED}[tool.uv.pip]\nfind-links = ["x"]', "5:1: tool.uv.pip.find-links", "routing.pip"),
    (f'{LISTED}[[tool.pdm.source]]\nurl = "secret"', "4:1: tool.pdm.source", "routing.pip"),
    ("[project\nx=1", "1:9: not valid TOML", "correct the line"),
    (f'{HEAD}dependencies = ["a', "not valid TOML: Unterminated string", "correct the line"),
    ("a = 1\na = 2\n", "2:6: not valid TOML: Cannot overwrite a value", "correct the line"),
    ("a = " + "[" * 3000, "1:56: nested more than 50 levels", ""),
    ("a = " + "{a=" * 3000, "nested more than 50 levels", ""),
    ("a." * 3000 + "a = 1", "1:101: a key of more than 50 parts", ""),
    ("[" + "a." * 3000 + "a]", "a key of more than 50 parts", ""),
    ("a = " + "1" * 5000, "not valid TOML", ""),
    ("name = 1", "p.toml: neither pyproject.toml nor a lock", "give requirements.txt"),
]


@pytest.mark.parametrize(("text", "what", "step"), PROJECTS, ids=range(len(PROJECTS)))
def test_a_project_that_is_refused(tmp_path: Path, text: str, what: str, step: str) -> None:
    words = refused(tmp_path / "p.toml", text)
    head, _, following = words.partition("\n  next: ")
    assert what in head
    assert step in following
    assert "secret" not in words


def test_extras_and_groups_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    cycle = f'{HEAD}[dependency-groups]\na = [{{include-group="b"}}]\nb = [{{include-group="A"}}]\n'
    text = refused(path, cycle, groups=["a"])
    assert text.startswith("pyproject.toml:5:6: a group includes itself: a > b > a")
    long = "".join(f'g{n} = [{{include-group="g{n + 1}"}}]\n' for n in range(30))
    text = refused(path, f'{HEAD}[dependency-groups]\n{long}g30 = ["x"]', groups=["g0"])
    assert "groups include each other more than 10 times" in text
    long = "".join(f"e{n} = [\"own[e{n + 1}]; os_name=='{n}'\"]\n" for n in range(30))
    text = refused(path, f'{HEAD}[project.optional-dependencies]\n{long}e30=["x"]', extras=["e0"])
    assert "extras name each other more than 10 times" in text
    table = f'{HEAD}[dependency-groups]\na = [{{path="x"}}]\n'
    assert "4:6: a table in a group has include-group alone" in refused(path, table, groups=["a"])
    twice = f'{HEAD}[dependency-groups]\na_b = ["x"]\na-b = ["y"]\n'
    assert "two groups are one name: a_b, a-b" in refused(path, twice, groups=["a.b"])
    dynamic = f'{HEAD}dependencies = ["x"]\ndynamic = ["optional-dependencies"]\n'
    assert "4:1: extra 'a': the extras are dynamic" in refused(path, dynamic, extras=["a"])


def test_poetry_that_writes_the_standard_list(tmp_path: Path) -> None:
    text = f'{HEAD}dependencies = ["x>=1"]\n[tool.poetry.dependencies]\nx = {{version = "^1"}}\n'
    assert asked(read(tmp_path / "pyproject.toml", text)) == ["3: x>=1"]


def test_a_package_that_is_none_of_its_own(tmp_path: Path) -> None:
    text = f'{HEAD}dependencies = ["x"]\n[tool.uv]\npackage = false\n'
    assert read(tmp_path / "pyproject.toml", text).notes == ()


def test_what_is_left_out_of_a_project_is_said(tmp_path: Path) -> None:
    text = (
        f'{HEAD}dependencies = ["x"]\n[tool.uv]\noverride-dependencies = ["y<1"]\n'
        '[tool.pixi.dependencies]\ncmake = "*"\n'
    )
    notes = read(tmp_path / "pyproject.toml", text).notes
    assert any("pyproject.toml:5: tool.uv.override-dependencies is not taken" in n for n in notes)
    assert any("pyproject.toml:6: conda packages of [tool.pixi" in note for note in notes)


def test_places_in_toml(tmp_path: Path) -> None:
    text = (
        "a = [1, [2,\n {b = 3, 'c d' = [4]}]]\n[\"q.\\\"r\"]\nx.y = '''\n]['''\n"
        '[[t]]\nn = """\n"a" ]"""\n[[t]]\nn = 1979-05-27T07:32:00Z\n[t.u]\nm = 1.5e3 # = \'\n'
    )
    toml = toml_text.read(source_text.of_text(tmp_path / "x.toml", text))
    places = {
        (): (1, 1), ("a",): (1, 1), ("a", 1, 0): (1, 10), ("a", 1, 1, "b"): (2, 3),
        ("a", 1, 1, "c d", 0): (2, 19), ('q."r', "x", "y"): (4, 1), ("t", 0, "n"): (7, 1),
        ("t", 1): (9, 1), ("t", 1, "n"): (10, 1), ("t", 1, "u", "m"): (12, 1),
        ("t", 1, "u", "nothing"): (11, 1),
    }  # fmt: skip
    marks = {path: toml.mark(path) for path in places}
    assert {path: (mark.line, mark.column) for path, mark in marks.items()} == places

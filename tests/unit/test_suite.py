"""Rules for the tests themselves: a skipped test runs somewhere, and collecting is quick."""

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from functools import cache

import pytest
from _pytest.outcomes import Failed, Skipped
from hypothesis import settings

from tests.skips import skip
from tests.values import ROOT

SKIPPING = {"skip", "skipif", "importorskip", "xfail", "skipTest", "skipIf", "skipUnless"}
HEAVY = {"cyclonedx", "hpccm", "reframe", "scipy", "statsmodels"}
# What settles plans, reads files or starts programs: `pytest --collect-only` waits for each.
SLOW = {
    *("shipped_plan", "shipped_matrix", "shipped_site", "shipped_sites", "plan_of", "plan_at"),
    *("read_text", "read_bytes", "recorded", "oldest", "Popen", "check_output", "which"),
}


@cache
def texts() -> dict[str, str]:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs when a module is imported: decorators and defaults, no function's body."""
    yield node
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and field == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from at_import(child)


def packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    else:
        names = [alias.name for alias in node.names]
    return {name.partition(".")[0] for name in names}


def skips(text: str) -> list[str]:
    """List what skips by itself; most files are not parsed, as they have none of the words."""
    if not any(word in text for word in SKIPPING):
        return []
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr in SKIPPING)
        or (
            isinstance(node, ast.ImportFrom)
            and node.module != "tests.skips"
            and {alias.name for alias in node.names} & SKIPPING
        )
    ]


def test_all_skips_go_through_one_function() -> None:
    others = {name: skips(text) for name, text in texts().items() if name != "tests/skips.py"}
    assert {name: lines for name, lines in others.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pytest.skip('x')",
        "@pytest.mark.skipif(True, reason='')\ndef test(): ...",
        "numpy = pytest.importorskip('numpy')",
        "from pytest import skip",
        "self.skipTest('x')",
        "@mark.xfail\ndef test(): ...",
    ],
)
def test_each_way_to_skip_is_seen(text: str) -> None:
    assert len(skips(text)) == 1


def test_no_test_is_a_stopwatch() -> None:
    timed = re.compile(r"@settings\([^)]*\bdeadline\b")
    assert [name for name, text in texts().items() if timed.search(text)] == []
    assert settings().deadline is None


def test_nobody_polls_with_a_glob() -> None:
    # Path.glob raises where a folder goes between two looks, as another program's folders do.
    globs = [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for name, text in texts().items()
        if "poll(" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and name_of(call) == "poll" and call.args
        if re.search(r"\.r?glob\(|iterdir\(", ast.unparse(call.args[0]))
    ]
    assert globs == [], "use tests.processes.files_below"


SHARED = re.compile(r"/tmp|/var/tmp|/dev/shm|gettempdir")
LOOKS = ("glob", "rglob", "iterdir", "listdir", "scandir")


def looks_at_shared(text: str) -> list[str]:
    """List looks at folders shared with others; a pattern with a name of its own is fine."""
    if not SHARED.search(text):
        return []
    tree = ast.parse(text)
    shared = {
        ast.unparse(top.targets[0])
        for top in tree.body
        if isinstance(top, ast.Assign) and SHARED.search(ast.unparse(top.value))
    }
    return [
        f"{call.lineno}: {ast.unparse(call)}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and name_of(call) in LOOKS
        if isinstance(call.func, ast.Attribute)
        if not any(isinstance(pattern, ast.JoinedStr) for pattern in call.args)
        for folder in [ast.unparse(call.args[0] if name_of(call)[:1] in "ls" else call.func.value)]
        if folder in shared or SHARED.search(folder)
    ]


def test_nobody_compares_a_folder_that_others_write() -> None:
    # Tests run side by side: what another made or removed meanwhile is no fault.
    looks = {name: looks_at_shared(text) for name, text in texts().items()}
    assert {name: lines for name, lines in looks.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("BASE = Path(f'/tmp/x-{uid}')\nmade = set(BASE.glob('*')) - before", 1),
        ("BASE = Path('/dev/shm')\nlist(BASE.iterdir())", 1),
        ("os.listdir(tempfile.gettempdir())", 1),
        ("BASE = Path('/tmp')\nBASE.glob(f'*{job.name}*')", 0),
        ("BASE = Path('/tmp')\ntmp_path.glob('*')", 0),
    ],
)
def test_a_look_at_a_shared_folder_is_seen(text: str, count: int) -> None:
    assert len(looks_at_shared(text)) == count


# The cache of these is that of all tests of a worker, whichever of them ran before.
CACHE = re.compile(r"\b(world|launching)\.environ\['XDG_CACHE_HOME'\]")


def taken_for_alone(text: str) -> list[str]:
    """List looks that take what a shared cache has one of for the only one."""
    found = []
    for top in ast.parse(text).body:
        assigned = [node for node in ast.walk(top) if isinstance(node, ast.Assign)]
        named = {ast.unparse(a.targets[0]) for a in assigned if CACHE.search(ast.unparse(a.value))}
        for look in assigned:
            if isinstance(look.targets[0], ast.Tuple | ast.List) and isinstance(
                look.value, ast.Call
            ):
                call = look.value.func
                folder = ast.unparse(call.value) if isinstance(call, ast.Attribute) else ""
                is_shared = folder in named or CACHE.search(folder)
                if is_shared and name_of(look.value) in LOOKS:
                    found.append(f"{look.lineno}: {ast.unparse(look)}")
    return found


def test_nobody_takes_the_one_that_is_there_for_the_only_one() -> None:
    looks = {name: taken_for_alone(text) for name, text in texts().items()}
    assert {name: lines for name, lines in looks.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('(note,) = Path(world.environ["XDG_CACHE_HOME"]).glob("trial-*")', 1),
        ("def f():\n t = launching.environ['XDG_CACHE_HOME'] / 'x'\n [a] = t.glob('*')", 1),
        ("(note,) = Path(alone.environ['XDG_CACHE_HOME']).glob('*')", 0),
        ("any_of = Path(world.environ['XDG_CACHE_HOME']).glob('*')", 0),
    ],
)
def test_what_is_taken_for_the_only_one_is_seen(text: str, count: int) -> None:
    assert len(taken_for_alone(text)) == count


# Who still runs: a command that a killed shell had started ends a moment after its shell.
RUNNING = {"marked", "steps", "living", "ranks_of", "mentioning"}
# Here somebody promises to end last, and is held to that: the supervisor of a launch, a cluster of
# the tests, Slurm with a cgroup for each step.
ENDS_LAST = {
    "tests/integration/test_bench.py",
    "tests/integration/test_bench_arms.py",
    "tests/integration/test_bench_ranks.py",
    "tests/integration/slurm/test_cluster.py",
    "tests/integration/slurm/test_keep.py",
}


def asked_once(text: str) -> list[str]:
    """List asserts that nobody runs any more and that look a single time."""
    return [
        f"{node.lineno}: {ast.unparse(node.test)}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assert)
        for test in [node.test]
        for look in [test.operand if isinstance(test, ast.UnaryOp) else getattr(test, "left", None)]
        for part in (look.elts if isinstance(look, ast.Tuple) else [look])
        if isinstance(part, ast.Call) and name_of(part) in RUNNING
        if isinstance(test, ast.UnaryOp) or ast.unparse(test).endswith(("[]", "{}", "[], {})"))
    ]


def test_nobody_looks_once_for_who_still_runs() -> None:
    looks = {name for name, text in texts().items() if asked_once(text)}
    assert looks == ENDS_LAST, "use left_of or poll, unless somebody promises to end last"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("assert marked(mark) == {}", 1),
        ("assert not marked(self.mark)", 1),
        ("assert cluster.steps() == []", 1),
        ("assert (cluster.steps(), marked(mark)) == ([], {})", 2),
        ("assert left_of(mark) == {}", 0),
        ("assert poll(lambda: cluster.steps() == [], 60)", 0),
        ("assert set(marked(mark)) <= {1}", 0),
    ],
)
def test_a_single_look_for_who_still_runs_is_seen(text: str, count: int) -> None:
    assert len(asked_once(text)) == count


def test_nothing_is_settled_when_tests_are_collected() -> None:
    slow = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, text in texts().items()
        for top in ast.parse(text).body
        for node in at_import(top)
        if (isinstance(node, ast.Call) and name_of(node) in SLOW)
        or (isinstance(node, ast.Import | ast.ImportFrom) and packages(node) & HEAVY)
    ]
    assert slow == [], "do it in a fixture or a cached function"


@pytest.mark.parametrize("value", ["", "false"])
def test_outside_of_ci_a_test_is_skipped(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(Skipped, match="no program"):
        skip("no program")


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(Failed, match="no program"):
        skip("no program")
    with pytest.raises(Skipped, match="not root; covered by a run as root"):
        skip("not root", elsewhere="a run as root")


def test_the_walk_sees_what_runs_at_import() -> None:
    text = "A = shipped_plan('x')\n@mark(plan_of())\ndef f(a=which('x')):\n    return read_text()\n"
    calls = (node for node in at_import(ast.parse(text)) if isinstance(node, ast.Call))
    names = {name_of(call) for call in calls}
    assert names == {"shipped_plan", "mark", "plan_of", "which"}


def code_in_strings(text: str) -> Iterator[ast.ImportFrom]:
    """Walk the imports of this package in programs that a test hands to another interpreter."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if "from dlcontainer" not in node.value:
            continue
        try:
            program = ast.parse(node.value)
        except SyntaxError:
            continue  # prose
        yield from (part for part in ast.walk(program) if isinstance(part, ast.ImportFrom))


def is_there(module: str, name: str) -> bool:
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        return importlib.util.find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError:
        return False


def test_programs_in_strings_import_what_is_there() -> None:
    wanted = [
        (name, node.module or "", alias.name)
        for name, text in texts().items()
        if "from dlcontainer" in text and name != "tests/unit/test_suite.py"
        for node in code_in_strings(text)
        for alias in node.names
        if (node.module or "").startswith("dlcontainer")
    ]
    assert wanted, "no such program is left: remove this test"
    assert [entry for entry in wanted if not is_there(*entry[1:])] == []


def test_lint_skips_what_set_up_leaves_where_there_is_no_git() -> None:
    """A checkout without .git: ruff does not read .gitignore there."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert {".tools", "images", "demo"} <= ignored & set(excluded["extend-exclude"])

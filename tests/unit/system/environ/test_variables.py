"""The one reader of the host's variables: an empty one is not set, a relative folder is none."""

import ast
import os
import pwd
from pathlib import Path

import pytest

from dlcontainer.system.environ import variables
from tests.values import ROOT

FOLDERS = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")
# Who may name such a variable beside the reader, and why.
OTHERS = {
    # Code that runs inside images or on a job's nodes, where nothing else of ours is.
    "lab/filesystem/audit_hook.py",
    # They hand a child a bare environment: of the reader's, name by name.
    "bench/measure/native_twin.py",
    "build/provenance.py",
    "engines/apptainer.py",
    "engines/base_modes.py",
    "packages/pip/pip_resolver.py",
}


@pytest.mark.parametrize("name", [*FOLDERS, "TMPDIR", "JUPYTER_DATA_DIR"])
def test_folders(name: str, tmp_path: Path) -> None:
    for none in ({}, {name: ""}, {name: "relative/below"}, {name: "."}):
        assert variables.folder(none, name) is None
        assert name not in variables.settled(none).environ
    there = {name: str(tmp_path)}
    assert variables.folder(there, name) == tmp_path
    assert variables.settled(there).environ == there


def test_a_home_that_is_not_set_is_that_of_the_passwd_line(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for none in ({}, {"HOME": ""}, {"HOME": "relative"}):
        assert variables.home(none) == own
    assert variables.home({"HOME": "/home/ada"}) == Path("/home/ada")

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert variables.home({}) == Path("/")


def test_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Path("/tmp")
    # root may write anywhere, as far as modes say.
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "/proc" and may(path, mode))
    file = tmp_path / "file"
    file.write_text("")
    assert variables.temporary({"TMPDIR": str(tmp_path)}) == tmp_path
    assert variables.settled({"TMPDIR": str(tmp_path)}).note is None
    assert variables.settled({"TMPDIR": ""}).note is None
    for given, words in (
        ("relative", "not an absolute path"),
        (str(tmp_path / "none"), "this machine has no such folder"),
        (str(file), "this machine has no such folder"),
        ("/proc", "you cannot write there"),
    ):
        settled = variables.settled({"TMPDIR": given, "A": "b"})
        assert settled.environ == {"A": "b"}
        assert str(settled.note).startswith(f"ignoring TMPDIR={given}: ")
        assert words in str(settled.note)
        assert variables.temporary({"TMPDIR": given}) == usual


@pytest.mark.parametrize("name", PROXIES)
def test_proxies(name: str) -> None:
    upper = name.upper()
    for given in ({name: "x"}, {name: "x", upper: "y"}, {name: "x", upper: ""}):
        assert variables.proxies(given) == {name: name}
        assert variables.proxies(variables.settled(given).environ) == {name: name}
    assert variables.proxies({upper: "y"}) == {name: upper}
    # As Python's own programs have it: the empty one in lower case switches it off.
    for given in ({}, {name: ""}, {upper: ""}, {name: "", upper: "y"}):
        assert variables.proxies(given) == {}
        assert variables.settled(given).environ == {}


def test_our_own_variables_and_those_of_others() -> None:
    assert variables.text({"DLCONTAINER_PASS": ""}, "DLCONTAINER_PASS") is None
    assert variables.text({"DLCONTAINER_PASS": "A"}, "DLCONTAINER_PASS") == "A"
    given = {"DLCONTAINER_MPI": "", "OWN": "", "DLCONTAINER_PASS": "A"}
    assert variables.settled(given).environ == {"OWN": "", "DLCONTAINER_PASS": "A"}


def is_meant(value: object) -> bool:
    if not isinstance(value, str):
        return False
    known = (*FOLDERS, "TMPDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    return value in known or value.lower() in PROXIES or value.startswith("DLCONTAINER_")


def reads(tree: ast.AST) -> list[int]:
    """Find where a mapping is asked for such a name: X.get(NAME …), X[NAME], NAME in X."""
    found = []
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # Of an environment; what a build's proxies are kept in has the reader's names.
            if node.func.attr in ("get", "getenv", "pop") and "environ" in ast.dump(node.func):
                asked = node.args[:1]
        elif isinstance(node, ast.Subscript) and "environ" in ast.dump(node.value):
            asked = [node.slice]
        elif isinstance(node, ast.Compare) and "environ" in ast.dump(node.comparators[0]):
            asked = [node.left]
        found += [
            one.lineno for one in asked if isinstance(one, ast.Constant) and is_meant(one.value)
        ]
        if isinstance(node, ast.Attribute) and node.attr in ("gettempdir", "expandvars"):
            found.append(node.lineno)
    return found


def test_nobody_else_reads_them() -> None:
    package = ROOT / "dlcontainer"
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith("probe/") or name in OTHERS or name == "system/environ/variables.py":
            continue
        lines = reads(ast.parse(path.read_text()))
        if lines:
            found[name] = lines
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        'host.environ.get("TMPDIR") or "/tmp"',
        'os.environ["HOME"]',
        'os.getenv("XDG_CACHE_HOME")',
        '"https_proxy" in world.environ',
        'environ.get("DLCONTAINER_PASS", "")',
        "tempfile.gettempdir()",
    ],
)
def test_a_read_is_found(text: str) -> None:
    source = text.replace("os.getenv", "os.environ.getenv")
    assert reads(ast.parse(source)) == [1]

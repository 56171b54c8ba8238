"""One class an exit code, unique and documented."""

import ast
import re

import pytest

from dlcontainer import errors
from dlcontainer.cli.main import app
from dlcontainer.errors import ConfigError, DlcontainerError, Mark
from tests.values import ROOT

CLASSES = DlcontainerError.__subclasses__()
CODES = {cls.exit_code for cls in CLASSES}


def test_codes_are_unique_and_those_promised() -> None:
    assert len(CODES) == len(CLASSES)
    assert {1, 2, 3, 4, 5, 6, 7, 8, 130} == CODES
    assert DlcontainerError.exit_code not in CODES


def test_codes_stand_in_the_help() -> None:
    epilog = str(app.info.epilog)
    assert {int(code) for code in re.findall(r"\b\d+\b", epilog)} >= {0, *CODES}


def test_codes_stand_in_the_readme() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    for code in CODES:
        assert re.search(rf"\b{code}\b", text), f"exit code {code} is not in the page"


def test_no_class_hides_below_another() -> None:
    names = {cls.__name__ for cls in CLASSES}
    below = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sorted((ROOT / "dlcontainer").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        if {ast.unparse(base).rpartition(".")[2] for base in node.bases} & names
    ]
    assert below == []
    assert all(cls.__doc__ and cls.__name__.endswith("Error") for cls in CLASSES)
    defined = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    assert {cls for cls in defined if issubclass(cls, DlcontainerError)} == {
        DlcontainerError,
        *CLASSES,
    }


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("what"), "what"),
        (ConfigError("what", where="here"), "here: what"),
        (
            ConfigError(
                "what", where=Mark(file="it's.yaml", line=3, column=4), why="a", next_step="b"
            ),
            "it's.yaml:3:4: what\n  why: a\n  next: b",
        ),
    ],
)
def test_how_an_error_reads(error: ConfigError, text: str) -> None:
    assert str(error) == text


def test_long_values_are_cut() -> None:
    folder = "/" + "/".join(["d" * 200] * 6)
    long = ConfigError(f"not a name: {'x' * 50_000!r}", why=f"see {folder}/file: {'y z ' * 9000}")
    assert long.what == f"not a name: '{'x' * 199}…"
    assert f"see {folder}/file: y z" in str(long.why)
    assert len(str(long.why)) == 2001
    short = "a path is copied: " + folder + "\n" + "b" * 200
    assert ConfigError(short).what == short

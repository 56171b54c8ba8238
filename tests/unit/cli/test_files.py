"""What is wrong in a file is named with its line, column and key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dlcontainer.cli import main
from tests.values import RECIPE, SITE, folder_of

SITE_TEXT = yaml.safe_dump(dict(SITE), sort_keys=False)
RECIPE_TEXT = yaml.safe_dump(dict(RECIPE), sort_keys=False)


def line_of(text: str, part: str) -> int:
    return 1 + next(at for at, line in enumerate(text.splitlines()) if part in line)


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def said(*, site: str = SITE_TEXT, recipe: str = RECIPE_TEXT) -> tuple[int, str]:
        folder = folder_of(tmp_path)
        (folder / "recipe.yaml").write_text(recipe)
        (tmp_path / "it's.yaml").write_text(site)
        argv = ["plan", str(folder), "--site", str(tmp_path / "it's.yaml")]
        code = main._run(argv, as_json=False)
        out, err = capsys.readouterr()
        assert out == ""
        return code, err.replace(f"{tmp_path}/", "")

    return said


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("summery: x\n", "{n}:1: summery: unknown key; did you mean 'summary'?"),
        ("cpu: {model: a, cores: many}\n", "{n}:17: cpu.cores: expected a whole number, got text"),
        ("os: [debian]\n", "{n}:1: os: expected a mapping, got a list"),
        ("name: again\n", "{n}:1: duplicate key 'name': on line 2 and here"),
        ("x: [1, 2\n", ":"),
        ("x: {a: b: c}\n", "{n}:"),
        ("\tx: 1\n", "{n}:1: "),
        ("x: &a 1\n", "{n}:4: anchors (&a) are not supported: write the value out"),
        ("x: !!python/object:os.system {}\n", "{n}:4: tag"),
    ],
)
def test_a_wrong_site(said: Any, added: str, message: str) -> None:
    code, err = said(site=SITE_TEXT + added)
    number = 1 + SITE_TEXT.count("\n")
    assert code == 3
    assert err.startswith(
        "dlcontainer: it's.yaml:" + message.replace("{n}", str(number)).lstrip(":")
    )


def test_a_wrong_recipe_names_every_place(said: Any) -> None:
    text = RECIPE_TEXT.replace("version:", "verzion:").replace("prefix: /opt/demo", "prefix: 1")
    code, err = said(recipe=text)
    name, line = "it's a recipe/recipe.yaml", line_of(text, "prefix")
    assert code == 3
    assert err.splitlines() == [
        f"dlcontainer: {name}:1:1: version: missing; expected text",
        f"{name}:{line_of(text, 'verzion')}:1: verzion: unknown key; did you mean 'version'?",
        f'{name}:{line}:1: prefix: expected text, got a number (1): quote it: "1"',
    ]


def test_an_undefined_variable(said: Any) -> None:
    text = RECIPE_TEXT + "environment:\n  GOOD: a\n  BAD: '{{ versions.tol }}'\n"
    code, err = said(recipe=text)
    assert code == 3
    where = f"it's a recipe/recipe.yaml:{line_of(text, 'BAD')}:3"
    assert err.startswith(f"dlcontainer: {where}: template: 'dict object' has no attribute 'tol'\n")
    assert "next: names it may use: site, base, versions, prefix, recipe" in err


def test_huge_empty_and_other_files(said: Any) -> None:
    code, err = said(site=SITE_TEXT + "#" * 2_000_000)
    assert (code, "it's.yaml: the file has more than 1024 KiB" in err) == (3, True)
    code, err = said(site="")
    assert (code, "the file is empty" in err) == (3, True)
    code, err = said(recipe="- a\n- b\n")
    assert (code, "recipe.yaml:1:1: expected a mapping" in err) == (3, True)
    code, err = said(site="[" * 5000)
    assert (code, "nested more than 50 levels deep" in err) == (3, True)

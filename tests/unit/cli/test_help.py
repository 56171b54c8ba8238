"""Help pages, and what a command line that is wrong is told to be instead."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from dlcontainer.cli import main
from dlcontainer.cli.app import HelpCommand, HelpGroup


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """List every command with its words."""
    yield path, of
    for name, one in getattr(of, "commands", {}).items():
        yield from commands(one, (*path, name))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def page(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main._run(list(words), as_json=False) == 0
    return capsys.readouterr().out


def test_each_page_fits_80_columns_and_hides_nothing(
    narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = list(commands(typer.main.get_command(main.app)))
    assert len(pages) > 25
    for path, command in pages:
        _check(path, command, capsys)


def _check(path: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(command, HelpCommand | HelpGroup), "make its app with cli/app.py's App"
    text = page(capsys, *path, "-h")
    assert text == page(capsys, *path, "--help")
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for oddity in ("[[", "Default: .", "<list", "<str>", "<Path>", "\033"):
        assert oddity not in text
    for option in command.params:
        shown = not getattr(option, "hidden", False) and option.param_type_name == "option"
        assert not shown or all(word in text for word in option.opts)


def test_long_pages_begin_with_the_usual_options(
    narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("build",), ("bench", "import"), ("bench", "train"), ("bench", "collectives")):
        text = page(capsys, *words, "-h")
        first = text.partition("\n\nUsual:\n")[2].partition("\n\n")[0]
        names = re.findall(r"^  (?:-\w, )?(--[\w-]+)", first, re.MULTILINE)
        assert {"--site", "--output"} <= set(names)
        assert len(names) <= 10
        # Nothing is listed twice.
        assert all(
            len(re.findall(rf"^  (?:-\w, )?{name}\b(?!-)", text, re.M)) == 1 for name in names
        )
    assert "Usual:" not in page(capsys, "render", "-h")


def test_groups_defaults_and_what_is_required(
    narrow: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = page(capsys, "-h")
    assert re.findall(r"^(\w[^:\n]*):$", text, re.MULTILINE)[:4] == [
        *("Look", "Make", "Check and publish", "Measure")
    ]
    text = page(capsys, "build", "-h")
    assert text.startswith("Usage: dlcontainer build --site SITE [OPTIONS] [RECIPE|FILE]\n")
    flat = " ".join(text.split())
    assert "Folder for the image. Default: images." in flat
    assert "or its file. Required." in flat
    assert "--engine apptainer|docker|podman" in flat


@pytest.mark.parametrize(
    ("argv", "what", "step"),
    [
        ("buld pytorch --site local", "did you mean 'build'?", "build pytorch --site local"),
        ("site shwo local", "did you mean 'show'?", "site show local"),
        ("qqqq", "No such command 'qqqq'", "--help"),
        ("help", "No such command 'help'", "--help"),
        ("help build", "No such command 'help'", "build --help"),
        ("version", "No such command 'version'", "--version"),
        ("bench import", "Missing option '--site'", "bench import --help"),
        ("site diff local", "Missing argument 'SITE'", "site diff --help"),
        ("plan --nope --site local", "No such option: --nope", "plan --help"),
        ("build local pytorch", "'local' is a site", "build pytorch --site local"),
        ("build pytorch summit@2021", "is a site", "build pytorch --site summit@2021"),
        ("plan local", "'local' is a site", "plan --site local"),
        ("render pytorch local", "'local' is a site", "render pytorch --site local"),
    ],
)
def test_the_next_step_is_a_line_to_type(
    argv: str, what: str, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run(argv.split(), as_json=False) == 2
    message = capsys.readouterr().err
    assert what in message
    assert message.endswith(f"\n  next: dlcontainer {step}\n")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ("plan local --site pytorch", "'pytorch' is a recipe"),
        ("plan summit --site local", "'summit' is a site config"),
    ],
)
def test_a_recipe_in_the_place_of_a_site(
    argv: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run(argv.split(), as_json=False) == 3
    assert f"next: {hint}: `dlcontainer COMMAND RECIPE --site SITE`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "inspect", "diff", "publish"])
def test_a_mistyped_path_is_no_failed_check(
    command: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"diff": [str(tmp_path)], "publish": ["--site", "local"]}.get(command, [])
    assert main._run([command, str(tmp_path / "no.sif"), *more], as_json=False) == 2
    assert "no.sif: No such file" in capsys.readouterr().err
    assert main._run([command, str(tmp_path), *more], as_json=False) == 2
    assert "Is a directory" in capsys.readouterr().err

"""What commands that read show on terminals of several widths, and in a pipe."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from dlcontainer.cli import main
from dlcontainer.cli.app import HelpGroup
from tests import terminals
from tests.terminals import READS, WRITES, Samples, Shown, Typed
from tests.unit.cli.test_help import commands
from tests.values import RECIPE, SITE, write_yaml

WIDTHS = (80, 100)
ALL = list(commands(typer.main.get_command(main.app)))
READING = [one for one in terminals.typed() if not one.runs]
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 8}
Show = Callable[..., Shown]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return terminals.samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Settle each site and each matrix once: the tests are of what is shown of them."""
    with pytest.MonkeyPatch.context() as patch:
        terminals.read_once(patch)
        yield


@pytest.fixture
def show(samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Show:
    """Run a command line as a user with an empty home."""
    monkeypatch.setenv("HOME", str(samples.home))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.chdir(tmp_path)

    def show(line: str, columns: int | None = 80) -> Shown:
        return terminals.show(samples.words(line), monkeypatch, columns)

    return show


def test_each_command_is_decided_on() -> None:
    """A new command reads, and is typed below, or it writes."""
    names = {" ".join(words) for words, one in ALL if not isinstance(one, HelpGroup)}
    assert names - set(READS) - WRITES == set()
    assert (set(READS) | WRITES) - names == {""}
    assert set(READS) & WRITES == set()


@pytest.mark.parametrize("typed", READING, ids=lambda one: one.words)
def test_lines_fit(typed: Typed, show: Show) -> None:
    narrow, wide = (show(typed.words, columns) for columns in WIDTHS)
    assert (narrow.code, narrow.code in DOCUMENTED) == (wide.code, True)
    for shown, columns in zip((narrow, wide), WIDTHS, strict=True):
        assert terminals.too_wide(shown.err, columns) == []
        assert typed.verbatim or terminals.too_wide(shown.out, columns) == []
    # A first column's head stands over no rows that are stacked.
    assert _words(narrow.out) ^ _words(wide.out) <= {"module", "source", "target", "value"}
    if typed.verbatim:
        assert narrow.out == show(typed.words, None).out


@pytest.mark.parametrize(
    "line",
    [
        *("--help", "build --help", "cache list", "site environment", "lock --diff {old} {new}"),
        *("modules list --root {tree} -v", "plan pytorch --site lumi", "prove {bad}"),
        *("report {session} {findings}", "site list", "site show lumi", "report {nosuch}"),
    ],
)
def test_very_narrow_and_very_wide(line: str, show: Show) -> None:
    narrow, wide = show(line, 20), show(line, 300)
    assert narrow.code == wide.code
    # An indent and the least that a sentence gets.
    assert terminals.too_wide(narrow.out, 36) + terminals.too_wide(narrow.err, 36) == []
    assert terminals.too_wide(wide.out, 300) + terminals.too_wide(wide.err, 300) == []


def test_a_report_on_a_terminal_is_text(show: Show) -> None:
    line = "report {session} {imports} {groups} {findings} --proof {good}"
    shown, piped = show(line.replace(" --proof {good}", "")), show("report {groups}", None)
    for mark in ("##", "**", "| --", "- file:"):
        assert mark not in shown.out
        assert mark in piped.out
    assert "Processes of the groups" in shown.out
    assert "see the table below" in " ".join(shown.out.split())
    assert "NOT COMPARABLE" in shown.out


def test_a_list_of_modules_is_of_use_at_80_columns(show: Show, samples: Samples) -> None:
    head, *rows = show("modules list --root {tree}").out.splitlines()
    assert head.split() == ["module", "release", "marks", "image", "checked", "checks"]
    assert [row.split()[0] for row in rows] == ["demo/1.0", "demo/2.0"]
    assert "under 1 MB" in rows[0]
    assert samples.files["tree"] not in "".join(rows)
    assert samples.files["tree"] in show("modules list --root {tree} -v").out


@pytest.fixture
def own(samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a user's folder with a site of everything that is odd."""
    config = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    return config / "dlcontainer"


# Right to left; wide; letters with marks of their own.
ODD = "\u05e9\u05dc\u05d5\u05dd 123 漢字漢字 e\u0301te\u0301 " + "超級電腦中心" * 20


def test_names_and_summaries_that_are_odd(own: Path, show: Show, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    name = "a" + "b" * 199
    write_yaml(own / "site-configs/odd.yaml", {**SITE, "name": "odd", "summary": ODD})
    write_yaml(own / f"site-configs/{name}.yaml", {**SITE, "name": name, "summary": "s"})
    longest = "a" + "b" * 62
    write_yaml(own / f"site-configs/{longest}.yaml", {**SITE, "name": longest, "summary": ODD})
    write_yaml(own / f"recipes/{longest}/recipe.yaml", {**RECIPE, "name": longest, "summary": ODD})
    (own / f"recipes/{longest}/verify.py").write_text("")
    for line in ("site list", "site list -v", "recipe list", f"plan {longest} --all --site odd",
                 "site show odd", f"site diff odd {longest}", f"site show {name}"):  # fmt: skip
        shown = show(line)
        wrong = line in ("site list", "site list -v", f"site show {name}")
        assert shown.code == (3 if wrong else 0), shown.err
        assert terminals.too_wide(shown.out, 80) + terminals.too_wide(shown.err, 80) == []
    assert [row for row in show("site list").out.splitlines() if row.startswith("lumi@2026-01")]
    # What turns the text around it is refused, and shown as a code.
    turned = {**SITE, "name": "turned", "summary": "s \u202e123"}
    write_yaml(own / "site-configs/turned.yaml", turned)
    shown = show("site show turned")
    assert shown.code == 3
    assert "\\u202e123" in shown.err
    assert "\u202e" not in shown.err


def test_one_bad_file_among_300(own: Path, show: Show, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    for number in range(300):
        name = f"site{number:03}"
        write_yaml(own / f"site-configs/{name}.yaml", {**SITE, "name": name})
    (own / "site-configs/site150.yaml").write_text("schema: 1\nname: [\n")
    shown = show("site list")
    assert shown.code == 3
    assert len([row for row in shown.out.splitlines() if row.startswith("site")]) == 299
    assert "site150.yaml:" in shown.err
    assert "Traceback" not in shown.err
    assert terminals.too_wide(shown.err, 80) == []


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text))

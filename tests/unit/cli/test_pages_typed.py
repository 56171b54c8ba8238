"""The lines of pages for staff, typed as they stand on a tree of small releases."""

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.cli import main
from tests.trees import both, hand, image_file, put, seen
from tests.values import ROOT


def lines(page: str) -> list[list[str]]:
    """Return the words of each command of a page's first block of lines."""
    text = (ROOT / f"docs/centre/{page}.md").read_text()
    (block, *_) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words[1:] for words in commands if words[0] == "dlcontainer"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publish the versions that the pages name, the older one as the default."""
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "containers"
    root.mkdir()
    by = hand(time.time)
    put(root, image_file(tmp_path / "images"), by=by)
    put(root, image_file(tmp_path / "images", b"another"), "2.0", by=by)
    return root


@pytest.fixture
def type_line(root: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    """Type a command's words: the pages' tree and versions are the test's."""
    names = {"/sw/containers": str(root), "pytorch/2.9.1": "demo/1.0"}
    names |= {"pytorch/2.13.0": "demo/2.0", "pytorch/2.14.1": "demo/2.0"}

    def type_line(words: list[str]) -> str:
        code = main._run([names.get(word, word) for word in words], as_json=False)
        out, err = capsys.readouterr()
        assert code == 0, (words, err)
        return out + err

    return type_line


def test_retire_a_module(root: Path, type_line: Callable[[list[str]], str]) -> None:
    page = lines("retire-a-module")
    assert [words[1] for words in page] == [
        *("list", "default", "deprecate", "unpublish", "gc", "gc", "rollback")
    ]
    live = []
    for words in page:
        type_line(words)
        live.append(set(both("1.0")) <= set(seen(root)))
    # gc took nothing: after 30 days it would.
    assert live == [True, True, True, False, False, False, True]
    warned = (root / "modules/tcl/demo/1.0").read_text()
    assert "use pytorch/2.13.0" in warned
    assert "2027-01-31" in warned
    assert seen(root) == both("1.0", "2.0")


def test_a_new_years_stack(root: Path, type_line: Callable[[list[str]], str]) -> None:
    page = lines("a-new-years-stack")
    assert [words[0] for words in page] == [
        *(
            "recipe",
            "recipe",
            "plan",
            "build",
            "validate",
            "publish",
            "modules",
            "modules",
            "modules",
        )
    ]
    for words in page[-2:]:
        type_line(words)
    assert '"demo/2.0", "2027"' in (root / "modules/lmod/demo/.modulerc.lua").read_text()
    listed = type_line(["modules", "list", "--root", str(root)])
    assert re.search(r"demo/2\.0.*default", listed), listed

"""`validate --static`: what it prints of an image, for people and for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import elves, terminals, unpacked
from tests.terminals import Shown

LEVELS = ["error", "warning", "not decided", "note"]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Shown]:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    def typed(*words: object) -> Shown:
        return terminals.show(["validate", *map(str, words)], monkeypatch, None)

    return typed


def test_text(tmp_path: Path, typed: Callable[..., Shown]) -> None:
    image = unpacked.broken(tmp_path / "image")
    shown = typed(image, "--static", "--site", "frontier")
    assert shown.code == 1
    firsts = [line for line in shown.out.splitlines() if not line.startswith(" ")]
    marks = [next(level for level in LEVELS if line.startswith(level)) for line in firsts]
    assert marks == sorted(marks, key=LEVELS.index)
    assert set(marks) == set(LEVELS)
    assert "it will not run there: " in shown.err
    right = elves.write(tmp_path / "right", unpacked.IMAGE)
    shown = typed(right, "--static", "--site", "example-slurm")
    assert shown.code == 0
    assert shown.out.splitlines()[-1].startswith("may run there: 0 errors, 0 warnings")


def test_json(tmp_path: Path, typed: Callable[..., Shown]) -> None:
    image = unpacked.broken(tmp_path / "image")
    shown = typed(image, "--static", "--site", "frontier", "--json")
    body = json.loads(shown.out)
    assert (shown.code, body["schema"], body["ok"]) == (1, "dlcontainer/validate-static/1", False)
    assert list(body) == ["schema", "image", "site", "ok", "findings"]
    for finding in body["findings"]:
        assert list(finding) == ["rule", "level", "file", "what", "why", "fix"]
        assert all(finding[key] for key in ("rule", "what", "why"))
        assert finding["level"] in LEVELS
    rules = {finding["rule"] for finding in body["findings"]}
    assert rules == {
        "missing-library",
        "symbol-version",
        "damaged-file",
        "gpu-code",
        "mpi-library",
        "host-library",
    }


def test_a_site_is_needed(tmp_path: Path, typed: Callable[..., Shown]) -> None:
    shown = typed(tmp_path, "--static")
    assert (shown.code, shown.out) == (2, "")
    assert "--static needs a site" in shown.err


def test_sarif(tmp_path: Path, typed: Callable[..., Shown]) -> None:
    image = unpacked.broken(tmp_path / "image")
    shown = typed(image, "--static", "--site", "frontier", "--sarif")
    assert (shown.code, shown.err) == (1, "")
    (run,) = json.loads(shown.out)["runs"]
    body = json.loads(typed(image, "--static", "--site", "frontier", "--json").out)
    assert [result["ruleId"] for result in run["results"]] == [
        finding["rule"] for finding in body["findings"]
    ]
    right = elves.write(tmp_path / "right", unpacked.IMAGE)
    shown = typed(right, "--static", "--site", "example-slurm", "--sarif")
    (run,) = json.loads(shown.out)["runs"]
    assert (shown.code, run["results"]) == (0, [])


@pytest.mark.parametrize(
    ("words", "what"),
    [(["--sarif"], "--sarif needs --static"), (["--static", "--json", "--sarif"], "two formats")],
)
def test_formats_that_do_not_fit(
    tmp_path: Path, typed: Callable[..., Shown], words: list[str], what: str
) -> None:
    shown = typed(tmp_path, *words, "--site", "frontier")
    assert shown.code == 2
    assert what in shown.out + shown.err


def test_a_name_forges_no_finding(tmp_path: Path, typed: Callable[..., Shown]) -> None:
    name = "x\nmay run there: 0 errors\x1b[2J.abi3.so"
    module = {f"{unpacked.PACKAGES}/{name}": elves.Elf(needed=("libgone.so",))}
    image = elves.write(tmp_path / "image", {**unpacked.IMAGE, **module})
    shown = typed(image, "--static", "--site", "example-slurm")
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert [line.split(":")[0] for line in shown.out.splitlines() if line[:1] != " "] == [
        "warning      missing-library",
        "may run there",
    ]

"""Findings of `validate --static` as SARIF 2.1.0."""

import json
from pathlib import Path

import pytest

from dlcontainer import __version__
from dlcontainer.validate.static import sarif
from dlcontainer.validate.static.finding import Level, StaticFinding
from dlcontainer.validate.static.rules import RULES
from tests import unpacked
from tests.elves import Elf
from tests.sarif_logs import checked
from tests.unpacked import findings


def finding(level: Level = "error", file: str = "", rule: str = "missing-library") -> StaticFinding:
    return StaticFinding(rule=rule, level=level, file=file, what="a", why="b", fix="c")


def test_each_rule_is_told() -> None:
    assert all(rule.asks.endswith(".") and rule.help.endswith(".") for rule in RULES.values())
    assert [name for name, rule in RULES.items() if rule.names_host_files] == ["host-library"]
    run = checked(sarif.log(Path("image.sif"), []))
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("dlcontainer", __version__)
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    assert run["results"] == []
    assert run["artifacts"] == [{"location": {"uri": "image.sif"}, "roles": ["analysisTarget"]}]


def test_findings_of_an_image(tmp_path: Path) -> None:
    needy = Elf(needed=("libgone.so",))
    found = findings(tmp_path, {unpacked.TORCH: needy, "/etc/ssh/ssh_host_rsa_key": b"x"})
    assert {one.rule for one in found} == {"missing-library", "leftovers"}
    run = checked(sarif.log(tmp_path / "image", found))
    assert [result["ruleId"] for result in run["results"]] == [one.rule for one in found]


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("error", {"level": "error"}),
        ("warning", {"level": "warning"}),
        ("note", {"level": "note"}),
        ("not decided", {"kind": "open", "level": "none"}),
    ],
)
def test_levels(level: Level, written: dict[str, str]) -> None:
    (result,) = checked(sarif.log(Path("x"), [finding(level)]))["results"]
    assert {name: result[name] for name in ("kind", "level") if name in result} == written
    assert result["message"]["text"] == "a; b. Next: c"


def test_files_lie_in_the_image() -> None:
    files = ["/usr/lib/a b%.so", "", "/usr/lib/a b%.so", "/usr/bin/x"]
    run = checked(sarif.log(Path("an image.sif"), [finding(file=file) for file in files]))
    uris = [artifact["location"]["uri"] for artifact in run["artifacts"]]
    assert uris == ["an%20image.sif", "/usr/lib/a%20b%25.so", "/usr/bin/x"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"] for one in run["results"]]
    assert [place["index"] for place in places] == [1, 0, 1, 2]


def test_a_file_of_the_host_is_none_of_the_image() -> None:
    run = checked(sarif.log(Path("x"), [finding(file="/opt/mpi/libmpi.so", rule="host-library")]))
    assert len(run["artifacts"]) == 1


def test_names_that_are_no_text() -> None:
    (one,) = [
        StaticFinding(rule="machine", level="note", file="/\udcff", what="\udcff", why="é", fix="")
    ]
    log = sarif.log(Path("x"), [one])
    assert json.dumps(log, ensure_ascii=False).encode()
    run = checked(log)
    assert run["artifacts"][1]["location"]["uri"] == "/%FF"
    assert run["results"][0]["message"]["text"] == "\N{REPLACEMENT CHARACTER}; é"

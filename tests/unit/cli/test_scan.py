"""`scan`: its three states for people and for programs, the site's rules, and publish's gate."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlcontainer.cli import output
from dlcontainer.cli import scan as scanning
from dlcontainer.cli.context import here
from dlcontainer.errors import EngineError, PublishError
from dlcontainer.vulnerabilities import image_bill
from dlcontainer.vulnerabilities.image_bill import ImageBill
from tests import terminals
from tests.publishing import context, image_of, put, seen
from tests.terminals import Shown
from tests.unit.vulnerabilities import cases
from tests.unit.vulnerabilities.cases import affected, record
from tests.values import SITE, site_of, write_yaml

if TYPE_CHECKING:
    from dlcontainer.publish.offered import PublishCandidate

Typed = Callable[..., Shown]


def today(body: dict[str, Any]) -> dict[str, Any]:
    """Let a record be of today: commands have no other clock."""
    return {**body, "modified": datetime.now(UTC).isoformat()}


OPENSSL = record(
    "MADE-1",
    affected("Debian:12", "openssl", {"introduced": "0"}, {"fixed": "3.1-1"}),
    summary="Made\nup",
    aliases=["MADE-2"],
)


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    def typed(*words: object) -> Shown:
        return terminals.show(["scan", *map(str, words)], monkeypatch, None)

    return typed


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    path = tmp_path / "demo.cdx.json"
    path.write_text(cases.bill())
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = cases.put(tmp_path / "osv", today(OPENSSL))
    (folder / "MADE-cover.json").write_text(json.dumps(today(cases.COVER)))
    return folder


def test_findings(typed: Typed, bill: Path, database: Path) -> None:
    shown = typed(bill, "--database", database)
    assert shown.code == 1
    assert f"records: 2, of {database}" in shown.out
    lines = shown.out.splitlines()
    # A record's text stays on its line.
    (line,) = [line for line in lines if line.startswith("FAILED")]
    assert "MADE-1 (MADE-2): openssl 3.0.11-1~deb12u2 (libssl3, openssl), Debian:12" in line
    assert lines[lines.index(line) + 1].strip() == "-> fixed in 3.1-1"
    assert "1 known vulnerability that no entry allows: MADE-1" in shown.err
    assert "a bill alone is believed" in shown.err


def test_json(typed: Typed, bill: Path, database: Path) -> None:
    shown = typed(bill, "--database", database, "--json")
    body = json.loads(shown.out)
    assert (shown.code, body["schema"]) == (1, "dlcontainer/vulnerabilities/1")
    assert (body["state"], body["ok"], body["packages"]) == ("findings", False, 10)
    assert body["database"]["records"] == 2
    assert [part["ecosystem"] for part in body["database"]["ecosystems"]] == ["Debian:12", "PyPI"]
    (finding,) = body["findings"]
    assert (finding["ids"], finding["fixed"]) == (["MADE-1", "MADE-2"], ["3.1-1"])
    shown = typed(bill, "--json")
    body = json.loads(shown.out)
    assert (shown.code, body["state"], body["database"]) == (1, "not checked", None)


def test_a_site_s_rules(typed: Typed, bill: Path, database: Path, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed.yaml"
    entry = "{id: MADE-2, reason: 'a test', expires: 2999-01-01}"
    over = "{id: MADE-3, reason: 'a test', expires: 2001-01-01}"
    allowed.write_text(f"schema: 1\nallowed:\n  - {entry}\n  - {over}\n")
    rules = {"database": str(database), "allowed": str(allowed)}
    site = write_yaml(tmp_path / "lab.yaml", {**SITE, "vulnerabilities": rules})
    shown = typed(bill, "--site", site)
    assert shown.code == 0
    assert "-> allowed until 2999-01-01: a test; fixed in 3.1-1" in shown.out
    assert "unused       allowed entry MADE-3: nothing needs it" in shown.out
    assert shown.out.splitlines()[-1] == "clean: 10 packages, nothing known; allowed: 1"
    allowed.write_text("schema: 1\nallowed:\n  - {id: MADE-2, expires: 2999-01-01}\n")
    shown = typed(bill, "--site", site)
    assert shown.code == 3
    assert f"{allowed}:3:5: allowed[0].reason: missing" in shown.err


def test_what_is_no_image(typed: Typed, tmp_path: Path, database: Path) -> None:
    assert typed(tmp_path / "none.sif", "--database", database).code == 2
    wrong = tmp_path / "wrong.cdx.json"
    wrong.write_text("{}")
    shown = typed(wrong, "--database", database)
    assert (shown.code, shown.out) == (1, "")
    assert "can't read the bill of materials" in shown.err


def test_without_univers(
    typed: Typed, bill: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "univers", None)
    shown = typed(bill, "--database", database)
    assert shown.code == EngineError.exit_code
    assert "pip install 'univers>=31'" in shown.err


def test_the_gate(tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, root = image_of(tmp_path / "images"), tmp_path / "root"
    image.with_suffix(".cdx.json").write_text(cases.bill())
    read: list[bytes | None] = []

    def of_image(path: Path, environ: object, runner: object, text: bytes | None) -> ImageBill:
        read.append(text)
        return ImageBill(text=text or b"", unlike=())

    monkeypatch.setattr(image_bill, "read", of_image)
    rules = {"database": str(database), "gate": "publish"}
    site = site_of(name="lab", vulnerabilities=rules).value
    gate = scanning.gate("lab", site, here(), output.Console(verbose=False, quiet=True))
    assert gate is not None
    with pytest.raises(PublishError) as caught:
        put(image, root, site, scan=gate)
    assert "is not published: 1 known vulnerability that no entry allows: MADE-1" in str(
        caught.value
    )
    assert f"dlcontainer scan {image} --site lab" in str(caught.value)
    # What is published is what was judged: the bill beside the image.
    assert read == [cases.bill().encode()]
    assert not (root / "current").exists()
    (database / "MADE-1.json").unlink()
    assert put(image, root, site, scan=gate).new
    assert seen(root)
    # The same again is judged again; old data is no data.
    (database / "MADE-cover.json").write_text(
        json.dumps(cases.COVER | {"modified": "2020-01-01T00:00:00Z"})
    )
    with pytest.raises(PublishError, match="not published: not checked: Debian:12: the newest"):
        put(image, root, site, scan=gate)


def test_no_gate_is_no_question() -> None:
    for rules in ({}, {"database": "/srv/osv"}):
        site = site_of(vulnerabilities=rules).value
        console = output.Console(verbose=False, quiet=True)
        assert scanning.gate("lab", site, here(), console) is None
    assert context().scan is None


def test_a_candidate_without_a_bill(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, root = image_of(tmp_path / "images"), tmp_path / "root"
    asked: list[PublishCandidate] = []
    put(image, root, scan=asked.append)
    assert [candidate.bill for candidate in asked] == [None]


def test_sarif(typed: Typed, bill: Path, database: Path) -> None:
    shown = typed(bill, "--database", database, "--sarif")
    assert (shown.code, shown.err) == (1, "")
    (run,) = json.loads(shown.out)["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["MADE-1"]
    both = typed(bill, "--database", database, "--sarif", "--json")
    assert both.code == 2
    assert "--json and --sarif are two formats" in both.out + both.err

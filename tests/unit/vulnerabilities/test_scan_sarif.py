"""A scan as SARIF 2.1.0: findings, what is allowed, what was not checked."""

from pathlib import Path
from typing import Any

from dlcontainer.vulnerabilities import allowed, scan_sarif
from dlcontainer.vulnerabilities.findings import ScanReport
from tests.sarif_logs import checked
from tests.unit.vulnerabilities.cases import affected, put, record, scanned
from tests.values import write_yaml

OPENSSL = record(
    "MADE-1", affected("Debian:12", "openssl", {"introduced": "0"}, {"fixed": "3.1-1"}),
    summary="Made up.", aliases=["MADE-2"],
)  # fmt: skip


def run_of(report: ScanReport) -> Any:
    return checked(scan_sarif.log(Path("an image.sif"), report))


def test_a_finding(tmp_path: Path) -> None:
    run = run_of(scanned(put(tmp_path, OPENSSL)))
    nothing, rule = run["tool"]["driver"]["rules"]
    assert (nothing["id"], rule["id"]) == ("not-checked", "MADE-1")
    assert rule["shortDescription"]["text"] == "Made up."
    assert "Its other names: MADE-2." in rule["help"]["text"]
    (result,) = run["results"]
    assert (result["level"], "suppressions" in result) == ("error", False)
    assert result["message"]["text"] == (
        "openssl 3.0.11-1~deb12u2 (libssl3, openssl), Debian:12; fixed in 3.1-1"
    )


def test_what_is_allowed_is_suppressed(tmp_path: Path) -> None:
    entry = {"id": "MADE-2", "reason": "it is not reached", "expires": "2099-01-01"}
    file = write_yaml(tmp_path / "allowed.yaml", {"schema": 1, "allowed": [entry]})
    report = scanned(put(tmp_path / "db", OPENSSL), allowed=allowed.load(file))
    assert report.state == "clean"
    (result,) = run_of(report)["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "it is not reached"}]


def test_not_checked_is_open_and_never_empty() -> None:
    (result,) = run_of(scanned(None))["results"]
    assert (result["kind"], result["ruleId"]) == ("open", "not-checked")
    assert result["message"]["text"] == "all packages: no database is named"

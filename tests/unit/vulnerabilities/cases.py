"""A bill, rules and records for tests of scans. All records are made: none is a real one."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlcontainer.image import sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.vulnerabilities import bill_packages, scan
from dlcontainer.vulnerabilities.findings import ScanReport
from dlcontainer.vulnerabilities.rules import ScanRules
from tests.values import RECORDED

MADE = RECORDED / "osv"
NOW = datetime(2026, 11, 27, tzinfo=UTC)
# Of dpkg: package, version, source as dpkg's `Source` has it.
DEBS: Mapping[str, tuple[str, str]] = {
    "openssl": ("3.0.11-1~deb12u2", ""),
    "libssl3": ("3.0.11-1~deb12u2", "openssl"),
    "passwd": ("1:4.13+dfsg1-1+b1", "shadow (1:4.13+dfsg1-1)"),
    "libexpat1": ("2.5.0-1+deb12u1", "expat"),
    "zlib1g": ("1:1.2.13.dfsg-1", "zlib"),
    "curl": ("7.88.1-10+deb12u5", ""),
}
WHEELS: Mapping[str, str] = {
    "ruamel.yaml.clib": "0.2.7",
    "numpy": "2.0.0rc1",
    "torch": "2.3.1+cpu",
    "PyYAML": "6.0.1",
    "requests": "2.31.0",
}


def deb(name: str, version: str, source: str = "") -> InstalledPackage:
    details = (("source", source),) if source else ()
    return InstalledPackage(kind="deb", name=name, version=version, arch="amd64", details=details)


def wheel(name: str, version: str, place: str = "/opt/demo/lib") -> InstalledPackage:
    return InstalledPackage(kind="pypi", name=name, version=version, places=(place,))


def contents(
    *packages: InstalledPackage, distribution: str = "debian", release: str = "12"
) -> TreeContents:
    return TreeContents(
        packages=packages, distribution=distribution, release=release, files=1, size=1, folders={}
    )


def image_contents() -> TreeContents:
    debs = [deb(name, version, source) for name, (version, source) in DEBS.items()]
    return contents(*debs, *(wheel(name, version) for name, version in WHEELS.items()))


def bill(taken: TreeContents | None = None) -> str:
    subject = sbom.BillSubject(name="demo", version="1.0", digest="ab" * 32, arch="x86_64")
    return sbom.render(subject, taken or image_contents())


def record(name: str, *affected: object, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.7.0",
        "id": name,
        "modified": "2026-11-20T00:00:00Z",
        "affected": list(affected),
        **changes,
    }


def affected(ecosystem: str, name: str, *events: Mapping[str, str], **more: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    return {"package": {"ecosystem": ecosystem, "name": name}, "ranges": ranges, **more}


# One record for each ecosystem of the bill that means none of its packages: both are covered.
COVER = record(
    "MADE-cover",
    affected("Debian:12", "not-installed", {"introduced": "0"}),
    affected("PyPI", "not-installed", {"introduced": "0"}),
)


def put(folder: Path, *records: Mapping[str, Any]) -> Path:
    """Write a database of these records, and of COVER."""
    folder.mkdir(parents=True, exist_ok=True)
    for body in (COVER, *records):
        (folder / f"{body['id']}.json").write_text(json.dumps(body))
    return folder


def scanned(database: Path | None, taken: TreeContents | None = None, **rules: Any) -> ScanReport:
    listed = bill_packages.read(bill(taken))
    return scan.scan(listed, ScanRules(**{"database": database, "now": NOW, **rules}))


def found_ids(report: ScanReport) -> list[str]:
    return sorted(name for finding in report.findings for name in finding.ids)

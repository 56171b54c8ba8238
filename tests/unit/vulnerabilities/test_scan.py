"""Scans: what is not checked is never clean; the allow-list; whose release; bills that lie."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError, ConfigError
from dlcontainer.image import sbom
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.vulnerabilities import allowed, bill_packages, orders, scan
from dlcontainer.vulnerabilities.findings import ScanReport
from dlcontainer.vulnerabilities.rules import ScanRules
from tests.unit.vulnerabilities import cases
from tests.unit.vulnerabilities.cases import affected, put, record, scanned

OPENSSL = record("MADE-1", affected("Debian:12", "openssl", {"introduced": "0"}))


def whys(report: ScanReport) -> list[str]:
    return [f"{doubt.what}: {doubt.why}" for doubt in report.doubts]


def test_clean_and_not(tmp_path: Path) -> None:
    report = scanned(put(tmp_path))
    assert (report.state, report.why_not_clean, report.doubts) == ("clean", "", ())
    report = scanned(put(tmp_path, OPENSSL))
    assert report.state == "findings"
    assert report.why_not_clean == "1 known vulnerability that no entry allows: MADE-1"
    (finding,) = report.findings
    assert finding.package.binaries == ("libssl3", "openssl")


def test_no_data_is_not_checked(tmp_path: Path) -> None:
    assert whys(scanned(None)) == ["all packages: no database is named"]
    (tmp_path / "empty").mkdir()
    none = [f"{one}: the database has no records for {one}" for one in ("Debian:12", "PyPI")]
    assert whys(scanned(tmp_path / "empty")) == none
    report = scanned(tmp_path / "none")
    assert (whys(report)[:2], report.state) == (none, "not checked")
    assert "none: No such file" in whys(report)[2]


def test_old_data_is_not_checked(tmp_path: Path) -> None:
    old = {"modified": "2025-11-20T00:00:00Z"}
    debian = record("MADE-old", affected("Debian:12", "x", {"introduced": "0"}), **old)
    pypi = record("MADE-new", affected("PyPI", "x", {"introduced": "0"}))
    (tmp_path / "db").mkdir()
    for body in (debian, pypi):
        (tmp_path / f"db/{body['id']}.json").write_text(json.dumps(body))
    # A new record of Python's makes Debian's no younger.
    report = scanned(tmp_path / "db")
    assert whys(report) == [
        "Debian:12: the newest record is of 2025-11-20, 372 days old; at most 30 are taken"
    ]
    assert report.state == "not checked"
    assert scanned(tmp_path / "db", max_age_days=372).state == "clean"
    assert scanned(tmp_path / "db", max_age_days=371).state == "not checked"


def test_a_time_to_come_dates_nothing(tmp_path: Path) -> None:
    tomorrow = cases.NOW + timedelta(days=2)
    body = {**cases.COVER, "modified": tomorrow.isoformat()}
    (tmp_path / "a.json").write_text(json.dumps(body))
    assert {why.partition(": ")[2] for why in whys(scanned(tmp_path))} == {
        "each record for it is from a time to come"
    }


def test_what_can_t_be_read_is_not_clean(tmp_path: Path) -> None:
    put(tmp_path)
    for number in range(25):
        (tmp_path / f"w{number:02}.json").write_text("{}")
    report = scanned(tmp_path)
    assert report.state == "not checked"
    assert report.database
    assert report.database.unreadable == 25
    assert len(report.doubts) == 21
    assert report.doubts[-1].why == "5 more records can't be read"


def test_what_is_not_decided_is_not_clean(tmp_path: Path) -> None:
    git = {"type": "GIT", "repo": "https://example.org/x", "events": [{"introduced": "0"}]}
    body = record("MADE-1", affected("PyPI", "Requests", ranges=[git]))
    assert whys(scanned(put(tmp_path, body))) == [
        "MADE-1: requests 2.31.0: the record has commits alone, or no versions at all"
    ]


@pytest.mark.parametrize(
    ("ecosystem", "is_meant"),
    [
        ("Ubuntu:22.04", True),
        ("Ubuntu:22.04:LTS", True),
        ("Ubuntu:Pro:22.04:LTS", True),
        ("Ubuntu", True),
        ("Ubuntu:24.04:LTS", False),
        ("Ubuntu:Pro:FIPS:22.04:LTS", False),
        ("Ubuntu:22.04.1", False),
        ("Debian:22.04", False),
        ("ubuntu:22.04", False),
    ],
)
def test_releases(ecosystem: str, is_meant: bool, tmp_path: Path) -> None:
    taken = cases.contents(
        cases.deb("openssl", "3.0.2-0ubuntu1"), distribution="ubuntu", release="22.04"
    )
    body = record("MADE-1", affected(ecosystem, "openssl", {"introduced": "0"}))
    report = scanned(put(tmp_path, body), taken)
    assert cases.found_ids(report) == (["MADE-1"] if is_meant else [])


def test_a_rebuild_has_its_source_s_version(tmp_path: Path) -> None:
    last = {"last_affected": "1:4.13+dfsg1-1"}
    body = record("MADE-1", affected("Debian:12", "shadow", {"introduced": "0"}, last))
    (finding,) = scanned(put(tmp_path, body)).findings
    # passwd is 1:4.13+dfsg1-1+b1, which is after it.
    assert (finding.package.version, finding.package.binaries) == ("1:4.13+dfsg1-1", ("passwd",))


def test_kinds_without_records(tmp_path: Path) -> None:
    rpm = InstalledPackage(kind="rpm", name="bash", version="5.1-2")
    conda = InstalledPackage(kind="conda", name="numpy", version="1.0")
    report = scanned(put(tmp_path), cases.contents(rpm, conda, distribution="rhel", release="9"))
    assert whys(report) == [
        "packages of kind conda (1): numpy: no records of this kind are read",
        "packages of kind rpm (1): bash: no records of this kind are read",
    ]
    report = scanned(put(tmp_path), cases.contents(cases.deb("bash", "5.2-1"), release=""))
    assert whys(report) == [
        "packages of kind deb (1): bash: the bill says no release of the distribution"
    ]
    assert whys(scanned(put(tmp_path), cases.contents())) == ["the bill: it lists no package"]


def test_debian_s_python_packages_are_debian_s(tmp_path: Path) -> None:
    place = "/usr/lib/python3/dist-packages"
    body = record("MADE-1", affected("PyPI", "requests", {"introduced": "0"}))
    wheel = cases.wheel("requests", "2.28.1", place)
    report = scanned(put(tmp_path, body), cases.contents(wheel, cases.deb("bash", "5.2-1")))
    assert (report.findings, report.of_debian) == ((), 1)
    # Without Debian's database nothing else would decide it.
    report = scanned(put(tmp_path, body), cases.contents(wheel))
    assert (cases.found_ids(report), report.of_debian) == (["MADE-1"], 0)


def entries(folder: Path, text: str) -> allowed.AllowList:
    path = folder / "allowed.yaml"
    path.write_text(f"schema: 1\nallowed:\n{text}")
    return allowed.load(path)


ENTRY = "  - {{id: {id}, reason: the host's kernel counts, expires: {expires}}}\n"


def test_the_allow_list(tmp_path: Path) -> None:
    upstream = {"upstream": ["CVE-2026-1"]}
    database = put(tmp_path / "db", {**OPENSSL, **upstream})
    for name in ("MADE-1", "CVE-2026-1"):
        listed = entries(tmp_path, ENTRY.format(id=name, expires="2026-11-27"))
        report = scanned(database, allowed=listed)
        assert (report.state, report.unused, len(report.findings)) == ("clean", (), 1)
    listed = entries(tmp_path, ENTRY.format(id="MADE-1", expires="2026-11-26"))
    report = scanned(database, allowed=listed)
    assert report.state == "findings"
    assert report.findings[0].entry == listed.allowed[0]
    # One that counts is taken before one that is over, wherever it stands.
    both = "".join(ENTRY.format(id="MADE-1", expires=day) for day in ("2026-01-01", "2027-01-01"))
    assert scanned(database, allowed=entries(tmp_path, both)).state == "clean"
    listed = entries(tmp_path, ENTRY.format(id="CVE-2026-2", expires="2027-01-01"))
    report = scanned(database, allowed=listed)
    assert ([entry.title for entry in report.unused], report.state) == (["CVE-2026-2"], "findings")


def test_one_of_several_upstream_allows_not_all(tmp_path: Path) -> None:
    database = put(tmp_path / "db", {**OPENSSL, "upstream": ["CVE-2026-1", "CVE-2026-2"]})
    listed = entries(tmp_path, ENTRY.format(id="CVE-2026-1", expires="2027-01-01"))
    assert scanned(database, allowed=listed).state == "findings"


@pytest.mark.parametrize(
    ("keys", "state"),
    [
        ("package: libssl3", "clean"),
        ("package: openssl, ecosystem: Debian", "clean"),
        ("package: openssl, ecosystem: 'Debian:12'", "clean"),
        ("package: openssl, ecosystem: 'Debian:13'", "findings"),
        ("package: openssl, ecosystem: PyPI", "findings"),
        ("id: MADE-2, package: openssl", "findings"),
        ("ecosystem: conda", "findings"),
        # A whole ecosystem is allowed to be unchecked, never to be affected.
        ("ecosystem: Debian", "findings"),
        ("ecosystem: 'Debian:12'", "findings"),
    ],
)
def test_entries_of_packages(keys: str, state: str, tmp_path: Path) -> None:
    database = put(tmp_path / "db", OPENSSL)
    listed = entries(tmp_path, f"  - {{{keys}, reason: a test, expires: 2027-01-01}}\n")
    assert scanned(database, allowed=listed).state == state


def test_what_is_not_checked_may_be_allowed(tmp_path: Path) -> None:
    put(tmp_path / "db")
    (tmp_path / "db/MADE-7.json").write_text("{}")
    conda = InstalledPackage(kind="conda", name="numpy", version="1.0")
    taken = cases.contents(*cases.image_contents().packages, conda)
    text = "  - {ecosystem: conda, reason: a test, expires: 2027-01-01}\n"
    listed = entries(tmp_path, text + ENTRY.format(id="MADE-7", expires="2027-01-01"))
    report = scanned(tmp_path / "db", taken, allowed=listed)
    assert (report.state, len(report.doubts), report.unused) == ("clean", 2, ())
    # One package of a kind does not stand for all.
    text = "  - {package: numpy, ecosystem: conda, reason: a test, expires: 2027-01-01}\n"
    assert scanned(tmp_path / "db", taken, allowed=entries(tmp_path, text)).state == "not checked"
    # No data, and old data, nothing allows.
    text = "".join(
        f"  - {{ecosystem: {name}, reason: a test, expires: 2027-01-01}}\n"
        for name in ("Debian", "'Debian:12'", "PyPI", "conda")
    )
    listed = entries(tmp_path, text)
    assert scanned(None, taken, allowed=listed).state == "not checked"
    (tmp_path / "empty").mkdir()
    assert scanned(tmp_path / "empty", taken, allowed=listed).state == "not checked"
    old = scanned(tmp_path / "db", taken, allowed=listed, max_age_days=1)
    assert old.state == "not checked"


def test_aliases_join_by_a_third(tmp_path: Path) -> None:
    def of(name: str, *aliases: str) -> dict[str, Any]:
        return {**OPENSSL, "id": name, "aliases": list(aliases)}

    apart = put(tmp_path / "a", of("A", "X"), of("B", "Y"), of("C"))
    assert [finding.ids for finding in scanned(apart).findings] == [("A", "X"), ("B", "Y"), ("C",)]
    joined = put(tmp_path / "b", of("A", "X"), of("B", "Y"), of("Z", "Y", "X"), of("C"))
    assert [finding.ids for finding in scanned(joined).findings] == [
        ("A", "B", "Z", "X", "Y"),
        ("C",),
    ]


@pytest.mark.parametrize(
    ("entry", "line", "why"),
    [
        ("{id: X, expires: 2027-01-01}", 3, "reason: missing"),
        ("{id: X, reason: r}", 3, "expires: missing"),
        ("{id: X, reason: ' ', expires: 2027-01-01}", 3, "empty text"),
        ("{id: X, reason: r, expires: soon}", 3, "expires"),
        ("{reason: r, expires: 2027-01-01}", 3, "an entry needs an id, a package or an ecosystem"),
        ("{id: X, reason: r, expires: 2027-01-01, until: 1}", 3, "unknown key"),
    ],
)
def test_wrong_allow_lists(entry: str, line: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        entries(tmp_path, f"  - {entry}\n")
    assert f"allowed.yaml:{line}:" in str(caught.value)
    assert why in str(caught.value)


def changed(change: Mapping[str, Any], name: str = "requests") -> str:
    body = json.loads(cases.bill())
    for component in body["components"]:
        if component["name"] == name:
            component.update(change)
    return json.dumps(body)


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        ({"version": "9.9"}, "pypi", "name or version is another in the package URL"),
        ({"name": "innocent"}, "pypi", "name or version is another in the package URL"),
        ({"purl": "pkg:pypi/requests"}, "unknown", "no package URL with a version"),
        ({"purl": None}, "unknown", "no package URL with a version"),
        ({"purl": "pkg:npm/requests@2.31.0"}, "npm", "no records of this kind are read"),
    ],
)
def test_bills_that_contradict_themselves(
    change: Mapping[str, Any], kind: str, why: str, tmp_path: Path
) -> None:
    listed = bill_packages.read(changed(change))
    assert [(part.kind, part.why) for part in listed.unchecked] == [(kind, why)]
    report = scan.scan(listed, ScanRules(database=put(tmp_path), now=cases.NOW))
    assert report.state == "not checked"


def test_bills_that_the_image_contradicts(tmp_path: Path) -> None:
    taken = cases.image_contents()
    assert bill_packages.differences(cases.bill(), taken) == []
    lie = changed({"version": "9.9", "purl": "pkg:pypi/requests@9.9"})
    assert bill_packages.differences(lie, taken) == [
        "not in the bill: pkg:pypi/requests@2.31.0",
        "not in the image: pkg:pypi/requests@9.9",
    ]
    source = [{"name": "org.dlcontainer.source", "value": "nobody-knows"}]
    unlike = bill_packages.differences(changed({"properties": source}, "libssl3"), taken)
    assert [why.rpartition(" of ")[2] for why in unlike] == ["openssl", "nobody-knows"]
    report = scan.scan(
        bill_packages.read(cases.bill()),
        ScanRules(database=put(tmp_path), now=cases.NOW),
        ["not in the bill: x"] * 30,
    )
    assert (report.state, len(report.doubts)) == ("not checked", 21)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"bomFormat": "CycloneDX"}', '{"bomFormat": "SPDX", "components": []}'],
)
def test_what_is_no_bill(text: str) -> None:
    with pytest.raises(ChecksFailedError, match="can't read the bill of materials"):
        bill_packages.read(text)


@pytest.mark.parametrize("component", [7, None, [], {}, {"type": "library", "purl": 7}])
def test_what_is_no_component(component: object) -> None:
    text = json.dumps({"bomFormat": "CycloneDX", "components": [component]})
    assert len(bill_packages.read(text).unchecked) == 1


def test_every_order_has_a_kind_in_bills() -> None:
    assert set(orders.ECOSYSTEMS) == {"Debian", "Ubuntu", "PyPI"}
    assert sbom.pypi_name("A_b..C") == "a-b-c"

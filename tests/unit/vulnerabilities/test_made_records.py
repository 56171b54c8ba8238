"""Twenty records of our own, each decided as its summary says: no database can be reached here."""

import json
from collections.abc import Mapping

import pytest

from tests.unit.vulnerabilities import cases

# What each says of the bill in `cases`: the package that it affects and the fix, or nothing.
DECIDED: Mapping[str, tuple[str, str | None] | None] = {
    "x_MADE-01-backport-to-come": ("openssl", "3.0.11-1~deb12u3"),
    "x_MADE-02-backport-installed": None,
    "x_MADE-03-other-release": None,
    "x_MADE-04-epoch-before": ("shadow", "1:4.13+dfsg1-2"),
    "x_MADE-05-epoch-after": None,
    "x_MADE-06-tilde-begins": ("expat", "2.5.0-1+deb12u2"),
    "x_MADE-07-tilde-ends": None,
    "x_MADE-08-withdrawn": None,
    "x_MADE-09-unfixed": ("zlib", None),
    "x_MADE-10-last-affected": ("zlib", None),
    "x_MADE-11-limit": None,
    "x_MADE-12-second-range": ("curl", "7.88.1-10+deb12u6"),
    "x_MADE-13-between-ranges": None,
    "x_MADE-14-python-name": ("ruamel-yaml-clib", "0.2.8"),
    "x_MADE-15-python-alias": ("ruamel-yaml-clib", "0.2.9"),
    "x_MADE-16-python-pre-release": ("numpy", "2.0.0"),
    "x_MADE-17-python-local": ("torch", None),
    "x_MADE-18-python-local-fixed": None,
    "x_MADE-19-python-list": ("pyyaml", None),
    "x_MADE-20-other-ecosystem": None,
}


def test_all_are_there_and_say_that_they_are_made() -> None:
    bodies = [json.loads(path.read_text()) for path in sorted(cases.MADE.glob("*.json"))]
    assert [body["id"] for body in bodies] == sorted(DECIDED)
    assert len(bodies) == 20
    assert all(body["summary"].startswith("Made for tests: ") for body in bodies)


@pytest.mark.parametrize("name", DECIDED)
def test_each_is_decided(name: str) -> None:
    report = cases.scanned(cases.MADE / f"{name}.json")
    decisions = [
        (finding.package.name, next(iter(finding.fixed), None)) for finding in report.findings
    ]
    expected = DECIDED[name]
    assert decisions == ([] if expected is None else [expected])
    assert not [doubt for doubt in report.doubts if name in doubt.what]


def test_all_together() -> None:
    report = cases.scanned(cases.MADE)
    affecting = sorted(name for name, decided in DECIDED.items() if decided)
    assert sorted(set(cases.found_ids(report)) - {"x_MADE-2026-15"}) == affecting
    # Two records of one vulnerability are one finding, with both fixes.
    (joined,) = [one for one in report.findings if "x_MADE-2026-15" in one.ids]
    assert joined.ids == ("x_MADE-14-python-name", "x_MADE-15-python-alias", "x_MADE-2026-15")
    assert joined.fixed == ("0.2.8", "0.2.9")
    assert joined.severity == ("CVSS_V3 CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H",)
    severities = {finding.ids[0]: finding.severity for finding in report.findings}
    assert severities["x_MADE-09-unfixed"] == ("urgency unimportant",)
    assert severities["x_MADE-10-last-affected"] == ()
    assert (report.state, report.doubts, report.packages) == ("findings", (), 10)

"""What was checked of an image: what is written is what is read, by each who reads it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.evidence import kinds
from dlcontainer.image import checks_file
from dlcontainer.image.checks_file import CheckRecord, ReleaseChecks, ValidationFile
from dlcontainer.proof import reach
from dlcontainer.publish.catalogue import facts
from dlcontainer.publish.open_folder import Folder

PLAN, IMAGE = "a" * 64, "b" * 64
CHECKS = (
    CheckRecord(name="runs", ok=True, detail="x", state="ok"),
    CheckRecord(name="gpu", ok=False, detail="no GPU", state="not tried", next_step="try there"),
)
REPORT = ValidationFile(
    ok=True, image="i.sif", date="2026-11-20T10:00:00Z", plan=PLAN, sha256=IMAGE, site="local",
    checks=CHECKS,
)  # fmt: skip


def printed(report: ValidationFile) -> dict[str, object]:
    return {"schema": checks_file.VALIDATED, **report.body}


def test_a_validation_is_read_as_it_was_printed(tmp_path: Path) -> None:
    text = json.dumps(printed(REPORT))
    assert checks_file.validation(json.loads(text)) == REPORT
    assert list(kinds.FORMS["validate"].claims(text.encode())) == [
        ("plan", PLAN),
        ("image", IMAGE),
    ]
    path = tmp_path / "validate.json"
    path.write_text(text)
    (read,) = reach.read([path]).validated
    assert (read.plan, read.site, read.date) == (REPORT.plan, REPORT.site, REPORT.date)


def test_a_failed_check_is_no_evidence() -> None:
    text = json.dumps(printed(replace(REPORT, ok=False)))
    with pytest.raises(ValueError, match="failed check"):
        list(kinds.FORMS["validate"].claims(text.encode()))


@pytest.mark.parametrize(
    ("key", "value"), [("plan", []), ("ok", "true"), ("date", 1), ("checks", [{"name": "runs"}])]
)
def test_a_key_of_another_type_is_named(tmp_path: Path, key: str, value: object) -> None:
    body = {**printed(REPORT), key: value}
    with pytest.raises(ValueError, match=f"^{key}"):
        checks_file.validation(body)
    path = tmp_path / "validate.json"
    path.write_text(json.dumps(body))
    with pytest.raises(ChecksFailedError, match="not what `validate --json` prints"):
        reach.read([path])


def test_a_release_s_checks_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = ReleaseChecks(
        finished="2026-11-20T10:00:00Z", image_sha256=IMAGE, checks=CHECKS, reached=("built",)
    )
    assert checks_file.of_release(json.loads(json.dumps(written.body))) == written
    release = tmp_path / "x"
    release.mkdir()
    (release / "checks.json").write_text(json.dumps(written.body))
    with Folder.at(tmp_path) as releases:
        shown = facts.of(releases, "x")
    assert (shown.checked, shown.reached) == (written.finished, written.reached)
    assert [(check.name, check.state, check.detail) for check in shown.checks] == [
        (check.name, check.state, check.detail) for check in CHECKS
    ]

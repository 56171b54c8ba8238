"""What `build --refresh` says: what moved and by how much, or that there is nothing newer."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build.build import BuiltImage
from dlcontainer.build.cache.age import BaseAge
from dlcontainer.build.cache.previous import BuildOutputs
from dlcontainer.build.refresh import ImageBefore, PackageMove, RefreshAnswer
from dlcontainer.cli import build_refresh, main, output
from dlcontainer.cli.build_refresh import RefreshRun
from dlcontainer.image import sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.record import Record, RefreshProvenance
from dlcontainer.image.sbom import BillSubject
from tests.values import CONTENT

ASKED, STATE = "2026-11-27T20:00:00Z", "Debian bookworm-security Fri, 27 Nov 2026"


def recorded(**changes: Any) -> Record:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "cd" * 32, "size": 640_000_000},
        "digest": "ab" * 32,
        "content": CONTENT,
    }
    return Record.model_validate_json(json.dumps({**body, **changes}))


def package(version: str, size: int) -> InstalledPackage:
    return InstalledPackage(kind="deb", name="libssl3", version=version, size=size)


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    bill = tmp_path / "a.cdx.json"
    contents = TreeContents(
        distribution="debian",
        release="bookworm",
        packages=(package("3.0.15", 7_500_000),),
        size=0,
        files=0,
        folders={},
    )
    subject = BillSubject(name="a", version="1", digest="ab" * 32, arch="x86_64")
    bill.write_text(sbom.render(subject, contents))
    places = BuildOutputs(image=None, record=bill, log=bill, sbom=bill)
    age = BaseAge(base=None, image=None, packages=None, lock=None, newer=())
    return BuiltImage(places=places, sha256="ef" * 32, size=641_000_000, seconds=1, age=age)


def run(*, is_newer: bool, has_image: bool = True) -> RefreshRun:
    answer = RefreshAnswer(
        refreshed=RefreshProvenance(asked_at=ASKED, kind="os", mirror=(STATE,)),
        moves=(PackageMove(name="deb:libssl3", before="3.0.14", after="3.0.15"),),
        is_newer=is_newer,
        base_since=None,
        notes=(),
    )
    before = ImageBefore(record=recorded(), packages=(package("3.0.14", 6_000_000),))
    return RefreshRun(answer=answer, before=before if has_image else None)


def said(
    refresh_run: RefreshRun, image: BuiltImage, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    build_refresh.show(refresh_run, image, output.Console())
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_what_moved(image: BuiltImage, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(run(is_newer=True), image, capsys)
    assert "1 package changed; the image: 640 -> 641 MB" in out
    assert out.splitlines()[1].split() == [
        *("deb:libssl3", "changed", "3.0.14", "->", "3.0.15", "+1.5", "MB")
    ]
    assert STATE in " ".join(err.split())


def test_nothing_newer(image: BuiltImage, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(run(is_newer=False), image, capsys)
    assert out == ""
    assert f"nothing newer (os), asked at {ASKED}, of {STATE}" in " ".join(err.split())


def test_the_first_image(image: BuiltImage, capsys: pytest.CaptureFixture[str]) -> None:
    refresh_run = run(is_newer=True, has_image=False)
    assert said(refresh_run, image, capsys)[0] == ""
    assert build_refresh.facts(refresh_run, image)["size_before"] is None


def test_how_old_it_is() -> None:
    days_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 25.5 * 86400))
    base = {"sha256": "ab" * 32, "made": days_ago}
    text = build_refresh.dates(recorded(base=base, finished="soon"))
    assert text == f"a base of {days_ago[:10]}, 25 days old, and packages of unknown date"


@pytest.mark.parametrize("option", ["--no-cache", "--explain", "--dry-run", "--until=system"])
def test_what_excludes_a_refresh(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["build", "pytorch", "--site", "local", "--refresh", "os", option]
    assert main._run(argv, as_json=False) == 2
    assert f"--refresh and {option.partition('=')[0]} exclude each other" in capsys.readouterr().err


def test_a_lock_allows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["build", "pytorch", "--site", "local", "--refresh", "os"]
    assert main._run([*argv, "--locked", str(tmp_path / "a.lock.json")], as_json=False) == 2
    assert "a lock allows none" in capsys.readouterr().err

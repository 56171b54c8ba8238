"""What `build --refresh` says: what moved and by how much, or that there is nothing newer."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import refresh
from dlcontainer.build.build import BuiltImage
from dlcontainer.build.cache.age import BaseAge
from dlcontainer.build.cache.previous import BuildOutputs
from dlcontainer.build.context import BuildContext
from dlcontainer.build.package_moves import PackageMove
from dlcontainer.build.refresh import ImageBefore, RefreshAnswer
from dlcontainer.cli import build_refresh, main, output
from dlcontainer.cli.build_refresh import RefreshRun
from dlcontainer.engines import apptainer
from dlcontainer.image import sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.record import Record, RefreshProvenance
from dlcontainer.image.sbom import BillSubject
from tests import fakeregistry
from tests.fakes import RecordingRunner
from tests.values import CONTENT, execution_of, folder_of

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
    out, err = said(run(is_newer=False), replace(image, unchanged=True), capsys)
    assert out == ""
    assert "again" not in err
    assert f"nothing newer (os), asked at {ASKED}, of {STATE}" in " ".join(err.split())


def test_nothing_newer_and_packed_again(
    image: BuiltImage, capsys: pytest.CaptureFixture[str]
) -> None:
    refresh_run = run(is_newer=False)
    assert refresh_run.before is not None
    packed = recorded(engine={"squash": list(apptainer.squash(5))})
    before = replace(refresh_run.before, record=packed)
    said(replace(refresh_run, before=before, level=15), replace(image, unchanged=True), capsys)
    for level, why in (
        (15, "packed again from the same packages: --level 15, it had 5"),
        (5, "the recipe or other words of the line changed"),
    ):
        err = said(replace(refresh_run, before=before, level=level), image, capsys)[1]
        assert why in " ".join(err.split())


def test_the_level_of_the_image_there(
    image: BuiltImage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = BuildContext(execution=execution_of(tmp_path, RecordingRunner()), templates=())
    console = output.Console()
    places = replace(image.places, record=tmp_path / "a.json")
    assert build_refresh.at_its_level(context, places, console) is context
    for settings, level in ((apptainer.squash(15), 15), (apptainer.squash(lz4=True), 5)):
        written = recorded(engine={"squash": list(settings)})
        places.record.write_text(written.model_dump_json(by_alias=True))
        assert build_refresh.at_its_level(context, places, console).level == level
    assert capsys.readouterr().err.count("--level 15, as the image there") == 1


def test_the_first_image(image: BuiltImage, capsys: pytest.CaptureFixture[str]) -> None:
    refresh_run = run(is_newer=True, has_image=False)
    assert said(refresh_run, image, capsys)[0] == ""
    assert build_refresh.facts(refresh_run, image)["size_before"] is None


def test_how_old_it_is() -> None:
    days_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 25.5 * 86400))
    base = {"sha256": "ab" * 32, "made": days_ago}
    text = build_refresh.dates(recorded(base=base, finished="soon"))
    assert text == f"a base of {days_ago[:10]}, 25 days old, and packages of unknown date"


@pytest.mark.parametrize("option", ["--no-cache", "--explain", "--until=system"])
def test_what_excludes_a_refresh(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["build", "pytorch", "--site", "local", "--refresh", "os", option]
    assert main._run(argv, as_json=False) == 2
    assert f"--refresh and {option.partition('=')[0]} exclude each other" in capsys.readouterr().err


def test_a_lock_allows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["build", "pytorch", "--site", "local", "--refresh", "os"]
    assert main._run([*argv, "--locked", str(tmp_path / "a.lock.json")], as_json=False) == 2
    assert "a lock allows none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        ({"is_newer": False, "moves": ()}, 0, f"nothing newer (os), asked at {ASKED}, of {STATE}"),
        ({"is_newer": True}, 1, "] newer (os), asked at"),
        ({"is_newer": True, "is_told": False, "moves": ()}, 1, "perhaps newer (os)"),
    ],
)
def test_a_question(
    answer: dict[str, Any],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without an engine, and nothing is written; what is newer is exit code 1, as of a lock."""
    told = replace(run(is_newer=True).answer, **answer)
    monkeypatch.setattr(refresh, "ask", lambda *_: told)
    monkeypatch.setattr(refresh, "before", lambda *_: run(is_newer=True).before)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    output_folder = tmp_path / "images"
    argv = ["build", "pytorch", "--site", "local", "--refresh", "os", "--dry-run", "--cpu"]
    argv += ["-o", str(output_folder)]
    assert main._run(argv, as_json=False) == code
    captured = capsys.readouterr()
    assert text in " ".join(captured.err.split())
    assert ("deb:libssl3  3.0.14" in captured.out) is bool(told.moves)
    assert main._run([*argv, "--json"], as_json=True) == code
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "dlcontainer/refresh/1"
    assert (body["newer"], body["told"]) == (told.is_newer, told.is_told)
    assert [move["after"] for move in body["packages"]] == [move.after for move in told.moves]
    assert not output_folder.exists()
    assert not (tmp_path / "cache").exists()


def test_the_tag_of_a_pinned_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A registry says whether it moved; `base pin` takes what is newer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with fakeregistry.serving() as server:
        old = server.put_index("amd64", "arm64")
        image = f"docker://{server.reference().tagged}@{old}"
        system = {"distribution": "debian", "release": "bookworm", "source": "a test"}
        folder = folder_of(tmp_path, base={"image": image, "system": system})
        argv = ["build", str(folder), "--site", "local", "-o", str(tmp_path / "images")]
        argv += ["--refresh", "base", "--dry-run"]
        assert main._run(argv, as_json=False) == 0
        assert "nothing newer (base)" in capsys.readouterr().err
        new = server.put_index("arm64", "amd64")
        assert main._run(argv, as_json=False) == 1
        captured = capsys.readouterr()
        assert captured.out.split()[-3:] == [f"base:{server.reference().tagged}", old, new]
        assert "dlcontainer base pin" in captured.err

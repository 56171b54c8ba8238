"""The catalogue: what it says of each module, where it lies, and that texts of images are inert."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BenchDataError, PublishError
from dlcontainer.publish.catalogue import facts, files, page
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import changes, promotion
from dlcontainer.publish.tree.generation import Deprecation
from dlcontainer.publish.tree.numbers import Succession
from tests.catalogues import HOSTILE, fill, hostile
from tests.trees import act, image_file, put, put_release
from tests.values import TEMPLATES


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Publish 1.0 with all evidence, and 2.0 with a record that can't be read."""
    root, images = tmp_path / "a root", tmp_path / "images"
    root.mkdir()
    put(root, image_file(images))
    put(root, image_file(images, b"another"), "2.0")
    fill(release(root), verdict="EQUIVALENT")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "stable"))
    warning = Deprecation(message="use 1.0", removal="2027-01-31")
    act(root, lambda tree: changes.deprecate(tree, "demo/2.0", warning))
    return root


def release(root: Path, version: str = "1.0") -> Path:
    text = (root / f"modules/tcl/demo/{version}").read_text()
    return root / "releases" / text.partition("/releases/")[2][:64]


def written(root: Path) -> dict[str, Any]:
    return dict(json.loads((root / "current" / page.JSON).read_text()))


def test_what_it_says(root: Path) -> None:
    first, second = written(root)["modules"]
    assert first["load"] == ["module load demo", "module load demo/1.0", "module load demo/stable"]
    assert (first["default"], first["aliases"], first["deprecated"]) == (True, ["stable"], None)
    assert (first["summary"], first["count"], first["unknown"]) == ("a demo", 3, [])
    names = [(one["name"], one["version"]) for one in first["packages"]]
    # The recipe's own first; what nobody chooses an image by is left out.
    assert names == [("torch", "2.13.0"), ("numpy", "2.3.5")]
    states = [(one["name"], one["state"]) for one in first["checks"]]
    assert states == [("imports", "ok"), ("gpu", "not tried")]
    assert first["reached"] == ["rendered: its file is valid", "built: 2026-11-22, in a job"]
    assert first["verdicts"] == ["import: EQUIVALENT. as quick"]
    assert first["size"] == len(b"an image")
    assert first["release"] == release(root).name
    assert second["deprecated"] == {"message": "use 1.0", "removal": "2027-01-31"}
    assert "record.json" in second["unknown"][0]


def test_an_older_release_has_a_section(tmp_path: Path) -> None:
    root, images = tmp_path / "root", tmp_path / "images"
    root.mkdir()
    succession = Succession(days=30)
    for image in (b"the first", b"the fixed one"):
        put_release(root, image_file(images, image), succession=succession)
    fill(release(root, "1.0-1"), verdict="EQUIVALENT")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    (module,) = written(root)["modules"]
    assert module["load"] == [f"module load demo{end}" for end in ("", "/1.0", "/1.0-2")]
    (older,) = module["older"]
    assert (older["module"], older["load"]) == ("demo/1.0-1", ["module load demo/1.0-1"])
    assert (older["number"], older["facts"]["size"]) == (1, len(b"the first"))
    assert Path(older["folder"]) == release(root, "1.0-1")
    text = (root / "current" / page.HTML).read_text()
    assert text.count("<section") == 3  # the overview's, too
    first = text.partition(f'id="{older["digest"]}"')[2]
    assert "Replaced: demo/1.0 loads release 2" in first
    assert f"until {older['until']}" in first
    assert "import: EQUIVALENT" in first
    # The marks are the version's: they load the newest.
    assert text.count("default</span>") == 2
    assert "default</span>" not in first
    assert "1 module in" in text


def test_the_page(root: Path) -> None:
    text = (root / "current" / page.HTML).read_text()
    assert "module use &#39;" in text  # quoted for the shell, then for HTML
    for said in ("demo/1.0", "default</span>", "stable</span>", "removal 2027-01-31: use 1.0",
                 "1 passed, 1 not tried", "torch <b>2.13.0</b>", "import: EQUIVALENT"):  # fmt: skip
        assert said in text
    folder = f"../releases/{release(root).name}"
    assert f'href="{folder}/report.html"' in text
    # As a browser reads it: from ROOT/current/.
    assert (root / "current" / page.HTML).parent.parent.joinpath(folder[3:], "report.html").exists()
    assert "<script" not in text
    assert "http-equiv" in text


def test_it_goes_back_with_a_rollback(root: Path) -> None:
    assert len(written(root)["modules"]) == 2
    act(root, lambda tree: changes.rollback(tree, 1))
    assert [one["module"] for one in written(root)["modules"]] == ["demo/1.0"]
    assert written(root)["generation"] == 1


@pytest.mark.parametrize("kind", ["module.lua", "module.tcl"])
def test_the_help_of_a_module_names_it(root: Path, kind: str) -> None:
    text = (release(root) / kind).read_text()
    assert f'"{root}/current/catalogue.html"' in text
    assert "@root@" not in text


def test_the_same_release_below_another_root(root: Path, tmp_path: Path) -> None:
    """The catalogue's path is not part of the digest: promotion finds the same release."""
    other = tmp_path / "production"
    other.mkdir()
    act(other, lambda tree: promotion.promote(tree, root, "demo/2.0"))
    assert release(other, "2.0").name == release(root, "2.0").name
    text = (release(other, "2.0") / "module.lua").read_text()
    assert f"{other}/current/catalogue.html" in text


def test_evidence_of_later(root: Path) -> None:
    assert files.is_current(files.live(root))
    (release(root) / "report.json").unlink()
    shown = files.live(root)
    assert shown.modules[0].facts.verdicts == ()
    assert not files.is_current(shown)


def test_written_elsewhere(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "web/catalogue"
    paths = files.write(files.live(root), folder, [TEMPLATES])
    assert [path.name for path in paths] == [page.HTML, page.JSON]
    assert f'href="{(root / "releases").as_uri()}/' in paths[0].read_text()
    with pytest.raises(BenchDataError, match="cannot be written"):
        files.write(files.live(root), paths[0], [TEMPLATES])
    with pytest.raises(PublishError, match="nothing is published"):
        files.live(tmp_path)


def test_a_verdict_about_another_image(root: Path) -> None:
    fill(release(root), verdict="EQUIVALENT", sha256="0" * 64)
    shown = files.live(root).modules[0].facts
    assert shown.verdicts == ()
    assert "one of its sessions belongs to another image" in shown.unknown[0]


def test_a_release_that_is_gone(root: Path) -> None:
    release(root).rename(root / "gone")
    (first, _) = files.live(root).modules
    assert "can't be read: No such file" in first.facts.unknown[0]
    act(root, lambda tree: changes.set_alias(tree, "demo/2.0", "next"))


@pytest.mark.parametrize("name", ["record.json", "checks.json", "sbom.cdx.json", "report.json"])
@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"null", b"\xff", b'{"checks": 1, "components": {}, "sessions": [1]}',
     b'{"bomFormat": "CycloneDX", "components": [1, {"name": 3}]}', b"[" * 5000,
     b'{"sessions": [{"declared": "x"}], "checks": ["x"]}'],
)  # fmt: skip
def test_a_damaged_file_holds_nothing_up(root: Path, name: str, data: bytes) -> None:
    (release(root) / name).write_bytes(data)
    with Folder.at(root / "releases") as releases:
        shown = facts.of(releases, release(root).name)
    assert isinstance(shown, facts.ReleaseFacts)
    act(root, lambda tree: changes.set_alias(tree, "demo/2.0", "next"))
    assert len(written(root)["modules"]) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_inert(root: Path, text: str) -> None:
    hostile(release(root), text)
    html = page.html(files.live(root), [TEMPLATES]).decode()
    assert "<script" not in html
    assert "<img" not in html
    assert "onerror=" not in html.replace("onerror=&#34;", "")
    assert not set(html) & set("\x00\x1b\u202e\u2028")
    # The page's own tags, and no more: as many as without it.
    fill(release(root), verdict="EQUIVALENT")
    calm = page.html(files.live(root), [TEMPLATES]).decode()
    assert html.count("<a ") == calm.count("<a ")
    assert html.count("<section") == calm.count("<section")


def test_long_texts_are_cut(root: Path) -> None:
    hostile(release(root), "x" * 100_000)
    assert len(page.html(files.live(root), [TEMPLATES])) < 60_000
    assert facts.plain("a\tb\n" + "x" * 300).startswith("a b xxx")
    assert len(facts.plain("x" * 300)) == 200


def test_the_sums_of_a_generation(root: Path) -> None:
    folder = (root / "current").resolve()
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        sha256, _, name = line.partition("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256

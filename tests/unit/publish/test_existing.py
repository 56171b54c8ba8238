"""A version that is published already: identical, another, or damaged."""

import os
import re
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums
from tests.publishing import BOTH, image_of, put, seen

FILES = [
    *("image.sif", "record.json", "checks.json", "build.log", "module.lua", "module.tcl"),
    *("bin/python", "bin/tool", "bin/pip", "bin/dlcontainer-venv", "launch/site.sh"),
    "SHA256SUMS",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "it's a (root)"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return image_of(tmp_path / "images")


@pytest.fixture
def folder(image: Path, root: Path) -> Path:
    """Publish, and give the version's folder."""
    put(image, root)
    return root / "images/demo/1.0"


def change_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def link_away(path: Path) -> None:
    moved = path.rename(path.with_name(f"{path.name}.moved"))
    path.symlink_to(moved)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("spoil", [change_a_byte, cut, empty, remove, link_away, make_pipe])
def test_a_damaged_file_is_named(
    folder: Path, image: Path, root: Path, name: str, spoil: object
) -> None:
    assert callable(spoil)
    spoil(folder / name)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    with pytest.raises(PublishError, match=r"demo/1\.0 is published, and damaged") as caught:
        put(image, root)
    error = caught.value
    # A changed list of checksums blames the file whose checksum it no longer has.
    assert str(error.where) == str(folder / name) or name == "SHA256SUMS"
    assert str(error.where).startswith(str(folder))
    assert "publish again" in str(error.next_step)
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_way_out(folder: Path, image: Path, root: Path) -> None:
    """The links go by the command that the message gives; then it is published again."""
    change_a_byte(folder / "image.sif")
    with pytest.raises(PublishError) as caught:
        put(image, root)
    hide = str(caught.value.next_step).partition("hide it: ")[2].splitlines()[0]
    links = [root / "modules" / name for name in BOTH]
    assert hide == "rm -f " + " ".join(f"'{link}'" for link in links).replace("it's", "it'\"'\"'s")
    for link in links:
        link.unlink()
    assert put(image, root).new
    assert seen(root) == BOTH
    assert not put(image, root).new


def test_programs_that_users_cannot_run(folder: Path, image: Path, root: Path) -> None:
    (folder / "bin/tool").chmod(0o644)
    with pytest.raises(PublishError, match="users can't run it"):
        put(image, root)


def test_links_that_lead_elsewhere(folder: Path, image: Path, root: Path) -> None:
    link = root / "modules/tcl/demo/1.0"
    link.unlink()
    link.symlink_to("/etc/passwd")
    with pytest.raises(PublishError, match="is not the link that publishing") as caught:
        put(image, root)
    assert f"{link}".replace("'", "'\"'\"'") in str(caught.value.next_step)
    link.unlink()
    link.write_text("#%Module1.0\n")
    with pytest.raises(PublishError, match="is not the link that publishing"):
        put(image, root)
    link.unlink()
    assert not put(image, root).new
    assert seen(root) == BOTH


def test_links_without_a_folder(folder: Path, image: Path, root: Path) -> None:
    folder.rename(folder.with_name("moved"))
    with pytest.raises(PublishError, match="its folder is missing"):
        put(image, root)


def test_a_version_of_dlcontainer_0_1(folder: Path, image: Path, root: Path) -> None:
    """It has no checksums and no mark: identical while its image is whole and all is there."""
    for name in ("SHA256SUMS", ".dlcontainer"):
        (folder / name).unlink()
    assert not put(image, root).new
    (folder / "bin/tool").rename(folder / "bin/moved")
    with pytest.raises(PublishError, match="damaged"):
        put(image, root)
    for link in BOTH:
        (root / "modules" / link).unlink()
    with pytest.raises(PublishError, match="does not say that it is dlcontainer's") as caught:
        put(image, root)
    assert (folder / "bin/moved").exists()
    mark = re.search(r"touch '(.*)', and publish", str(caught.value.next_step))
    assert mark
    Path(mark[1].replace("'\"'\"'", "'")).touch()
    assert put(image, root).new
    assert seen(root) == BOTH


def test_the_checksums(folder: Path) -> None:
    found = checksums.read((folder / "SHA256SUMS").read_bytes())
    assert {*found, "SHA256SUMS"} == set(FILES)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/passwd",
        "bin/../x",
        "bin/a/b",
        "a/b",
        "image.sif",
        ".ssh",
        "bin/.x",
        "",
        "a b",
        "-x",
    ],
)
def test_checksums_of_other_files(folder: Path, image: Path, root: Path, name: str) -> None:
    with (folder / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  {name}\n")
    with pytest.raises(PublishError, match="line 12 is not a checksum and a name"):
        put(image, root)

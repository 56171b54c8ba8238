"""A version that is published already, and is damaged."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums
from dlcontainer.publish.tree import changes
from tests.publishing import BOTH, image_of, put, seen
from tests.trees import act

FILES = [
    *("image.sif", "record.json", "checks.json", "build.log", "module.lua", "module.tcl"),
    *("bin/python", "bin/tool", "bin/pip", "bin/dlcontainer-venv", "launch/site.sh"),
    *("job/job.sh", "job/job-functions.sh"),
    "SHA256SUMS",
    "release.json",
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
    return put(image, root).folder


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("spoil", [change_a_byte, cut, empty, remove, link_away, make_pipe])
def test_a_damaged_file_is_named(
    folder: Path, image: Path, root: Path, name: str, spoil: object
) -> None:
    if (spoil, name) == (cut, "release.json"):
        return  # its last line end says nothing
    assert callable(spoil)
    spoil(folder / name)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    with pytest.raises(
        PublishError, match=r"the published release of demo/1\.0 is damaged"
    ) as caught:
        put(image, root)
    error = caught.value
    # A changed list of checksums blames the file whose checksum it no longer has.
    assert str(error.where) == str(folder / name) or name in ("SHA256SUMS", "release.json")
    assert str(error.where).startswith(str(folder))
    assert "publish again" in str(error.next_step)
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_way_out(folder: Path, image: Path, root: Path) -> None:
    """It is taken back and removed by the commands that the message gives; then it is published."""
    change_a_byte(folder / "image.sif")
    with pytest.raises(PublishError) as caught:
        put(image, root)
    hide, remove = (
        shlex.split(line.partition(": ")[2])
        for line in str(caught.value.next_step).splitlines()[:2]
    )
    assert hide == ["dlcontainer", "modules", "unpublish", "demo/1.0", "--root", str(root)]
    assert remove == ["rm", "-r", str(folder)]
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    shutil.rmtree(remove[2])
    assert put(image, root).new
    assert seen(root) == BOTH
    assert not put(image, root).new


def test_programs_that_users_cannot_run(folder: Path, image: Path, root: Path) -> None:
    (folder / "bin/tool").chmod(0o644)
    with pytest.raises(PublishError, match="its mode is 0644"):
        put(image, root)


def test_links_without_a_folder(folder: Path, image: Path, root: Path) -> None:
    folder.rename(folder.with_name("moved"))
    with pytest.raises(PublishError, match=r"the published release of demo/1\.0 is damaged"):
        put(image, root)


def test_the_checksums(folder: Path) -> None:
    found = checksums.read((folder / "SHA256SUMS").read_bytes())
    assert {*found, "SHA256SUMS", "release.json"} == set(FILES)


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
    with pytest.raises(PublishError, match="line 14 is not a checksum with a unique name"):
        put(image, root)

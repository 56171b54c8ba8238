"""What is given to `publish`: links, pipes, second names, other owners, sizes."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError, PublishError
from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.publish import offered
from dlcontainer.system import digests
from tests.publishing import BOTH, image_of, put, seen

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----"
SUFFIXES = [".log", ".cdx.json", ".json"]
OTHER = 65534
root_only = pytest.mark.usefixtures("as_root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    found = image_of(tmp_path / "images")
    found.with_suffix(".cdx.json").write_text('{"bomFormat": "CycloneDX", "components": []}')
    return found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def plant_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def plant_relative_link(path: Path, secret: Path) -> None:
    path.symlink_to(f"../{secret.name}")


def plant_dangling_link(path: Path, secret: Path) -> None:
    path.symlink_to("none")


def plant_second_name(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def plant_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path, secret: Path) -> None:
    path.mkdir()


def plant_device(path: Path, secret: Path) -> None:
    path.symlink_to("/dev/zero")


PLANTS = [
    *(plant_link, plant_relative_link, plant_dangling_link, plant_second_name),
    *(plant_pipe, plant_folder, plant_device),
]


def nothing_of(secret: Path, root: Path) -> bool:
    """Tell that a secret is where it was, as it was, and nowhere else."""
    files = [path for path in root.rglob("*") if path.is_file()]
    where = [path for path in files if SECRET.encode() in path.read_bytes()]
    mode = stat.S_IMODE(secret.stat().st_mode)
    return (where, mode, secret.read_text()) == ([], 0o600, SECRET)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("plant", PLANTS)
def test_traps_beside_an_image(
    image: Path, root: Path, secret: Path, suffix: str, plant: Callable[[Path, Path], None]
) -> None:
    path = image.with_suffix(suffix)
    path.unlink()
    plant(path, secret)
    with pytest.raises(PublishError, match="can't be published") as caught:
        put(image, root)
    assert str(path) in str(caught.value)
    assert "replace it" in str(caught.value.next_step)
    assert nothing_of(secret, root)


@root_only
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_owners(image: Path, root: Path, suffix: str) -> None:
    path = image.with_suffix(suffix)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(PublishError, match=r"it belongs to \w+, the image to root"):
        put(image, root)
    # An image of theirs, and a file of ours that they could move there: not what we keep private.
    os.chown(image, OTHER, OTHER)
    for other in SUFFIXES:
        os.chown(image.with_suffix(other), OTHER, OTHER)
    os.chown(path, 0, 0)
    path.chmod(0o600)
    with pytest.raises(PublishError, match="not all users may read it"):
        put(image, root)
    path.chmod(0o644)
    assert put(image, root).new


@pytest.mark.parametrize(("suffix", "most"), [(".log", 256), (".cdx.json", 64), (".json", 16)])
def test_sizes(image: Path, root: Path, suffix: str, most: int) -> None:
    with image.with_suffix(suffix).open("r+b") as file:
        file.truncate(most * 10**6 + 1)
    with pytest.raises(PublishError, match=f"it has {most} MB; the limit is {most} MB"):
        put(image, root)


@pytest.mark.parametrize("bill", ["no JSON", "[]", "{}", "[" * 10_000, '{"bomFormat": "x"}'])
def test_a_bill_that_is_none(image: Path, root: Path, bill: str) -> None:
    image.with_suffix(".cdx.json").write_text(bill)
    with pytest.raises(PublishError, match="can't read the bill of materials"):
        put(image, root)


def test_a_link_to_an_image(image: Path, root: Path, secret: Path) -> None:
    """What belongs to it lies beside the image itself, not beside the link."""
    folder = root.parent / "links"
    folder.mkdir()
    link, second = folder / "latest.sif", folder / "second.sif"
    link.symlink_to(second)
    second.symlink_to(f"../images/{image.name}")
    (folder / "latest.log").symlink_to(secret)
    (folder / "latest.json").write_text("another record")
    done = put(link, root)
    assert done.new
    assert (done.folder / "build.log").read_text() == "a log"
    assert nothing_of(secret, root)
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(PublishError, match="there is no image"):
        put(link, root)


@pytest.mark.timeout(60)
def test_what_is_no_image_file(root: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.sif"
    os.mkfifo(pipe)
    for path, says in (
        (pipe, "not a regular file"),
        (tmp_path, "Is a directory"),
        (Path("/dev/null"), "not a regular file"),
    ):
        with pytest.raises(PublishError, match=says):
            put(path, root)


def test_what_is_swapped_after_it_was_opened_is_not_published(
    image: Path, root: Path, secret: Path
) -> None:
    """All names lead elsewhere as soon as the image was checked."""
    opened = {path: path.read_bytes() for path in image.parent.iterdir()}

    def check(path: Path, written: object, site: object) -> list[CheckRecord]:
        for name in opened:
            name.unlink()
            name.symlink_to(secret)
        return [CheckRecord(name="runs", ok=True, detail="x")]

    folder = put(image, root, check=check).folder
    assert seen(root) == BOTH
    assert (folder / "record.json").read_bytes() == opened[image.with_suffix(".json")]
    assert (folder / "build.log").read_bytes() == opened[image.with_suffix(".log")]
    assert (folder / "sbom.cdx.json").read_bytes() == opened[image.with_suffix(".cdx.json")]
    assert nothing_of(secret, root)


def test_what_the_record_says_is_what_is_checked(image: Path, root: Path) -> None:
    told = []

    def check(path: Path, written: object, site: object) -> list[CheckRecord]:
        told.append((path, written))
        return [CheckRecord(name="runs", ok=True, detail="x")]

    link = image.with_name("link.sif")
    link.symlink_to(image.name)
    put(link, root, check=check)
    with offered.opened(image) as given:
        assert told == [(image, given.record.record)]


def test_files_are_closed(image: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with offered.opened(image) as given:
        digests.of_open(given.image)
    image.with_suffix(".json").write_text("{")
    with pytest.raises(ChecksFailedError), offered.opened(image):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before

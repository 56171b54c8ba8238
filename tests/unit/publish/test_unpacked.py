"""An unpacked image: its listing, its release, and what an audit says of each change in it."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError, UsageError
from dlcontainer.publish import ownership
from dlcontainer.publish.tree import audit, changes, collection, promotion
from dlcontainer.publish.tree.collection import RetentionPolicy
from dlcontainer.publish.tree.transaction import opened
from dlcontainer.publish.unpacked import cvmfs, listing
from tests.trees import DAY, Clock, act, draft, hand, image_file
from tests.values import ROOT, TEMPLATES


def make(folder: Path) -> Path:
    """Make the tree of a small image, with all kinds of entries that need no root."""
    tree = folder / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "etc").mkdir(mode=0o700)
    (tree / "usr/bin/python3").write_text("#!/bin/sh\n")
    (tree / "usr/bin/python3").chmod(0o4711)
    (tree / "usr/bin/twin").hardlink_to(tree / "usr/bin/python3")
    (tree / "etc/a \n name").write_text("x")
    (tree / "etc/a \n name").chmod(0o000)
    (tree / "bin").symlink_to("/usr/bin")
    os.mkfifo(tree / "etc/pipe")
    return tree


def settled(folder: Path, most: int = 100) -> Path:
    tree = make(folder)
    assert listing.settle(tree, ownership.of_root(folder, None), most) == ("etc/pipe",)
    return tree


def put_tree(root: Path, folder: Path) -> Path:
    """Publish an unpacked image; give its release."""
    tree = settled(folder)
    with (
        opened(root, hand()) as held,
        draft(image_file(folder, b"packed")) as given,
    ):
        files = {**given.files, listing.FILE: listing.text(tree)}
        changes.publish(held, replace(given, files=files, tree=tree))
    (release,) = (root / "releases").iterdir()
    return release


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def test_a_listing(tmp_path: Path) -> None:
    tree = settled(tmp_path)
    lines = [json.loads(line) for line in listing.text(tree).splitlines()]
    found = {line[3]: tuple(line[:2]) for line in lines}
    assert found == {
        "bin": ("l", ""), "etc": ("d", "0755"), "etc/a \n name": ("f", "0644"),
        "usr": ("d", "0755"), "usr/bin": ("d", "0755"), "usr/bin/python3": ("f", "0755"),
        "usr/bin/twin": ("f", "0755"),
    }  # fmt: skip
    assert [line[3] for line in lines] == sorted(found)
    assert next(line[2] for line in lines if line[3] == "bin") == "/usr/bin"
    assert (tree / "usr/bin/twin").samefile(tree / "usr/bin/python3")
    # The same image gives the same listing, whoever unpacks it, under any umask.
    old = os.umask(0o077)
    try:
        (tmp_path / "again").mkdir()
        assert listing.text(settled(tmp_path / "again")) == listing.text(tree)
    finally:
        os.umask(old)


def test_catalogues_of_cernvm_fs(tmp_path: Path) -> None:
    """A folder with many entries has one; what is in it counts no more for those above."""
    many = tmp_path / "tree/lib/many"
    many.mkdir(parents=True)
    for number in range(30):
        (many / str(number)).touch()
    listing.settle(tmp_path / "tree", ownership.of_root(tmp_path, None), 20)
    found = [path.relative_to(tmp_path) for path in tmp_path.rglob(listing.CATALOG)]
    assert found == [Path("tree/lib/many") / listing.CATALOG]


def test_it_is_published_collected_and_not_promoted(root: Path, tmp_path: Path) -> None:
    release = put_tree(root, tmp_path)
    assert not (release / "image.sif").exists()
    assert (release / "tree/usr/bin/python3").stat().st_mode & 0o7777 == 0o755
    assert (release / listing.CATALOG).exists()
    assert [one for one in audit.audit(root) if str(root) in one.where] == []
    other = tmp_path / "production"
    other.mkdir()
    with pytest.raises(PublishError, match="is an unpacked image"):
        act(other, lambda tree: promotion.promote(tree, root, "demo/1.0"))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    later = hand(Clock(max(time.time(), Clock().now) + 100 * DAY))
    act(root, lambda tree: collection.collect(tree, RetentionPolicy(keep_s=DAY)), later)
    assert not release.exists()


def content(tree: Path) -> None:
    (tree / "etc/a \n name").write_text("y")


def mode(tree: Path) -> None:
    (tree / "usr/bin/python3").chmod(0o4755)


def target(tree: Path) -> None:
    (tree / "bin").unlink()
    (tree / "bin").symlink_to("/elsewhere")


def kind(tree: Path) -> None:
    (tree / "bin").unlink()
    (tree / "bin").write_text("")


def missing(tree: Path) -> None:
    (tree / "usr/bin/twin").unlink()


def more(tree: Path) -> None:
    (tree / "usr/lib").mkdir()


def other_tree(tree: Path) -> None:
    tree.rename(tree.parent.parent / "away")
    tree.symlink_to("../away")


def listed(tree: Path) -> None:
    path = tree.parent / listing.FILE
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (content, "tree/etc/a \n name: its content changed"),
        (mode, "tree/usr/bin/python3: its mode changed"),
        (target, "tree/bin: its content changed"),
        (kind, "tree/bin: its kind, its mode, its content changed"),
        (missing, "tree/usr/bin/twin: it is missing"),
        (more, "tree/usr/lib: it was not published"),
        (other_tree, "is a symbolic link"),
        (listed, "tree.list: its SHA-256 is not the one in SHA256SUMS"),
    ],
)
def test_what_an_audit_finds(
    root: Path, tmp_path: Path, change: Callable[[Path], None], says: str
) -> None:
    release = put_tree(root, tmp_path)
    change(release / "tree")
    found = [f"{fault.where}: {fault.why}" for fault in audit.audit(root)]
    assert any(says in fault for fault in found), found


def test_the_docs_say_how_many_entries() -> None:
    assert f"{listing.MOST_ENTRIES:,}" in (ROOT / "docs/centre/published-tree.md").read_text()


SCRIPT = """\
#!/bin/sh
# Publish an image, unpacked, in a repository of CernVM-FS. Written by
# `dlcontainer publish --layout tree --cvmfs`; run it on the repository's release manager machine.
# Rendered only: it was not tried with a real cvmfs_server.
set -eu
repository=sw.example.org
root=/cvmfs/sw.example.org/a

case $root in
    "/cvmfs/$repository"/*) ;;
    *) echo "$root is not below /cvmfs/$repository" >&2; exit 2 ;;
esac
cvmfs_server transaction "$repository"
# Nothing of it is seen, unless all of it is there.
trap 'cvmfs_server abort -f "$repository"' EXIT
dlcontainer publish '/images/it'"'"'s.sif' --site lab --root /cvmfs/sw.example.org/a --layout tree
trap - EXIT
cvmfs_server publish -m 'dlcontainer publish it'"'"'s.sif' "$repository"
"""


def test_the_script_for_cernvm_fs() -> None:
    root = Path("/cvmfs/sw.example.org/a")
    assert cvmfs.script(Path("/images/it's.sif"), "lab", root, [TEMPLATES]) == SCRIPT


@pytest.mark.parametrize("root", ["/sw", "/cvmfs", "/cvmfs/sw.example.org", "/cvmfs/x;y.org/a"])
def test_a_root_in_no_repository(root: str) -> None:
    with pytest.raises(UsageError, match="is not in a CernVM-FS repository"):
        cvmfs.script(Path("/i.sif"), "lab", Path(root), [TEMPLATES])

"""The tree of an OCI image's layers: whiteouts, links, and what is damaged or lies."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import zstd
from dlcontainer.image.contents.layered_tree import LayeredTree
from tests.skips import skip

Content = bytes | str | None


def tar_of(files: Mapping[str, Content], hard: Mapping[str, str] | None = None) -> bytes:
    """Make a tar: files, links by their targets, folders (None); and hard links."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
                continue
            member.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
            member.linkname = content or ""
            tar.addfile(member)
        for name, target in (hard or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.LNKTYPE, target
            tar.addfile(member)
    return stream.getvalue()


def tree(folder: Path, *layers: bytes, most: int = 10**9) -> LayeredTree:
    paths = [folder / f"layer{number}" for number in range(len(layers))]
    for path, layer in zip(paths, layers, strict=True):
        path.write_bytes(layer)
    return LayeredTree(layers=paths, most_bytes=most)


def read(layered: LayeredTree, folder: Path) -> dict[str, bytes]:
    """Read every plain file of a tree."""
    target = folder / "out"
    target.mkdir()
    paths = [entry.path for entry in layered.entries() if entry.kind == "-"]
    files = layered.fetch(paths, target)
    assert all(file.parent == target for file in files.values())
    return {path: file.read_bytes() for path, file in sorted(files.items())}


def test_an_upper_layer_hides_and_replaces(tmp_path: Path) -> None:
    below = {
        "usr/": None,
        "usr/a": b"1",
        "usr/gone": b"2",
        "opt/all/x": b"3",
        "opt/all/deep/y": b"4",
        "srv/was/folder": b"5",
        "keep": b"6",
    }
    above = {
        "./usr/a": b"new",
        "usr/.wh.gone": b"",
        "opt/all/.wh..wh..opq": b"",
        "opt/all/z": b"7",
        "srv/was": b"a file",
        ".wh.nothing": b"",
    }
    layered = tree(tmp_path, tar_of(below), gzip.compress(tar_of(above)))
    assert read(layered, tmp_path) == {
        "/keep": b"6",
        "/opt/all/z": b"7",
        "/srv/was": b"a file",
        "/usr/a": b"new",
    }


def test_a_file_that_is_hidden_and_made_again(tmp_path: Path) -> None:
    layers = (tar_of({"a": b"1"}), tar_of({".wh.a": b""}), tar_of({"a": b"3"}))
    assert read(tree(tmp_path, *layers), tmp_path) == {"/a": b"3"}


def test_hard_links_lead_to_their_layer_or_one_below(tmp_path: Path) -> None:
    first = tar_of({"a": b"content"}, {"b": "a"})
    second = tar_of({}, {"c": "b", "lost": "nowhere"})
    assert read(tree(tmp_path, first, second), tmp_path) == {
        "/a": b"content",
        "/b": b"content",
        "/c": b"content",
    }


def test_names_that_lead_out_of_the_tree(tmp_path: Path) -> None:
    layered = tree(tmp_path, tar_of({"../../etc/x": b"1", "/abs": b"2", "l": "/etc/passwd"}))
    assert read(layered, tmp_path) == {"/abs": b"2", "/etc/x": b"1"}
    # Folders that no layer lists are there all the same.
    kinds = {one.path: one.kind for one in layered.entries()}
    assert kinds == {"/abs": "-", "/etc": "d", "/etc/x": "-", "/l": "l"}


@pytest.mark.parametrize("end", [3, 300, 1700])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_layer_that_is_cut(tmp_path: Path, is_packed: bool, end: int) -> None:
    whole = tar_of({"a": bytes(range(256)) * 9})
    packed = gzip.compress(whole, 0) if is_packed else whole
    layered = tree(tmp_path, packed[:end])
    with pytest.raises(ChecksFailedError, match="layer 1 of the image can't be read"):
        read(layered, tmp_path)


def test_a_layer_that_unpacks_without_end(tmp_path: Path) -> None:
    bomb = gzip.compress(tar_of({"a": bytes(10_000_000)}))
    assert len(bomb) < 20_000
    with pytest.raises(ChecksFailedError) as refused:
        tree(tmp_path, bomb, most=1_000_000).entries()
    assert refused.value.why == "it unpacks to more than an image's layer has"


def test_layers_in_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import zstandard
    except ImportError:
        skip("no zstandard: pip install zstandard")
    packed = zstandard.compress(tar_of({"a": b"1"}))
    assert read(tree(tmp_path, packed), tmp_path) == {"/a": b"1"}
    with pytest.raises(ChecksFailedError, match="can't be read"):
        tree(tmp_path, packed[:-9]).entries()
    monkeypatch.setattr(zstd, "_module", lambda name: None)
    with pytest.raises(ChecksFailedError) as refused:
        tree(tmp_path, packed).entries()
    assert refused.value.why == zstd.MISSING

"""Trees and layers that would harm this host are refused before they are unpacked."""

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.adopt import vetting
from dlcontainer.adopt.links import LinkReplacement
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import TreeEntry
from tests import foreign

GB = 10**9


def link(path: str, target: str) -> TreeEntry:
    return TreeEntry(path=path, kind="l", size=0, target=target)


@pytest.mark.parametrize(
    "entry",
    [
        link("/etc", "/etc"),
        link("/opt", "/home/ada"),
        link("/opt", "usr/opt"),
        link("/var", "../../home/ada"),
        link("/.singularity.d", "usr"),
        link("/.singularity.d/env/90-environment.sh", "/home/ada/.bashrc"),
        link("/etc/resolv.conf", "/home/ada/new"),
        link("/etc/hosts", "../../../home/ada/new"),
        link("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"),
        link("/home", "/no/such/folder"),
        link("/tmp", "tmp"),
        TreeEntry(path="/tmp", kind="-", size=1),
        TreeEntry(path="/opt/dlcontainer", kind="d", size=0),
        link("/opt/dlcontainer", "/home/ada"),
    ],
)
def test_refused(entry: TreeEntry) -> None:
    with pytest.raises(ChecksFailedError):
        vetting.require_harmless([entry], GB, "x")


@pytest.mark.parametrize(
    "entry",
    [
        link("/bin", "usr/bin"),
        link("/etc/mtab", "/proc/mounts"),
        link("/var/tmp", "/tmp"),
        link("/var/run", "/run"),
        link("/etc/resolv.conf", "../run/x"),
        link("/.exec", ".singularity.d/actions/exec"),
        link("/opt/x/lib", "/home/ada"),
        TreeEntry(path="/tmp", kind="d", size=0),
    ],
)
def test_usual(entry: TreeEntry) -> None:
    vetting.require_harmless([entry], GB, "x")


def test_a_chain_of_links_is_followed() -> None:
    # As Fedora has it.
    usual = [link("/sbin", "usr/sbin"), link("/usr/sbin", "bin")]
    vetting.require_harmless(usual, GB, "x")
    for last in ("/home/ada", "../../home", "y"):
        chain = [link("/etc", "usr/x"), link("/usr/x", "y"), link("/usr/y", last)]
        with pytest.raises(ChecksFailedError, match="/etc can't be unpacked here"):
            vetting.require_harmless(chain, GB, "x")


def test_a_tree_of_more_than_is_allowed() -> None:
    tree = [TreeEntry(path=f"/{name}", kind="-", size=GB // 2) for name in "abc"]
    with pytest.raises(ChecksFailedError, match="unpacks to more than 1 GB"):
        vetting.require_harmless(tree, GB, "x")


def layers(folder: Path, *bodies: bytes) -> dict[str, Any]:
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    digests = [foreign.sha256(body) for body in bodies]
    for digest, body in zip(digests, bodies, strict=True):
        (blobs / digest[7:]).write_bytes(body)
    return {"layers": [{"digest": digest} for digest in digests]}


def require(folder: Path, *bodies: bytes, most: int = GB) -> None:
    vetting.require_layers(folder, layers(folder, *bodies), most, "x")


def test_the_last_layer_s_links_are_meant(tmp_path: Path) -> None:
    # Tried with Apptainer 1.4.5: a layer's files don't go through links of layers below it.
    first, last = foreign.links(etc="/home/ada"), foreign.links(etc="usr/etc", usr="x")
    made = vetting.require_layers(tmp_path, layers(tmp_path, first, last), GB, "x")
    assert LinkReplacement(path="/etc", kind="folder") in made


def test_names_that_climb_are_names_of_the_tree(tmp_path: Path) -> None:
    with pytest.raises(ChecksFailedError, match="/opt can't be unpacked here"):
        require(tmp_path, foreign.links(**{"../../opt": "/home/ada"}))


def test_what_was_removed_is_no_link(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("opt/.wh.x"))
    require(tmp_path, packed.getvalue())


def test_a_bomb_is_counted_and_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(foreign.links(usr="x") + b"\0" * 50_000_000)
    with pytest.raises(ChecksFailedError, match="unpacks to more"):
        require(tmp_path, bomb, most=10_000_000)


def test_layers_count_together(tmp_path: Path) -> None:
    bodies = [foreign.links(**{name: "x"}) + b"\0" * 6_000_000 for name in "ab"]
    with pytest.raises(ChecksFailedError, match="unpacks to more"):
        require(tmp_path, *bodies, most=10_000_000)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\x28\xb5\x2f\xfd rest", "zstd"),
        (b"\x1f\x8bcut", "can't be read"),
        (b"text" * 300, "can't"),
    ],
)
def test_layers_that_cant_be_read(tmp_path: Path, body: bytes, why: str) -> None:
    with pytest.raises(ChecksFailedError, match=why):
        require(tmp_path, body)

"""Absolute links of an image lead within the image, where an engine would follow them outside."""

import json
import tarfile
from pathlib import Path

import pytest

from dlcontainer.adopt import links
from dlcontainer.adopt.links import EnginePaths, LinkReplacement
from dlcontainer.image.contents.following import LeavesError, follow
from dlcontainer.registry import archive

WRITTEN = EnginePaths(folders=("/home", "/var", "/var/tmp"), files=("/etc/resolv.conf",))
THERE = {"/", "/home", "/var", "/etc", "/tmp", "/real", "/real/deep", "/run"}


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/a/b", "/a/b"),
        ("/home", "/real"),
        ("/home/ada", "/real/ada"),
        ("/var/tmp/x", "/real/tmp/x"),
        ("/up", "/a"),
    ],
)
def test_a_link_is_followed_within_its_tree(path: str, end: str) -> None:
    tree = {"/home": "/real", "/var": "home", "/up": "home/../a"}
    assert follow(path, tree).end == end


@pytest.mark.parametrize("target", ["..", "/..", "a/../../..", "/home", "home", "/x"])
def test_what_leaves_its_tree_or_goes_in_a_circle(target: str) -> None:
    with pytest.raises(LeavesError):
        follow("/home", {"/home": target, "/x": "home"})


@pytest.mark.parametrize(
    ("tree", "made"),
    [
        ({}, []),
        ({"/home": "real"}, []),
        ({"/home": "/real"}, [LinkReplacement(path="/home", kind="link", target="real")]),
        ({"/home": "/"}, [LinkReplacement(path="/home", kind="link", target=".")]),
        ({"/var/tmp": "/tmp"}, [LinkReplacement(path="/var/tmp", kind="link", target="../tmp")]),
        ({"/home": "/gone"}, [LinkReplacement(path="/home", kind="folder")]),
        ({"/home": "gone"}, [LinkReplacement(path="/home", kind="folder")]),
        ({"/var": "/real"}, [LinkReplacement(path="/var", kind="link", target="real")]),
        (
            {"/var": "/real", "/real/tmp": "/gone"},
            [
                LinkReplacement(path="/var", kind="link", target="real"),
                LinkReplacement(path="/real/tmp", kind="folder"),
            ],
        ),
        (
            {"/etc/resolv.conf": "/run/new"},
            [LinkReplacement(path="/etc/resolv.conf", kind="link", target="../run/new")],
        ),
        (
            {"/etc/resolv.conf": "../run/systemd/resolv.conf"},
            [LinkReplacement(path="/etc/resolv.conf", kind="file")],
        ),
        ({"/etc/mtab": "/proc/mounts", "/opt/x": "/y"}, []),
    ],
)
def test_what_takes_a_link_s_place(tree: dict[str, str], made: list[LinkReplacement]) -> None:
    assert links.fixes(WRITTEN, tree, THERE) == made


def test_the_layer_that_is_laid_over_an_image(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (blobs / "c").write_text('{"rootfs": {"diff_ids": ["sha256:1"]}, "config": {"Env": ["A=1"]}}')
    manifest = {"config": {"digest": "sha256:c", "size": 1}, "layers": [{"digest": "sha256:1"}]}
    made = [
        LinkReplacement(path="/home", kind="link", target="real"),
        LinkReplacement(path="/var/tmp", kind="folder"),
        LinkReplacement(path="/etc/hosts", kind="file"),
    ]
    links.lay(tmp_path, manifest, made)
    laid = archive.manifest_of(tmp_path)
    assert laid["layers"][:1] == manifest["layers"]
    config = json.loads((blobs / laid["config"]["digest"][7:]).read_text())
    assert config["config"] == {"Env": ["A=1"]}
    assert len(config["rootfs"]["diff_ids"]) == 2
    with tarfile.open(blobs / laid["layers"][1]["digest"][7:]) as tar:
        members = [(one.name, one.issym(), one.isdir(), one.linkname) for one in tar]
    assert members == [
        ("home", True, False, "real"),
        ("var/tmp", False, True, ""),
        ("etc/hosts", False, False, ""),
    ]

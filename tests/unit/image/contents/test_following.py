"""Files of an unpacked tree are found as a program in the image finds them."""

from pathlib import Path

import pytest

from dlcontainer.image.contents import FolderTree

STATUS = "/var/lib/dpkg/status"


@pytest.mark.parametrize("target", ["/realvar", "realvar", "/./realvar", "/link"])
def test_a_link_above_a_file_leads_within_the_tree(tmp_path: Path, target: str) -> None:
    tree = tmp_path / "tree"
    (tree / "realvar/lib/dpkg").mkdir(parents=True)
    (tree / "realvar/lib/dpkg/status").write_text("x")
    (tree / "link").symlink_to("/realvar")
    (tree / "var").symlink_to(target)
    found = FolderTree(folder=tree).fetch([STATUS, "/none", "/var/none"], tmp_path)
    assert {path: file.read_text() for path, file in found.items()} == {STATUS: "x"}


@pytest.mark.parametrize("target", ["..", "../host", "/../host", "/var", "{host}"])
def test_no_link_leads_to_this_host(tmp_path: Path, target: str) -> None:
    tree, host = tmp_path / "tree", tmp_path / "host"
    tree.mkdir()
    (host / "lib/dpkg").mkdir(parents=True)
    (host / "lib/dpkg/status").write_text("this host's")
    (tree / "var").symlink_to(target.format(host=host))
    assert FolderTree(folder=tree).fetch([STATUS, "/lib/dpkg/status"], tmp_path) == {}

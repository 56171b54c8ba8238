"""Package databases of small trees, read from their files."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from dlcontainer.errors import ChecksFailedError, EngineError
from dlcontainer.image import contents, dependency_graph
from dlcontainer.image.contents import (
    FileTree,
    FolderTree,
    SquashfsTree,
    TreeContents,
    conda,
    dpkg,
    python,
)
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.system.process import CommandFailedError
from tests.fakes import RecordingRunner, completed
from tests.sifs import write_sif
from tests.values import recorded

SITE = "/opt/x/lib/python3.11/site-packages"
STATUS = "dpkg-status-bookworm.txt"


def lay(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def take(root: Path, runner: RecordingRunner | None = None, path: str = "/none") -> TreeContents:
    reader = RpmReader(runner=runner or RecordingRunner(strict=True), environ={"PATH": path})
    return contents.take(FolderTree(folder=root), reader)


def dist_info(name: str, version: str, at: str = SITE, **files: str) -> dict[str, str]:
    folder = f"{at}/{name}-{version}.dist-info"
    said = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: no\n"}
    return {f"{folder}/{key}": text for key, text in (said | files).items()}


def test_dpkg(tmp_path: Path) -> None:
    found = take(lay(tmp_path, {"/var/lib/dpkg/status": recorded(STATUS)}))
    said = {one.name: one for one in found.packages}
    assert set(said) == {"libc6", "bash", "tzdata"}  # `removed` has only its settings left
    assert (said["libc6"].version, said["libc6"].arch) == ("2.36-9+deb12u14", "amd64")
    assert said["libc6"].size == 13001 * 1024
    assert dict(said["bash"].details) == {"section": "shells", "source": "bash (5.2.15-2)"}
    assert {one.kind for one in found.packages} == {"deb"}


def test_dpkg_without_dpkg(tmp_path: Path) -> None:
    folder = "/var/lib/dpkg/status.d"
    text = "Package: base\nVersion: 1:2\nArchitecture: arm64\n"
    files = {f"{folder}/base": text, f"{folder}/base.md5sums": "Package: no\nVersion: 1\n"}
    (only,) = take(lay(tmp_path, files)).packages
    assert (only.name, only.version, only.arch, only.size) == ("base", "1:2", "arm64", None)


def test_python(tmp_path: Path) -> None:
    record = 'a/x.py,sha256=ab,100\n"b,c.py",sha256=cd,20\nx/RECORD,,\n'
    files = dist_info("Torch_Vision", "1.0+cpu", INSTALLER="pip\n", RECORD=record)
    files |= dist_info("shared", "2") | dist_info("shared", "2", "/usr/lib/python3/dist-packages")
    files |= dist_info("shared", "3", "/opt/y/lib/python3.11/site-packages")
    files |= {f"{SITE}/old.egg-info/PKG-INFO": "Name: old\nVersion: 0.1\n"}
    files |= {f"{SITE}/alone-4.egg-info": "Name: alone\nVersion: 4\n"}
    files |= {f"{SITE}/bare-5.dist-info/METADATA": "no head\n"}
    found = take(lay(tmp_path, files)).packages
    assert [(one.name, one.version) for one in found] == [
        ("alone", "4"),
        ("bare", "5"),
        ("old", "0.1"),
        ("shared", "2"),
        ("shared", "3"),
        ("Torch_Vision", "1.0+cpu"),
    ]
    torch, shared = found[-1], found[3]
    assert (torch.size, torch.details) == (120, (("installer", "pip"),))
    assert shared.places == (SITE, "/usr/lib/python3/dist-packages")


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ("https://conda.example.org/conda-forge/linux-64", "conda-forge"),
        ("https://conda.example.org/t/se-cret-123/linux-64", ""),
        ("https://user:se-cret@example.org/private", "private"),
        ("conda-forge", "conda-forge"),
        ("", ""),
    ],
)
def test_conda_tells_no_token(tmp_path: Path, channel: str, said: str) -> None:
    body = {
        "name": "numpy",
        "version": "2.0",
        "build": "py311_0",
        "channel": channel,
        "subdir": "linux-64",
        "sha256": "ab" * 32,
        "paths_data": {"paths": [{"size_in_bytes": 5}, {"size_in_bytes": 6}, {}]},
    }
    files = {"/opt/c/conda-meta/numpy.json": json.dumps(body), "/opt/c/conda-meta/cut.json": "{"}
    (numpy,) = take(lay(tmp_path, files)).packages
    details = dict(numpy.details)
    assert details.pop("channel", "") == said
    assert details == {"build": "py311_0", "subdir": "linux-64"}
    assert (numpy.size, numpy.sha256, numpy.places) == (11, "ab" * 32, ("/opt/c",))


def rpm_tree(root: Path) -> Path:
    return lay(root / "tree", {"/usr/lib/sysimage/rpm/rpmdb.sqlite": "database"})


def test_rpm(tmp_path: Path) -> None:
    program = lay(tmp_path / "bin", {"rpm": ""}) / "rpm"
    program.chmod(0o755)
    said = "glibc\t0\t2.34-100.el9\tx86_64\t6000\tLGPLv2+ and GPLv2\t\tlibc.so.6()(64bit)|glibc|\n"
    said += "shadow\t2\t4.9-8\tnoarch\t70\tBSD-3-Clause\tlibc.so.6()(64bit)|/bin/sh|\tshadow|\n"
    said += "gpg-pubkey\t(none)\t1-2\t(none)\t0\tpubkey\t\t\nnonsense\n"
    runner = RecordingRunner(answers=[completed(stdout=said)])
    found = take(rpm_tree(tmp_path), runner, str(program.parent))
    assert [(one.name, one.version, one.size) for one in found.packages] == [
        ("glibc", "2.34-100.el9", 6000),
        ("shadow", "4.9-8", 70),
    ]
    assert [dict(one.details) for one in found.packages] == [{}, {"epoch": "2"}]
    glibc, shadow = (one.license for one in found.packages)
    assert glibc is not None
    assert shadow is not None
    assert (glibc.expression, glibc.names) == ("", ("LGPLv2+ and GPLv2",))
    assert shadow.expression == "BSD-3-Clause"
    graph = dependency_graph.needed(found.packages, "x86_64")
    assert [[need.name for need in needs] for needs in graph.values()] == [[], ["glibc"]]
    assert runner.argvs[0][:2] == (str(program), "--dbpath")
    # The tree itself is not opened by rpm, which writes beside a database.
    assert str(tmp_path / "tree") not in runner.argvs[0][2]


def test_rpm_that_can_not_be_read(tmp_path: Path) -> None:
    found = take(rpm_tree(tmp_path))
    assert (found.packages, len(found.notes)) == ((), 1)
    assert "rpmdb.sqlite was not read: no rpm on this host" in found.notes[0]
    program = lay(tmp_path / "bin", {"rpm": ""}) / "rpm"
    program.chmod(0o755)
    failed = CommandFailedError(completed("rpm", code=1))
    for answer, why in ((failed, "exit code 1"), (completed(stdout=""), "no package that")):
        runner = RecordingRunner(answers=[answer])
        assert why in take(tmp_path / "tree", runner, str(program.parent)).notes[0]


def test_no_link_leads_out(tmp_path: Path) -> None:
    outside = lay(
        tmp_path / "host", {"/status": recorded(STATUS), **dist_info("hostile", "1", "/site")}
    )
    root = lay(tmp_path / "tree", {"/etc/hostname": "x\n"})
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").symlink_to(outside / "status")
    (root / "opt").symlink_to(outside)
    assert take(root).packages == ()
    kinds = {entry.path: entry.kind for entry in FolderTree(folder=root).entries()}
    assert kinds["/opt"] == kinds["/var/lib/dpkg/status"] == "l"
    assert not any("hostile" in path for path in kinds)


def test_sizes_and_distribution(tmp_path: Path) -> None:
    files = {"/usr/lib/a/b/c": "12345", "/usr/lib/d": "67", "/top": "8"}
    files |= {"/usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n'}
    found = take(lay(tmp_path, files))
    assert (found.distribution, found.release, found.files) == ("debian", "12", 4)
    size = (tmp_path / "usr/lib/os-release").stat().st_size
    assert found.folders == {"/": 1, "/usr/lib": 7 + size}
    assert found.size == 8 + size


LISTING = """\
drwxr-xr-x 0/0                  31 2023-11-14 22:13 squashfs-root
crw-rw-rw- 0/0             1,  3 2023-11-14 22:13 squashfs-root/dev/null
-rw-r--r-- 0/0                  17 2023-11-14 22:13 squashfs-root/a name -> odd
lrwxrwxrwx 0/0                   7 2023-11-14 22:13 squashfs-root/bin -> usr/bin
-rwsr-xr-x 0/12              59704 2023-11-14 22:13 squashfs-root/usr/bin/mount
"""


def packed(tmp_path: Path, runner: RecordingRunner) -> SquashfsTree:
    program = lay(tmp_path / "bin", {"unsquashfs": ""}) / "unsquashfs"
    program.chmod(0o755)
    image = write_sif(tmp_path / "it's an image.sif")
    return SquashfsTree.of(image, {"PATH": str(program.parent)}, runner)


def test_listing_of_an_image(tmp_path: Path) -> None:
    runner = RecordingRunner(answers=[completed(stdout=LISTING)], strict=True)
    tree = packed(tmp_path, runner)
    found = {entry.path: entry for entry in tree.entries()}
    assert list(found) == ["/a name -> odd", "/bin", "/dev/null", "/usr/bin/mount"]
    assert (found["/bin"].kind, found["/bin"].target) == ("l", "usr/bin")
    mount = found["/usr/bin/mount"]
    assert (mount.mode, mount.owner, mount.size) == ("rwsr-xr-x", "0/12", 59704)
    assert found["/dev/null"].size == 0
    tree.entries()  # asked once
    assert runner.argvs[0][1:] == ("-lln", "-o", "32768", str(tree.image))


def test_fetching_takes_names_for_names(tmp_path: Path) -> None:
    runner = RecordingRunner()
    tree, folder = packed(tmp_path, runner), tmp_path / "out"
    folder.mkdir()
    assert tree.fetch([], folder) == {}
    lay(folder / "tree", {"/etc/a[1]*": "x"})
    (folder / "tree/etc/link").symlink_to("/etc/passwd")
    found = tree.fetch(["/etc/a[1]*", "/etc/link", "/gone", "/two\nlines"], folder)
    assert list(found) == ["/etc/a[1]*"]
    assert (folder / "wanted").read_text() == "etc/a\\[1\\]\\*\netc/link\ngone\n"


def test_no_file_of_this_host_is_taken_for_a_trees(tmp_path: Path) -> None:
    """A tree's names may climb, and any part of one may be a link to a folder of the host's."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "key").write_text("secret")
    paths = ["/etc/key", "/etc/../../host/key", "/../host/key", "/lib/deep/key", "/own"]
    trees: list[FileTree] = [
        FolderTree(folder=tmp_path / "tree"),
        packed(tmp_path, RecordingRunner()),
    ]
    out = tmp_path / "out"
    for tree, folder in zip(trees, (tmp_path / "tree", out / "tree"), strict=True):
        lay(folder, {"/own": "x", "/usr/deep/x": "y"})
        (folder / "etc").symlink_to(host)
        (folder / "lib").symlink_to("usr")
        (folder / "usr/deep/key").symlink_to(host / "key")
        assert list(tree.fetch(paths, out)) == ["/own"]


NO_SIZES = ["9" * 5000, "9" * 19, "-1", "1e9", "", "x", "\u0663" * 20]


@pytest.mark.parametrize("size", NO_SIZES)
def test_sizes_that_are_none(tmp_path: Path, size: str) -> None:
    """A database of a foreign image says what it likes: the package is listed, without a size."""
    path = tmp_path / "status"
    path.write_text(f"Package: a\nVersion: 1\nInstalled-Size: {size}\n")
    assert [package.size for package in dpkg.packages({dpkg.STATUS: path}, {})] == [None]
    folder = "/usr/lib/python3/dist-packages/a-1.dist-info"
    found = {}
    for name, said in (("METADATA", "Name: a\nVersion: 1\n"), ("RECORD", f"x,,{size}\ny,,7\n")):
        path = tmp_path / name
        path.write_text(said)
        found[f"{folder}/{name}"] = path
    assert [package.size for package in python.packages(found)] == [7]


def test_a_record_with_a_field_without_end(tmp_path: Path) -> None:
    folder = "/usr/lib/python3/dist-packages/a-1.dist-info"
    (tmp_path / "METADATA").write_text("Name: a\nVersion: 1\n")
    (tmp_path / "RECORD").write_text('x,"' + "y" * 200_000)
    found = {f"{folder}/{name}": tmp_path / name for name in ("METADATA", "RECORD")}
    assert [package.size for package in python.packages(found)] == [None]


@pytest.mark.parametrize("value", ['"9"', "true", "-1", "1e400", "1" * 4000, "null"])
def test_sizes_of_conda_that_are_none(tmp_path: Path, value: str) -> None:
    path = tmp_path / "a.json"
    paths = f'{{"paths": [{{"size_in_bytes": {value}}}, {{"size_in_bytes": 7}}]}}'
    path.write_text(f'{{"name": "a", "version": "1", "paths_data": {paths}}}')
    (package,) = conda.packages({"/opt/conda-meta/a.json": path})
    assert package.size == (16 if value == '"9"' else 7)


def test_a_tree_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = completed(code=1, stderr="FATAL ERROR: filesystem uses xz compression")
    tree = packed(tmp_path, RecordingRunner(answers=[said]))
    with pytest.raises(ChecksFailedError, match="can't read the file tree") as caught:
        tree.entries()
    assert "xz compression" in str(caught.value.why)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(EngineError, match="no unsquashfs"):
        SquashfsTree.of(tree.image, {"PATH": "/none"}, RecordingRunner())


@pytest.mark.parametrize("why", ["No space left on device", "Disk quota exceeded"])
def test_no_room_is_no_fault_of_the_image(tmp_path: Path, why: str) -> None:
    said = completed(code=1, stderr=f"Write on output file failed because {why}\nFATAL ERROR: x")
    tree = packed(tmp_path, RecordingRunner(answers=[said]))
    with pytest.raises(ChecksFailedError, match="no room to unpack files") as caught:
        tree.unpack(tmp_path / "target")
    assert (caught.value.why, "TMPDIR" in str(caught.value.next_step)) == (why, True)


def test_what_no_one_may_enter_is_passed_over(tmp_path: Path) -> None:
    root = lay(tmp_path, {"/secret/x": "1", "/open/y": "2"})
    (root / "secret").chmod(0)
    try:
        paths = [entry.path for entry in FolderTree(folder=root).entries()]
    finally:
        (root / "secret").chmod(0o700)
    assert "/open/y" in paths
    assert ("/secret/x" in paths) is (os.getuid() == 0)

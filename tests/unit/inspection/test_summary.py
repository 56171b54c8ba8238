"""What is seen in images: whole, damaged, foreign; unsquashfs is played by a stand-in."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import libraries, sbom
from dlcontainer.image.contents import TreeContents
from dlcontainer.inspection import bitwise, compare, summary
from dlcontainer.inspection.summary import Inspection
from dlcontainer.system.process import CompletedCommand
from tests import sifs
from tests.fakes import completed
from tests.sifs import write_sif

NOTHING = TreeContents(packages=(), distribution="", release="", files=0, size=0, folders={})
SUBJECT = sbom.BillSubject(name="x", version="1", digest="ab" * 32, arch="x86_64")
BILL = sbom.render(SUBJECT, NOTHING)
LIBRARIES = {"schema": "dlcontainer/libraries/1", "libraries": []}
WHOLE = {
    "/opt/dlcontainer/manifest.json": json.dumps({"digest": "ab" * 32, "content": {}}),
    "/opt/dlcontainer/sbom.cdx.json": BILL,
    "/opt/dlcontainer/libraries.json": json.dumps(LIBRARIES),
    "/.singularity.d/labels.json": '{"title": "x"}',
}


class Unsquashfs:
    """A `Runner` that plays unsquashfs over some files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def __call__(self, argv: Sequence[str], **_: Any) -> CompletedCommand:
        if "-lln" in argv:
            lines = [
                f"-rw-r--r-- 0/0 {len(text)} 2023-11-14 22:13 squashfs-root{path}"
                for path, text in self.files.items()
            ]
            return completed(*argv, stdout="\n".join(lines))
        target = Path(argv[argv.index("-d") + 1])
        for name in Path(argv[argv.index("-ef") + 1]).read_text().splitlines():
            there = target / name
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_text(self.files[f"/{name}"])
        return completed(*argv)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_sif(
        tmp_path / "it's an image.sif", (sifs.TREE, (*sifs.BILL[:2], BILL.encode(), b""))
    )


def look(image: Path, files: Mapping[str, str]) -> Inspection:
    program = image.parent / "unsquashfs"
    program.write_text("")
    program.chmod(0o755)
    environ = {"PATH": str(image.parent)}
    return summary.inspect(image, environ, Unsquashfs(files))


def test_a_whole_image(image: Path) -> None:
    seen = look(image, WHOLE)
    assert seen.notes == ()
    assert (seen.arch, seen.labels, seen.libraries) == ("x86_64", {"title": "x"}, ())
    assert seen.manifest == {"digest": "ab" * 32, "content": {}}
    assert summary.require_sbom(seen) == BILL
    assert seen.record is None


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        ("/opt/dlcontainer/manifest.json", "{", "/opt/dlcontainer/manifest.json: can't be read"),
        ("/opt/dlcontainer/manifest.json", "[]", "not a JSON object"),
        ("/opt/dlcontainer/libraries.json", "{}", "/opt/dlcontainer/libraries.json: can't be"),
        ("/opt/dlcontainer/libraries.json", '{"schema": "x/9"}', "schema 'x/9'"),
        ("/.singularity.d/labels.json", "nothing", "/.singularity.d/labels.json: can't be read"),
        ("/opt/dlcontainer/sbom.cdx.json", "cut {", "can't read the bill of materials"),
        ("/opt/dlcontainer/sbom.cdx.json", BILL + " ", "is not the bill inside"),
        (
            "/var/lib/dpkg/status",
            "Package: a\nVersion: 1\n",
            "the bill of materials lists 0 packages, the package databases 1",
        ),
        (
            "/usr/lib/sysimage/rpm/rpmdb.sqlite",
            "",
            "rpmdb.sqlite was not read: no rpm on this host",
        ),
    ],
)
def test_what_is_wrong_is_noted(image: Path, path: str, text: str, note: str) -> None:
    seen = look(image, {**WHOLE, path: text})
    assert len(seen.notes) == 1
    assert note in seen.notes[0]


def test_a_cut_record(image: Path) -> None:
    image.with_suffix(".json").write_text('{"schema"')
    seen = look(image, WHOLE)
    assert seen.record is None
    assert "invalid record" in seen.notes[0]


def test_a_foreign_image(image: Path) -> None:
    seen = look(image, {})
    assert (seen.manifest, seen.libraries, seen.labels) == (None, None, {})
    assert "not an image of dlcontainer" in seen.notes[0]
    with pytest.raises(ChecksFailedError, match="contains no bill of materials") as caught:
        summary.require_sbom(seen)
    assert caught.value.next_step == "build the image with `dlcontainer build`"
    assert compare.compare(seen, look(image, WHOLE), bitwise.outline(image, image)).sonames is None


def test_the_environment(image: Path) -> None:
    docker = 'export PATH="${PATH:-"/usr/bin"}"\nexport B="old"\n'
    ours = "#!/bin/sh\n\n    export A='it'\"'\"'s'\n    export B=new\nexport C='two\nexport 1=x\n"
    seen = look(
        image,
        {
            "/.singularity.d/env/10-docker2singularity.sh": docker,
            "/.singularity.d/env/90-environment.sh": ours,
        },
    )
    assert seen.environment == {
        "PATH": "/usr/bin",
        "A": "it's",
        "B": "new",
        "C": "'two",
    }


def test_what_was_written_of_libraries_is_read_again() -> None:
    (one,) = libraries.read(
        json.dumps(
            {
                **LIBRARIES,
                "libraries": [{"path": "/opt/x.so", "soname": "x.so", "needed": ["libc.so.6"]}],
            }
        )
    )
    assert (one.path, one.needed) == ("/opt/x.so", ("libc.so.6",))


def test_bits_of_images_with_the_same_tree(image: Path, tmp_path: Path) -> None:
    other = write_sif(tmp_path / "other.sif", (sifs.TREE, (*sifs.BILL[:2], b"another", b"")))
    environ = {"PATH": str(tmp_path)}
    runner = Unsquashfs({})
    look(image, {})
    found = bitwise.compare(image, other, environ, runner)
    assert (found.same, found.files) == (False, ())
    assert [one.path for one in found.parts] == ["sbom.cdx.json", "the head"]
    assert bitwise.compare(image, image, environ, runner) == bitwise.Bits(same=True)
    lacking = write_sif(tmp_path / "lacking.sif", (sifs.TREE,))
    found = bitwise.compare(image, lacking, environ, runner)
    assert found.parts[0].how == ("only in the first",)


def test_bytes_are_compared_without_unpacking(image: Path, tmp_path: Path) -> None:
    assert bitwise.outline(image, image) == bitwise.Outline(identical=True)
    other = write_sif(tmp_path / "other.sif", (sifs.TREE, sifs.BILL))
    found = bitwise.outline(image, other)
    assert (found.identical, found.same_tree) == (False, True)
    assert found.parts == ("sbom.cdx.json", "the head")
    packed = (*sifs.TREE[:2], sifs.TREE[2] + b"x", *sifs.TREE[3:])
    apart = write_sif(tmp_path / "apart.sif", (packed, sifs.BILL))
    found = bitwise.outline(other, apart)
    assert (found.identical, found.same_tree) == (False, False)

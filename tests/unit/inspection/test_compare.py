"""What differs between two images, from what was found in them."""

import re
from dataclasses import replace
from pathlib import Path

from dlcontainer.cli import diff
from dlcontainer.image.contents import InstalledPackage, Library, TreeContents, TreeEntry
from dlcontainer.inspection import compare
from dlcontainer.inspection.bitwise import Outline
from dlcontainer.inspection.compare import Comparison
from dlcontainer.inspection.summary import Inspection

# Of two files that are not the same bytes: of another build of one plan.
APART = Outline(identical=False, same_tree=False, parts=("tree.sqfs", "the head"))
RECORD = {
    "schema": "dlcontainer/record/1",
    "image": {"sha256": "01" * 32},
    "finished": "2026-11-01T08:00:00Z",
    "base": {"sha256": "02" * 32, "made": "2026-11-01T07:00:00Z"},
    "work": [{"name": "system", "kept": None}],
    "python_packages": [{"name": "torch", "version": "2.0", "sha256": "03" * 32}],
}


def pypi(name: str, version: str, size: int = 0) -> InstalledPackage:
    return InstalledPackage(kind="pypi", name=name, version=version, size=size)


def seen(name: str = "a.sif", **changes: object) -> Inspection:
    found = TreeContents(
        packages=(pypi("torch", "2.0", 5_000_000), pypi("gone", "1")),
        distribution="debian",
        release="12",
        files=3,
        size=300,
        folders={"/opt": 200, "/usr": 100},
    )
    one = Inspection(
        image=Path(name),
        size=1000,
        arch="x86_64",
        parts=(),
        labels={"title": "x"},
        environment={"A": "1", "B": "2"},
        contents=found,
        entries=(
            TreeEntry(path="/opt/libx.so.1", kind="-", size=9, mode="rwxr-xr-x", time="1 12:00"),
        ),
        manifest={"digest": "ab" * 32, "content": {"recipe": {"name": "x"}, "files": {}}},
        provenance=None,
        libraries=(Library(path="/opt/libx.so.1", soname="libx.so.1", needed=("libc.so.6",)),),
        sbom=None,
        record=RECORD,
        notes=(),
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def compared(one: Inspection, other: Inspection, bits: Outline = APART) -> Comparison:
    return compare.compare(one, other, bits)


def test_the_same() -> None:
    found = compared(seen("a.sif"), seen("b.sif"), Outline(identical=True))
    assert found.same
    assert diff._lines(found) == ["the same, bit by bit"]


def test_files_that_are_not_the_same_bytes_are_never_the_same() -> None:
    """Even where nothing that is looked at differs."""
    found = compared(seen("a.sif"), seen("b.sif"))
    assert not found.same
    lines = diff._lines(found)
    assert lines[0].startswith("two images of one plan, built apart: ")
    assert lines[1] == "parts of the image file that differ: tree.sqfs, the head"
    assert lines[2].startswith("files: the listing is the same; content of one size, the order of")


def test_two_builds_of_one_plan_say_when_and_how() -> None:
    """As `build --no-cache` gives them; `publish` calls them two images."""
    record = {
        **RECORD,
        "image": {"sha256": "11" * 32},
        "finished": "2026-11-02T08:00:00Z",
        "work": [{"name": "system", "kept": {"maker": "ada", "made": "2026-11-01T07:30:00Z"}}],
        "python_packages": [{"name": "torch", "version": "2.0", "sha256": "13" * 32}],
    }
    later = tuple(replace(entry, time="2 12:00") for entry in seen().entries)
    found = compared(seen(), seen("b.sif", record=record, entries=later))
    assert found.is_rebuilt
    text = re.sub(" +", " ", "\n".join(diff._lines(found)))
    assert f"sha256 changed {'01' * 30}… -> {'11' * 30}…" in text
    assert "finished changed 2026-11-01T08:00:00Z -> 2026-11-02T08:00:00Z" in text
    assert "step system changed run -> kept result of 2026-11-01T07:30:00Z" in text
    assert "wheel of torch" in text
    assert "1 time /opt/libx.so.1" in text
    assert [(one.how, one.count) for one in found.files] == [("time", 1)]


def test_another_plan_and_another_base_are_named() -> None:
    content = {"recipe": {"name": "x"}, "files": {"/opt/verify.py": "ff"}}
    base = {"base": {"sha256": "05" * 32}, "tools": {"mksquashfs": "4.6"}, "plan": {"x": 1}}
    found = compared(
        seen(provenance={"base": {"sha256": "04" * 32}}),
        seen("b.sif", manifest={"digest": "cd" * 32, "content": content}, provenance=base),
    )
    assert not found.is_rebuilt
    assert [(one.name, one.how) for one in found.plan] == [("files./opt/verify.py", "added")]
    names = [one.name for one in found.provenance]
    assert names == ["base.sha256", "tools.mksquashfs"]
    assert "plan  changed  abababababab -> cdcdcdcdcdcd" in "\n".join(diff._lines(found))


def test_files_are_grouped_by_what_differs() -> None:
    def entry(path: str, **changes: object) -> TreeEntry:
        usual = TreeEntry(path=path, kind="-", size=1, mode="rw-r--r--", time="1 12:00")
        return replace(usual, **changes)  # type: ignore[arg-type]

    one = [entry(f"/{name}") for name in "abcdefg"]
    other = [
        *(entry(f"/{name}", time="2 12:00") for name in "abcd"),
        *(entry("/e", size=2, mode="rwxr-xr-x", time="2 12:00"), entry("/g"), entry("/new")),
    ]
    found = compared(seen(entries=one), seen("b.sif", entries=other))
    assert {one.how: (one.count, one.examples) for one in found.files} == {
        "time": (4, ("/a", "/b", "/c")),
        "size": (1, ("/e",)),
        "mode": (1, ("/e",)),
        "only in the first": (1, ("/f",)),
        "only in the second": (1, ("/new",)),
    }
    assert "/a, /b, /c, …" in "\n".join(diff._lines(found))


def test_records_of_any_shape_are_compared() -> None:
    """They lie beside the image: anybody may have written them."""
    for record in ({}, {"work": 3, "image": [], "python_packages": [1]}, {"base": None}):
        assert not compared(seen(), seen("b.sif", record=record)).same
    alone = compared(seen(), seen("b.sif", record=None))
    assert (alone.record, alone.notes) == (
        (),
        ("no record beside b.sif: records are not compared",),
    )


def test_what_differs() -> None:
    one = seen()
    contents = replace(
        one.contents,
        packages=(pypi("Torch", "2.1", 6_500_000), pypi("Torch", "2.0"), pypi("new", "3")),
        folders={"/opt": 5_000_200, "/var": 1},
    )
    moved = (
        Library(path="/opt/other/libx.so.1", soname="libx.so.1", needed=("libm.so.6",)),
        Library(path="/opt/_C.so", soname="", needed=()),
    )
    other = seen("b.sif", contents=contents, environment={"A": "1", "B": "3"}, libraries=moved)
    found = compared(one, other)
    assert not found.same
    assert [(change.name, change.how) for change in found.packages] == [
        ("pypi:gone", "removed"),
        ("pypi:new", "added"),
        ("pypi:torch", "changed"),
    ]
    assert found.packages[-1].after == "2.0, 2.1"
    assert [change.name for change in found.folders] == ["/opt", "/usr", "/var"]
    assert [(change.name, change.before, change.after) for change in found.environment] == [
        ("B", "2", "3")
    ]
    assert found.sonames is not None
    text = "\n".join(diff._lines(found))
    assert "pypi:torch  changed  2.0 -> 2.0, 2.1  +1.5 MB" in text
    assert "libx.so.1  needs +libm.so.6 -libc.so.6" in text
    assert "_C.so  added" in text


def test_an_image_that_does_not_tell() -> None:
    found = compared(seen(), seen("b.sif", libraries=None, notes=("not ours",)))
    assert found.sonames is None
    assert found.notes == (
        "b.sif: not ours",
        "no list of libraries in b.sif: sonames are not compared",
    )
    assert not found.same

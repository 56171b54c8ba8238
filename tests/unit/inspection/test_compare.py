"""What differs between two images, from what was found in them."""

from dataclasses import replace
from pathlib import Path

from dlcontainer.cli import diff
from dlcontainer.image.contents import Contents, Library, Package
from dlcontainer.inspection import compare
from dlcontainer.inspection.summary import Inspection


def pypi(name: str, version: str, size: int = 0) -> Package:
    return Package(kind="pypi", name=name, version=version, size=size)


def seen(name: str = "a.sif", **changes: object) -> Inspection:
    found = Contents(
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
        manifest={"digest": "ab" * 32},
        provenance=None,
        libraries=(Library(path="/opt/libx.so.1", soname="libx.so.1", needed=("libc.so.6",)),),
        sbom=None,
        record=None,
        notes=(),
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def test_the_same() -> None:
    found = compare.compare(seen("a.sif"), seen("b.sif"))
    assert found.same
    assert diff._lines(found) == ["the same in all that was looked at"]


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
    found = compare.compare(one, other)
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
    found = compare.compare(seen(), seen("b.sif", libraries=None, notes=("not ours",)))
    assert found.sonames is None
    assert found.notes == (
        "b.sif: not ours",
        "no list of libraries in b.sif: sonames are not compared",
    )
    assert found.same

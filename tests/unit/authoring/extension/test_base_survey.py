"""What an image holds, read from its files: packages as pins, the C library, its Python."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from dlcontainer.authoring.extension import base_survey
from dlcontainer.authoring.extension.base_copy import BaseCopy, FileIdentity
from dlcontainer.authoring.extension.base_survey import BaseSurvey
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.contents import FolderTree, InstalledPackage, TreeContents
from dlcontainer.image.contents.image_survey import ImageSurvey, Interpreter
from tests.unit.authoring.extension.places import DEBIAN, SITE

NOTHING = ImageSurvey(interpreters=(), mpi=(), c_library="glibc", glibc=None, packages={})
CONTENTS = TreeContents(packages=(), distribution="", release="", files=0, size=0, folders={})


def package(
    name: str, version: str, place: str, kind: Literal["deb", "pypi"] = "pypi"
) -> InstalledPackage:
    return InstalledPackage(kind=kind, name=name, version=version, places=(place,))


def copy_of(folder: Path) -> BaseCopy:
    return BaseCopy(
        path=Path("/appl/x.sif"),
        copy=folder / "x.sif",
        sha256="a" * 64,
        tree_sha256="b" * 64,
        is_signed=False,
        record=None,
        identity=FileIdentity.of(folder.stat()),
    )


def survey(folder: Path, *packages: InstalledPackage, **texts: str) -> BaseSurvey:
    return BaseSurvey(
        image=copy_of(folder),
        entries=(),
        contents=replace(CONTENTS, packages=packages),
        survey=NOTHING,
        texts={f"{SITE}/{name}-1.0.dist-info/METADATA": text for name, text in texts.items()},
        interpreter=Interpreter(path="/opt/base/bin/python", prefix="/opt/base", version="3.11"),
        glibc="2.36",
    )


def test_packages_on_python_s_path_are_pins(tmp_path: Path) -> None:
    extra = "Name: Some.Thing\nProvides-Extra: hot\nRequires-Dist: a\n"
    base = survey(
        tmp_path,
        package("Some.Thing", "1.0", SITE),
        package("yaml", "6", DEBIAN),
        package("elsewhere", "1", "/opt/other"),
        package("odd", "unknown", SITE),
        package("libc6", "2.36", SITE, "deb"),
        Some_Thing=f'{extra}Requires-Dist: b; extra == "hot"\n',
    )
    pins = base_survey.pins(base, (SITE, DEBIAN))
    assert [str(pin.requirement) for pin in pins] == ["some-thing==1.0", "yaml==6"]
    assert all(pin.strength == "hard" and pin.installed for pin in pins)
    assert pins[0].origin == f"x.sif:{SITE}"
    # All that it needs lies in the image; its extras may not.
    assert pins[0].extras == ("Provides-Extra: hot", 'Requires-Dist: b; extra == "hot"')


def test_of_two_folders_the_first_on_the_path_holds(tmp_path: Path) -> None:
    base = survey(tmp_path, package("yaml", "5", DEBIAN), package("yaml", "6", SITE))
    assert [str(pin.requirement) for pin in base_survey.pins(base, (SITE, DEBIAN))] == ["yaml==6"]


@pytest.mark.parametrize(
    ("stated", "version"), [("2.41-12", "2.41"), ("0:2.34-60.el9", "2.34"), ("2.31", "2.31")]
)
def test_the_c_library_by_its_package(tmp_path: Path, stated: str, version: str) -> None:
    image, listed = copy_of(tmp_path), replace(NOTHING, glibc=stated)
    assert base_survey._glibc(image, listed, FolderTree(folder=tmp_path), tmp_path) == version


def test_the_c_library_by_its_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree/usr/lib/x86_64-linux-gnu"
    tree.mkdir(parents=True)
    with pytest.raises(ChecksFailedError, match="can't tell the C library"):
        look(tmp_path, "none")
    (tree / "libc-2.31.so").write_bytes(
        b"\0GNU C Library (X 2.31-1) stable release version 2.31.\0"
    )
    (tree / "libc.so.6").symlink_to("libc-2.31.so")
    assert look(tmp_path, "linked") == "2.31"


def look(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    tree = FolderTree(folder=folder / "tree")
    return base_survey._glibc(copy_of(folder), NOTHING, tree, folder / name)

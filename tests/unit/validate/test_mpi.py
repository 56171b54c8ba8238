"""The MPI that a recipe promises: is it there, and is it asked for by the name that a site has?"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BuildError, ChecksFailedError, EngineError
from dlcontainer.image import layout, libraries
from dlcontainer.image.contents import Library, TreeEntry, elf
from dlcontainer.validate.image_files import ImageFiles
from dlcontainer.validate.inspected import CheckResult
from tests.fakes import RecordingRunner
from tests.unit.validate.inspecting import answers, check
from tests.values import execution_of

SWAP = {"family": "mpich", "mode": "swap", "name": "Cray MPICH", "soname": "libmpi.so.12"}
OWN = {"family": "mpich", "mode": "container", "name": "Intel MPI", "soname": "libmpi.so.12"}
COMPILE = {
    "family": "spectrum",
    "mode": "compile",
    "name": "IBM Spectrum MPI",
    "soname": "libmpi_ibm.so.3",
}
REMEMBERED = {"remembered": ["family", "mode", "name", "soname"]}


class Tree:
    """Files of an image by what they need; None for a file that is no library."""

    def __init__(
        self, found: Mapping[str, Sequence[str] | None], listed: str | None = None
    ) -> None:
        self.found, self.listed, self.fetched = dict(found), listed, list[str]()

    def entries(self) -> Sequence[TreeEntry]:
        size = 1000
        own = [TreeEntry(path=layout.LIBRARIES, kind="-", size=size)] if self.listed else []
        modes = {True: "rw-r--r--", False: "rwxr-xr-x"}
        folders = {"/".join(path.split("/")[:n]) for path in self.found for n in range(2, 9)}
        return [
            *own,
            *(TreeEntry(path=path, kind="d", size=0) for path in folders - {*self.found, ""}),
            *(
                TreeEntry(path=path, kind="-", size=size, mode=modes[".so" in path])
                for path in self.found
            ),
        ]

    def fetch(self, paths: Iterable[str], folder: Path) -> Mapping[str, Path]:
        given = {path: folder / str(number) for number, path in enumerate(paths)}
        for path, there in given.items():
            there.write_text(self.listed or "" if path == layout.LIBRARIES else path)
        self.fetched += [path for path in given if path != layout.LIBRARIES]
        return given

    def read(self, found: Mapping[str, Path]) -> tuple[Library, ...]:
        needs = {path: self.found[path] for path in found}
        return tuple(
            Library(path=path, soname="", needed=tuple(needed))
            for path, needed in needs.items()
            if needed is not None
        )


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> "type[Tree]":
    """Let an image have such a tree."""

    class Used(Tree):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            monkeypatch.setattr(ImageFiles, "_tree", self)
            monkeypatch.setattr(elf, "libraries", self.read)

    return Used


def declare(image: Path, **mpi: Any) -> None:
    path = image.with_suffix(".json")
    body = json.loads(path.read_text())
    body["content"]["recipe"]["stack"] = {"mpi": {"family": "mpich", "name": "MPICH 4.1", **mpi}}
    path.write_text(json.dumps(body))


def line(image: Path, mpi: Mapping[str, Any] | None = None) -> CheckResult | None:
    site = {"name": "demo"} | ({"mpi": {**REMEMBERED, **mpi}} if mpi else {})
    return check(image, RecordingRunner(answers()), **site).get("mpi")


def listed(*needed: str) -> str:
    return libraries.render([Library(path="/opt/demo/a.so", soname="a.so", needed=needed)])


def test_an_image_without_stack_mpi_is_asked_nothing(image: Path) -> None:
    assert line(image, SWAP) is None


@pytest.mark.parametrize(
    ("site", "state", "says"),
    [
        (SWAP, "failed", "nothing in the image asks for libmpi.so.12: the site's Cray MPICH would"),
        (COMPILE, "failed", "nothing in the image asks for libmpi_ibm.so.3"),
        (OWN, "failed", "no library of an MPI of that family is in the image"),
        (None, "failed", "no library of an MPI of that family is in the image"),
    ],
)
def test_an_mpi_that_is_declared_and_missing(
    image: Path, tree: type[Tree], site: dict[str, Any] | None, state: str, says: str
) -> None:
    declare(image)
    tree({"/usr/lib/libm.so.6": ["libc.so.6"], "/usr/bin/sh": ["libc.so.6"]}, listed("libm.so.6"))
    found = line(image, site)
    assert found is not None
    assert (found.state, says in found.detail) == (state, True), found.detail
    assert found.detail.startswith("MPICH 4.1 is declared")
    assert "remove stack.mpi from the recipe" in found.next_step


@pytest.mark.parametrize(
    ("needs", "given", "says"),
    [
        # of the image's own list: nothing need be unpacked
        ({}, listed("libmpi.so.12"), "/opt/demo/a.so asks for libmpi.so.12, which becomes"),
        # a program, and a library of the distribution's
        ({"/opt/x/bin/x": ["libmpi.so.12"]}, listed("libc.so.6"), "/opt/x/bin/x asks"),
        (
            {"/usr/lib/python3/a.so": ["libmpi.so.12"], "/usr/lib/b.so": ["libmpi.so.12"]},
            None,
            "/usr/lib/python3/a.so and 1 more asks",
        ),
        ({"/opt/x/bin/x": ["libmpi.so.12"]}, "cut {", "/opt/x/bin/x asks"),
        # held, and loaded by its name: ctypes
        ({"/opt/demo/lib/libmpi.so.12": ["libc.so.6"]}, None, "must load it by its name"),
    ],
)
def test_what_asks_for_the_library_that_the_site_replaces(
    image: Path, tree: type[Tree], needs: dict[str, Any], given: str | None, says: str
) -> None:
    declare(image)
    made = tree(needs, given)
    found = line(image, SWAP)
    assert found is not None
    assert (found.state, says in found.detail) == ("ok", True), found.detail
    assert bool(made.fetched) is (given != listed("libmpi.so.12"))


def test_a_library_of_another_name_is_not_replaced(image: Path, tree: type[Tree]) -> None:
    """Debian's MPICH: its library has a name that no Cray has."""
    declare(image)
    files = {"/usr/lib/libmpich.so.12": ["libc.so.6"], "/opt/a": ["libmpich.so.12"]}
    tree(files)
    found = line(image, SWAP)
    assert found is not None
    assert (found.state, found.detail.endswith("it has libmpich.so.12")) == ("failed", True)
    there = line(image, OWN)
    assert there is not None
    assert (there.state, there.detail) == (
        "ok",
        "MPICH 4.1, the image's own: /usr/lib/libmpich.so.12",
    )


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        (TreeEntry(path="/opt/libmpi.so.12", kind="l", size=0, target="libmpi.so.12.3"), "ok"),
        (
            TreeEntry(
                path="/opt/libmpi.so.12", kind="l", size=0, target="/opt/./../opt/libmpi.so.12.3"
            ),
            "ok",
        ),
        (TreeEntry(path="/opt/libmpi.so.12", kind="l", size=0, target="gone"), "failed"),
        (TreeEntry(path="/opt/libmpi.so.12", kind="l", size=0, target="libmpi.so.12"), "failed"),
        (TreeEntry(path="/opt/libmpi.so.12", kind="d", size=0), "failed"),
        (TreeEntry(path="/opt/libmpi.so.12\nx", kind="-", size=99), "failed"),
    ],
)
def test_a_link_counts_where_it_leads_to_a_file(
    image: Path, tree: type[Tree], entry: TreeEntry, state: str
) -> None:
    class Linked(tree):  # type: ignore[valid-type, misc]
        def entries(self) -> Sequence[TreeEntry]:
            return [*super().entries(), entry]

    declare(image)
    Linked({"/opt/libmpi.so.12.3": []})
    found = line(image, OWN)
    assert found is not None
    assert found.state == state


def test_an_adopted_image_s_mpi_was_seen_and_promised_by_nobody(
    image: Path, tree: type[Tree]
) -> None:
    path = image.with_suffix(".json")
    body = json.loads(path.read_text())
    own = body["content"].pop("recipe")
    origin = {"source": "x", "digest": "sha256:" + "d" * 64, "python": "/opt/demo/bin/python"}
    adopted = {**own, **origin, "stack": {"mpi": {"family": "mpich"}}}
    body["content"]["adopted"] = adopted
    path.write_text(json.dumps(body))
    tree({"/usr/lib/libmpich.so.12": ["libc.so.6"]})
    found = line(image, SWAP)
    assert found is not None
    assert (found.state, found.next_step) == ("not tried", "")
    assert "nothing in the image asks for libmpi.so.12" in found.detail


def test_a_host_s_mpi_that_is_compiled_against_can_not_be_held(
    image: Path, tree: type[Tree]
) -> None:
    declare(image, family="spectrum")
    tree({"/opt/lib/libmpi_ibm.so.3": []})
    found = line(image, COMPILE)
    assert found is not None
    assert found.state == "failed"


@pytest.mark.parametrize("family", ["openmpi", "mpich", "spectrum"])
def test_a_site_that_names_no_soname(image: Path, tree: type[Tree], family: str) -> None:
    declare(image, family=family)
    name = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12", "spectrum": "libmpi_ibm.so.3"}
    tree({"/opt/x": [name[family]]})
    site = {"family": family, "mode": "swap", "name": "X", "remembered": ["family", "mode", "name"]}
    found = check(image, RecordingRunner(answers()), name="demo", mpi=site)["mpi"]
    assert found.state == "ok"
    assert "asks for a library of its family" in found.detail


@pytest.mark.parametrize(
    "error",
    [
        EngineError("no unsquashfs on PATH"),
        ChecksFailedError("can't read the file tree of x.sif", why="a\nunknown compression"),
        BuildError("no room"),
    ],
)
def test_files_that_can_not_be_read_are_no_fault_of_the_image_s(
    image: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(self: ImageFiles, name: re.Pattern[str]) -> list[str]:
        raise error

    declare(image)
    monkeypatch.setattr(ImageFiles, "asking", fails)
    found = line(image, SWAP)
    assert found is not None
    assert found.state == "not tried"
    assert found.detail.startswith(str(getattr(error, "what", "")))


def test_without_unsquashfs_it_is_not_tried(image: Path) -> None:
    declare(image)
    found = line(image, SWAP)
    assert found is not None
    assert (found.state, found.detail.startswith("no unsquashfs on PATH")) == ("not tried", True)


def test_too_much_to_unpack_is_an_open_question(image: Path, tree: type[Tree]) -> None:
    class Large(tree):  # type: ignore[valid-type, misc]
        def entries(self) -> Sequence[TreeEntry]:
            return [TreeEntry(path="/opt/a.so", kind="-", size=10**12)]

    declare(image)
    made = Large({"/opt/a.so": []})
    found = line(image, SWAP)
    assert found is not None
    assert (found.state, made.fetched) == ("not tried", [])
    assert "1000 GB: too large to unpack" in found.detail


def test_questions_are_asked_once(image: Path, tree: type[Tree]) -> None:
    made = tree({"/opt/a.so": ["libx.so.1"]}, listed("libm.so.6"))
    files = ImageFiles(image=image, execution=execution_of(image.parent, RecordingRunner()))
    for _ in range(2):
        assert files.asking(re.compile(r"libx\.so\.1")) == ["/opt/a.so"]
    assert made.fetched == ["/opt/a.so"]

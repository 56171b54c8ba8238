"""Needs of packages, resolved among the installed ones."""

import pytest

from dlcontainer.image import dependency_graph
from dlcontainer.image.contents import InstalledPackage

SITE = "/opt/x/lib/python3.11/site-packages"
OTHER = "/opt/y/lib/python3.9/site-packages"


def deb(
    name: str, *needs: str, provides: tuple[str, ...] = (), arch: str = "amd64"
) -> InstalledPackage:
    return InstalledPackage(
        kind="deb", name=name, version="1", arch=arch, needs=needs, provides=provides
    )


def wheel(name: str, *needs: str, place: str = SITE, version: str = "1") -> InstalledPackage:
    return InstalledPackage(kind="pypi", name=name, version=version, needs=needs, places=(place,))


def needed(*packages: InstalledPackage, arch: str = "x86_64") -> dict[str, list[str]]:
    graph = dependency_graph.needed(packages, arch)
    return {package.name: [target.name for target in targets] for package, targets in graph.items()}


def test_debian() -> None:
    graph = needed(
        deb("bash", "libc6 (>= 2.36)", "debianutils (>= 5.6-0.1)", "gone"),
        deb("libc6", "libgcc-s1:any"),
        deb("libgcc-s1", "libc6"),
        deb("mailer", "exim4 | postfix (>= 3) | mail-transport-agent"),
        deb("sender", provides=("mail-transport-agent",)),
        deb("postfix"),
        deb("reader", "mail-transport-agent"),
        deb("mawk", "awk", provides=("awk",)),
    )
    assert graph == {
        "bash": ["libc6"],
        "libc6": ["libgcc-s1"],
        "libgcc-s1": ["libc6"],
        "mailer": ["postfix"],  # the first alternative that is there, as dpkg takes it
        "sender": [],
        "postfix": [],
        "reader": ["sender"],
        "mawk": [],
    }


def test_the_same_architecture() -> None:
    graph = dependency_graph.needed(
        [deb("a", "c"), deb("b", "c", arch="i386"), deb("c"), deb("c", arch="i386")], "x86_64"
    )
    assert [[target.arch for target in targets] for targets in graph.values()] == [
        ["amd64"], ["i386"], [], []
    ]  # fmt: skip


def test_python_stays_in_its_folder() -> None:
    first, other = wheel("numpy"), wheel("numpy", place=OTHER, version="2")
    user = wheel("torch", "NumPy>=1", "absent")
    assert dependency_graph.needed([first, other, user], "x86_64")[user] == [first]


@pytest.mark.parametrize(
    ("requirement", "is_needed"),
    [
        ("b; python_version < '3.12'", True),
        ("b; python_version >= '3.12'", False),
        ("b; sys_platform == 'win32'", False),
        ("b; platform_machine == 'x86_64'", True),
        ("b; platform_machine == 'aarch64'", False),
        ("b; extra == 'tests'", False),
        ("b; platform_release >= '9'", False),
        ("b ; no marker", False),
        ("b @ https://example.org/b.whl", True),
    ],
)
def test_markers(requirement: str, *, is_needed: bool) -> None:
    assert needed(wheel("a", requirement), wheel("b"))["a"] == (["b"] if is_needed else [])


def test_extras_that_others_want() -> None:
    """An extra is in use where a package wants it, and may bring in a further one."""
    graph = needed(
        wheel("user", "base[fast]"),
        wheel("base", "quick[more]; extra == 'fast'", "docs; extra == 'docs'"),
        wheel("quick", "extra-part; extra == 'more'"),
        wheel("extra-part"),
        wheel("docs"),
    )
    assert graph["base"] == ["quick"]
    assert graph["quick"] == ["extra-part"]


def test_conda_and_packages_that_tell_nothing() -> None:
    def conda(name: str, *needs: str) -> InstalledPackage:
        return InstalledPackage(kind="conda", name=name, version="1", needs=needs)

    silent = InstalledPackage(kind="pypi", name="old", version="1")
    graph = needed(conda("numpy", "python >=3.11,<3.12.0a0", "libblas"), conda("python"), silent)
    assert graph == {"numpy": ["python"], "python": []}


def test_tops_reach_all() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["e"], "e": ["d"], "f": ["f"]}
    assert dependency_graph.tops(graph) == ["a", "d", "f"]

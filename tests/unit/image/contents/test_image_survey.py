"""What files tell of an image: interpreters, frameworks, MPI, C library."""

from collections.abc import Sequence

import pytest

from dlcontainer.image.contents import InstalledPackage, TreeEntry, image_survey
from dlcontainer.image.contents.image_survey import ImageSurvey, MpiLibrary


def entries(*paths: str) -> list[TreeEntry]:
    return [TreeEntry(path=path, kind="-", size=1) for path in paths]


def read(*paths: str, packages: Sequence[InstalledPackage] = ()) -> ImageSurvey:
    return image_survey.read(entries(*paths), packages)


def test_a_python_needs_its_library_and_its_program() -> None:
    seen = read("/usr/lib/python3.11/os.py", "/opt/x/bin/python3", "/opt/y/lib/python3.12/os.py")
    assert seen.interpreters == ()
    (one,) = read("/usr/lib64/python3.9/os.py", "/usr/bin/python3").interpreters
    assert (one.path, one.prefix, one.version) == ("/usr/bin/python3", "/usr", "3.9")
    assert one.commands == ("python3",)


def test_a_python_older_than_the_probe_is_none() -> None:
    assert read("/usr/lib/python3.5/os.py", "/usr/bin/python3").interpreters == ()


def test_names_that_no_record_takes_are_passed_over() -> None:
    folder = "/opt/$(touch x)\x1b"
    assert read(f"{folder}/lib/python3.11/os.py", f"{folder}/bin/python").interpreters == ()
    torch = InstalledPackage(kind="conda", name="torch", version="1\x1b[31m", places=("/opt/a",))
    (one,) = read("/opt/a/lib/python3.12/os.py", "/opt/a/bin/python", packages=[torch]).interpreters
    assert one.frameworks == ()


def test_an_environment_of_its_own_comes_before_the_systems() -> None:
    system = ("/usr/lib/python3.11/os.py", "/usr/bin/python3")
    venv = (
        "/opt/venv/pyvenv.cfg",
        "/opt/venv/bin/python",
        "/opt/venv/lib/python3.11/site-packages/a",
    )
    first, second = read(*system, *venv).interpreters
    assert (first.path, second.path) == ("/opt/venv/bin/python", "/usr/bin/python3")


def test_the_python_with_frameworks_comes_first() -> None:
    torch = InstalledPackage(
        kind="pypi",
        name="torch",
        version="2.1",
        places=("/usr/local/lib/python3.11/dist-packages",),
    )
    paths = ("/usr/lib/python3.11/os.py", "/usr/bin/python3")
    other = ("/opt/a/lib/python3.12/os.py", "/opt/a/bin/python")
    first = read(*paths, *other, packages=[torch]).interpreters[0]
    assert (first.prefix, first.frameworks) == ("/usr", (("torch", "2.1"),))


def test_a_framework_of_another_environment_is_not_this_ones() -> None:
    torch = InstalledPackage(kind="conda", name="pytorch", version="2.1", places=("/opt/other",))
    (one,) = read("/opt/a/lib/python3.12/os.py", "/opt/a/bin/python", packages=[torch]).interpreters
    assert one.frameworks == ()


def test_what_pip_says_goes_before_what_conda_says() -> None:
    packages = [
        InstalledPackage(kind="conda", name="pytorch", version="2.1", places=("/opt/a",)),
        InstalledPackage(
            kind="pypi",
            name="torch",
            version="2.1+cu121",
            places=("/opt/a/lib/python3.12/site-packages",),
        ),
    ]
    (one,) = read(
        "/opt/a/lib/python3.12/os.py", "/opt/a/bin/python", packages=packages
    ).interpreters
    assert one.frameworks == (("torch", "2.1+cu121"),)


@pytest.mark.parametrize(
    ("paths", "family"),
    [
        (("/usr/lib/libmpi.so.40",), "openmpi"),
        (("/usr/lib/libmpi.so.12",), "unknown"),
        (("/usr/lib/libmpi.so.12", "/usr/bin/ompi_info"), "openmpi"),
        (("/usr/lib/libmpi.so.12", "/usr/bin/mpichversion"), "mpich"),
        (("/opt/ibm/lib/libmpi_ibm.so.3",), "spectrum"),
        (("/usr/lib/libmpi.so.40", "/usr/bin/mpichversion"), "unknown"),
    ],
)  # fmt: skip
def test_the_family_of_an_mpi(paths: tuple[str, ...], family: str) -> None:
    library = next(path for path in paths if "/libmpi" in path)
    assert read(*paths).mpi == (MpiLibrary(library=library, family=family),)


@pytest.mark.parametrize(
    ("paths", "library"),
    [
        (("/lib/ld-musl-x86_64.so.1",), "musl"),
        (("/usr/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"), "glibc"),
        (("/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",), "glibc"),
        (("/lib64/ld64.so.2",), "glibc"),
        ((), "unknown"),
    ],
)
def test_the_c_library(paths: tuple[str, ...], library: str) -> None:
    assert read(*paths).c_library == library


def test_databases_that_are_not_read_are_named() -> None:
    seen = read("/lib/apk/db/installed", "/var/lib/rpm/rpmdb.sqlite")
    assert seen.packages == {"apk": "present", "rpm": "present"}

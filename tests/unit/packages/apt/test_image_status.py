"""What an image has installed: apt gets what it resolves by, and nothing that does harm."""

import pytest

from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.packages.apt import image_status
from dlcontainer.packages.apt.image_status import OS_RELEASES, STATUS, DpkgPackage
from dlcontainer.recipes.base import System
from tests.layers import BASH, BOOKWORM

SYSTEM = System(distribution="debian", release="bookworm", source="a page")
APT = "Package: apt\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.6.1\n"
GONE = "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"


def read(status: str | None, release: str = BOOKWORM.decode()) -> list[DpkgPackage]:
    files = {OS_RELEASES[0]: release} | ({STATUS: status} if status is not None else {})
    return list(image_status.read(files, SYSTEM, "docker://x"))


def test_what_apt_resolves_by_is_handed_on() -> None:
    held = "Package: zlib1g\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1:1.2\n"
    apt, bash, zlib = read(f"{APT}\n{GONE}\n{BASH.decode()}\n{held}\n")
    assert (apt.name, apt.paragraph) == ("apt", APT)
    assert bash.paragraph == (
        "Package: bash\nStatus: install ok installed\nArchitecture: amd64\n"
        "Version: 5.2.15-2+b7\nEssential: yes\nPriority: required\n"
        "Pre-Depends: libc6 (>= 2.36), libtinfo6 (>= 6)\n"
    )
    # A package that the image holds stays as it is in the build too.
    assert "Status: hold ok installed" in zlib.paragraph


def test_a_field_of_two_lines() -> None:
    (apt,) = read(APT + "Depends: a,\n b (>= 1)\nConffiles:\n /etc/x 0 obsolete\n")
    assert apt.paragraph == APT + "Depends: a, b (>= 1)\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Package: ../../../etc/x", "paragraph 2: Package: '../../../etc/x'"),
        ("Package: -oDir::State=/", "paragraph 2: Package: '-oDir::State=/'"),
        ("Version: 1 evil", "paragraph 2: Version: '1 evil'"),
        ("Depends: a\x1b[2J", r"paragraph 2: Depends: 'a\x1b[2J'"),
        ("Depends: a\rPackage: b", r"paragraph 2: Depends: 'a\rPackage: b'"),
        ("Depends: a\u2028b", r"paragraph 2: Depends: 'a\u2028b'"),
        ("Status: ok", "paragraph 2: Status: 'ok'"),
        ("Architecture:", "paragraph 2: Architecture: ''"),
    ],
)
def test_what_dpkg_did_not_write(line: str, why: str) -> None:
    key = line.partition(":")[0]
    lines = [one for one in APT.splitlines() if not one.startswith(f"{key}:")]
    with pytest.raises(BuildError, match="of the base") as caught:
        read(APT + "\n" + "\n".join([*lines, line]))
    assert caught.value.why == why


def test_a_paragraph_without_a_name() -> None:
    with pytest.raises(BuildError, match="cannot use") as caught:
        read(APT + "\n" + APT.replace("Package: apt\n", ""))
    assert caught.value.why == "paragraph 2: Package is missing"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (None, f"it has no {STATUS}"),
        ("", f"its {STATUS} does not list apt"),
        (BASH.decode(), f"its {STATUS} does not list apt"),
        (APT.replace("install ok installed", "deinstall ok config-files"), "does not list apt"),
    ],
)
def test_an_image_without_dpkg_or_apt(status: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match="without dpkg and apt") as caught:
        read(status)
    assert why in str(caught.value.why)


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("ID=ubuntu\nVERSION_CODENAME=noble\n", "its os-release says ubuntu noble"),
        ("ID=debian\nVERSION_CODENAME=trixie\n", "its os-release says debian trixie"),
        ("ID=\x1b[2J\n", r"its os-release says \x1b[2J"),
        ("nothing", "it has no os-release file that confirms this"),
    ],
)
def test_another_release_than_stated(release: str, why: str) -> None:
    with pytest.raises(ConfigError, match="is not debian bookworm") as caught:
        read(APT, release)
    assert caught.value.why == why


def test_a_release_by_its_number() -> None:
    stated = System(distribution="ubuntu", release="24.04", source="a page")
    files = {OS_RELEASES[1]: 'ID="ubuntu"\nVERSION_ID="24.04"\n', STATUS: APT}
    (apt,) = image_status.read(files, stated, "docker://x")
    assert apt.arch == "amd64"

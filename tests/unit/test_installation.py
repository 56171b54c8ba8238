"""Who has a checkout is told of `make setup`; who came by a wheel is not."""

from pathlib import Path

import pytest

from dlcontainer import installation
from tests.values import ROOT


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Give a package as pip installs it."""
    package = tmp_path / "lib/python3.11/site-packages/dlcontainer"
    package.mkdir(parents=True)
    return package


def environ(tmp_path: Path, *commands: str) -> dict[str, str]:
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for command in commands:
        (folder / command).write_text("#!/bin/sh\n")
        (folder / command).chmod(0o755)
    return {"PATH": str(folder)}


def test_which_of_the_two_it_is(wheel: Path) -> None:
    assert installation.checkout() == ROOT
    assert installation.checkout(wheel) is None


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("apt-get", "apt-get install squashfs-tools uidmap"),
        ("dnf", "dnf install squashfs-tools shadow-utils"),
        ("zypper", "zypper install squashfs shadow"),
        ("other", "install the packages squashfs-tools uidmap"),
    ],
)
def test_the_line_of_the_distribution(tmp_path: Path, command: str, line: str) -> None:
    assert installation.line(environ(tmp_path, command), "squashfs-tools", "uidmap") == line


def test_a_wheel_s_user_is_sent_to_no_checkout(wheel: Path, tmp_path: Path) -> None:
    there = environ(tmp_path, "apt-get")
    # Without dpkg-deb nothing can be unpacked.
    told = installation.helper(there, "squashfs-tools", package=wheel)
    assert told == "an administrator types: apt-get install squashfs-tools"
    told = installation.engine(there, wheel)
    assert "https://apptainer.org/docs/admin/main/installation.html" in told
    assert "`dlcontainer setup engine` lists this host's ways" in told
    assert "make" not in told
    assert "checkout" not in told


def test_a_wheel_s_user_has_a_way_without_root_where_apt_is(wheel: Path, tmp_path: Path) -> None:
    there = environ(tmp_path, "apt-get", "dpkg-deb")
    own_way = "run `dlcontainer setup engine` (no root needed), or "
    told = installation.helper(there, "squashfs-tools", package=wheel)
    assert told == f"{own_way}an administrator types: apt-get install squashfs-tools"
    assert installation.engine(there, wheel).startswith(own_way)


def test_a_checkout_s_user_has_a_way_without_root(tmp_path: Path) -> None:
    there = environ(tmp_path, "apt-get")
    for told in (installation.helper(there, "mmdebstrap"), installation.engine(there)):
        assert told.startswith("run `make setup` in dlcontainer's checkout (no root needed), or ")

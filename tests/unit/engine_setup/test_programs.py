"""Private programs: which are there, and which are linked."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engine_setup import aptget, programs, set_up
from dlcontainer.engine_setup.programs import PROGRAMS, WRAPPERS
from dlcontainer.engine_setup.set_up import SetupPlan
from dlcontainer.engine_setup.subids import MissingRange
from dlcontainer.errors import EngineError
from tests.setup_scripts import Told


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a prefix with all private programs, on a machine that has none of its own."""
    tree = tmp_path / "a prefix" / "programs"
    (tree / WRAPPERS).mkdir(parents=True)
    (tree / "layout").write_text("2\n")
    for program in PROGRAMS:
        if not program.installed_only:
            executable(tree / WRAPPERS / program.command)
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", ())
    (tmp_path / "system").mkdir()
    (tmp_path / "a bin").mkdir()
    return tree.parent


def executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def planned(prefix: Path, *, only_prefix: bool = False) -> SetupPlan:
    return SetupPlan(prefix=prefix, bin=prefix.parent / "a bin", only_prefix=only_prefix)


def link(
    prefix: Path, *, only_prefix: bool = False, engine: str = "apptainer/usr/bin/x"
) -> set[str]:
    bin_folder = prefix.parent / "a bin"
    set_up.link_programs(planned(prefix, only_prefix=only_prefix), prefix / engine)
    return {path.name for path in bin_folder.iterdir()}


def test_a_link_goes_when_the_system_has_the_program(prefix: Path) -> None:
    private = {program.command for program in PROGRAMS if not program.installed_only}
    assert link(prefix) == private | {"apptainer"}
    executable(prefix.parent / "system" / "unsquashfs")
    assert link(prefix) == (private | {"apptainer"}) - {"unsquashfs"}
    # And comes back when that is removed.
    (prefix.parent / "system" / "unsquashfs").unlink()
    assert link(prefix) == private | {"apptainer"}
    executable(prefix.parent / "system" / "unsquashfs")
    assert link(prefix, only_prefix=True) == private | {"apptainer"}


def test_the_systems_own_engine_is_not_hidden(prefix: Path, tmp_path: Path) -> None:
    link(prefix)
    system = executable(prefix.parent / "system" / "apptainer")
    bin_folder = prefix.parent / "a bin"
    set_up.link_programs(planned(prefix), system)
    assert not (bin_folder / "apptainer").is_symlink()


def test_what_others_put_there_stays(prefix: Path) -> None:
    executable(prefix.parent / "system" / "unsquashfs")
    own = executable(prefix.parent / "a bin" / "unsquashfs")
    other = prefix.parent / "a bin" / "mksquashfs"
    other.symlink_to("/opt/theirs/mksquashfs")
    executable(prefix.parent / "system" / "mksquashfs")
    assert {"unsquashfs", "mksquashfs"} <= link(prefix)
    assert not own.is_symlink()
    assert str(other.readlink()) == "/opt/theirs/mksquashfs"


def test_a_tree_of_an_older_layout_is_made_again(prefix: Path) -> None:
    assert programs.in_prefix(prefix)
    (prefix / "programs/layout").write_text("1\n")
    assert programs.in_prefix(prefix) == []
    (prefix / "programs/layout").unlink()
    assert programs.in_prefix(prefix) == []
    assert link(prefix) == {"apptainer"}


def test_a_program_of_the_systems_is_not_unpacked_too(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    monkeypatch.setattr(aptget, "available", lambda: True)
    monkeypatch.setattr(
        programs,
        "install_private",
        lambda prefix, wanted: asked.append({program.command for program in wanted}),
    )
    for folder in ("system", "a bin"):  # what stands in the links' folder is not the system's
        executable(prefix.parent / folder / ("fuse2fs" if folder == "system" else "unsquashfs"))
    (prefix / "programs" / WRAPPERS / "mmdebstrap").unlink()
    set_up.ensure_programs(planned(prefix))
    assert asked == [{program.command for program in PROGRAMS} - {"fuse2fs"}]


def without_apt(told: Told, names: set[str], family: str = "rhel fedora") -> str:
    missing = [program for program in PROGRAMS if program.command in names]
    programs.explain_without_apt(missing, {"ID": "el", "ID_LIKE": family})
    return told.take()


def test_a_host_without_apt_goes_on_without_mmdebstrap(told: Told) -> None:
    said = without_apt(told, {"mmdebstrap", "fuse2fs", "newuidmap"})
    for way in ("dlcontainer base pin", "dlcontainer build --offline", "dlcontainer base make"):
        assert way in said
    assert "dnf install shadow-utils" in said
    assert "not here, unless the engine brings its own: fuse2fs" in said


@pytest.mark.parametrize(
    ("family", "line"),
    [
        ("rhel fedora", "dnf install squashfs-tools"),
        ("suse opensuse", "zypper install squashfs-tools"),
        ("arch", "pacman -S squashfs-tools"),
    ],
)
def test_a_host_without_apt_needs_to_pack(told: Told, family: str, line: str) -> None:
    with pytest.raises(EngineError, match="missing: mksquashfs") as caught:
        without_apt(told, {"mmdebstrap", "mksquashfs"}, family)
    assert str(caught.value.next_step).endswith(line)


def test_what_root_would_change_is_named_beforehand(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(planned(prefix), newest=True)
    range_line = MissingRange(files=(Path("/etc/subuid"),), user="root", start=100000)
    monkeypatch.setattr(aptget, "available", lambda: True)
    monkeypatch.setattr(programs, "has_ca_bundle", lambda: True)
    monkeypatch.setattr(set_up, "missing_range", lambda: range_line)
    offered = aptget.Simulation(installs=("apptainer",), removes=())
    monkeypatch.setattr(aptget, "simulate", lambda _: offered)
    packages = sorted({program.package for program in PROGRAMS})
    assert set_up.system_changes(plan) == [
        f"apt-get install {' '.join([*packages, 'apptainer'])}",
        "append 'root:100000:65536' to /etc/subuid",
    ]
    # What replaces the C library, or is not offered, is unpacked privately.
    monkeypatch.setattr(aptget, "simulate", lambda _: None)
    assert set_up.system_changes(plan)[0] == f"apt-get install {' '.join(packages)}"
    monkeypatch.setattr(aptget, "available", lambda: False)
    monkeypatch.setattr(set_up, "missing_range", lambda: None)
    assert set_up.system_changes(plan) == []

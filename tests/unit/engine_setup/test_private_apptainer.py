from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.engine_setup import private_apptainer
from dlcontainer.engine_setup.private_apptainer import (
    advice,
    find_private,
    foreign_libraries,
    suite_for,
    version_of,
)
from dlcontainer.errors import EngineError
from dlcontainer.system.runner import CompletedCommand


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("apptainer version 1.4.5\n", "apptainer version 1.4.5"),
        ("singularity-ce version 4.1.1-jammy\n", "singularity-ce version 4.1.1-jammy"),
        ("singularity version 3.8.7\n", "singularity version 3.8.7"),
        ("Endgame: Singularity 1.00\n", None),  # the game of that name
        ("", None),
    ],
)
def test_only_a_container_engine_counts(
    monkeypatch: pytest.MonkeyPatch, output: str, version: str | None
) -> None:
    def run(argv: Sequence[str], **_: object) -> CompletedCommand:
        return CompletedCommand(argv=tuple(argv), returncode=0, stdout=output, stderr="", elapsed=0)

    monkeypatch.setattr(private_apptainer, "run", run)
    assert version_of("/usr/bin/whatever") == version


def test_a_program_that_fails_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: Sequence[str], **_: object) -> CompletedCommand:
        return CompletedCommand(
            argv=tuple(argv),
            returncode=127,
            stdout="apptainer version 1.4.5\n",
            stderr="",
            elapsed=0,
        )

    monkeypatch.setattr(private_apptainer, "run", run)
    assert version_of("/moved/apptainer") is None


def test_a_tree_without_a_record_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "apptainer/usr/bin").mkdir(parents=True)
    (tmp_path / "apptainer/usr/bin/apptainer").touch()
    assert find_private(tmp_path) is None


def test_libraries_from_elsewhere_are_seen() -> None:
    listed = (
        "\tlinux-vdso.so.1 (0x00007ffd)\n"
        "\tlibseccomp.so.2 => /p x/usr/lib/t/libseccomp.so.2 (0x1)\n"
        "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x2)\n"
        "\tlibsubid.so.5 => not found\n"
        "\t/p x/usr/lib/t/ld-linux-x86-64.so.2 (0x3)\n"
    )
    assert foreign_libraries(listed, Path("/p x")) == ["libc.so.6", "libsubid.so.5"]


@pytest.mark.parametrize(
    ("os_release", "suite"),
    [
        ({"ID": "debian"}, "sid"),
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, "devel"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "devel"),
    ],
)
def test_the_suite_follows_the_distribution(os_release: dict[str, str], suite: str) -> None:
    assert suite_for(os_release) == suite


@pytest.mark.parametrize(
    ("os_release", "words"),
    [
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install -y apptainer"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "zypper install"),
        ({"ID": "other"}, "module load apptainer"),
    ],
)
def test_other_distributions_get_a_line_to_type(os_release: dict[str, str], words: str) -> None:
    assert words in advice(os_release)
    with pytest.raises(EngineError, match="no private Apptainer") as caught:
        suite_for(os_release)
    assert words in str(caught.value)

from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.engine_setup import aptget
from dlcontainer.engine_setup.aptget import Simulation, config_text, parse_simulation, private_apt
from dlcontainer.errors import EngineError
from dlcontainer.system.runner import CompletedCommand
from tests.values import RECORDED


def simulation(name: str) -> Simulation:
    return parse_simulation((RECORDED / f"apt-get-simulate-{name}.txt").read_text())


def test_a_plain_installation_is_not_refused() -> None:
    plain = simulation("plain")
    assert plain == Simulation(installs=("debootstrap", "patchelf"), removes=())
    assert plain.refusal() is None


def test_replacing_libc_is_refused() -> None:
    newer = simulation("replaces-libc")
    assert "apptainer" in newer.installs
    assert newer.refusal() == "it would replace the host's C library (libc6, libc-bin)"


@pytest.mark.parametrize("name", ["libc6", "libc6:amd64", "libc6.1", "libc-bin"])
def test_every_name_of_libc_counts(name: str) -> None:
    assert Simulation(installs=(name,), removes=()).refusal() is not None


@pytest.mark.parametrize("name", ["libcap2", "libc-ares2", "libcurl4", "libc6-dbg", "libc++1"])
def test_other_libraries_do_not(name: str) -> None:
    assert Simulation(installs=(name,), removes=()).refusal() is None


def test_removing_anything_is_refused() -> None:
    text = "Remv podman [4.3]\nPurg old [1]\nInst apptainer (1.4 Debian:sid [amd64])\n"
    assert parse_simulation(text).refusal() == "it would remove podman, old"


def test_install_stops_before_apt_touches_libc(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (RECORDED / "apt-get-simulate-replaces-libc.txt").read_text()

    def run(argv: Sequence[str], **_: object) -> CompletedCommand:
        assert "-s" in argv
        return CompletedCommand(argv=tuple(argv), returncode=0, stdout=text, stderr="", elapsed=0)

    def stream(argv: Sequence[str], **_: object) -> None:
        pytest.fail(f"ran {argv}")

    monkeypatch.setattr(aptget, "run", run)
    monkeypatch.setattr(aptget, "stream", stream)
    with pytest.raises(EngineError, match="not installing apptainer") as caught:
        aptget.install([], ["apptainer"])
    assert caught.value.why == "it would replace the host's C library (libc6, libc-bin)"


@pytest.mark.parametrize("own_sources", [True, False])
def test_signatures_are_always_checked(tmp_path: Path, own_sources: bool) -> None:
    text = config_text(tmp_path, own_sources=own_sources)
    settings = dict(line.rstrip(";").split(" ", 1) for line in text.splitlines() if line[0] != "#")
    for name in (
        "APT::Get::AllowUnauthenticated",
        "Acquire::AllowInsecureRepositories",
        "Acquire::AllowWeakRepositories",
        "Acquire::AllowDowngradeToInsecureRepositories",
    ):
        assert settings[name] == '"false"'
    assert "trusted" not in text.lower()
    # The host's own settings for these stay as they are.
    assert "Check-Valid-Until" not in text
    assert "Proxy" not in text


def test_the_private_apt_writes_only_into_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "apt"
    folder.mkdir()
    apt = private_apt(folder, sources="Types: deb\n")
    text = apt.conf.read_text()
    for name in ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Cache::archives"):
        assert f'\n{name} "{folder}' in f"\n{text}"
    assert (folder / "private.sources").read_text() == "Types: deb\n"
    assert f'Dir::State::status "{folder}/no-status"' in text
    assert [path.name for path in tmp_path.iterdir()] == ["apt"]

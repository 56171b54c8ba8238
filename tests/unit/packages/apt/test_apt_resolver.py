"""What apt says, read; what it is asked; and its errors in the words of a recipe."""

from pathlib import Path

import pytest

from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.apt.apt_resolver import Apt, parse_printed, parse_stanzas
from dlcontainer.packages.apt.image_status import DpkgPackage
from dlcontainer.system.process import CommandFailedError
from tests.fakes import RecordingRunner, completed
from tests.locks import deb
from tests.values import host, recorded

PRINTED = "apt-print-uris-bookworm.txt"
SHOWN = "apt-cache-show-bookworm.txt"
SOURCE = AptSource(
    uri="https://mirror.example/archive/debian/20261120T020000Z",
    suite="bookworm",
    components=("main",),
    keyring=None,
)


@pytest.fixture
def runner() -> RecordingRunner:
    return RecordingRunner(strict=True)


@pytest.fixture
def apt(tmp_path: Path, runner: RecordingRunner) -> Apt:
    tools, folder = tmp_path / "it's bin", tmp_path / "work 'here'"
    for path in (tools, folder):
        path.mkdir()
    for name in ("apt-get", "apt-cache"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    return Apt(
        folder=folder,
        arch="ppc64el",
        sources=[SOURCE],
        settings=['Acquire::http::Proxy "http://proxy.example:1";'],
        host=host(environ={"PATH": str(tools), "APT_CONFIG": "/evil"}),
        environment={"http_proxy": "http://proxy.example:1"},
        runner=runner,
        on_line=lambda _: None,
    )


def failed(text: str) -> CommandFailedError:
    return CommandFailedError(completed("apt-get", code=100, stderr=text))


def test_printed_addresses() -> None:
    assert parse_printed(recorded(PRINTED))[3] == ("mawk", "1.3.4.20200120-3.1", "amd64")
    assert parse_printed(recorded(PRINTED))[-2] == ("libcap2", "1:2.66-4+deb12u3+b1", "amd64")
    assert len(parse_printed(recorded(PRINTED))) == 9


def test_stanzas() -> None:
    first, second = parse_stanzas(recorded(SHOWN))
    assert (first["Package"], second["Priority"]) == ("libcap2", "required")
    assert first[""].startswith("Package: libcap2\n")
    assert "\n\n" not in first[""]


def test_what_an_image_has_counts_as_installed(apt: Apt, runner: RecordingRunner) -> None:
    apt.assume([DpkgPackage(name="bash", arch="ppc64el", paragraph="Package: bash\nVersion: 5\n")])
    runner.answers = [completed("apt-get")]
    apt.update()
    assert (apt.folder / "status").read_text() == "Package: bash\nVersion: 5\n"


def test_install_asks_apt_and_counts_it_as_installed(apt: Apt, runner: RecordingRunner) -> None:
    lines = [
        line for line in recorded(PRINTED).splitlines() if "/mawk_" in line or "/libcap2_" in line
    ]
    runner.answers = [
        completed("apt-get", stdout="\n".join(lines)),
        completed("apt-cache", stdout=recorded(SHOWN)),
        completed("apt-get", stdout="0 upgraded"),
    ]
    cap, mawk = apt.install(["mawk", "libcap2"])
    assert (cap.name, cap.version, cap.size) == ("libcap2", "1:2.66-4+deb12u3+b1", 27708)
    assert mawk.sha256 == "bcbc83f391854ea9d50ce2a4101aacf330de3b8b71d81a798faadba14a157f78"
    first, second = runner.calls[:2]
    assert first.argv[-6:] == (
        "install",
        "--yes",
        "--print-uris",
        "--no-install-recommends",
        "mawk",
        "libcap2",
    )
    assert f"Dir::State={apt.folder}" in first.argv
    assert first.env is not None
    assert first.env["APT_CONFIG"] == str(apt.folder / "apt.conf")
    # amd64 packages asked of a ppc64el apt are named with their architecture
    assert second.argv[-1] == "libcap2:amd64=1:2.66-4+deb12u3+b1"
    status = (apt.folder / "status").read_text()
    assert status.count("\nStatus: install ok installed\n") == 2
    assert apt.install(["mawk"]) == ()


def test_the_lists_are_fetched_for_the_architecture(apt: Apt, runner: RecordingRunner) -> None:
    runner.answers = [completed("apt-get")]
    apt.update()
    config = (apt.folder / "apt.conf").read_text()
    assert 'APT::Architecture "ppc64el";' in config
    assert 'Acquire::http::Proxy "http://proxy.example:1";' in config
    assert (apt.folder / "sources.list").read_text() == f"deb {SOURCE.uri} bookworm main\n"


def test_a_mirror_that_is_not_whole(apt: Apt, runner: RecordingRunner) -> None:
    runner.answers = [failed("E: Failed to fetch U  File has unexpected size. Mirror sync?\n")]
    with pytest.raises(BuildError, match="lists of the apt mirrors") as caught:
        apt.update()
    assert "unexpected size" in str(caught.value.why)


def test_packages_that_are_not_there_for_the_architecture(
    apt: Apt, runner: RecordingRunner
) -> None:
    said = (
        "E: Unable to locate package intel-microcode\n"
        "E: Version '9' for 'mawk' was not found\n"
        "E: Package 'gone' has no installation candidate\n"
    )
    mawk = recorded(SHOWN).partition("\n\n")[2]
    runner.answers = [failed(said), completed("apt-cache", code=100, stdout=mawk)]
    with pytest.raises(MisfitError) as caught:
        apt.install(["intel-microcode", "mawk=9", "gone"])
    assert caught.value.what == "no OS package intel-microcode, mawk=9, gone for ppc64el"
    why = str(caught.value.why)
    assert "mawk: 1.3.4.20200120-3.1" in why
    assert "gone: no version for ppc64el in bookworm main" in why


def test_what_can_not_be_resolved(apt: Apt, runner: RecordingRunner) -> None:
    runner.answers = [failed("E: Unable to correct problems, you have held broken packages.\n")]
    with pytest.raises(BuildError, match="apt can't resolve the OS packages for ppc64el"):
        apt.install(["a", "b"])


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("E: Failed to fetch U  404  Not Found\n", "cannot fetch an OS package"),
        ("E: Failed to fetch U  write (28: No space left on device)\n" * 9, "no space left for"),
    ],
)
def test_what_can_not_be_fetched(
    apt: Apt, runner: RecordingRunner, tmp_path: Path, said: str, message: str
) -> None:
    runner.answers = [failed(said)]
    with pytest.raises(BuildError, match=message) as caught:
        apt.download([deb(), deb("a", arch="ppc64el"), deb("b", arch="all")], tmp_path)
    assert runner.calls[0].argv[-3:] == ("mawk:amd64=1.3", "a=1.3", "b=1.3")
    assert runner.calls[0].cwd == tmp_path
    assert str(caught.value.why).count("E:") <= 6


def test_a_list_without_checksums(apt: Apt, runner: RecordingRunner) -> None:
    weak = "\n".join(line for line in recorded(SHOWN).splitlines() if not line.startswith("SHA256"))
    lines = [line for line in recorded(PRINTED).splitlines() if "/mawk_" in line]
    runner.answers = [
        completed("apt-get", stdout="\n".join(lines)),
        completed("apt-cache", stdout=weak),
    ]
    with pytest.raises(BuildError, match="gives no SHA-256 for mawk"):
        apt.install(["mawk"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Package", "../../x"),
        ("Package", "a b"),
        ("Version", "1/../../x"),
        ("Architecture", "../x"),
        ("SHA256", "x"),
        ("Size", "-1"),
        ("Size", "9" * 5000),
        ("Size", "x"),
    ],
)
def test_packages_whose_names_could_lead_elsewhere(
    apt: Apt, runner: RecordingRunner, field: str, value: str
) -> None:
    """They become names of files of a bundle."""
    (shown, *_) = recorded(SHOWN).split("\n\n")
    lines = [
        f"{field}: {value}" if line.startswith(f"{field}:") else line for line in shown.splitlines()
    ]
    runner.answers = [completed("apt-cache", stdout="\n".join(lines))]
    with pytest.raises(BuildError, match="index has an invalid entry"):
        apt.offered(["libcap2"])


def test_states_of_the_mirror(apt: Apt) -> None:
    lists = apt.folder / "lists"
    lists.mkdir()
    (lists / "m_dists_bookworm_InRelease").write_text(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\nSuite: oldstable\n"
        "Version: 12.15\nCodename: bookworm\nDate: Sat, 11 Jul 2026 10:16:37 UTC\nSHA256:\n"
        " abc 0 Date: no\n"
    )
    (release,) = apt.releases()
    assert release.snapshot == "20261120T020000Z"
    assert (release.version, release.date) == ("12.15", "Sat, 11 Jul 2026 10:16:37 UTC")


def test_no_apt_here(apt: Apt, tmp_path: Path) -> None:
    apt.host = host(environ={"PATH": str(tmp_path)})
    with pytest.raises(BuildError, match="no apt-get on PATH"):
        apt.install(["a"])

"""The host's apt: recorded listings, exact commands, the files for the inside of a build."""

from pathlib import Path

import pytest

from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.system.machine import HostMachine
from tests.fakes import RecordingRunner, completed
from tests.values import IMAGE_BASE, folder_of, host, plan_of, recorded, site_of

LISTED = "indextargets-bookworm.txt"
DUMP = """Acquire "";
Acquire::AllowInsecureRepositories "0";
Acquire::http "";
Acquire::http::Proxy "http://apt-proxy.example:3142/";
Acquire::http::Proxy::mirror.example "DIRECT";
Acquire::https::mirror.example::Proxy "DIRECT";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
Acquire::https::Verify-Peer "false";
"""
SOURCES = (
    AptSource(
        uri="http://mirror.example/debian",
        suite="bookworm",
        components=("main", "contrib"),
        keyring=None,
    ),
    AptSource(
        uri="http://mirror.example/debian",
        suite="bookworm-updates",
        components=("main",),
        keyring=None,
    ),
    AptSource(
        uri="http://mirror.example/debian-security",
        suite="bookworm-security",
        components=("main",),
        keyring=None,
    ),
)


@pytest.fixture
def apt(tmp_path: Path) -> HostMachine:
    """Give a host that has apt."""
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for name in ("apt-get", "apt-config"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return host(environ={"PATH": str(folder)})


def test_the_sources_of_a_release() -> None:
    assert apt_config.parse_targets(recorded(LISTED), "bookworm") == SOURCES
    assert apt_config.parse_targets(recorded(LISTED), "trixie") == ()
    assert apt_config.parse_targets("", "bookworm") == ()


def test_a_keyring_that_is_there(tmp_path: Path) -> None:
    key = tmp_path / "it's.gpg"
    key.write_bytes(b"key")
    line = f"Packages\thttps://m.example/\tbookworm\tmain\t{key}\n"
    [source] = apt_config.parse_targets(line, "bookworm")
    assert source.keyring == key
    assert source.line("/mnt/key-0.gpg") == (
        "deb [signed-by=/mnt/key-0.gpg] https://m.example bookworm main"
    )
    assert source.line(None) == "deb https://m.example bookworm main"


def test_reading_the_hosts(apt: HostMachine, tmp_path: Path) -> None:
    answers = [completed("apt-get", stdout=recorded(LISTED)), completed("apt-config", stdout=DUMP)]
    runner = RecordingRunner([*answers], strict=True)
    plan = plan_of(folder_of(tmp_path))
    sources, settings = apt_config.read(plan, apt, runner, {"https_proxy": "http://p.example:1"})
    assert sources == SOURCES
    assert settings == (
        'Acquire::http::Proxy "http://apt-proxy.example:3142/";',
        'Acquire::https::mirror.example::Proxy "DIRECT";',
        'Acquire::Check-Valid-Until "false";',
        'Acquire::Retries "3";',
        'Acquire::https::Proxy "http://p.example:1";',
    )
    folder = tmp_path / "it's bin"
    form = "$(CREATED_BY)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)"
    assert runner.argvs == [
        (f"{folder}/apt-get", "indextargets", "--no-release-info", "--format", form),
        (f"{folder}/apt-config", "dump", "Acquire"),
    ]


def test_an_image_that_states_its_system_has_the_hosts_mirrors(
    apt: HostMachine, tmp_path: Path
) -> None:
    system = {"distribution": "debian", "release": "bookworm", "source": "a page"}
    plan = plan_of(folder_of(tmp_path, base={**IMAGE_BASE, "system": system}))
    runner = RecordingRunner(
        [completed("apt-get", stdout=recorded(LISTED)), completed("apt-config")]
    )
    assert apt_config.read(plan, apt, runner, {})[0] == SOURCES


@pytest.mark.parametrize("case", ["other distribution", "no apt", "default", "image"])
def test_when_the_hosts_are_not_asked(apt: HostMachine, tmp_path: Path, case: str) -> None:
    from dataclasses import replace

    on = {
        "other distribution": replace(apt, distribution="rocky"),
        "no apt": replace(apt, environ={"PATH": "/no/such"}),
    }.get(case, apt)
    plan = plan_of(
        folder_of(tmp_path, **({"base": IMAGE_BASE} if case == "image" else {})),
        site=site_of(routing={"apt": "default"} if case == "default" else {}),
    )
    assert apt_config.read(plan, on, RecordingRunner(strict=True), {}) == ((), ())


def test_an_apt_that_fails_is_passed_over(apt: HostMachine, tmp_path: Path) -> None:
    runner = RecordingRunner([completed("apt-get", code=100, stderr="E: broken")])
    assert apt_config.read(plan_of(folder_of(tmp_path)), apt, runner, {}) == ((), ())


def test_the_files_of_a_build(tmp_path: Path) -> None:
    key = tmp_path / "it's.gpg"
    key.write_bytes(b"key")
    signed = AptSource(uri="https://m.example", suite="a", components=("b", "c"), keyring=key)
    settings = ('Acquire::Retries "3";',)
    apt_config.write(tmp_path, (SOURCES[0], signed), settings, has_ca=True)
    assert (tmp_path / "sources.list").read_text() == (
        "deb http://mirror.example/debian bookworm main contrib\n"
        "deb [signed-by=/mnt/key-1.gpg] https://m.example a b c\n"
    )
    assert (tmp_path / "key-1.gpg").read_bytes() == b"key"
    lines = (tmp_path / "apt.conf").read_text().splitlines()
    assert (lines[0], lines[-1]) == (settings[0], 'Acquire::https::CAInfo "/mnt/ca.crt";')
    assert 'Dir::Etc::SourceList "/mnt/sources.list";' in lines
    apt_config.write(tmp_path, (), (), has_ca=False)
    assert "CAInfo" not in (tmp_path / "apt.conf").read_text()


def test_lists_that_the_base_was_made_with_serve_the_steps(tmp_path: Path) -> None:
    source, folder = tmp_path / "lists", tmp_path / "routing"
    one = AptSource(
        uri="http://m.example/debian", suite="bookworm", components=("main",), keyring=None
    )
    folder.mkdir()
    apt_config.write(folder, (one,), (), has_ca=False)
    assert "Lists" not in (folder / "apt.conf").read_text()
    assert 'Dir::State::Lists "/mnt/apt-lists";' in (folder / "apt-with-lists.conf").read_text()
    for text in ("first", "second"):
        (source / "partial").mkdir(parents=True)
        for name in ("m.example_debian_dists_bookworm_InRelease", "m.example_x_Packages", "lock"):
            (source / name).write_text(text)
        apt_config.take_lists(source, folder)
        assert not source.exists()
    # Those of another architecture's tree do not come over them.
    found = {path.name: path for path in (folder / "apt-lists").iterdir() if path.is_file()}
    assert {path.read_text() for path in found.values()} == {"first"}
    assert sorted(found) == ["m.example_debian_dists_bookworm_InRelease", "m.example_x_Packages"]
    apt_config.take_lists(tmp_path / "none", tmp_path / "nowhere")

"""The host's pip settings, and what becomes of them inside a build."""

import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.system.machine import HostMachine
from tests.values import host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    # Not this machine's: it may have one.
    monkeypatch.setattr(pip_config, "SYSTEM", tmp_path / "etc/pip.conf")
    return tmp_path / "it's a home"


def machine(home: Path, **environ: str) -> HostMachine:
    return host(home=home, environ={"XDG_CONFIG_DIRS": str(home.parent / "xdg"), **environ})


def conf(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_order_of_the_files(home: Path) -> None:
    found = pip_config.files(machine(home, PIP_CONFIG_FILE="/no/such"))
    assert found == [
        home.parent / "xdg/pip/pip.conf",
        home.parent / "etc/pip.conf",
        home / ".pip/pip.conf",
        home / ".config/pip/pip.conf",
        home.parent / "prefix/pip.conf",
        Path("/no/such"),
    ]
    assert pip_config.files(machine(home, PIP_CONFIG_FILE="/dev/null")) == []
    moved = pip_config.files(machine(home, XDG_CONFIG_HOME="/else where"))
    assert Path("/else where/pip/pip.conf") in moved


def test_a_named_file_replaces_the_users(home: Path) -> None:
    # pip: "per-user config is not loaded when env_config_file exists".
    named = conf(home / "named.conf", "[global]\ntimeout = 7\n")
    conf(home / ".config/pip/pip.conf", "[global]\nretries = 9\n")
    settings = pip_config.read(machine(home, PIP_CONFIG_FILE=str(named)))
    assert (settings.timeout, settings.retries) == ("7", None)


def test_files_then_variables(home: Path) -> None:
    conf(
        home.parent / "xdg/pip/pip.conf",
        "[install]\nindex_url = https://low.example\n[global]\nretries = 1\nno-index = yes\n",
    )
    conf(
        home / ".config/pip/pip.conf",
        "[global]\nindex-url = https://high.example\nextra-index-url =\n  https://a.example\n"
        "  file:///srv/my%20index/simple\ntrusted-host = a.example b.example\ntimeout = 5\n"
        "[wheel]\nindex-url = https://never.example\n",
    )
    environ = {"PIP_TIMEOUT": "60", "PIP_RETRIES": "", "PIP_FIND_LINKS": "/a /b", "PIPX": "no"}
    assert pip_config.read(machine(home, **environ)) == PipSettings(
        index="https://low.example",  # [install] comes over [global]
        extra_indexes=("https://a.example", "file:///srv/my%20index/simple"),
        find_links=("/a", "/b"),
        trusted_hosts=("a.example", "b.example"),
        no_index=True,
        timeout="60",
        retries="1",
    )


@pytest.mark.parametrize("text", ["no section", "[global]\nx = 1\n[global]\n", "\0", "[global\n"])
def test_a_broken_file_is_passed_over(home: Path, text: str) -> None:
    conf(home / ".config/pip/pip.conf", text)
    conf(home / ".pip/pip.conf", "[global]\nindex-url = https://a.example\n")
    assert pip_config.read(machine(home)) == PipSettings(index="https://a.example")


def test_bytes_that_are_no_text_are_passed_over(home: Path) -> None:
    conf(home / ".config/pip/pip.conf", "").write_bytes(b"\xff\xfe[global]")
    assert pip_config.read(machine(home)) == PipSettings()


def parsed(text: str) -> dict[str, str]:
    parser = RawConfigParser()
    parser.read_string(text)
    return dict(parser["global"])


def test_nothing_gives_next_to_nothing() -> None:
    text, binds = pip_config.inside(PipSettings(), "/mnt")
    assert (text, binds) == ("[global]\ndisable-pip-version-check = true\n", [])


def test_folders_become_folders_of_the_build(tmp_path: Path) -> None:
    index = tmp_path / "it's my index" / "simple"
    wheels, beside = tmp_path / "wheels %41 ü", tmp_path / "other"
    for folder in (index, wheels, beside):
        folder.mkdir(parents=True)
    settings = PipSettings(
        index=index.as_uri(),
        extra_indexes=("https://a.example/simple", f"file://{tmp_path}/gone/simple"),
        find_links=(str(beside), wheels.as_uri(), "https://b.example/links", str(beside)),
        timeout="15; rm",
        retries="3",
    )
    text, binds = pip_config.inside(settings, "/mnt")
    assert binds == [
        (index, "/mnt/folder-0/index"),
        (beside, "/mnt/folder-1"),
        (wheels, "/mnt/folder-2"),
    ]
    assert str(tmp_path) not in text
    assert parsed(text) == {
        "index-url": "file:///mnt/folder-0/index",
        "extra-index-url": "https://a.example/simple",
        "find-links": "\n/mnt/folder-1\nfile:///mnt/folder-2\nhttps://b.example/links"
        "\n/mnt/folder-1",
        "retries": "3",
        "disable-pip-version-check": "true",
    }


@pytest.mark.parametrize("beside", ["packages", "files"])
def test_an_index_is_bound_alone_with_its_files(tmp_path: Path, beside: str) -> None:
    index, files, secret = (tmp_path / name for name in ("simple", beside, "private"))
    for folder in (index, secret):
        folder.mkdir()
    settings = PipSettings(index=str(index), extra_indexes=(str(index), index.as_uri()))
    text, binds = pip_config.inside(settings, "/mnt")
    assert (binds, parsed(text)["index-url"]) == (
        [(index, "/mnt/folder-0/index")],
        "/mnt/folder-0/index",
    )
    files.mkdir()
    assert pip_config.inside(settings, "/mnt") == (
        text,
        [(index, "/mnt/folder-0/index"), (files, f"/mnt/folder-0/{beside}")],
    )


@pytest.mark.parametrize("key", ["index", "extra_indexes", "find_links", "trusted_hosts"])
def test_a_line_more_would_be_a_setting_more(key: str) -> None:
    bad = "https://m.example\nno-index = true"
    given: dict[str, Any] = {key: bad if key == "index" else (bad,)}
    with pytest.raises(ConfigError, match="control character"):
        pip_config.inside(PipSettings(**given), "/mnt")


def test_wheel_folders_come_first() -> None:
    settings = pip_config.with_wheels(PipSettings(find_links=("/b",)), ("/a b",))
    assert settings.find_links == ("/a b", "/b")
    assert settings.places == ("/a b", "/b")
    everything = PipSettings(index="i", extra_indexes=("e",), find_links=("f",))
    assert everything.places == ("i", "e", "f")


def test_constraints_are_read_from_files_and_variables(home: Path) -> None:
    conf(home / ".pip/pip.conf", "[global]\nconstraint = /a/caps.txt\n    /b/caps.txt\n")
    assert pip_config.read(machine(home)).constraints == ("/a/caps.txt", "/b/caps.txt")
    given = pip_config.read(machine(home, PIP_CONSTRAINT="/c/caps.txt"))
    assert given.constraints == ("/c/caps.txt",)


def test_a_place_as_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "a wheel,house"
    folder.mkdir()
    assert pip_config.address("https://index.example/simple") == "https://index.example/simple"
    quoted = f"file://{tmp_path}/a%20wheel%2Chouse"
    assert pip_config.address(str(folder)) == quoted
    assert pip_config.address(quoted) == quoted
    assert pip_config.address(str(tmp_path / "gone")) is None

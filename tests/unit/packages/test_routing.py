"""The egress of a build: one folder, its binds, and the credentials that no image may hold."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.packages import routing
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.pip import pip_config, pip_report
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.system.machine import HostMachine
from tests.fakes import RecordingRunner
from tests.values import folder_of, host, plan_of, site_of

URL = "https://example.org/whl"
STEP = {"name": "pip", "python_packages": {"packages": ["a==1"], "upstream": "up"}}
RECIPE = {"steps": [STEP], "upstreams": {"up": {"url": URL, "source": "a page"}}}
PLAIN = {"apt": "default", "pip": "default", "ca": "default", "proxy": "none"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Answer each HEAD request, and note it."""
    calls: list[dict[str, Any]] = []

    def head(url: str, **kwargs: Any) -> None:
        calls.append({"url": url, **kwargs})

    monkeypatch.setattr(requests, "head", head)
    return calls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work 'here'" / "routing"
    folder.mkdir(parents=True)
    return folder


def prepare(folder: Path, on: HostMachine | None = None, **given: Any) -> PreparedRouting:
    plan = plan_of(
        folder_of(folder.parent.parent, **RECIPE), site=site_of(routing={**PLAIN, **given})
    )
    return routing.prepare(plan, on or host(), RecordingRunner(strict=True), folder)


def forms(routed: PreparedRouting, origin: str) -> set[bytes]:
    return {form for one in routed.credentials if one.origin == origin for form in one.forms}


def script(folder: Path) -> list[str]:
    return (folder / "routing.sh").read_text().splitlines()


def test_nothing_is_routed(folder: Path, asked: list[dict[str, Any]]) -> None:
    routed = prepare(folder, upstreams={URL: "none"})
    assert asked == []
    assert script(folder) == [
        "export PIP_REPORT=/mnt/pip-report.json",
        "export APT_CONFIG=/mnt/apt.conf",
        "export PIP_CONFIG_FILE=/mnt/pip.conf",
        "export DLC_UPSTREAM_UP=''",
    ]
    # The image's own sources stay; that a build can change to the user _apt is not sure.
    settings = (folder / "apt.conf").read_text()
    assert 'APT::Sandbox::User "root";' in settings
    assert "Dir::" not in settings
    assert (routed.binds, dict(routed.environment), routed.notes) == (((folder, "/mnt"),), {}, ())
    assert routed.credentials == ()
    assert sorted(path.name for path in folder.iterdir()) == ["apt.conf", "pip.conf", "routing.sh"]


def test_an_upstream_that_answers(folder: Path, asked: list[dict[str, Any]]) -> None:
    routed = prepare(folder, proxy="http://puser:p(w%27d@proxy.example:3128/")
    assert f"export DLC_UPSTREAM_UP={URL}" in script(folder)
    proxy = "http://puser:p(w%27d@proxy.example:3128/"
    assert [(call["url"], call["proxies"]["https"]) for call in asked] == [(URL, proxy)]
    assert asked[0]["timeout"]
    quoted = f"'{proxy}'"
    assert f"export http_proxy={quoted} HTTP_PROXY={quoted}" in script(folder)
    assert forms(routed, "http_proxy") >= {b"puser:p(w%27d", b"puser:p(w'd"}
    assert routed.notes == ()


def test_an_upstream_that_does_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def head(url: str, **kwargs: object) -> None:
        raise requests.ConnectTimeout("too late")

    monkeypatch.setattr(requests, "head", head)
    routed = prepare(folder)
    assert "export DLC_UPSTREAM_UP=''" in script(folder)
    assert routed.notes == (
        (f"skipping {URL}, which this host cannot reach (ConnectTimeout); using the other sources"),
    )


def test_a_mirror_of_an_upstream(folder: Path, asked: list[dict[str, Any]]) -> None:
    mirror = "https://mirror.example/whl?a=1"
    routed = prepare(folder, upstreams={URL: mirror})
    assert f"export DLC_UPSTREAM_UP='{mirror}'" in script(folder)
    assert (routed.credentials, asked) == ((), [])


def test_a_token_of_a_mirror_is_no_word_of_a_command(
    folder: Path, asked: list[dict[str, Any]]
) -> None:
    mirror = "https://mirror.example/whl?token=planted-token"
    routed = prepare(folder, upstreams={URL: mirror})
    # The step's text leaves --extra-index-url out for an empty variable: pip.conf says it.
    assert "export DLC_UPSTREAM_UP=''" in script(folder)
    assert f"extra-index-url = {mirror}" in (folder / "pip.conf").read_text()
    assert forms(routed, "routing.upstreams") == {b"planted-token", b"cGxhbnRlZC10b2tlbg"}
    assert routed.upstreams == {"up": mirror}
    assert asked == []


def test_proxies_of_the_host(folder: Path, asked: list[dict[str, Any]]) -> None:
    environ = {
        "HTTPS_PROXY": "http://upper.example:1",
        "https_proxy": "http://lower.example:2",
        "NO_PROXY": ".example",
        "http_proxy": "",
    }
    routed = prepare(folder, host(environ=environ), proxy="auto")
    assert dict(routed.environment) == {
        "https_proxy": "http://lower.example:2",
        "no_proxy": ".example",
    }
    assert routed.credentials == ()


def test_a_ca_goes_along(folder: Path, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    ca = tmp_path / "it's a ca.pem"
    ca.write_text("CERTIFICATE")
    environ = {"SSL_CERT_FILE": "/no/such", "REQUESTS_CA_BUNDLE": str(ca)}
    prepare(folder, host(environ=environ), ca="auto")
    assert (folder / "ca.crt").read_text() == "CERTIFICATE"
    assert "export SSL_CERT_FILE=/mnt/ca.crt" in script(folder)
    assert asked[0]["verify"] == str(ca)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ca": "/no/such.pem"}, r"routing\.ca: no file /no/such\.pem"),
        ({"wheels": ["/no/such wheels"]}, r"routing\.wheels: no folder /no/such wheels"),
    ],
)
def test_what_is_not_there(
    folder: Path, asked: list[dict[str, Any]], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        prepare(folder, **given)
    assert caught.value.next_step


def test_wheels_and_a_written_index(
    folder: Path, tmp_path: Path, asked: list[dict[str, Any]]
) -> None:
    wheels = tmp_path / "it's wheels"
    wheels.mkdir()
    pip = {"index": "https://mirror.example/simple", "extra_indexes": ["https://b.example"]}
    routed = prepare(folder, pip=pip, wheels=[str(wheels)])
    assert routed.binds == ((folder, "/mnt"), (wheels, "/mnt/folder-0"))
    assert (folder / "folder-0").is_dir()
    assert (folder / "pip.conf").read_text() == (
        "[global]\nindex-url = https://mirror.example/simple\n"
        "extra-index-url = https://b.example\nfind-links = /mnt/folder-0\n"
        "disable-pip-version-check = true\n"
    )
    assert routed.credentials == ()


def test_pip_as_the_host_has_it(
    folder: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = "https://someone:planted-1@m.example"
    monkeypatch.setattr(pip_config, "read", lambda host: PipSettings(index=index))
    assert b"planted-1" in forms(prepare(folder, pip="auto"), "pip's settings")
    assert f"index-url = {index}\n" in (folder / "pip.conf").read_text()


def test_wheels_that_pip_took(folder: Path) -> None:
    assert pip_report.installed(PreparedRouting.nothing(folder)) == ()
    taken = [
        {
            "metadata": {"name": name, "version": "1"},
            "download_info": {"url": "https://mirror.example/x", **info},
        }
        for name, info in (
            ("b", {"archive_info": {"hashes": {"sha256": "ab"}}}),
            ("A", {}),
        )
    ]
    (folder / "pip-report.json").write_text(json.dumps({"install": taken}))
    assert pip_report.installed(PreparedRouting.nothing(folder)) == (
        {"name": "A", "version": "1", "sha256": ""},
        {"name": "b", "version": "1", "sha256": "ab"},
    )


def test_a_wheel_of_a_folder_is_hashed_where_pip_does_not(tmp_path: Path) -> None:
    wheels = tmp_path / "a'b wheels"
    wheels.mkdir()
    (wheels / "tool-1.0+cpu-py3-none-any.whl").write_bytes(b"wheel")
    folder = tmp_path / "routing"
    folder.mkdir()
    item = {
        "metadata": {"name": "tool", "version": "1.0+cpu"},
        "download_info": {
            "url": "file:///mnt/folder-0/tool-1.0%2Bcpu-py3-none-any.whl",
            "archive_info": {},
        },
    }
    (folder / "pip-report.json").write_text(json.dumps({"install": [item]}))
    routed = replace(
        PreparedRouting.nothing(folder), binds=((folder, "/mnt"), (wheels, "/mnt/folder-0"))
    )
    (wheel,) = pip_report.installed(routed)
    assert wheel["sha256"] == hashlib.sha256(b"wheel").hexdigest()


@pytest.mark.timeout(60)
def test_a_report_that_a_steps_script_wrote(tmp_path: Path) -> None:
    """It can write there what it likes: no other file is read, and the error is a clear one."""
    (tmp_path / "key").write_text("secret")
    (tmp_path / "wheels").mkdir()
    folder = tmp_path / "routing"
    folder.mkdir()
    routed = replace(PreparedRouting.nothing(folder), binds=((tmp_path / "wheels", "/mnt/wheels"),))
    report = folder / "pip-report.json"
    where = {"metadata": {"name": "a", "version": "1"}}
    where["download_info"] = {"url": "file:///mnt/wheels/../key"}
    report.write_text(json.dumps({"install": [where]}))
    assert pip_report.installed(routed)[0]["sha256"] == ""
    for text in ("[", "[" * 100_000, "[]", "{}", '{"install": [7]}', '{"install": 7}', '"x"'):
        report.write_text(text)
        with pytest.raises(BuildError, match="cannot read"):
            pip_report.installed(routed)
    report.unlink()
    os.mkfifo(report)
    with pytest.raises(BuildError, match="cannot read"):
        pip_report.installed(routed)


def test_another_architectures_processor(folder: Path) -> None:
    plan = plan_of(folder_of(folder.parent.parent), site=site_of(arch="ppc64le", routing=PLAIN))
    routing.prepare(plan, host(), RecordingRunner(strict=True), folder)
    assert "export QEMU_CPU=power9" in script(folder)
    routing.prepare(plan, host(arch="ppc64le"), RecordingRunner(strict=True), folder)
    assert not [line for line in script(folder) if "QEMU" in line]


def test_sources_that_the_site_names(folder: Path) -> None:
    lines = [
        "deb https://u:planted-1@m.example/debian trixie main contrib",
        "deb file:///mirror trixie main",
    ]
    with_key = [lines[0].replace("deb ", "deb [signed-by=/no/such.gpg] "), lines[1]]
    given = {**PLAIN, "apt": lines, "proxy": "http://p.example:1"}
    plan = plan_of(folder_of(folder.parent.parent), site=site_of(routing=given))
    routed = routing.prepare(plan, host(), RecordingRunner(strict=True), folder)
    assert (folder / "sources.list").read_text().splitlines() == lines
    assert "export APT_CONFIG=/mnt/apt.conf" in script(folder)
    assert "[ ! -O /mnt/apt-lists ] || export APT_CONFIG=/mnt/apt-with-lists.conf" in script(folder)
    assert 'Acquire::https::Proxy "http://p.example:1";' in (folder / "apt.conf").read_text()
    assert b"planted-1" in forms(routed, "apt's sources")
    (first, _) = apt_config.parse_lines(tuple(with_key))
    assert first.keyring == Path("/no/such.gpg")
    assert first.components == ("main", "contrib")


@pytest.mark.parametrize(
    "place",
    [
        *(
            "http://m.example/simple",
            "--trusted-host=m.example",
            "m.example",
            "file:///srv/x/simple",
        ),
        *("/", "/root", "/home", "/home/ada", "/tmp", "../x", "/srv/../root", "/srv/a\nb", ""),
    ],
)
def test_what_is_no_index(place: str) -> None:
    with pytest.raises(ConfigError, match=r"routing\.pip\.extra_indexes"):
        site_of(routing={"pip": {"extra_indexes": [place]}})


def test_an_index_in_a_folder(folder: Path, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    index, files = tmp_path / "mirror" / "simple", tmp_path / "mirror" / "packages"
    for path in (index, files, tmp_path / "mirror" / "private"):
        path.mkdir(parents=True)
    routed = prepare(folder, pip={"extra_indexes": [str(index)]})
    assert routed.binds[1:] == (
        (index, "/mnt/folder-0/index"),
        (files, "/mnt/folder-0/packages"),
    )
    assert sorted(path.name for path in (folder / "folder-0").iterdir()) == ["index", "packages"]
    other = folder.parent / "on the host"
    other.mkdir()
    pip = {"extra_indexes": [str(index)]}
    plan = plan_of(folder_of(tmp_path, **RECIPE), site=site_of(routing={**PLAIN, "pip": pip}))
    given, _ = routing.for_host(plan, host(), other)
    assert (other / "folder-0/index").resolve() == index
    assert (other / "folder-0/packages").resolve() == files
    assert given["PIP_CONFIG_FILE"] == str(other / "pip.conf")

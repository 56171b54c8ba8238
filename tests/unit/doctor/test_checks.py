"""Doctor: what is found, how bad it is, and the line to type."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer import installation
from dlcontainer.doctor import checks
from dlcontainer.doctor.checks import DoctorScope
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.packages.resolve import resolvers
from dlcontainer.system import machine
from dlcontainer.system.environ import proxies, variables
from dlcontainer.system.machine import HostMachine, MountPoint
from tests.fakes import RecordingRunner, completed
from tests.values import host

VERSION = completed("v", stdout="apptainer version 1.4.5\n")
NO = completed("x", code=255, stderr="FATAL:   no\n")
OK = completed("ok")


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostMachine:
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for name in ("apptainer", "newuidmap", "newgidmap", *checks.HELPERS):
        executable(folder / name)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    monkeypatch.setattr(machine, "free_mb", lambda path: 50_000)
    monkeypatch.setattr(machine, "cgroup_memory_mb", lambda: None)
    mount(monkeypatch)
    monkeypatch.setattr("os.access", lambda path, mode: True)
    monkeypatch.setattr(proxies, "_resolves", lambda name: name != "nobody.invalid")
    temporary = tmp_path / "it's tmp"
    temporary.mkdir()
    environ = {"PATH": str(folder), "TMPDIR": str(temporary), "HTTPS_PROXY": "http://u:secret@p"}
    files(monkeypatch, tmp_path)
    return host(environ=environ)


def executable(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def mount(monkeypatch: pytest.MonkeyPatch, kind: str = "ext4", *options: str) -> None:
    found = MountPoint(point=Path("/"), kind=kind, options=frozenset(options))
    monkeypatch.setattr(machine, "mount_of", lambda path: found)


def files(monkeypatch: pytest.MonkeyPatch, root: Path, **contents: str) -> None:
    """Let doctor read these files instead of this machine's; names by their last part."""
    given = {"max_user_namespaces": "1000\n", "subuid": "ada:1:65536\n", "subgid": "1000:1:65536\n"}
    given |= {"status": "enabled\n"}
    given |= dict.fromkeys(("qemu-ppc64le", "qemu-aarch64"), "enabled\nflags: PF\n")
    given |= contents
    (root / "files").mkdir(exist_ok=True)
    for name, text in given.items():
        (root / "files" / name).write_text(text)
    real = Path.read_text

    def read_text(self: Path, *args: Any, **kwargs: Any) -> str:
        is_this = str(self).startswith(("/proc/sys", "/etc/"))
        return real(root / "files" / self.name if is_this else self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read_text)


def examine(on: HostMachine, tmp_path: Path, *answers: Any) -> dict[str, DoctorFinding]:
    runner = RecordingRunner([*answers] or [VERSION, OK, OK, OK, OK, OK], strict=True)
    found = checks.examine(on, runner, tmp_path / "cache", DoctorScope())
    assert len({finding.name for finding in found}) == len(found)
    return {finding.name: finding for finding in found}


def test_a_healthy_machine(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path)
    assert {finding.state for finding in found.values()} == {"ok"}
    assert checks.is_fit(list(found.values()))
    assert found["build"].detail == "works in mode plain"
    assert found["base"].detail == "mmdebstrap works in mode unshare"
    # Names only: a proxy's address may hold a password.
    assert found["network"].detail == "through a proxy (HTTPS_PROXY)"
    assert not [one for one in found.values() if "secret" in one.detail or one.mend]


def test_the_resolver(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [VERSION, OK, OK, OK, OK, OK]
    found = examine(healthy, tmp_path)["resolver"]
    assert (found.state, found.detail.startswith("pip: ")) == ("ok", True)
    assert f"on x86_64 alone; for others: {installation.resolver()}" in found.detail
    executable(tmp_path / "it's bin/uv")
    new = completed("uv", stdout="uv 0.13.9 (x86_64-unknown-linux-gnu)\n")
    found = examine(healthy, tmp_path, *answers, new)["resolver"]
    assert found.detail.startswith(f"uv 0.13.9 ({tmp_path}/it's bin/uv): ")
    # Options and platforms of older ones are others.
    found = examine(healthy, tmp_path, *answers, completed("uv", stdout="uv 0.4.1\n"))["resolver"]
    assert found.detail.startswith("pip: ")
    monkeypatch.setattr(resolvers, "has_pip", lambda: False)
    found = examine(healthy, tmp_path, *answers, NO)["resolver"]
    assert (found.state, "pip install" in str(found.mend)) == ("ok", True)


def test_no_engine(healthy: HostMachine, tmp_path: Path) -> None:
    (tmp_path / "it's bin" / "apptainer").unlink()
    found = examine(healthy, tmp_path)
    assert found["engine"].state == "error"
    assert "make setup" in str(found["engine"].mend)
    assert not checks.is_fit(list(found.values()))


def test_an_engine_that_does_not_start(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, completed("x", code=127, stderr="no libseccomp.so.2"), OK)
    assert (found["engine"].state, "build" in found) == ("error", False)
    assert "does not start" in found["engine"].detail


def test_an_engine_without_a_working_mode(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO, NO)
    assert (found["build"].state, found["run"].state) == ("error", "error")
    said = "plain failed: no; fakeroot failed: no; root-mapped failed: no"
    assert found["build"].detail == said
    assert found["build"].said == said.replace(" failed: ", ": FATAL: ")
    assert found["run"].detail.startswith("not tried: could not build or pack a tiny test image")
    assert "squashfs-tools" in str(found["run"].mend)
    assert found["base"].detail == "unshare failed: no; root-mapped failed: no"
    assert "the cause is unknown" in str(found["build"].mend)
    assert "base pin" in str(found["base"].mend)


def test_a_folder_for_temporary_files_that_is_missing(healthy: HostMachine, tmp_path: Path) -> None:
    (tmp_path / "it's tmp").rmdir()
    settled = variables.settled(healthy.environ)
    here = replace(healthy, environ=settled.environ)
    runner = RecordingRunner([VERSION, OK, OK, OK, OK, OK], strict=True)
    listed = checks.examine(here, runner, tmp_path / "cache", DoctorScope(note=settled.note))
    found = {finding.name: finding for finding in listed}
    assert found["build"].state == "ok"
    assert found["temporary files"].state == "warning"
    assert "this machine has no such folder; using /tmp" in found["temporary files"].detail
    assert "export TMPDIR=" in str(found["temporary files"].mend)


@pytest.mark.parametrize("mark", ["FATAL:   ", "ERROR  : ", "ERROR   [U=1000,P=7]main() "])
def test_no_fine_line_holds_an_engine_s_words(
    healthy: HostMachine, tmp_path: Path, mark: str
) -> None:
    words = f"{mark}Requesting capability set 0x000001ffffffffff while permitted capability set"
    no = completed("x", code=255, stderr=f"{words} is 0x000001fffeffffff\n")
    found = examine(healthy, tmp_path, VERSION, OK, no, OK, OK, no, OK, no, OK)
    assert {finding.state for finding in found.values()} == {"ok"}
    for name in ("build", "run", "base"):
        assert not re.search("ERROR|FATAL|0x|failed", found[name].detail), name
        assert "0x000001fffeffffff" in str(found[name].said)
    found = examine(healthy, tmp_path, VERSION, OK, no, no, no, no, no, no)
    assert "plain failed: Requesting capability set 0x… while" in found["build"].detail
    assert not re.search("ERROR|FATAL|0x0", found["build"].detail)


def test_a_user_whom_nobody_knows(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(replace(healthy, uid=54321, user="54321"), tmp_path)["user"]
    assert (found.state, "54321" in found.detail) == ("error", True)
    assert "getent passwd" in str(found.mend)


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        ({"https_proxy": ""}, "ok", "direct, no proxy variable is set"),
        ({"https_proxy": "", "HTTPS_PROXY": "http://p"}, "ok", "direct, no proxy variable is set"),
        ({"ALL_PROXY": "http://p:1"}, "ok", "through a proxy (ALL_PROXY)"),
        (
            {"all_proxy": "http://u:secret@nobody.invalid:1"},
            "error",
            "cannot resolve the proxy's host name: nobody.invalid",
        ),
        (
            {"ALL_PROXY": "socks5h://p:1"},
            "warning",
            "(ALL_PROXY): the proxy is a SOCKS proxy",
        ),
        (
            {"http_proxy": "secret"},
            "error",
            "environment variable http_proxy: not the address",
        ),
    ],
)
def test_the_network(
    healthy: HostMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    state: str,
    words: str,
) -> None:
    monkeypatch.setattr(proxies, "_has_socks", lambda: False)
    kept = {name: healthy.environ[name] for name in ("PATH", "TMPDIR")}
    found = examine(replace(healthy, environ={**kept, **given}), tmp_path)["network"]
    assert (found.state, words in found.detail) == (state, True), found.detail
    assert "secret" not in f"{found.detail}{found.mend}"
    assert state == "ok" or found.mend


def test_running_is_tried_where_building_failed(healthy: HostMachine, tmp_path: Path) -> None:
    packed = [OK, OK, OK]
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, *packed, OK, OK)
    assert (found["build"].state, found["run"].state) == ("error", "ok")
    assert found["run"].detail == "works in mode plain"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("FATAL: newuidmap was not found in PATH", "apt-get install uidmap"),
        ("FATAL: while searching for mksquashfs", "squashfs-tools"),
        ("FATAL: write x: No space left on device", "TMPDIR="),
    ],
)
def test_an_answer_names_its_cause(
    healthy: HostMachine, tmp_path: Path, said: str, line: str
) -> None:
    executable(tmp_path / "it's bin" / "apt-get")
    no = completed("x", code=255, stderr=f"{said}\n")
    found = examine(healthy, tmp_path, VERSION, OK, no, no, no, NO, OK)
    assert line in str(found["build"].mend)


def test_no_finding_sends_the_reader_elsewhere(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, tmp_path, max_user_namespaces="0", subuid="")
    mount(monkeypatch, "ext4", "noexec")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO, NO)
    flaws = [one for one in found.values() if one.state != "ok"]
    assert len(flaws) == 6
    assert not [one for one in flaws if not one.mend or "below" in one.mend or "above" in one.mend]


def test_it_points_at_causes_alone(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, tmp_path, max_user_namespaces="0")
    mount(monkeypatch, "lustre")
    monkeypatch.setattr("os.access", lambda path, mode: path != "/dev/fuse")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO, NO)
    for name in ("build", "base"):
        assert str(found[name].mend).startswith("user namespaces: an administrator types: sysctl")
        assert "/dev/fuse" not in str(found[name].mend)
        assert "temporary files" not in str(found[name].mend)
    assert found["user namespaces"].state == "error"
    assert found["/dev/fuse"].state == found["temporary files"].state == "warning"
    found = examine(healthy, tmp_path, VERSION, OK, OK, OK, NO, NO, NO, OK)
    assert "; /dev/fuse: an administrator types: " in str(found["run"].mend)
    mount(monkeypatch, "ext4", "noexec")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO, NO)
    assert "; temporary files: export TMPDIR=" in str(found["build"].mend)


@pytest.mark.parametrize("program", ["newuidmap", "newgidmap"])
def test_subordinate_ids_that_can_not_be_mapped(
    healthy: HostMachine, tmp_path: Path, program: str
) -> None:
    (tmp_path / "it's bin" / program).unlink()
    executable(tmp_path / "it's bin" / "apt-get")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, OK, OK, OK, NO, OK)
    assert found["subordinate ids"].state == "warning"
    assert found["subordinate ids"].detail.startswith(f"ada has lines, but there is no {program}: ")
    assert found["subordinate ids"].mend == "an administrator types: apt-get install uidmap"
    assert found["build"].detail.startswith("works in mode root-mapped; not in plain, fakeroot")
    assert found["base"].detail.startswith("mmdebstrap works in mode root-mapped; not in unshare")
    assert checks.is_fit(list(found.values()))


def test_a_base_that_can_not_be_made(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, OK, OK, OK, NO, NO)
    assert found["base"].state == "error"
    assert not checks.is_fit(list(found.values()))


def test_a_second_mode_that_works(healthy: HostMachine, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, NO, OK, OK, OK, OK)
    assert found["build"].detail == "works in mode fakeroot; not in plain, which is not needed"
    assert checks.is_fit(list(found.values()))


@pytest.mark.parametrize(("name", "package"), [(n, p) for n, (_, p) in checks.HELPERS.items()])
def test_a_missing_helper(healthy: HostMachine, tmp_path: Path, name: str, package: str) -> None:
    (tmp_path / "it's bin" / name).unlink()
    executable(tmp_path / "it's bin" / "apt-get")
    base = [] if name == "mmdebstrap" else [OK]
    said = examine(healthy, tmp_path, VERSION, OK, OK, OK, OK, *base)
    found = said["base" if name == "mmdebstrap" else name]
    assert (found.state, str(found.mend).endswith(f"apt-get install {package}")) == ("error", True)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("apt-get", "apt-get install uidmap"),
        ("dnf", "dnf install shadow-utils"),
        ("zypper", "zypper install shadow"),
        ("pacman", "install the package uidmap"),
    ],
)
def test_the_distribution_s_own_line(
    healthy: HostMachine, tmp_path: Path, command: str, line: str
) -> None:
    executable(tmp_path / "it's bin" / command)
    (tmp_path / "it's bin" / "newuidmap").unlink()
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, OK, OK, OK, NO, OK)
    assert found["subordinate ids"].mend == f"an administrator types: {line}"


def test_a_host_without_apt_has_three_ways_to_a_base(healthy: HostMachine, tmp_path: Path) -> None:
    (tmp_path / "it's bin" / "mmdebstrap").unlink()
    found = examine(healthy, tmp_path, VERSION, OK, OK, OK, OK)
    assert found["base"].state == "warning"
    for way in ("base pin", "build --offline", "base make"):
        assert f"dlcontainer {way}" in str(found["base"].mend)
    assert checks.is_fit(list(found.values()))


def test_a_setuid_engine_runs_without_user_namespaces(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, tmp_path, max_user_namespaces="0")
    starter = tmp_path / "libexec/apptainer/bin/starter-suid"
    starter.parent.mkdir(parents=True)
    executable(starter)
    assert examine(healthy, tmp_path)["user namespaces"].state == "error"  # its bit is not set
    real = Path.stat

    def stat(self: Path, **kwargs: Any) -> Any:
        info = real(self, **kwargs)
        if self.name != "starter-suid":
            return info
        return SimpleNamespace(st_uid=0, st_mode=info.st_mode | 0o4000)

    monkeypatch.setattr(Path, "stat", stat)
    found = examine(healthy, tmp_path)["user namespaces"]
    assert found.state == "warning"
    assert "setuid program can still run images" in found.detail
    assert "sysctl user.max_user_namespaces=15000" in str(found.mend)


def test_ubuntus_restriction_names_the_profile_of_this_engine(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, tmp_path, apparmor_restrict_unprivileged_userns="1")
    starter = tmp_path / "lib/x86_64-linux-gnu/apptainer/bin/starter"
    starter.parent.mkdir(parents=True)
    executable(starter)
    found = examine(healthy, tmp_path)["user namespaces"]
    assert "Ubuntu 23.10 and newer" in found.detail
    assert f"profile apptainer {starter}{{,-suid}} flags=(unconfined)" in str(found.mend)
    assert "sysctl kernel.apparmor_restrict_unprivileged_userns=0" in str(found.mend)
    # Of root's engine nothing is restricted.
    assert examine(replace(healthy, uid=0), tmp_path)["user namespaces"].state == "ok"


@pytest.mark.parametrize(
    ("contents", "name", "state", "mend"),
    [
        (
            {"max_user_namespaces": "0"},
            "user namespaces",
            "error",
            "user.max_user_namespaces=15000",
        ),
        ({"unprivileged_userns_clone": "0"}, "user namespaces", "error", "userns_clone=1"),
        (
            {"apparmor_restrict_unprivileged_userns": "1"},
            "user namespaces",
            "warning",
            "/etc/apparmor.d/apptainer",
        ),
        ({"subuid": "adam:1:2\n"}, "subordinate ids", "warning", "usermod --add-subuids"),
    ],
)
def test_what_the_kernel_and_the_files_say(
    healthy: HostMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    contents: dict[str, str],
    name: str,
    state: str,
    mend: str,
) -> None:
    files(monkeypatch, tmp_path, **contents)
    found = examine(healthy, tmp_path)
    assert (found[name].state, mend in str(found[name].mend)) == (state, True)
    assert [other for other, one in found.items() if one.state != "ok"] == [name]


@pytest.mark.parametrize(
    ("kind", "options", "free", "state"),
    [
        ("ext4", ["noexec"], 50_000, "error"),
        ("lustre", [], 50_000, "warning"),
        ("xfs", [], 10, "warning"),
    ],
)
def test_temporary_files(
    healthy: HostMachine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    options: list[str],
    free: int,
    state: str,
) -> None:
    mount(monkeypatch, kind, *options)
    monkeypatch.setattr(machine, "free_mb", lambda path: free)
    found = examine(healthy, tmp_path)["temporary files"]
    assert (found.state, "--tmpdir" in str(found.mend)) == (state, True)
    assert found.detail.startswith(f"{healthy.environ['TMPDIR']}: ")


def test_little_memory_for_a_login(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 4 GiB, as login nodes give them.
    monkeypatch.setattr(machine, "cgroup_memory_mb", lambda: 4294)
    found = examine(healthy, tmp_path)["memory limit"]
    assert found.state == "warning"
    assert "systemctl set-property user-" in str(found.mend)
    assert "inside a job" in str(found.mend)


def test_another_architecture_is_needed_by_few(
    healthy: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine(healthy, tmp_path)["emulation"].detail == (
        "programs for ppc64le and aarch64 run here"
    )
    files(monkeypatch, tmp_path, **{"qemu-aarch64": "enabled\nflags: P\n"})
    found = examine(healthy, tmp_path)["emulation"]
    assert found.state == "ok"
    assert found.detail.startswith("this host can build for ppc64le: qemu-aarch64 is registered")
    assert "run once as root: " in str(found.mend)

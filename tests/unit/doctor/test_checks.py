"""Doctor: what is found, how bad it is, and the line to type."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.doctor import checks
from dlcontainer.doctor.finding import Finding
from dlcontainer.system import machine
from dlcontainer.system.machine import Host, Mount
from tests.fakes import RecordingRunner, completed
from tests.values import host

VERSION = completed("v", stdout="apptainer version 1.4.5\n")
NO = completed("x", code=255, stderr="FATAL:   no\n")
OK = completed("ok")


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for name in ("apptainer", "newuidmap", "newgidmap", *checks.HELPERS):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    monkeypatch.setattr(machine, "free_mb", lambda path: 50_000)
    monkeypatch.setattr(machine, "cgroup_memory_mb", lambda: None)
    mount(monkeypatch)
    monkeypatch.setattr("os.access", lambda path, mode: True)
    environ = {"PATH": str(folder), "TMPDIR": "/it's tmp", "HTTPS_PROXY": "http://u:secret@p"}
    files(monkeypatch, tmp_path)
    return host(environ=environ)


def mount(monkeypatch: pytest.MonkeyPatch, kind: str = "ext4", *options: str) -> None:
    found = Mount(point=Path("/"), kind=kind, options=frozenset(options))
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


def examine(on: Host, tmp_path: Path, *answers: Any) -> dict[str, Finding]:
    runner = RecordingRunner([*answers] or [VERSION, OK, OK, OK, OK], strict=True)
    found = checks.examine(on, runner, tmp_path / "cache")
    assert len({finding.name for finding in found}) == len(found)
    return {finding.name: finding for finding in found}


def test_a_healthy_machine(healthy: Host, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path)
    assert {finding.state for finding in found.values()} == {"ok"}
    assert checks.is_fit(list(found.values()))
    assert found["build"].detail == "works in mode plain"
    assert found["base"].detail == "can be made in mode unshare"
    # Names only: a proxy's address may hold a password.
    assert found["network"].detail == "through a proxy (https_proxy)"
    assert not [one for one in found.values() if "secret" in one.detail or one.mend]


def test_no_engine(healthy: Host, tmp_path: Path) -> None:
    (tmp_path / "it's bin" / "apptainer").unlink()
    found = examine(healthy, tmp_path)
    assert found["engine"].state == "bad"
    assert "make setup" in str(found["engine"].mend)
    assert not checks.is_fit(list(found.values()))


def test_an_engine_that_does_not_start(healthy: Host, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, completed("x", code=127, stderr="no libseccomp.so.2"), OK)
    assert (found["engine"].state, "build" in found) == ("bad", False)
    assert "does not start" in found["engine"].detail


def test_an_engine_without_a_working_mode(healthy: Host, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO)
    assert (found["build"].state, found["run"].state) == ("bad", "bad")
    said = "plain failed: FATAL: no; fakeroot failed: FATAL: no; root-mapped failed: FATAL: no"
    assert found["build"].detail == said
    assert found["run"].detail.startswith("not tried")
    assert found["base"].detail == "unshare failed: FATAL:   no; root-mapped failed: FATAL:   no"
    # No line below is the cause: none is pointed at.
    assert "no line below explains it" in str(found["build"].mend)


def test_it_points_at_causes_alone(
    healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, tmp_path, max_user_namespaces="0")
    mount(monkeypatch, "lustre")
    monkeypatch.setattr("os.access", lambda path, mode: path != "/dev/fuse")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO)
    for name in ("build", "base"):
        assert found[name].mend == "see below: user namespaces"
    assert found["user namespaces"].state == "bad"
    assert found["/dev/fuse"].state == found["temporary files"].state == "poor"
    found = examine(healthy, tmp_path, VERSION, OK, OK, NO, NO, NO, OK)
    assert found["run"].mend == "see below: user namespaces, /dev/fuse"
    mount(monkeypatch, "ext4", "noexec")
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, NO, NO, NO)
    assert found["build"].mend == "see below: user namespaces, temporary files"


@pytest.mark.parametrize("program", ["newuidmap", "newgidmap"])
def test_subordinate_ids_that_can_not_be_mapped(
    healthy: Host, tmp_path: Path, program: str
) -> None:
    (tmp_path / "it's bin" / program).unlink()
    found = examine(healthy, tmp_path, VERSION, OK, NO, NO, OK, OK, NO, OK)
    assert found["subordinate ids"].state == "poor"
    assert found["subordinate ids"].detail.startswith(f"lines for ada, but no {program}: ")
    assert found["subordinate ids"].mend == "an administrator types: apt-get install uidmap"
    assert found["build"].detail.startswith("works in mode root-mapped (plain failed: FATAL: no")
    assert found["base"].detail.startswith("can be made in mode root-mapped (unshare failed: ")
    assert checks.is_fit(list(found.values()))


def test_a_base_that_can_not_be_made(healthy: Host, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, OK, OK, NO, NO)
    assert found["base"].state == "bad"
    assert not checks.is_fit(list(found.values()))


def test_a_second_mode_that_works(healthy: Host, tmp_path: Path) -> None:
    found = examine(healthy, tmp_path, VERSION, OK, NO, OK, OK, OK)
    assert found["build"].detail == "works in mode fakeroot (plain failed: FATAL: no)"
    assert checks.is_fit(list(found.values()))


@pytest.mark.parametrize(("name", "package"), [(n, p) for n, (_, p) in checks.HELPERS.items()])
def test_a_missing_helper(healthy: Host, tmp_path: Path, name: str, package: str) -> None:
    (tmp_path / "it's bin" / name).unlink()
    base = [] if name == "mmdebstrap" else [OK]
    found = examine(healthy, tmp_path, VERSION, OK, OK, OK, *base)[name]
    assert (found.state, str(found.mend).endswith(f"apt-get install {package}")) == ("bad", True)


@pytest.mark.parametrize(
    ("contents", "name", "state", "mend"),
    [
        ({"max_user_namespaces": "0"}, "user namespaces", "bad", "user.max_user_namespaces=15000"),
        ({"unprivileged_userns_clone": "0"}, "user namespaces", "bad", "userns_clone=1"),
        ({"apparmor_restrict_unprivileged_userns": "1"}, "user namespaces", "poor", "its profile"),
        ({"subuid": "adam:1:2\n"}, "subordinate ids", "poor", "usermod --add-subuids"),
    ],
)
def test_what_the_kernel_and_the_files_say(
    healthy: Host,
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
    [("ext4", ["noexec"], 50_000, "bad"), ("lustre", [], 50_000, "poor"), ("xfs", [], 10, "poor")],
)
def test_temporary_files(
    healthy: Host,
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
    assert found.detail.startswith("/it's tmp: ")


def test_little_memory_for_a_login(
    healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "cgroup_memory_mb", lambda: 1000)
    assert examine(healthy, tmp_path)["memory limit"].state == "poor"


def test_another_architecture_is_needed_by_few(
    healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine(healthy, tmp_path)["emulation"].detail == (
        "programs for ppc64le and aarch64 run here"
    )
    files(monkeypatch, tmp_path, **{"qemu-aarch64": "enabled\nflags: P\n"})
    found = examine(healthy, tmp_path)["emulation"]
    assert found.state == "ok"
    assert found.detail.startswith("ppc64le can be built for here: qemu-aarch64 is registered")
    assert "root types once: " in str(found.mend)

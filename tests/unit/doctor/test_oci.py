"""What is said of Docker and Podman: nothing bad without them, and the line to type."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.doctor import oci
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.engines import oci_socket
from dlcontainer.engines.oci import OCI_KINDS, Daemon, OciKind
from dlcontainer.errors import EngineError
from dlcontainer.system import machine
from dlcontainer.system.machine import MountPoint
from tests.fakeoci import FakeClient, daemon
from tests.values import host

Answer = Callable[[OciKind], Daemon | EngineError]


def examine(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, *, kind: str = "ext4", programs: bool = False
) -> dict[str, DoctorFinding]:
    """Look at both engines, each as the one that is meant."""

    def connect(asked: OciKind, environ: object, uid: int) -> FakeClient:
        found = answer(asked)
        if isinstance(found, EngineError):
            raise found
        return FakeClient(daemon=found)

    def find(name: str, environ: object) -> Path | None:
        return Path("/bin", name) if programs else None

    monkeypatch.setattr(oci_socket, "connect", connect)
    monkeypatch.setattr(oci, "find_program", find)
    there = MountPoint(point=Path("/"), kind=kind, options=frozenset())
    monkeypatch.setattr(machine, "mount_of", lambda path: there)
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda host: ["/etc/subuid"])
    meant = {name: oci.examine(host(), name) for name in OCI_KINDS}
    for found in meant.values():
        assert len({finding.name for finding in found}) == len(found)
    return {
        finding.name: finding
        for name, found in meant.items()
        for finding in found
        if finding.name.startswith(name)
    }


def no(kind: OciKind) -> EngineError:
    return EngineError(f"{kind} is not running here", why="no socket", next_step="start it")


def test_an_engine_that_is_not_meant_is_no_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    for programs in (False, True):
        examine(monkeypatch, no, programs=programs)
        assert oci.examine(host()) == [
            DoctorFinding(
                name=name,
                state="ok",
                detail=f"not used; `dlcontainer doctor --engine {name}` checks it",
            )
            for name in OCI_KINDS
        ]
    # One that answers is said, without its flaws.
    examine(monkeypatch, lambda kind: daemon(kind, rootless=True, storage_driver="vfs"))
    found = oci.examine(host())
    assert [(one.name, one.state, one.mend) for one in found] == [
        ("docker", "ok", None),
        ("podman", "ok", None),
    ]


def test_an_engine_that_is_meant_and_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(monkeypatch, no)
    assert (found["docker"].state, found["docker"].mend) == ("error", "start it")
    assert "not found; builds with --engine docker need it" in found["docker"].detail


def test_an_engine_that_does_not_run_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(monkeypatch, no, programs=True)
    assert found["docker"] == DoctorFinding(
        name="docker",
        state="error",
        detail="docker is not running here: no socket",
        mend="start it",
    )
    assert "podman storage" not in found


def test_podmans_storage_on_a_parallel_file_system_is_seen_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = examine(monkeypatch, no, kind="gpfs", programs=True)
    storage = found["podman storage"]
    assert storage.state == "warning"
    assert "/home/ada/.local/share/containers/storage is on gpfs" in storage.detail
    assert "storage.conf: [storage] driver" in str(storage.mend)


def test_who_has_no_ids_is_told_before_podman_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(monkeypatch, no, programs=True)
    assert "usermod --add-subuids" in str(found["podman ids"].mend)
    assert "podman system migrate" in str(found["podman ids"].mend)
    assert "docker ids" not in found


def test_docker_without_root_needs_a_network_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(oci, "_TUN", tmp_path / "none")
    found = examine(monkeypatch, no, programs=True)
    assert f"chmod 0666 {tmp_path / 'none'}" in str(found["docker network"].mend)
    (tmp_path / "none").touch()
    assert "docker network" not in examine(monkeypatch, no, programs=True)


def test_an_engine_that_answers_says_where_and_how(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(monkeypatch, daemon)
    assert sorted(found) == ["docker", "podman"]
    said = "20.10.24 at /run/engine.sock, as ada; images in /var/lib/engine (overlay2)"
    assert found["docker"].detail == said


def test_a_user_without_ids_and_a_slow_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(monkeypatch, lambda kind: daemon(kind, rootless=True, storage_driver="vfs"))
    assert "usermod --add-subuids" in str(found["podman ids"].mend)
    assert "fuse-overlayfs" in str(found["podman storage"].mend)
    assert "overlay2" in str(found["docker storage"].mend)
    assert all(finding.state in {"ok", "warning"} for finding in found.values())

"""Which socket is tried, and what is said where nobody answers."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines import oci_socket
from dlcontainer.engines.oci import OciKind
from dlcontainer.errors import EngineError


def with_program(folder: Path, name: str) -> dict[str, str]:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return {"PATH": str(folder), "XDG_RUNTIME_DIR": str(folder)}


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Path]:
    """Give a socket at which nobody listens."""
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        yield tmp_path / "s"


def test_a_users_own_engine_comes_first() -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert oci_socket.sockets("docker", environ, 7) == [
        Path("/run/user/7/docker.sock"),
        Path("/var/run/docker.sock"),
    ]
    # Another user's Podman, root's, would be another store: only root takes it.
    assert oci_socket.sockets("podman", {}, 7) == [Path("/run/user/7/podman/podman.sock")]
    assert oci_socket.sockets("podman", {}, 0)[1:] == [Path("/run/podman/podman.sock")]


@pytest.mark.parametrize(
    ("kind", "environ"),
    [
        ("docker", {"DOCKER_HOST": "unix:///a/b"}),
        ("podman", {"DOCKER_HOST": "unix:///a/b"}),
        ("podman", {"DOCKER_HOST": "unix:///c", "CONTAINER_HOST": "unix:///a/b"}),
    ],
)
def test_a_variable_names_the_only_one(kind: OciKind, environ: dict[str, str]) -> None:
    assert oci_socket.sockets(kind, environ, 7) == [Path("/a/b")]


def test_another_machines_engine_is_refused() -> None:
    with pytest.raises(EngineError, match="is not a socket on this machine"):
        oci_socket.connect("docker", {"DOCKER_HOST": "ssh://there"}, 7)


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_what_is_not_installed_and_what_does_not_run_are_two_things(
    kind: OciKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oci_socket, "_exists", lambda path: False)
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(EngineError, match=f"no {kind} here") as absent:
        oci_socket.connect(kind, {}, 7)
    assert f"install {kind.capitalize()}" in str(absent.value)
    with pytest.raises(EngineError, match=f"{kind} is not running here") as stopped:
        oci_socket.connect(kind, with_program(tmp_path, kind), 7)
    assert "systemctl --user start" in str(stopped.value)


def test_a_socket_without_permission_names_the_group(
    dead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: socket.socket, address: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(EngineError, match="no permission") as caught:
        oci_socket.connect("docker", {"DOCKER_HOST": f"unix://{dead}"}, 7)
    assert "usermod --append --groups docker" in str(caught.value)


def test_a_socket_at_which_nobody_answers(dead: Path) -> None:
    with pytest.raises(EngineError, match=f"podman does not answer at {dead}") as caught:
        oci_socket.connect("podman", {"CONTAINER_HOST": f"unix://{dead}"}, 7)
    assert "podman system service" in str(caught.value)


@pytest.mark.parametrize(
    "info", [{"SecurityOptions": ["name=seccomp", "name=rootless"]}, {"Rootless": True}]
)
def test_who_runs_without_root_says_so(info: dict[str, object], dead: Path) -> None:
    version = {"Version": "1.2.3"}
    assert oci_socket._daemon(version, info, dead).rootless is True
    assert oci_socket._daemon(version, {"Rootless": False}, dead).rootless is False

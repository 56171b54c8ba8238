"""Find Docker's or Podman's socket and ask who answers there."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.oci import Daemon, OciKind
from dlcontainer.engines.podman import PodmanClient
from dlcontainer.errors import EngineError
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import find_program

# Seconds: for the first answer, and for the longest call (a layer of tens of GB is committed).
_FIRST_ANSWER_S = 20
_LONGEST_S = 4 * 3600
_SCHEME = "unix://"
_OLDEST_PODMAN = 4
_VARIABLES: Mapping[OciKind, tuple[str, ...]] = {
    "docker": ("DOCKER_HOST",),
    "podman": ("CONTAINER_HOST", "DOCKER_HOST"),
}
_INSTALL: Mapping[OciKind, str] = {
    "docker": "install Docker (Debian: docker.io), or build with --engine apptainer",
    "podman": "install Podman (Debian: podman), or build with --engine apptainer",
}
_START: Mapping[OciKind, str] = {
    "docker": "an administrator types: systemctl start docker; without root: "
    "systemctl --user start docker",
    "podman": "systemctl --user start podman.socket; without systemd: "
    'podman system service --time=0 "unix://$XDG_RUNTIME_DIR/podman/podman.sock" &',
}


def sockets(kind: OciKind, environ: Mapping[str, str], uid: int) -> list[Path]:
    """Name the sockets to try, in this order; a variable of the user's is the only one then.

    Raises EngineError for a variable that names another machine.
    """
    for name in _VARIABLES[kind]:
        value = variables.text(environ, name)
        if value:
            if not value.startswith(_SCHEME):
                raise EngineError(
                    f"{name}={value} is not a socket on this machine",
                    why="steps use folders of this machine (mirrors, wheels), which a "
                    "remote engine cannot bind",
                    next_step=f"build where the engine runs, or unset {name}",
                )
            return [Path(value.removeprefix(_SCHEME))]
    runtime_dir = variables.folder(environ, "XDG_RUNTIME_DIR") or Path(f"/run/user/{uid}")
    if kind == "docker":
        return [runtime_dir / "docker.sock", Path("/var/run/docker.sock")]
    return [
        runtime_dir / "podman/podman.sock",
        *([Path("/run/podman/podman.sock")] if uid == 0 else []),
    ]


def connect(kind: OciKind, environ: Mapping[str, str], uid: int) -> SdkClient:
    """Connect to the engine; raises EngineError with the line to type.

    The caller closes the client.
    """
    tried = sockets(kind, environ, uid)
    path = next((path for path in tried if _exists(path)), None)
    if path is None:
        program = find_program(kind, environ)
        raise EngineError(
            f"{kind} is not running here" if program else f"no {kind} here",
            why=f"no socket {' or '.join(map(str, tried))}",
            next_step=_START[kind] if program else _INSTALL[kind],
        )
    _knock(kind, path)
    return _client(kind, path)


def _knock(kind: OciKind, path: Path) -> None:
    """Raise EngineError where nobody may, or can, be reached at a socket."""
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.settimeout(_FIRST_ANSWER_S)
            trial.connect(str(path))
        except PermissionError:
            raise EngineError(
                f"{path}: no permission",
                why="only the socket's owner and group may use the engine",
                next_step="an administrator types: usermod --append --groups docker USER "
                "(users of this socket are as powerful as root); or use --engine "
                "podman, which needs no root",
            ) from None
        except OSError as error:
            raise EngineError(
                f"{kind} does not answer at {path}", why=error.strerror, next_step=_START[kind]
            ) from None


def _exists(path: Path) -> bool:
    try:
        return path.is_socket()
    except PermissionError:
        return True  # in a folder that may not be entered: said so by the caller


def _client(kind: OciKind, path: Path) -> SdkClient:
    import docker
    from docker.errors import DockerException
    from requests import RequestException

    address = f"{_SCHEME}{path}"
    try:
        first = docker.APIClient(base_url=address, version="auto", timeout=_FIRST_ANSWER_S)
        version, info, api_version = first.version(), first.info(), first.api_version
        first.close()
    except (DockerException, RequestException) as error:
        raise EngineError(
            f"{kind} does not answer at {path}", why=str(error), next_step=_START[kind]
        ) from None
    api = docker.APIClient(base_url=address, version=api_version, timeout=_LONGEST_S)
    daemon = _daemon(version, info, path)
    if daemon.kind != kind:
        api.close()
        raise EngineError(
            f"{path} is a socket of {daemon.kind}, not of {kind}",
            next_step=f"use --engine {daemon.kind}",
        )
    if kind == "docker":
        return SdkClient(api=api, daemon=daemon)
    if int(daemon.version.partition(".")[0]) < _OLDEST_PODMAN:
        api.close()
        raise EngineError(
            f"podman {daemon.version} is too old", next_step="install Podman 4 or newer"
        )
    return PodmanClient(api=api, daemon=daemon)


def _daemon(version: Mapping[str, Any], info: Mapping[str, Any], path: Path) -> Daemon:
    parts = {str(part.get("Name")) for part in version.get("Components") or ()}
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return Daemon(
        kind="podman" if "Podman Engine" in parts else "docker",
        version=str(version["Version"]),
        socket=path,
        owner=_owner(path),
        storage_driver=str(info.get("Driver") or "unknown"),
        storage=Path(str(info.get("DockerRootDir") or "/")),
        # Docker says so among its options, Podman in a field of its own.
        rootless=info.get("Rootless") is True or any("rootless" in option for option in options),
    )


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)

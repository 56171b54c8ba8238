"""What the SDK is asked: nothing of the user's, the host's or the engine's own gets in."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from docker.errors import APIError, ImageNotFound, NotFound

from dlcontainer.engines import docker as docker_engine
from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.oci import LIFELINE, ContainerSpec, ImageConfig
from dlcontainer.engines.podman import PodmanClient
from dlcontainer.errors import EngineError
from tests.fakeoci import daemon, image

BASE = image("base", id="sha256:77", environment={"BASE": "1"})
SPEC = ContainerSpec(image=BASE, name="n", binds=((Path("/it's here"), "/mnt"),))
CONFIG = ImageConfig(environment={"A": "a b'c\"$x\\"}, labels={"l": "v w"}, entrypoint=("/e",))
FOUND = {
    "Id": "sha256:1",
    "RepoTags": ["r:t"],
    "Architecture": "amd64",
    "Created": "2026-11-21T10:11:12Z",
    "Size": 14,
    "RootFS": {"Layers": ["sha256:a", "sha256:b"]},
    "Config": {"Env": ["A=b=c"], "Labels": None, "Entrypoint": None},
}


@pytest.fixture
def api() -> MagicMock:
    mock = MagicMock()
    mock.base_url = "http+docker://localhost"
    mock.inspect_image.return_value = FOUND
    mock.history.return_value = [{"Size": 5}, {"Size": 9}]
    mock.commit.return_value = {"Id": "sha256:1"}
    mock.create_container.return_value = {"Id": "c"}
    mock.post.return_value.json.return_value = {"Id": "c"}
    return mock


@pytest.fixture
def docker(api: MagicMock) -> SdkClient:
    return SdkClient(api=api, daemon=daemon())


@pytest.fixture
def podman(api: MagicMock) -> PodmanClient:
    return PodmanClient(api=api, daemon=daemon("podman"))


def failure(status: int, said: str) -> APIError:
    response = MagicMock()
    response.status_code = status
    return APIError("no", response=response, explanation=said)


def test_an_image_is_read(docker: SdkClient) -> None:
    found = docker.image("r:t")
    assert found is not None
    assert (found.environment, found.labels, found.entrypoint) == ({"A": "b=c"}, {}, ())
    assert (found.size, found.total) == (5, 14)  # of the last layer, of all
    assert found.layers == ("sha256:a", "sha256:b")


def test_an_image_that_is_not_there(docker: SdkClient, api: MagicMock) -> None:
    api.inspect_image.side_effect = ImageNotFound("no")
    assert docker.image("r:t") is None


def test_dockers_container_has_nothing_of_the_users_and_ends_with_us(
    docker: SdkClient, api: MagicMock
) -> None:
    assert docker.start(SPEC) == "c"
    host = api.create_host_config.call_args.kwargs
    assert host["binds"] == ["/it's here:/mnt"]
    assert (host["network_mode"], host["auto_remove"]) == ("host", True)
    made = api.create_container.call_args
    assert made.args == ("sha256:77",)
    assert made.kwargs["use_config_proxy"] is False
    assert made.kwargs["hostname"] == "localhost"
    assert made.kwargs["entrypoint"] == list(LIFELINE)
    # Attached before it starts: there is no moment in which it would outlive us.
    names = [call[0] for call in api.method_calls]
    assert names.index("attach_socket") < names.index("start")


def test_podmans_container_has_no_variable_of_the_services(
    podman: PodmanClient, api: MagicMock
) -> None:
    podman.start(SPEC)
    body = api.post.call_args.kwargs["json"]
    assert api.post.call_args.args[0].endswith("/libpod/containers/create")
    assert (body["httpproxy"], body["unsetenvall"], body["env"]) == (False, True, {"BASE": "1"})
    assert "hostname" not in body
    assert body["image"] == "77"
    assert body["remove"] is True
    (mount,) = body["mounts"]
    assert (mount["source"], mount["destination"]) == ("/it's here", "/mnt")


def test_a_users_podman_keeps_the_users_limits(api: MagicMock) -> None:
    PodmanClient(api=api, daemon=daemon("podman", rootless=True)).start(SPEC)
    assert api.post.call_args.kwargs["json"]["r_limits"] == []


def test_a_container_that_does_not_start_is_removed(docker: SdkClient, api: MagicMock) -> None:
    api.start.side_effect = failure(500, "no such runtime")
    with pytest.raises(EngineError, match="docker could not start a container") as caught:
        docker.start(SPEC)
    assert "no such runtime" in str(caught.value)
    api.remove_container.assert_called_once()


@pytest.mark.parametrize("character", [":", "\n"])
def test_what_docker_can_not_bind_is_refused(docker: SdkClient, character: str) -> None:
    spec = ContainerSpec(image=BASE, name="n", binds=((Path(f"/a{character}b"), "/mnt"),))
    with pytest.raises(EngineError, match="cannot bind"):
        docker.start(spec)


def test_docker_is_told_the_whole_configuration(docker: SdkClient, api: MagicMock) -> None:
    docker.commit("c", "host:5/r:t", "a word", CONFIG)
    given = api.commit.call_args.kwargs
    assert (given["repository"], given["tag"], given["message"]) == ("host:5/r", "t", "a word")
    assert given["conf"] == {
        "Cmd": ["/bin/sh"],
        "Entrypoint": ["/e"],
        "Env": ["A=a b'c\"$x\\"],
        "Labels": {"l": "v w"},
    }


def test_podman_is_told_with_quotes_and_no_escapes(podman: PodmanClient, api: MagicMock) -> None:
    podman.commit("c", "r:t", "a word", CONFIG)
    params = api.post.call_args.kwargs["params"]
    assert params["changes"] == [
        'ENV A="a b\'c"$x\\"',
        'LABEL l="v w"',
        'CMD ["/bin/sh"]',
        'ENTRYPOINT ["/e"]',
    ]
    assert (params["repo"], params["tag"], params["format"]) == ("r", "t", "docker")


def test_a_command_that_the_engine_cut_off_has_no_exit_code(
    docker: SdkClient, api: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[bytes] = []
    monkeypatch.setattr(
        "docker.utils.socket.frames_iter", lambda stream, tty: iter([(1, b"a"), (2, b"b")])
    )
    api.exec_inspect.return_value = {"ExitCode": 3}
    assert docker.execute("c", ("true",), said.append) == 3
    assert (said, api.exec_create.call_args.kwargs["user"]) == ([b"a", b"b"], "0")
    api.exec_inspect.return_value = {"ExitCode": None}
    with pytest.raises(EngineError, match="ended the container in the middle of a step"):
        docker.execute("c", ("true",), said.append)
    # The SDK would leave a connection open with each command.
    assert api.exec_start.return_value._sock.close.call_count == 2


@pytest.mark.parametrize("answer", [NotFound("gone"), failure(409, "removal in progress")])
def test_a_container_that_goes_by_itself_is_no_error(
    docker: SdkClient, api: MagicMock, answer: Exception
) -> None:
    api.remove_container.side_effect = answer
    api.inspect_container.side_effect = [{"State": {"Status": "removing"}}, NotFound("gone")]
    docker.remove("c")
    # Only after it is gone may its image go.
    assert api.inspect_container.call_count == (0 if isinstance(answer, NotFound) else 2)


def test_a_removal_that_does_not_end(
    docker: SdkClient, api: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_engine, "_REMOVAL_S", 0.0)
    api.remove_container.side_effect = failure(409, "removal in progress")
    with pytest.raises(EngineError, match="does not finish removing container c"):
        docker.remove("c")


def stream(api: MagicMock, *entries: dict[str, Any]) -> None:
    api._stream_helper.return_value = iter(entries)
    api._auth_configs = None


def test_a_push_gives_the_registrys_digest(
    docker: SdkClient, api: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docker.auth.get_config_header", lambda client, registry: None)
    digest = f"sha256:{'a' * 64}"
    stream(api, {"id": "1", "status": "Pushed"}, {"status": f"t: digest: {digest} size: 5"})
    lines: list[str] = []
    assert docker.push("127.0.0.1:5/r:t", lines.append, plain_http=True) == digest
    assert lines[0] == "1 Pushed"
    assert api._post.call_args.kwargs["params"] == {"tag": "t", "tlsVerify": "false"}


def test_what_a_registry_refuses_is_said(
    docker: SdkClient, api: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docker.auth.get_config_header", lambda client, registry: None)
    stream(api, {"status": "Preparing"}, {"error": "toomanyrequests: slow down"})
    with pytest.raises(EngineError, match="docker reported: toomanyrequests"):
        docker.push("r.example/r:t", print, plain_http=False)
    assert api._post.call_args.kwargs["params"] == {"tag": "t"}


@pytest.mark.parametrize(
    ("reference", "params"),
    [
        ("h:5/r@sha256:1", {"fromImage": "h:5/r", "tag": "sha256:1"}),
        ("h:5/r:t", {"fromImage": "h:5/r", "tag": "t"}),
    ],
)
def test_a_pull_names_the_digest_or_the_tag(
    docker: SdkClient,
    api: MagicMock,
    monkeypatch: pytest.MonkeyPatch,
    reference: str,
    params: dict[str, str],
) -> None:
    monkeypatch.setattr("docker.auth.get_config_header", lambda client, registry: None)
    stream(api)
    docker.pull(reference, print, plain_http=False)
    assert api._post.call_args.kwargs["params"] == params


def test_podman_pulls_by_its_own_call_which_knows_plain_http(
    podman: PodmanClient, api: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docker.auth.get_config_header", lambda client, registry: None)
    stream(api, {"stream": "Copying blob\n"}, {"id": "1"})
    lines: list[str] = []
    podman.pull("127.0.0.1:5/r@sha256:1", lines.append, plain_http=True)
    assert api._post.call_args.args[0].endswith("/libpod/images/pull")
    wanted = {"reference": "127.0.0.1:5/r@sha256:1", "tlsVerify": "false"}
    assert api._post.call_args.kwargs["params"] == wanted
    assert lines == ["Copying blob"]


def test_an_import_says_what_went_wrong(docker: SdkClient, api: MagicMock, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    api.import_image_from_data.return_value = json.dumps({"error": "no space left on device"})
    with pytest.raises(EngineError, match="no space left"):
        docker.import_tree(tmp_path / "t", "r:t")

"""The same plan with Docker and with Podman, by every route: the same image, and no trace."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.oci import ContainerSpec
from dlcontainer.engines.oci_client import SdkClient
from tests.integration.oci import daemons
from tests.integration.oci.conftest import Builder
from tests.integration.test_leaks import traces
from tests.integration.world import Built, World


@pytest.fixture(scope="session")
def expected(tiny_image: Built, world: World) -> dict[str, bool]:
    """Give what is checked of the image that Apptainer built, and the outcome."""
    return {name: ok for name, (ok, _) in world.checks(tiny_image.image).items()}


def test_all_steps_run_and_the_wheels_are_known(built: dict[str, Any]) -> None:
    assert built["ran"] == ["system", "wheel", "image"]
    assert built["packages"] == ["dlctiny"]


def test_validate_agrees_with_apptainers_own_image(
    built: dict[str, Any], world: World, expected: dict[str, bool]
) -> None:
    checks = world.checks(Path(built["image"]))
    assert {name: ok for name, (ok, _) in checks.items()} == expected
    assert "verify" in expected
    assert all(expected.values())


def test_the_second_time_every_step_is_there(
    built: dict[str, Any], builder: Builder, tiny: Path, tmp_path: Path
) -> None:
    again = builder.build(tiny, tmp_path, outcome="docker-archive")
    assert again["ran"] == []
    assert again["kept"] == built["ran"]
    assert again["packages"] == built["packages"]


def test_no_layer_and_no_word_of_the_image_holds_a_trace(
    built: dict[str, Any], builder: Builder, tiny: Path, tmp_path: Path
) -> None:
    body = builder.build(tiny, tmp_path, outcome="docker-archive", fresh=True)
    assert body["ran"] == ["system", "wheel", "image"]
    words = [*traces(builder.world), daemons.PROXY.encode(), b"pip-report", b"routing.sh"]
    archive = Path(body["image"])
    with tarfile.open(archive) as tar:
        contents = {member.name: file.read() for member in tar if (file := tar.extractfile(member))}
    layers = list(json.loads(contents["manifest.json"])[0]["Layers"])
    assert len(layers) >= 4  # the base and three steps
    # Every file of the image; the probe and the manifest may name the routing's own script.
    found = [
        (name, word) for name, content in contents.items() for word in words[:-2] if word in content
    ]
    assert found == []
    for layer in layers[1:]:
        with tarfile.open(archive) as outer, tarfile.open(fileobj=outer.extractfile(layer)) as tar:
            names = [name.encode() for name in tar.getnames()]
        assert not [name for name in names if name.startswith((b"mnt", b"tmp/", b"var/tmp/"))]
        assert not [name for name in names for word in words if word in name]


def test_the_image_in_the_store_says_what_the_dockerfile_says(
    built: dict[str, Any], builder: Builder, client: SdkClient, tiny: Path, tmp_path: Path
) -> None:
    body = builder.build(tiny, tmp_path, outcome="image")
    image = client.image(body["name"])
    assert image is not None
    assert image.environment == {
        "LANG": "C.UTF-8",
        "PATH": "/opt/tiny/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    assert image.labels["org.opencontainers.image.title"] == "tiny"
    assert image.entrypoint == ()
    said: list[bytes] = []
    container = client.start(ContainerSpec(image=image, name="dlcontainer-test", binds=()))
    argv = ("/opt/tiny/bin/python", "-c", "import dlctiny; print(dlctiny.ANSWER)")
    assert client.execute(container, argv, said.append) == 0
    assert b"".join(said) == b"42\n"
    client.remove(container)
    assert client.containers("dlcontainer-test") == []


def test_through_a_registry(
    built: dict[str, Any],
    builder: Builder,
    client: SdkClient,
    registry: str,
    world: World,
    tiny: Path,
    tmp_path: Path,
    expected: dict[str, bool],
) -> None:
    namespace = f"{registry}/{builder.service.kind}"
    body = builder.build(tiny, tmp_path, registry=namespace)
    checks = world.checks(Path(body["image"]))
    assert {name: ok for name, (ok, _) in checks.items()} == expected
    pushed = f"{namespace}/tiny-1.0-local@{body['digest']}"
    lines: list[str] = []
    client.pull(pushed, lines.append, plain_http=True)
    image = client.image(pushed)
    assert image is not None
    assert image.labels["org.opencontainers.image.title"] == "tiny"
    assert lines

"""The same plan with Docker and with Podman, by every route: the same image, and no trace."""

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.docker import SdkClient
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.engines.oci import ContainerSpec
from tests.integration.oci import daemons
from tests.integration.oci.conftest import Builder, one_engine
from tests.integration.test_leaks import traces
from tests.integration.world import Built, World

STEPS = ["system", "wheel", "pack", "image"]


@pytest.fixture(scope="session")
def expected(tiny_image: Built, world: World) -> dict[str, bool]:
    """Give what is checked of the image that Apptainer built, and the outcome."""
    found = {name: ok for name, (ok, _) in world.checks(tiny_image.image).items()}
    assert "verify" in found
    assert all(found.values())
    return found


@pytest.fixture(scope="session")
def archive(
    built: Built, builder: Builder, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    """Build the tiny recipe to a docker-archive, with what `built` kept."""
    folder = tmp_path_factory.mktemp(f"{builder.service.kind} archive")
    return builder.build(tiny, folder, "--to", "docker-archive")


def seen(world: World, image: Path) -> dict[str, Any]:
    return dict(json.loads(world.run("inspect", image, "--json").stdout))


def test_all_steps_run_and_the_wheels_are_known(built: Built, builder: Builder) -> None:
    recorded = built.recorded()
    assert built.steps(kept=False) == STEPS
    assert [wheel["name"] for wheel in recorded["python_packages"]] == ["dlctiny"]
    assert recorded["engine"]["builder"] == builder.service.kind
    assert recorded["oci"]["engine"].startswith(f"{builder.service.kind} ")
    assert recorded["oci"]["pushed"] is None


def test_the_module_pack_is_apptainer_s_to_the_byte(
    built: Built, tiny_image: Built, world: World
) -> None:
    ours, own = (seen(world, one.image)["provenance"]["pack"] for one in (built, tiny_image))
    assert ours == own
    assert ours["modules"] > 0
    # Folders keep their stamps through the layers: the image answers from its pack.
    ok, detail = world.checks(built.image)["pack"]
    assert ok, detail


def test_validate_agrees_with_apptainers_own_image(
    built: Built, world: World, expected: dict[str, bool]
) -> None:
    checks = world.checks(built.image)
    assert {name: ok for name, (ok, _) in checks.items()} == expected


def test_inspect_agrees_with_apptainers_own_image(
    built: Built, tiny_image: Built, world: World
) -> None:
    ours, own = seen(world, built.image), seen(world, tiny_image.image)
    bills = [part for part in ours["parts"] if part["kind"] == "sbom"]
    assert [part["name"] for part in bills] == ["sbom.cdx.json"]
    assert ours["sbom"] is own["sbom"] is True
    assert ours["notes"] == own["notes"] == []
    assert ours["manifest"]["digest"] == own["manifest"]["digest"]
    assert ours["libraries"] == own["libraries"]
    assert ours["environment"] == own["environment"]
    theirs = {key: value for key, value in own["labels"].items() if key.startswith("org.open")}
    assert theirs
    assert ours["labels"].items() >= theirs.items()
    names = [[package["name"] for package in one["contents"]["packages"]] for one in (ours, own)]
    assert names[0] == names[1]


def test_an_archive_has_its_record_and_bill_beside_it(archive: Built) -> None:
    stem = "tiny-1.0-local.docker-archive"
    there = sorted(path.name for path in archive.image.parent.iterdir())
    assert there == [f"{stem}{suffix}" for suffix in (".cdx.json", ".json", ".log", ".tar")]
    recorded = archive.recorded()["image"]
    assert recorded["file"] == f"{stem}.tar"
    assert recorded["sha256"] == hashlib.sha256(archive.image.read_bytes()).hexdigest()
    assert json.loads(archive.sbom.read_text())["bomFormat"] == "CycloneDX"


def test_the_second_time_what_took_a_while_is_there(
    archive: Built, built: Built, builder: Builder, tiny: Path
) -> None:
    assert "system" in archive.steps(kept=True)
    assert archive.recorded()["python_packages"] == built.recorded()["python_packages"]
    again = builder.build(tiny, archive.image.parent, "--to", "docker-archive")
    assert again.body["found"] is True


@pytest.mark.long
@one_engine("docker")
def test_summits_documented_way(
    archive: Built,
    world: World,
    tried: EngineCapabilities,
    engine: apptainer.Apptainer,
    tmp_path: Path,
    expected: dict[str, bool],
) -> None:
    """By hand, on another machine: docker-archive -> SIF, with the engine alone."""
    image = tmp_path / "by hand.sif"
    source = f"docker-archive:{archive.image}"
    spec = BuildSpec(definition=source, image=image, mode=tried.build_mode or "plain")
    env = apptainer.environment(world.environ, tmpdir=tmp_path)
    subprocess.run(engine.build_argv(spec), env=env, check=True, capture_output=True)
    checks = world.checks(image, code=1)
    # Its record is the archive's, not one of this file; all else holds.
    failed = {name for name, (ok, _) in checks.items() if not ok}
    assert failed == {"record"}
    assert expected.keys() - checks.keys() <= {"manifest"}


def test_no_layer_and_no_word_of_the_image_holds_a_trace(archive: Built, builder: Builder) -> None:
    words = [*traces(builder.user), daemons.PROXY.encode(), b"pip-report", b"routing.sh"]
    with tarfile.open(archive.image) as tar:
        contents = {member.name: file.read() for member in tar if (file := tar.extractfile(member))}
    layers = list(json.loads(contents["manifest.json"])[0]["Layers"])
    assert len(layers) >= 3  # the base, a kept step, and what came after it
    # Every file of the image; the probe and the manifest may name the routing's own script.
    found = [
        (name, word) for name, content in contents.items() for word in words[:-2] if word in content
    ]
    assert found == []
    for layer in layers[1:]:
        with (
            tarfile.open(archive.image) as outer,
            tarfile.open(fileobj=outer.extractfile(layer)) as tar,
        ):
            names = [name.encode() for name in tar.getnames()]
        assert not [name for name in names if name.startswith((b"mnt", b"tmp/", b"var/tmp/"))]
        assert not [name for name in names for word in words if word in name]


def test_the_image_in_the_store_says_what_the_dockerfile_says(
    built: Built, builder: Builder, client: SdkClient, tiny: Path, tmp_path: Path
) -> None:
    body = builder.build(tiny, tmp_path, "--to", "image").body
    assert body["image"] is None
    image = client.image(body["name"])
    assert image is not None
    assert image.id.removeprefix("sha256:") == body["sha256"]
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
    assert builder.build(tiny, tmp_path, "--to", "image").body["found"] is True
    client.untag(body["name"])
    assert builder.build(tiny, tmp_path, "--to", "image").body["found"] is False
    client.untag(body["name"])


def test_through_a_registry(
    built: Built,
    builder: Builder,
    client: SdkClient,
    registry: str,
    world: World,
    tiny: Path,
    tmp_path: Path,
    expected: dict[str, bool],
) -> None:
    namespace = f"{registry}/{builder.service.kind}"
    made = builder.build(tiny, tmp_path, "--registry", namespace)
    checks = world.checks(made.image)
    assert {name: ok for name, (ok, _) in checks.items()} == expected
    pushed = made.body["pushed"]
    assert pushed.startswith(f"{namespace}/tiny-1.0-local@sha256:")
    assert made.recorded()["oci"]["digest"] == pushed.partition("@")[2]
    assert "sbom" in {part["kind"] for part in seen(world, made.image)["parts"]}
    lines: list[str] = []
    client.pull(pushed, lines.append, plain_http=True)
    image = client.image(pushed)
    assert image is not None
    assert image.labels["org.opencontainers.image.title"] == "tiny"
    assert lines

"""Bases of a registry: really pulled and built from, through a real registry on loopback."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.system.machine import read_host
from tests import fakeregistry
from tests.fakeregistry import Reply
from tests.integration import registries
from tests.integration.registries import Pushed, Repository
from tests.integration.world import World
from tests.values import write_yaml

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
OWN = OCI_ARCH[ARCH]
OTHER = "ppc64le" if OWN != "ppc64le" else "amd64"
DIGEST = f"sha256:{'ab' * 32}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module")
def debian(address: str) -> Repository:
    return Repository(address=address, name="base/debian")


@pytest.fixture(scope="module")
def image(
    debian: Repository, world: World, bare: Path, unsquashfs: str, fast: Path
) -> dict[str, Pushed]:
    """Push our own base under the tag 12; `index` names it beside an image for another machine."""
    world.build(bare, world.folder / "for its base")
    base = world.base()
    tree = fast / "tree of the base"
    subprocess.run([unsquashfs, "-q", "-n", "-d", tree, base], check=True, capture_output=True)
    # Not every image has it, and the build binds its routing there.
    (tree / "mnt").rmdir()
    pushed = debian.push(registries.layer_of(tree), OWN, note="first")
    shutil.rmtree(tree)
    empty = debian.push(b"\0" * 10240, OTHER)
    index = debian.push_index({OTHER: empty, OWN: pushed}, tag="12")
    return {"own": pushed, "other": empty, "index": index}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that leaves the base to the recipe."""
    data = {"schema": 1, "name": "own", "summary": "For tests", "arch": ARCH}
    path = tmp_path_factory.mktemp("site") / "own.yaml"
    return write_yaml(path, {**data, "default_recipe": "bare"})


def base(**keys: Any) -> list[str]:
    settings: list[str] = []
    for key, value in keys.items():
        settings += ["--set", f"base.{key}={value}"]
    return settings


def build(world: World, recipe: Path, site: Path, output: Path, *more: str) -> Mapping[str, Any]:
    done = world.run("build", recipe, "--site", site, "-o", output, "--json", *more)
    return dict(json.loads(done.stdout))


def refused(world: World, bare: Path, site: Path, output: Path, **keys: Any) -> str:
    """Try to build; nothing may lie there afterwards, and the engine was never started."""
    done = world.run("build", bare, "--site", site, "-o", output, *base(**keys), code=5)
    assert list(output.iterdir()) == []
    assert "unpack the base" not in done.stderr
    assert "  next: " in done.stderr
    return done.stderr


def test_a_python_and_a_wheel_on_a_pinned_base(
    world: World, image: dict[str, Pushed], debian: Repository, tiny: Path, wheels: Path,
    site: Path, tmp_path: Path,
) -> None:  # fmt: skip
    host = read_host({})
    recipe = tmp_path / "recipe"
    shutil.copytree(tiny, recipe)
    text = (recipe / "recipe.yaml").read_text()
    system = f"{{distribution: {host.distribution}, release: {host.release}, source: its files}}"
    own = (
        f"base:\n  image: {debian.image}:12\n  digest: {image['index'].digest}\n"
        f"  system: {system}\n"
    )
    (recipe / "recipe.yaml").write_text(re.sub(r"base: \{.*\}\n", own, text))
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    made = build(world.having(PIP_FIND_LINKS=found), recipe, site, tmp_path / "out put")
    checks = world.checks(Path(made["image"]))
    assert checks["verify"][0]
    assert checks["import dlctiny"][0]
    recorded = json.loads(Path(made["record"]).read_text())
    assert recorded["base"] == {
        "image": f"{debian.address}/base/debian",
        "tag": "12",
        "digest": image["index"].digest,
        "platform_digest": image["own"].digest,
    }
    assert [step["name"] for step in recorded["steps"]][:2] == ["base", "unpack"]
    commands = world.run("build", recipe, "--site", site, "--dry-run").stdout
    assert " --no-https " in commands
    assert "mmdebstrap" not in commands


def test_not_pinned_then_pinned_as_it_says_then_moved(
    world: World, image: dict[str, Pushed], debian: Repository, bare: Path, site: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    given = {"image": f"{debian.image}:moving"}
    first = debian.push_index({OWN: image["own"]}, tag="moving")
    said = refused(world, bare, site, tmp_path, **given)
    assert f"the base {given['image']} is not pinned" in said
    (line,) = [line for line in said.splitlines() if line.strip().startswith("--set ")]
    assert line.split() == ["--set", f"base.digest={first.digest}"]
    # Rendered it may be; the text says what it is.
    text = world.run("render", bare, "--site", site, *base(**given)).stdout
    assert f"# base: {given['image']}, not pinned\n" in text
    now = debian.push_index({OTHER: image["other"], OWN: image["own"]}, tag="moving")
    assert now.digest != first.digest
    pinned = (*base(**given), *line.split())
    done = world.run("build", bare, "--site", site, "-o", tmp_path, *pinned)
    assert f"the tag 'moving' is now {now.digest}; the build uses {first.digest}" in done.stderr
    record = Path(done.stdout.strip()).with_suffix(".json")
    assert json.loads(record.read_text())["base"]["digest"] == first.digest


def test_gone(
    world: World, debian: Repository, bare: Path, site: Path, tmp_path: Path
) -> None:  # fmt: skip
    pushed = debian.push(b"\0" * 10240, OWN, tag="short", note="lived")
    now = debian.push(b"\0" * 10240, OWN, tag="short", note="lives")
    debian.delete(pushed.digest)
    given = {"image": f"{debian.image}:short@{pushed.digest}"}
    said = refused(world, bare, site, tmp_path, **given)
    assert "does not have this image any more (HTTP 404)" in said
    assert f"next: to use that image: --set base.digest={now.digest}" in said


@pytest.mark.parametrize("kind", ["index", "image"])
def test_for_another_machine_only(
    world: World, debian: Repository, bare: Path, site: Path, tmp_path: Path, kind: str
) -> None:
    pushed = debian.push(b"\0" * 10240, OTHER, note="far")
    if kind == "index":
        pushed = debian.push_index({OTHER: pushed})
    said = refused(world, bare, site, tmp_path, image=debian.image, digest=pushed.digest)
    assert f"the base image is not available for linux/{OWN}" in said
    assert f"why: available: linux/{OTHER}" in said


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (Reply(status=500), "answers HTTP 500"),
        (Reply(body=b"x" * 1000, cut=400), "in the middle of its answer"),
        (Reply(body=b"{}"), "returned content that does not match the requested digest"),
    ],
    ids=["500", "cut", "lies"],
)
def test_a_registry_at_fault(
    world: World, bare: Path, site: Path, tmp_path: Path, reply: Reply, what: str
) -> None:
    with fakeregistry.serving() as fake:
        name = f"{fake.address}/{fakeregistry.NAME}"
        fake.replies[f"/v2/{fakeregistry.NAME}/manifests/{DIGEST}"] = reply
        said = refused(world, bare, site, tmp_path, image=f"docker://{name}@{DIGEST}")
    assert f"docker://{name}@{DIGEST}: registry {fake.address} " in said
    assert what in said


def test_a_registry_that_never_answers(
    world: World, bare: Path, site: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        given = f"docker://127.0.0.1:{mute.getsockname()[1]}/a@{DIGEST}"
        began = time.monotonic()
        # How much longer than the 20 s of its words is this machine's business.
        said = refused(world, bare, site, tmp_path, image=given)
    assert time.monotonic() - began > 15
    assert "why: no answer within 20 s" in said


def test_a_users_registry_password_goes_nowhere(
    world: World, bare: Path, site: Path, tmp_path: Path
) -> None:
    """What a user keeps for this very host is not sent, and not told."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login ada password s3cr3t\n")
    os.chmod(home / ".netrc", 0o600)  # noqa: PTH101
    with fakeregistry.serving() as fake:
        fake.token, fake.challenge = "never", "Basic realm=here"
        given = f"docker://{fake.address}/{fakeregistry.NAME}@{DIGEST}"
        output = tmp_path / "out"
        output.mkdir()
        said = refused(world.having(HOME=home), bare, site, output, image=given)
    assert "requires a login for" in said
    assert "s3cr3t" not in said
    assert fake.asked
    assert not [asked for asked in fake.asked if "Authorization" in asked[2]]

"""A host without apt, dpkg and mmdebstrap: an image of a registry, a bundle, a given base."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.packages import lockfile as locks
from dlcontainer.system.machine import read_host
from tests.integration import registries
from tests.integration.registries import Repository
from tests.integration.world import World

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
# The site `local` takes the release of its host for its bases, where that is Debian's.
RELEASE = read_host({}).release or "bookworm"
OTHER = "bookworm" if RELEASE == "trixie" else "trixie"
DEBIAN = ("apt", "dpkg", "debconf", "mmdebstrap", "mmtarfilter", "perl")


@pytest.fixture(scope="module")
def stripped(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Give the user a PATH on which nothing of Debian is, and a cache of its own."""
    folder = tmp_path_factory.mktemp("stripped")
    programs = folder / "bin"
    programs.mkdir()
    for place in world.environ["PATH"].split(os.pathsep):
        for path in sorted(Path(place).iterdir()) if Path(place).is_dir() else ():
            link = programs / path.name
            if not path.name.startswith(DEBIAN) and not link.is_symlink():
                link.symlink_to(path)
    own = {"PATH": programs, "XDG_CACHE_HOME": folder / "cache", "XDG_CONFIG_HOME": folder / "own"}
    return world.having(**own)


@pytest.fixture(scope="module")
def made(world: World, bare: Path) -> Path:
    """Make the base of the bare recipe, where its programs are."""
    path = world.folder / "a share" / "a base"
    world.run("base", "make", bare, "--site", "local", "-o", path)
    return path


@pytest.fixture(scope="module")
def debian(made: Path, unsquashfs: str, fast: Path) -> Iterator[Repository]:
    """Give a registry that has this base as debian:12."""
    tree, storage = fast / "tree without apt", fast / "registry without apt"
    storage.mkdir()
    subprocess.run([unsquashfs, "-q", "-n", "-d", tree, made], check=True, capture_output=True)
    with registries.running(storage) as address:
        repository = Repository(address=address, name="base/debian")
        repository.push(registries.layer_of(tree), OCI_ARCH[ARCH], tag="12")
        yield repository


def test_stopped_then_pinned_then_built(
    stripped: World, debian: Repository, bare: Path, tmp_path: Path
) -> None:
    argv = ("build", bare, "--site", "local", "-o", tmp_path / "out")
    said = stripped.run(*argv, code=5).stderr
    # A private mmdebstrap of set-up lies beside this Python; alone it makes no base.
    assert re.search("cannot make the base here: no (mmdebstrap, )?apt-get, dpkg on PATH", said)
    for way in ("base pin", "fetch", "base make"):
        assert f"dlcontainer {way} bare --site local" in said
    assert not (tmp_path / "out").exists()
    # A registry without such a tag: nothing is written.
    pin = ("base", "pin", bare, "--site", "local", "--image")
    assert "has no tag 'no'" in stripped.run(*pin, f"{debian.image}:no", code=5).stderr
    pins = Path(stripped.environ["XDG_CONFIG_HOME"]) / "dlcontainer/pins.yaml"
    assert not pins.exists()
    body = json.loads(stripped.run(*pin, f"{debian.image}:12", "--json").stdout)
    assert (body["file"], body["image"]) == (str(pins), f"docker://debian:{RELEASE}-slim")
    built = stripped.build(bare, tmp_path / "out")
    assert built.recorded()["base"]["digest"] == body["pinned"].partition("@")[2]
    pins.unlink()


def test_a_base_that_was_made_elsewhere(
    stripped: World, made: Path, bare: Path, tmp_path: Path
) -> None:
    built = stripped.build(bare, tmp_path / "out", "--base", made)
    sha256 = json.loads(made.with_name(f"{made.name}.json").read_text())["sha256"]
    assert sha256 in json.dumps(built.recorded()["base"])
    # The same tree, another plan's.
    argv = ("build", bare, "--site", "local", "-o", tmp_path / "no", "--base", made)
    said = stripped.run(*argv, "--set", f"base.release={OTHER}", code=3).stderr
    assert f"is not the base of this plan: its release is {RELEASE}" in said


# On an image: a package that Debian's smallest tree has not, and a step that looks for another.
ON_IMAGE = """\
schema: 1
name: onimage
version: "1.0"
summary: A package on top of an image, for tests
space_mb: 300
base:
  image: IMAGE
  system: {distribution: debian, release: RELEASE, source: these tests}
prefix: /opt/onimage
steps:
  - {name: system, os_packages: [bc]}
  - name: look
    shell: |
      apt-get update
      if apt-get install --yes cowsay; then exit 1; fi
exposes: [sh]
verify: {script: verify.py}
"""


@pytest.fixture
def on_image(debian: Repository, tmp_path: Path) -> Path:
    """Give a recipe on an image of its own, of the same layer."""
    digest = debian.push_again("12", tmp_path.name).digest
    folder = tmp_path / "a recipe on an image"
    folder.mkdir()
    text = ON_IMAGE.replace("IMAGE", f"{debian.image}@{digest}").replace("RELEASE", RELEASE)
    (folder / "recipe.yaml").write_text(text)
    (folder / "verify.py").write_text("")
    return folder


def test_a_bundle_with_its_image(
    world: World, stripped: World, debian: Repository, on_image: Path, tmp_path: Path
) -> None:
    air, argv = tmp_path / "air", (on_image, "--site", "local")
    world.run("fetch", *argv, "-o", air)
    lock = locks.read(air / "lock.json")
    names = {pin.name for pin in lock.os_pins}
    assert "bc" in names
    # The image has it: nothing of that is locked or fetched.
    assert not names & {"libc6", "bash", "apt"}
    digest = str(lock.base.image).partition("@")[2]
    debian.delete(digest)  # nobody can pull it now
    built = stripped.build(on_image, tmp_path / "out", "--offline", air)
    record = built.recorded()
    assert (record["base"]["digest"], record["lock"]) == (digest, lock.digest)
    listed = {part["name"] for part in json.loads(built.sbom.read_text())["components"]}
    assert {"bc", "libc6"} <= listed
    # One byte of the largest blob, a layer.
    blob = max((air / "base/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    with blob.open("r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    said = stripped.run("build", *argv, "-o", tmp_path / "no", "--offline", air, code=5).stderr
    assert f"base/blobs/sha256/{blob.name} has a wrong checksum" in said
    assert not (tmp_path / "no").exists()


@pytest.mark.long
def test_a_locked_build_on_an_image(
    world: World, debian: Repository, on_image: Path, tmp_path: Path
) -> None:
    """As `test_a_bundle_with_its_image`, pulled from the registry; then that has it no more."""
    path = tmp_path / "lock.json"
    argv = (on_image, "--site", "local")
    world.run("lock", *argv, "-o", path)
    assert world.run("lock", "--check", path, on_image).stdout == "nothing changed\n"
    built = world.build(on_image, tmp_path / "out", "--locked", path)
    lock = locks.read(path)
    assert built.recorded()["lock"] == lock.digest
    debian.delete(str(lock.base.image).partition("@")[2])
    assert "does not have this image" in world.run("lock", *argv, "-o", path, code=5).stderr


@pytest.mark.long
def test_a_bundle_with_its_base(
    world: World, stripped: World, tiny: Path, wheels: Path, tmp_path: Path
) -> None:
    """As `test_a_build_without_a_network`, and without apt: OS packages and a wheel."""
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    air = tmp_path / "air"
    world.having(PIP_FIND_LINKS=found).run("fetch", tiny, "--site", "local", "-o", air)
    built = stripped.build(tiny, tmp_path / "out", "--offline", air)
    assert stripped.checks(built.image)["import dlctiny"][0]
    record = air / "base/base.sqfs.json"
    record.write_text(record.read_text().replace('"locked": "', '"locked": "0')[:-1])
    argv = ("build", tiny, "--site", "local", "-o", tmp_path / "no", "--offline", air)
    assert "base.sqfs" in stripped.run(*argv, "--no-cache", code=3).stderr

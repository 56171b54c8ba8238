"""What a build step sees of variables: the same in each text by hand and in each engine's build.

A text or an engine that differed would compile the same recipe differently, and the two sides of
a comparison would be two programs.
"""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.engines.apptainer import BUILD_MODES, Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.image import sif
from dlcontainer.system.machine import read_host
from tests.integration import registries
from tests.integration.oci.conftest import Builder, one_engine
from tests.integration.oci.daemons import Service
from tests.integration.oci.test_by_hand import by_hand
from tests.integration.registries import Repository
from tests.integration.world import World, missing

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RECIPE = """\
schema: 1
name: seeing
version: "1.0"
summary: A step that writes down what it sees
space_mb: 300
base: BASE
prefix: /opt/seeing
steps:
  - name: first
    native: true
    shell: mkdir -p "$prefix"; env > "$prefix/first"
  - name: of-a-step
    environment: {OF_A_STEP: "1"}
  - name: second
    native: true
    shell: env > "$prefix/second"
exposes: [sh]
environment:
  CFLAGS: "-O2 -DX='a b' -DY=\\"c\\" $$d \\\\n,e"
  LD_LIBRARY_PATH: /opt/seeing/lib
  OWN: recipe
verify: {script: verify.py}
"""
WANTED = {
    "CFLAGS": "-O2 -DX='a b' -DY=\"c\" $d \\n,e",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": "/opt/seeing/lib",
    "OF_A_STEP": "1",
    "OWN": "recipe",
    "PATH": f"/opt/seeing/bin:{SYSTEM}",
}
# With all of the system's folders: Apptainer puts those that are missing behind a base's PATH.
OF_THE_BASE = (f"PATH=/opt/base/bin:{SYSTEM}", "BASE=it's a base", "OWN=base", "LC_ALL=C")
# With a base that sets variables: its own, but for what the recipe sets too.
ON_A_BASE = {
    **WANTED,
    "BASE": "it's a base",
    "LC_ALL": "C",
    "PATH": f"/opt/seeing/bin:/opt/base/bin:{SYSTEM}",
}
# What is no image's: of an engine, of a shell, of the routing; and where two kinds of hosts differ.
_OTHERS = re.compile(
    "APPTAINER_.*|SINGULARITY_.*|container|HOSTNAME|PROMPT_COMMAND|PS1|TERM|PWD|OLDPWD|SHLVL|_"
    "|PIP_.*|APT_CONFIG|GIT_SSL_CAINFO|.*_CA_BUNDLE|SSL_CERT_FILE|(?i:(https?|no|all)_proxy)"
    "|DEBIAN_FRONTEND|HOME"
)
# Of somebody who builds by hand: none of a step's business.
HOSTS = {"CFLAGS": "-O9", "CC": "gcc-1", "PYTHONPATH": "/planted", "OWN": "host", "LC_ALL": "C"}


def read(text: str) -> dict[str, str]:
    """Read what a step saw, without what is never an image's."""
    lines = dict(line.split("=", 1) for line in text.splitlines())
    return {name: value for name, value in sorted(lines.items()) if not _OTHERS.fullmatch(name)}


def in_sif(unsquashfs: str, image: Path, name: str) -> dict[str, str]:
    """Read it in a SIF."""
    part = sif.tree(image)
    argv = [unsquashfs, "-o", str(part.offset), "-cat", str(image), f"opt/seeing/{name}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return read(done.stdout)


def write(folder: Path, base: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE.replace("BASE", base, 1))
    (folder / "verify.py").write_text('print(\'{"ok": true, "what": "nothing"}\')\n')
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module", params=["distribution", "registry"])
def base(request: pytest.FixtureRequest) -> str:
    """Start from a distribution, then from an image that sets variables of its own."""
    return str(request.param)


@pytest.fixture(scope="module")
def wanted(base: str) -> dict[str, str]:
    return WANTED if base == "distribution" else ON_A_BASE


@pytest.fixture(scope="module")
def recipe(
    base: str,
    world: World,
    bare: Path,
    unsquashfs: str,
    fast: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Path:
    host = read_host({})
    folder = tmp_path_factory.mktemp("recipes") / "seeing"
    release = f"{{distribution: {host.distribution}, release: {host.release}}}"
    if base == "distribution":
        return write(folder, release)
    world.build(bare, world.folder / "for the base of steps")
    tree = fast / "tree of a base with variables"
    argv = [unsquashfs, "-q", "-n", "-d", str(tree), str(world.base())]
    subprocess.run(argv, check=True, capture_output=True)
    repository = Repository(address=request.getfixturevalue("address"), name="base/variables")
    layer = registries.layer_of(tree)
    pushed = repository.push(layer, OCI_ARCH[ARCH], tag="1", variables=OF_THE_BASE)
    shutil.rmtree(tree)
    system = release.replace("}", ", source: its files}")
    image = f"{repository.image}@{pushed.digest}"
    return write(folder, f"{{image: '{image}', system: {system}}}")


@pytest.fixture(scope="module")
def rendered(
    world: World, base: str, recipe: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Render all texts into folders."""
    folder = tmp_path_factory.mktemp("rendered")
    for form in ("apptainer", "dockerfile", *(["native"] if base == "distribution" else [])):
        with_base = ["--with-base"] if base == "distribution" and form != "native" else []
        options = ["-f", form, *with_base, "-o", f"{folder / form}/"]
        world.run("render", recipe, "--site", "local", *options)
    return folder


def test_the_own_build(
    world: World, recipe: Path, wanted: dict[str, str], unsquashfs: str, tmp_path: Path
) -> None:
    built = world.having(**HOSTS).build(recipe, tmp_path / "out", "--no-cache")
    assert in_sif(unsquashfs, built.image, "first") == wanted
    assert in_sif(unsquashfs, built.image, "second") == wanted


def test_a_definition_file_by_hand(
    world: World, rendered: Path, base: str, wanted: dict[str, str], engine: Apptainer,
    tried: EngineCapabilities, unsquashfs: str, tmp_path: Path,
) -> None:  # fmt: skip
    mode = [*BUILD_MODES[str(tried.build_mode)], *(["--no-https"] if base == "registry" else [])]
    image = tmp_path / "seeing.sif"
    argv = [str(engine.program), "build", *mode, "--notest", str(image), "apptainer.def"]
    by_hand(argv, rendered / "apptainer", APPTAINER_TMPDIR=world.environ["TMPDIR"], **HOSTS)
    assert in_sif(unsquashfs, image, "first") == wanted
    assert in_sif(unsquashfs, image, "second") == wanted


# No host has an image's libraries.
@pytest.mark.parametrize("base", ["distribution"], indirect=True, scope="module")
def test_a_native_twin_by_hand(rendered: Path, wanted: dict[str, str], tmp_path: Path) -> None:
    script = shutil.copyfile(rendered / "native/native.sh", tmp_path / "native.sh")
    target = tmp_path / "the twin's folder"
    by_hand(["sh", str(script), str(target)], tmp_path, **HOSTS)
    moved = {**wanted, "PATH": f"{target}/bin:{SYSTEM}"}
    assert read((target / "first").read_text()) == moved
    assert read((target / "second").read_text()) == moved


@one_engine("docker")
def test_an_engine_with_layers(
    plain: Builder, recipe: Path, wanted: dict[str, str], unsquashfs: str, tmp_path: Path
) -> None:
    # Only what an OCI image hands on to a SIF unchanged: no dollar, quote or backslash.
    setting = ("--set", "environment.CFLAGS=-O2 -DX='a b'")
    built = plain.build(recipe, tmp_path / "out", "--no-cache", *setting)
    own = {**wanted, "CFLAGS": "-O2 -DX='a b'"}
    assert in_sif(unsquashfs, built.image, "first") == own
    assert in_sif(unsquashfs, built.image, "second") == own


@one_engine("podman")
def test_a_dockerfile_by_hand(
    service: Service, rendered: Path, base: str, wanted: dict[str, str], tmp_path: Path
) -> None:
    program = shutil.which(service.kind)
    if program is None:
        missing(service.kind)
    call = [program, *(["--remote"] if service.kind == "podman" else [])]
    variables = {**service.variables, "DOCKER_BUILDKIT": "0", **HOSTS}
    plain = ["--tls-verify=false"] if (service.kind, base) == ("podman", "registry") else []
    tag = f"seeing-{base}:1.0"
    build = ["build", "--network", "host", "--no-cache", *plain, "-t", tag, "."]
    by_hand([*call, *build], rendered / "dockerfile", **variables)
    environ = {"PATH": os.environ["PATH"], "HOME": str(rendered), **variables}

    def said(*argv: str) -> str:
        done = subprocess.run([*call, *argv], env=environ, capture_output=True, check=True)
        return done.stdout.decode().strip()

    # Not run: where no rights are to be had, Podman's limits of a container can't be set.
    container = said("create", tag, "/bin/sh")
    try:
        archive = tmp_path / "tree.tar"
        said("export", "-o", str(archive), container)
    finally:
        said("rm", container)
    with tarfile.open(archive) as tree:
        for name in ("first", "second"):
            file = tree.extractfile(f"opt/seeing/{name}")
            assert file is not None
            assert read(file.read().decode()) == wanted
    # What is of steps alone is not in the image.
    assert "DEBIAN_FRONTEND" not in said("inspect", "--format", "{{json .Config.Env}}", tag)

"""Images of other makers: adopted, validated, published; those that can't be are refused."""

import hashlib
import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.engines import apptainer, execution
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.image import sif
from dlcontainer.system.machine import read_host
from dlcontainer.system.process import ProcessRunner
from tests import foreign
from tests.fakes import Quiet
from tests.integration import registries
from tests.integration.registries import Repository
from tests.integration.world import World

ARCH: Arch = read_host({}).arch  # type: ignore[assignment]
OWN = OCI_ARCH[ARCH]
PYTHON = f"python{sysconfig.get_python_version()}"


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another release of Debian, without labels, with a Python and a framework of its own."""
    folder = tmp_path_factory.mktemp("a foreign image")
    tree = foreign.with_python(foreign.skeleton(folder / "tree"))
    foreign.distribution(tree, foreign.PACKAGES, "jax", "0.4.1")
    (tree / "var/lib/dpkg").mkdir(parents=True)
    (tree / "var/lib/dpkg/status").write_text(
        "Package: libc6\nStatus: install ok installed\nVersion: 2.41-12\n\n"
    )
    (tree / "usr/bin/ompi_info").write_text("")
    (tree / "usr/lib/libmpi.so.40").write_text("")
    # A name that a shell, a listing or a terminal would read otherwise.
    (tree / "opt/it's $(touch HARM)\x1b[31m -> x").write_text("")
    path = folder / "debian.tar"
    foreign.oci(path, foreign.layer(tree), arch=OWN, env=("VENDOR=its own",))
    return path


@pytest.fixture(scope="module")
def adopted(debian: Path, world: World) -> dict[str, Any]:
    done = world.run(
        "adopt", debian, "--site", "local", "-o", world.folder / "adopted", "--json",
        "--command", "sha256sum", "--name", "vendor/24.1",
    )  # fmt: skip
    return dict(json.loads(done.stdout))


def refused(world: World, source: Path | str, output: Path, code: int, *more: str) -> str:
    """Try to adopt; nothing may lie there afterwards."""
    done = world.run("adopt", source, "--site", "local", "-o", output, *more, code=code)
    assert not output.exists() or list(output.iterdir()) == []
    assert "  next: " in done.stderr
    return done.stderr


def test_what_its_files_tell_is_recorded(adopted: dict[str, Any]) -> None:
    record = json.loads(Path(adopted["record"]).read_text())
    told = record["content"]["adopted"]
    assert (told["name"], told["version"], told["recipe"]) == ("vendor", "24.1", "unknown")
    assert told["verify"] == {"imports": {"jax": "0.4.1"}}
    assert told["exposes"] == ["python3", "sha256sum"]
    assert told["seen"]["mpi"] == [{"library": "/usr/lib/libmpi.so.40", "family": "openmpi"}]
    assert (told["seen"]["c_library"], told["seen"]["glibc"]) == ("glibc", "2.41-12")
    assert told["seen"]["packages"] == {"deb": 1, "pypi": 1}
    assert told["sets"] == ["PATH", "VENDOR"]
    assert "recipe" not in record["content"]
    assert record["trust"] is None
    assert not adopted["trusted"]


def test_validation_is_contained_and_says_what_does_not_apply(
    adopted: dict[str, Any], world: World
) -> None:
    body = json.loads(world.run("validate", adopted["image"], "--json").stdout)
    states = {check["name"]: (check["state"], check["detail"]) for check in body["checks"]}
    assert states["contained"][0] in ("ok", "not tried")
    assert states["import jax"][0] == "ok"
    assert states["host stays out"][0] == "ok"
    for name in ("verify", "no leftovers"):
        assert states[name][0] == "not tried"
        assert states[name][1].startswith("recipe unknown")
    assert "not tried  verify: " in world.run("validate", adopted["image"]).stdout


def test_published_once_trusted(adopted: dict[str, Any], world: World, tmp_path: Path) -> None:
    folder = shutil.copytree(Path(adopted["image"]).parent, tmp_path / "mine")
    image, root = folder / Path(adopted["image"]).name, tmp_path / "modules"
    publish = ("publish", image, "--site", "local", "--root", root)
    assert "nobody trusted it yet" in world.run(*publish, code=6).stderr
    assert not root.exists()
    again = ("adopt", image, "--site", "local")
    assert "was adopted already" in world.run(*again, code=2).stderr
    world.run(*again, "--trust")
    trust = json.loads(image.with_suffix(".json").read_text())["trust"]
    assert trust["by"] == read_host(world.environ).user
    assert "contained" not in world.checks(image)
    assert "module load vendor/24.1" in world.run(*publish).stdout
    version = (root / "modules/tcl/vendor/24.1").resolve().parent
    assert {path.name for path in (version / "bin").iterdir()} == {"python3", "sha256sum"}
    ask = [str(version / "bin/python3"), "-c", "import jax; print(jax.__file__)"]
    said = subprocess.run(ask, env=dict(world.environ), capture_output=True, text=True, check=True)
    assert said.stdout == f"{foreign.PACKAGES}/jax/__init__.py\n"


def test_a_record_whose_image_changed_is_not_trusted(
    adopted: dict[str, Any], world: World, tmp_path: Path
) -> None:
    folder = shutil.copytree(Path(adopted["image"]).parent, tmp_path / "mine")
    image = folder / Path(adopted["image"]).name
    with image.open("ab") as file:
        file.write(b"more")
    said = world.run("adopt", image, "--site", "local", "--trust", code=1).stderr
    assert "does not match its record" in said
    assert json.loads(image.with_suffix(".json").read_text())["trust"] is None


def test_its_layer_alone_is_refused_and_not_adopted_twice(
    adopted: dict[str, Any], world: World, tmp_path: Path
) -> None:
    # The record is gone: what is inside still says who made it.
    image = shutil.copy(adopted["image"], tmp_path / "x.sif")
    said = refused(world, image, tmp_path / "out", 1)
    assert "already has a /opt/dlcontainer" in said


@pytest.mark.long
def test_a_conda_layout(world: World, tmp_path: Path) -> None:
    tree = foreign.with_python(foreign.skeleton(tmp_path / "tree"), "/opt/conda")
    site = f"/opt/conda/lib/{PYTHON}/site-packages"
    foreign.distribution(tree, site, "torch", "2.1.0")
    (tree / "opt/conda/conda-meta").mkdir()
    (tree / "opt/conda/conda-meta/pytorch-2.1.0-0.json").write_text(
        json.dumps({"name": "pytorch", "version": "2.1.0", "build": "0"})
    )
    path = tmp_path / "conda.tar"
    digest = foreign.oci(path, foreign.layer(tree), arch=OWN, types=foreign.DOCKER)
    done = world.run("adopt", path, "--site", "local", "-o", tmp_path / "out", "--json")
    body = json.loads(done.stdout)
    told = json.loads(Path(body["record"]).read_text())["content"]["adopted"]
    assert (told["python"], told["prefix"]) == ("/opt/conda/bin/python3", "/opt/conda")
    assert told["digest"] == digest
    assert told["verify"] == {"imports": {"torch": "2.1.0"}}
    assert told["seen"]["packages"] == {"conda": 1, "pypi": 1}
    assert world.checks(Path(body["image"]))["import torch"][0]


def test_musl_and_no_python_are_refused(world: World, tmp_path: Path) -> None:
    tree = foreign.skeleton(tmp_path / "tree")
    foreign.oci(tmp_path / "none.tar", foreign.layer(tree), arch=OWN)
    assert "has no Python" in refused(world, tmp_path / "none.tar", tmp_path / "out", 1)
    (tree / f"usr/lib/ld-musl-{ARCH}.so.1").write_text("")
    foreign.oci(tmp_path / "musl.tar", foreign.layer(tree), arch=OWN)
    assert "has musl as its C library" in refused(world, tmp_path / "musl.tar", tmp_path / "out", 1)


def test_links_into_this_host_and_bombs_are_refused(
    debian: Path, world: World, tmp_path: Path
) -> None:
    canary = tmp_path / "this host"
    canary.mkdir()
    base = foreign.layer(foreign.skeleton(tmp_path / "tree"))
    given = {
        "engine": foreign.links(**{".singularity.d": str(canary)}),
        "opt": foreign.links(opt=str(canary)),
        "climbs": foreign.links(mnt="../../../" + str(canary)),
    }
    for name, layer in given.items():
        path = tmp_path / f"{name}.tar"
        foreign.oci(path, layer, arch=OWN)
        said = refused(world, path, tmp_path / "out", 1)
        assert "can't be unpacked here" in said
        assert "ask its publisher" not in said
    # Led within the image, where nothing is: what the engine makes takes its place.
    foreign.oci(tmp_path / "etc.tar", foreign.links(etc=str(canary)), arch=OWN)
    assert "has no Python" in refused(world, tmp_path / "etc.tar", tmp_path / "out", 1)
    foreign.oci(tmp_path / "own.tar", base, foreign.links(opt__dlcontainer=str(canary)), arch=OWN)
    said = refused(world, tmp_path / "own.tar", tmp_path / "out", 1)
    assert "already has a /opt/dlcontainer" in said
    # 1.2 GB of zeros in about a megabyte.
    foreign.oci(tmp_path / "bomb.tar", base + b"\0" * 1_200_000_000, arch=OWN)
    said = refused(world, tmp_path / "bomb.tar", tmp_path / "out", 1, "--most-gb", "1")
    assert "unpacks to more than 1 GB" in said
    assert list(canary.iterdir()) == []


def test_absolute_links_lead_within_the_image(debian: Path, world: World, tmp_path: Path) -> None:
    """As images of distributions and depots have them; the host's file is not touched."""
    host = tmp_path / "hosts"
    host.write_text("127.0.0.1 this-host")
    tree = Path(shutil.copytree(debian.parent / "tree", tmp_path / "tree", symlinks=True))
    (tree / "realhome").mkdir()
    (tree / "realhome/seen").write_text("in the image")
    (tree / "home").symlink_to("/realhome")
    (tree / "var/tmp").rmdir()
    (tree / "var/tmp").symlink_to("/tmp")
    (tree / "var/run").symlink_to("/run")
    (tree / "etc/mtab").symlink_to("/proc/mounts")
    (tree / "etc/resolv.conf").symlink_to("/run/systemd/resolve/stub-resolv.conf")
    (tree / "etc/hosts").symlink_to(host)
    foreign.oci(tmp_path / "linked.tar", foreign.layer(tree), arch=OWN)
    out = tmp_path / "out"
    words = ("--site", "local", "-o", out, "--name", "linked/1", "--json")
    done = world.run("adopt", tmp_path / "linked.tar", *words)
    image = json.loads(done.stdout)["image"]
    assert host.read_text() == "127.0.0.1 this-host"
    said = world.run("inspect", image, "--json").stdout
    assert "linked" in said
    listed = subprocess.run(
        ["unsquashfs", "-o", str(sif.tree(Path(image)).offset), "-lls", image],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in ("/home -> realhome", "/var/tmp -> ../tmp", "/var/run -> /run",
                 "/etc/mtab -> /proc/mounts", "/realhome/seen"):  # fmt: skip
        assert f"squashfs-root{line}\n" in listed
    assert "etc/resolv.conf ->" not in listed
    assert "etc/hosts ->" not in listed
    root = tmp_path / "sw"
    world.run("adopt", image, "--site", "local", "--trust")
    world.run("publish", image, "--site", "local", "--root", root, "--layout", "tree")
    assert list(root.glob("releases/*/*/realhome/seen"))
    assert host.read_text() == "127.0.0.1 this-host"


def test_archives_that_lie_and_files_that_are_none(
    debian: Path, world: World, tmp_path: Path
) -> None:
    blobs = [name for name in foreign.names(debian) if name.startswith("blobs/")]
    path = tmp_path / "lies.tar"
    foreign.spoiled(debian, path, {blobs[-1]: b"something else"})
    said = refused(world, path, tmp_path / "out", 5)
    assert re.search(r"expected: sha256:\w{64}\n +received: sha256:\w{64}", said)
    other = "ppc64le" if OWN != "ppc64le" else "amd64"
    foreign.oci(path, foreign.layer(foreign.skeleton(tmp_path / "t")), arch=other)
    assert "contains no image for" in refused(world, path, tmp_path / "out", 8)
    (tmp_path / "text").write_text("not an image\n" * 60)
    said = refused(world, tmp_path / "text", tmp_path / "out", 1)
    assert "neither a SIF nor an OCI archive" in said
    refused(world, tmp_path / "nothing", tmp_path / "out", 2)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield Repository(address=address, name="vendor/framework")


def test_an_image_of_a_registry(
    repository: Repository, debian: Path, world: World, tmp_path: Path
) -> None:
    layer = foreign.layer(debian.parent / "tree")
    own = repository.push(layer, OWN)
    other = "ppc64le" if OWN != "ppc64le" else "amd64"
    empty = repository.push(b"\0" * 10240, other)
    index = repository.push_index({other: empty, OWN: own}, tag="24.1")
    said = refused(world, f"{repository.image}:24.1", tmp_path / "out", 2)
    line = f"dlcontainer adopt {repository.image}:24.1@{index.digest} --site local"
    assert f"next: {line}" in said
    said = refused(world, f"{repository.image}@{empty.digest}", tmp_path / "out", 5)
    assert f"not available for linux/{OWN}" in said
    done = world.run(*line.split()[1:], "-o", tmp_path / "out", "--json")
    told = json.loads(Path(json.loads(done.stdout)["record"]).read_text())["content"]["adopted"]
    assert (told["name"], told["version"]) == ("framework", "24.1")
    assert told["digest"] == index.digest
    assert told["source"] == f"{repository.image}:24.1@{index.digest}"


def test_a_sif_of_another_maker(adopted: dict[str, Any], world: World, tmp_path: Path) -> None:
    """A SIF that Apptainer made of a tree: named by its SHA-256; nothing of it ran meanwhile."""
    tree = foreign.with_python(foreign.skeleton(tmp_path / "tree"))
    scripts = tree / ".singularity.d/env"
    scripts.mkdir(parents=True)
    canary = tmp_path / "canary"
    (scripts / "10-docker2singularity.sh").write_text(f"touch {canary}\n")
    image = tmp_path / "Vendor's image.sif"
    engine = apptainer.find(world.environ)
    quick = ("-comp", "lz4")
    mode = tried_mode(world)
    spec = BuildSpec(definition=str(tree), image=image, mode=mode, squash=quick)
    env = apptainer.environment(world.environ)
    subprocess.run(engine.build_argv(spec), check=True, capture_output=True, env=env)
    done = world.run("adopt", image, "--site", "local", "-o", tmp_path / "out", "--json")
    told = json.loads(Path(json.loads(done.stdout)["record"]).read_text())["content"]["adopted"]
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()
    assert (told["digest"], told["version"]) == (f"sha256:{sha256}", sha256[:12])
    assert told["name"] == "vendor-s-image"
    assert not canary.exists()


def tried_mode(world: World) -> str:
    return execution.prepare(
        apptainer.find(world.environ),
        read_host(world.environ),
        ProcessRunner(environ=world.environ),
        Path(world.environ["XDG_CACHE_HOME"]) / "dlcontainer",
        Quiet(),
    ).build_mode


@pytest.mark.long
def test_measured_contained(adopted: dict[str, Any], world: World, tmp_path: Path) -> None:
    out = tmp_path / "samples.jsonl"
    start = ("bench", "import", "--image", adopted["image"], "--site", "local", "--module", "jax")
    said = world.run(*start, "--pairs", "4", "-o", out, code=7).stderr
    assert "its recipe is unknown" in said
    world.run(*start, "--pairs", "4", "--arms", "unpacked,container", "-o", out)
    assert out.stat().st_size > 0

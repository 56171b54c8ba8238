"""A layer of packages on an image that is there: real engine and resolver, made-up wheels."""

import hashlib
import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import BuildSpec
from tests import foreign, wheelhouse
from tests.integration.world import Built, World
from tests.wheelhouse import Index

SITE = "local"


def pack(world: World, tried: EngineCapabilities, tree: Path, image: Path) -> Path:
    """Let the engine make a SIF of a tree, as a centre would."""
    spec = BuildSpec(
        definition=str(tree),
        image=image,
        mode=tried.build_mode or "plain",
        squash=("-comp", "lz4"),
    )
    subprocess.run(
        apptainer.find(world.environ).build_argv(spec),
        check=True,
        capture_output=True,
        env=apptainer.environment(world.environ),
    )
    return image


@pytest.fixture(scope="module")
def centre(
    tmp_path_factory: pytest.TempPathFactory, world: World, tried: EngineCapabilities
) -> Path:
    """A centre's own SIF: a Python with numpy and a package that no index has, and no pip."""
    folder = tmp_path_factory.mktemp("a centre's images")
    tree = foreign.with_python(foreign.skeleton(folder / "tree"))
    foreign.distribution(tree, foreign.PACKAGES, "numpy", "2.3.5")
    foreign.distribution(tree, foreign.PACKAGES, "secret_sauce", "1.0+centre")
    metadata = tree / foreign.PACKAGES.lstrip("/") / "secret_sauce-1.0+centre.dist-info/METADATA"
    with metadata.open("a") as file:
        file.write("Provides-Extra: hot\nRequires-Dist: einops; extra == 'hot'\n")
        file.write("Requires-Dist: gone-for-ever\n")
    return pack(world, tried, tree, folder / "Centre's image.sif")


@pytest.fixture(scope="module")
def user(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Give a user whose packages come from a folder, and from nowhere else."""
    above = tmp_path_factory.mktemp("packages")
    folder = wheelhouse.fill(above / "wheels", above / "mark")
    planted = {"numpy/__init__.py": "planted\n", "numpy/more.py": "", "helper.pth": "import os\n"}
    wheelhouse.wheel(folder, "evil", "1.0", modules=planted)
    start = "[console_scripts]\nsay-five = fives:say\n"
    wheelhouse.wheel(
        folder,
        "fives",
        "5.0",
        ["secret-sauce[hot]>=1", "numpy>=2"],
        modules={
            "fives/__init__.py": "__version__ = '5.0'\ndef say():\n    print(5)\n",
            "fives-5.0.dist-info/entry_points.txt": start,
        },
    )
    return world.having(PIP_FIND_LINKS=folder, PIP_NO_INDEX="1")


def words(image: Path, folder: Path, *lines: str) -> list[str | Path]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "extra.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return ["extend", image, "-r", path, "--site", SITE, "-o", folder / "out"]


def refused(user: World, image: Path, folder: Path, code: int, *lines: str) -> str:
    """Try to extend; nothing may lie there afterwards, and the message says what to do."""
    done = user.run(*words(image, folder, *lines), code=code)
    assert not (folder / "out").exists() or list((folder / "out").iterdir()) == []
    assert "  next: " in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def layered(centre: Path, user: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `extend --json` said of a layer on the centre's SIF."""
    folder = tmp_path_factory.mktemp("layered")
    return dict(json.loads(user.run(*words(centre, folder, "fives"), "--json").stdout))


def test_a_layer_on_a_centre_s_image(centre: Path, layered: dict[str, Any], user: World) -> None:
    body, before = layered, hashlib.sha256(centre.read_bytes()).hexdigest()
    image, record = Path(body["image"]), json.loads(Path(body["record"]).read_text())
    assert body["packages"] == ["einops==1.0", "fives==5.0"]
    assert record["image"]["sha256"] == body["sha256"]
    assert (body["modules"], body["commands"], body["trusted"]) == (["fives"], ["say-five"], False)
    assert image.name.startswith("centre-s-image-extra-")
    assert record["base"] == {
        "sha256": before,
        "tree_sha256": record["content"]["extended"]["base"]["tree_sha256"],
        "path": str(centre),
        "record": None,
        "signed": False,
    }
    states = {
        check["name"]: (check["state"], check["detail"])
        for check in json.loads(user.run("validate", image, "--json").stdout)["checks"]
    }
    assert states["contained"][0] in ("ok", "not tried")
    assert states["verify"] == ("ok", "imports of fives")
    assert states["import fives"][1].startswith("5.0 from ")
    bill = json.loads(user.run("inspect", image, "--sbom").stdout)
    parts = {
        component["name"]: {one["name"]: one["value"] for one in component["properties"]}
        for component in bill["components"]
    }
    assert {name: part["org.dlcontainer.part"] for name, part in parts.items()} == {
        "numpy": "base",
        "secret_sauce": "base",
        "einops": "layer",
        "fives": "layer",
    }
    said = user.run("inspect", image).stdout
    assert f"{centre}, sha256:{before}" in said
    assert "fives==5.0" in said
    assert "the bill of materials lists" not in said


def test_published_once_trusted(centre: Path, user: World, tmp_path: Path) -> None:
    made = json.loads(
        user.run(*words(centre, tmp_path, "fives"), "--name", "own/7", "--json").stdout
    )
    publish = ("publish", made["image"], "--site", SITE, "--root", tmp_path / "root")
    assert "nobody trusted it yet" in user.run(*publish, code=6).stderr
    user.run("adopt", made["image"], "--site", SITE, "--trust")
    user.run(*publish)
    version = (tmp_path / "root/modules/tcl/own/7").resolve().parent
    ask = [str(version / "bin/say-five")]
    said = subprocess.run(ask, env=dict(user.environ), capture_output=True, text=True, check=True)
    assert said.stdout == "5\n"


def test_a_layer_on_one_of_ours(tiny_image: Built, user: World, tmp_path: Path) -> None:
    argv = words(tiny_image.image, tmp_path, "einops")
    body = json.loads(user.run(*argv, "--json").stdout)
    record = json.loads(Path(body["record"]).read_text())
    assert body["trusted"]
    assert Path(body["image"]).name == "tiny-extra-1.0-local.sif"
    below = record["content"]["extended"]["base"]
    assert below["digest"] == tiny_image.recorded()["digest"] == record["base"]["record"]
    proofs = record["base_verify"]
    assert [proof["recipe"] for proof in proofs] == ["tiny"]
    assert proofs[0]["before"] == proofs[0]["after"] == "answer: answer 42"
    checks = user.checks(Path(body["image"]))
    assert checks["verify tiny"] == (True, "answer: answer 42")
    assert checks["verify"] == (True, "imports of einops")
    assert checks["no leftovers"][0]
    assert "contained" not in checks
    # Once more: nothing is written over, and a second layer comes over the first.
    assert "is there already" in user.run(*argv, code=2).stderr
    again = json.loads(
        user.run(*words(Path(body["image"]), tmp_path / "two", "m-old"), "--json").stdout
    )
    checks = user.checks(Path(again["image"]))
    assert {"verify tiny", "verify tiny-extra", "verify"} <= checks.keys()


def test_nothing_of_the_base_is_replaced(centre: Path, user: World, tmp_path: Path) -> None:
    said = refused(user, centre, tmp_path, 8, "evil")
    assert "evil 1.0: " in said
    assert f"{foreign.PACKAGES}/numpy" in said or "numpy/more.py" in said
    assert "helper.pth runs at each start of Python" in said


def test_what_contradicts_the_base_names_it(centre: Path, user: World, tmp_path: Path) -> None:
    said = refused(user, centre, tmp_path / "a", 8, "numpy<2.3")
    assert "numpy<2.3 contradicts numpy==2.3.5 of the base" in said
    assert "extra.txt:1" in said
    said = refused(user, centre, tmp_path / "b", 8, "oldnum")
    assert f"(Centre's image.sif:{foreign.PACKAGES})" in said
    said = refused(user, centre, tmp_path / "c", 2, "numpy")
    assert "has all packages of extra.txt already" in said


def test_what_can_t_be_extended(
    centre: Path, world: World, tried: EngineCapabilities, user: World, tmp_path: Path
) -> None:
    plain = pack(world, tried, foreign.skeleton(tmp_path / "tree"), tmp_path / "plain.sif")
    assert "has no Python" in refused(user, plain, tmp_path / "a", 1, "einops")
    other = bytearray(centre.read_bytes())
    other[45:48] = b"06\0"  # its header's architecture: ppc64le
    (tmp_path / "other.sif").write_bytes(other)
    said = refused(user, tmp_path / "other.sif", tmp_path / "b", 8, "einops")
    assert "is for ppc64le" in said
    (tmp_path / "docker.tar").write_bytes(b"a tar of docker save" * 99)
    said = refused(user, tmp_path / "docker.tar", tmp_path / "c", 8, "einops")
    assert "is not a SIF" in said
    argv = words(centre, tmp_path / "d", "einops")
    assert "Docker and Podman" in user.run(*argv, "--engine", "docker", code=8).stderr
    assert "can't read" in user.run(*words(tmp_path / "none.sif", tmp_path, "x"), code=2).stderr


def test_an_image_of_ours_without_its_record(
    tiny_image: Built, user: World, tmp_path: Path
) -> None:
    alone = Path(shutil.copy(tiny_image.image, tmp_path / "alone.sif"))
    said = refused(user, alone, tmp_path / "a", 1, "einops")
    assert "save its record beside it as alone.json" in said
    shutil.copy(tiny_image.record, tmp_path / "alone.json")
    with alone.open("ab") as file:
        file.write(b"more")
    assert "does not match its record" in refused(user, alone, tmp_path / "b", 1, "einops")


@contextmanager
def interrupted_by(folder: Path, act: Callable[[], Any]) -> Iterator[Index]:
    """Serve wheels; at the first question something happens."""
    pending = [act]
    with wheelhouse.serving(folder) as index:
        page = index.page

        def asked(name: str) -> bytes | None:
            if pending:
                pending.pop()()
            return page(name)

        index.page = asked  # type: ignore[method-assign]
        yield index


def test_an_image_that_changes_meanwhile(centre: Path, world: World, tmp_path: Path) -> None:
    image = Path(shutil.copy(centre, tmp_path / "moving.sif"))
    folder = wheelhouse.fill(tmp_path / "wheels", tmp_path / "mark")

    def write() -> None:
        with image.open("ab") as file:
            file.write(b"more")

    with interrupted_by(folder, write) as index:
        served = world.having(PIP_INDEX_URL=index.url, PIP_FIND_LINKS="")
        said = refused(served, image, tmp_path, 1, "einops")
    assert "moving.sif changed while it was extended" in said


def test_ctrl_c_leaves_nothing(centre: Path, world: World, tmp_path: Path) -> None:
    folder = wheelhouse.fill(tmp_path / "wheels", tmp_path / "mark")
    argv = words(centre, tmp_path, "einops")
    running: list[subprocess.Popen[str]] = []
    with interrupted_by(folder, lambda: running[0].send_signal(signal.SIGINT)) as index:
        environ = {**world.environ, "PIP_INDEX_URL": index.url, "PIP_FIND_LINKS": ""}
        running.append(
            subprocess.Popen(
                [*world.program, *map(str, argv)],
                env=environ,
                stderr=subprocess.PIPE,
                text=True,
                cwd=world.folder,
            )
        )
        said = running[0].communicate()[1]
    assert running[0].returncode == 130, said
    assert list((tmp_path / "out").iterdir()) == []


def test_two_at_once(centre: Path, user: World, tmp_path: Path) -> None:
    argv = words(centre, tmp_path, "einops")
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(user.run(*argv, code=None).returncode))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 2]
    kinds = sorted(path.suffix for path in (tmp_path / "out").iterdir())
    assert kinds == [".json", ".json", ".sif"]
    (image,) = (tmp_path / "out").glob("*.sif")
    user.checks(image)

"""Images of somebody who means harm, given to the real command: nothing of ours is touched."""

import hashlib
import json
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.image import sif
from tests.integration.world import Built, World
from tests.sifs import TREE, read_sif, write_sif
from tests.values import ROOT

SECRET = "the publisher's private key"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Give a folder of the publisher's with a key and some work."""
    folder = tmp_path / "victim"
    (folder / ".ssh").mkdir(parents=True)
    key = folder / ".ssh/id_ed25519"
    key.write_text(SECRET)
    key.chmod(0o600)
    (folder / "work.txt").write_text("work")
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Describe all of a folder: kinds and modes, times, contents."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        info = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (info.st_mode, info.st_mtime_ns, data)
    return found


def forged(image: Built, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change a record's content and make digest and image fit, as an image's author could."""
    body = image.recorded()
    old = body["digest"]
    change(body["content"])
    text = json.dumps(body["content"], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    body["digest"] = hashlib.sha256(text.encode()).hexdigest()
    data = relabelled(image.image, old, body["digest"])
    body["image"] |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    image.record.write_text(json.dumps(body))
    return image.image


def relabelled(image: Path, old: str, new: str) -> bytes:
    """Write another digest into an image, wherever the old one stands."""
    with tempfile.TemporaryDirectory() as name:
        tree, packed = Path(name, "tree"), Path(name, "packed")
        argv = ["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-d", str(tree)]
        argv += ["-o", str(sif.tree(image).offset), str(image)]
        assert subprocess.run(argv, capture_output=True, check=False).returncode in (0, 2)
        for path in (tree / ".singularity.d/labels.json", tree / "opt/dlcontainer/manifest.json"):
            text = path.read_text()
            assert old in text
            path.write_text(text.replace(old, new))
        argv = ["mksquashfs", str(tree), str(packed), "-quiet", "-no-progress", "-comp", "gzip"]
        subprocess.run([*argv, "-Xcompression-level", "1"], check=True, capture_output=True)
        parts = [
            (kind, name, packed.read_bytes() if kind == TREE[0] else data, extra)
            for kind, name, data, extra in read_sif(image)
        ]
    digests = old.encode(), new.encode()
    parts = [(kind, name, data.replace(*digests), extra) for kind, name, data, extra in parts]
    return write_sif(image, parts).read_bytes()


def test_a_forged_image_is_a_good_image(world: World, as_built: Built, tmp_path: Path) -> None:
    """Nothing but the names in it is wrong with what these tests forge."""
    image = forged(as_built, lambda content: content.update(epoch="harmless"))
    root = tmp_path / "root"
    site = tmp_path / "local.yaml"
    written = (ROOT / "site-configs/local.yaml").read_text()
    changes = "changes: {modules: {bind_home: false}}"
    epochs = f"epoch: harmless\nepochs:\n  harmless: {{summary: An epoch, {changes}}}"
    site.write_text(f"{written}\n{epochs}\n")
    world.run("publish", image, "-s", site, "--root", root)
    assert (_release(root, "1.0-harmless") / "image.sif").is_file()
    done = world.run("publish", image, "-s", "local", "--root", root, code=6)
    assert "the image is for local@harmless, which is not in the site config" in done.stderr


@pytest.mark.parametrize(
    ("key", "there"),
    [
        # Upwards, as the node type leads; an absolute path is another matter.
        pytest.param("epoch", "/../../../../victim", marks=pytest.mark.long),
        ("node_type", "/../../pytorch/9.9"),
        ("epoch", "/{}"),
    ],
)
def test_a_record_that_leads_elsewhere(
    world: World, as_built: Built, victim: Path, tmp_path: Path, key: str, there: str
) -> None:
    root = tmp_path / "root"
    (root / "releases/1.0-").mkdir(parents=True)
    before, ours = snapshot(victim), snapshot(root)
    image = forged(as_built, lambda content: content.update({key: there.format(victim)}))
    done = world.run("publish", image, "-s", "local", "--root", root, code=6)
    assert f"invalid record: content.{key}" in done.stderr
    assert (snapshot(victim), snapshot(root)) == (before, ours)


def test_links_beside_the_image(
    world: World, as_built: Built, victim: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    before = snapshot(victim)
    for path in (as_built.log, as_built.sbom, as_built.record):
        data = path.read_bytes()
        path.unlink()
        path.symlink_to(victim / ".ssh/id_ed25519")
        done = world.run("publish", as_built.image, "-s", "local", "--root", root, code=6)
        assert f"{path} can't be published" in done.stderr
        assert "symbolic link" in done.stderr
        path.unlink()
        path.write_bytes(data)
    assert not [path for path in root.rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert snapshot(victim) == before


def test_the_whole_way(world: World, as_built: Built, victim: Path, tmp_path: Path) -> None:
    """Publish through a link, damage what is published, take it back, publish again."""
    root, link = tmp_path / "root's (own)", tmp_path / "latest.sif"
    link.symlink_to(as_built.image)
    before = snapshot(victim)

    def publish(code: int = 0) -> str:
        done = world.run("publish", link, "-s", "local", "--root", root, code=code)
        return done.stdout + done.stderr

    publish()
    folder = _release(root, "1.0")
    assert "already published, identical" in publish()
    assert _sums(folder) == 0
    with (folder / "image.sif").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"?")
    said = publish(6)
    assert "the published release of tiny/1.0 is damaged" in said
    assert f"{folder}/image.sif: " in said
    (folder / "victim").symlink_to(victim)
    hide = shlex.split(said.partition("hide it: ")[2].splitlines()[0])
    assert hide[0] == "dlcontainer"
    world.run(*hide[1:])
    remove = said.partition("uses it any more: ")[2].splitlines()[0]
    subprocess.run(["/bin/sh", "-c", remove], check=True)
    assert "module load tiny/1.0" in publish()
    assert _sums(folder) == 0
    assert not (folder / "victim").exists()
    assert snapshot(victim) == before


def _release(root: Path, version: str) -> Path:
    return (root / "modules/tcl/tiny" / version).resolve().parent


def _sums(folder: Path) -> int:
    argv = ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"]
    return subprocess.run(argv, cwd=folder, check=False).returncode

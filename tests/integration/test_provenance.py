"""What an image says of itself, with the real engine: bill, provenance, inspect, diff, bits."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.image import sif
from tests.integration.world import Built, World
from tests.sifs import write_sif

# The site `local` takes the distribution of its host for its bases.
SYSTEM = platform.freedesktop_os_release()

MOMENT = 1_700_000_000


def inspect(world: World, image: Path) -> dict[str, Any]:
    return dict(json.loads(world.run("inspect", image, "--json").stdout))


def inside(image: Path, unsquashfs: str, path: str) -> str:
    part = sif.tree(image)
    argv = [unsquashfs, "-o", str(part.offset), "-cat", str(image), path.lstrip("/")]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_one_bill_in_three_places(tiny_image: Built, unsquashfs: str, world: World) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    image = tiny_image.image
    beside = Path(tiny_image.body["sbom"])
    assert beside == image.with_name("tiny-1.0-local.cdx.json")
    text = beside.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert inside(image, unsquashfs, "/opt/dlcontainer/sbom.cdx.json") == text
    (part,) = [part for part in sif.parts(image) if part.kind == "sbom"]
    assert sif.read(image, part).decode() == text
    assert world.run("inspect", image, "--sbom").stdout == text
    components = {one["name"]: one for one in json.loads(text)["components"]}
    wheel = {one["name"]: one["sha256"] for one in tiny_image.recorded()["python_packages"]}
    (found,) = components["dlctiny"]["hashes"]
    assert found["content"] == wheel["dlctiny"]
    assert components["libc6"]["purl"].startswith(f"pkg:deb/{SYSTEM['ID']}/libc6@2.")
    assert f"distro={SYSTEM['ID']}-{SYSTEM['VERSION_ID']}" in components["libc6"]["purl"]


def test_the_engine_finds_the_bill(tiny_image: Built, engine: Apptainer) -> None:
    argv = [str(engine.program), "sif", "list", str(tiny_image.image)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "SBOM (cyclonedx-json)" in said


def test_provenance(tiny_image: Built, unsquashfs: str, world: World, tiny: Path) -> None:
    text = inside(tiny_image.image, unsquashfs, "/opt/dlcontainer/provenance.json")
    body, recorded = json.loads(text), tiny_image.recorded()
    assert body["plan"]["digest"] == recorded["digest"]
    assert body["base"]["sha256"] == recorded["base"]["sha256"]
    rendered = world.run("render", tiny, "--site", "local").stdout
    assert body["text"]["rendered"] == rendered
    assert body["text"]["sha256"] == hashlib.sha256(rendered.encode()).hexdigest()
    assert body["tools"]["mmdebstrap"].startswith("mmdebstrap")
    assert body["tools"]["mksquashfs"].startswith("mksquashfs version")
    assert body["recipe"]["git"] is None
    assert {key: value for key, value in body.items() if key != "plan"} == recorded["provenance"]
    for private in (str(world.folder), world.environ["HOME"], "PIP_"):
        assert private not in text


def test_the_commit_of_the_recipes(
    world: World, bare: Path, tmp_path: Path, unsquashfs: str
) -> None:
    recipes = tmp_path / "recipes"
    shutil.copytree(bare, recipes / "bare")
    git = ["git", "-C", str(recipes), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, env=dict(world.environ))
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "elsewhere"], check=True)
    built = world.build(recipes / "bare", tmp_path / "out")
    assert built.recorded()["provenance"]["recipe"]["git"] == {"commit": head, "dirty": False}
    (recipes / "bare" / "note.txt").write_text("another\n")
    built = world.build(recipes / "bare", tmp_path / "out")
    said = inside(built.image, unsquashfs, "/opt/dlcontainer/provenance.json")
    assert json.loads(said)["recipe"]["git"] == {"commit": head, "dirty": True}


def test_inspect(tiny_image: Built, world: World) -> None:
    body = inspect(world, tiny_image.image)
    assert body["schema"] == "dlcontainer/inspect/1"
    assert (body["arch"], body["notes"], body["sbom"]) == (os.uname().machine, [], True)
    assert body["manifest"]["digest"] == tiny_image.body["digest"]
    assert body["environment"]["PATH"].startswith("/opt/tiny/bin:/usr/local/sbin")
    assert body["labels"]["org.opencontainers.image.title"] == "tiny"
    names = {package["name"] for package in body["contents"]["packages"]}
    assert {"dlctiny", "libc6", "python3"} <= names
    assert body["contents"]["folders"]["/opt/tiny"] > 1_000_000
    steps = ["system", "wheel", "pack", "image"]
    assert [step["name"] for step in body["record"]["work"]] == steps
    said = world.run("inspect", tiny_image.image).stdout
    assert "plan       tiny 1.0 for local, sha256:" in said
    assert f"base       {SYSTEM['ID']} {SYSTEM['VERSION_ID']}, sha256:" in said
    assert "  PATH=/opt/tiny/bin:" in said
    assert "dlctiny" in world.run("inspect", tiny_image.image, "--packages").stdout


def test_diff(tiny_image: Built, world: World, bare: Path, tmp_path: Path) -> None:
    other = world.build(bare, tmp_path)
    body = json.loads(world.run("diff", tiny_image.image, other.image, "--json").stdout)
    assert (body["schema"], body["same"]) == ("dlcontainer/diff/1", False)
    gone = {one["name"] for one in body["packages"] if not one["after"]}
    assert {"pypi:dlctiny", "deb:python3"} <= gone
    assert "BARE" in {one["name"] for one in body["environment"]}
    said = world.run("diff", tiny_image.image, other.image).stdout
    assert "pypi:dlctiny" in said
    assert re.search(r"BARE +added +- -> a b'c", said)
    same = world.run("diff", other.image, other.image).stdout
    assert same == "the same, bit by bit\n"
    assert world.run("diff", "--bits", other.image, other.image).stdout == "the same, bit by bit\n"


def test_two_builds_of_one_plan_are_two_images(world: World, bare: Path, tmp_path: Path) -> None:
    """`publish` refuses the second under the first one's name: `diff` says what differs."""
    one, two = (world.build(bare, tmp_path / name, "--no-cache") for name in ("one", "two"))
    assert one.body["sha256"] != two.body["sha256"]
    body = json.loads(world.run("diff", one.image, two.image, "--json").stdout)
    assert (body["same"], body["identical"]) == (False, False)
    assert {"finished", "sha256"} <= {change["name"] for change in body["record"]}
    assert "the head" in body["parts"]
    said = world.run("diff", one.image, two.image).stdout
    assert said.startswith("two images of one plan, built apart: packages, sizes, ")
    assert "finished" in said


def test_what_is_no_image_of_ours(
    engine: Apptainer, world: World, bare: Path, tmp_path: Path
) -> None:
    """An image that the engine built alone: all that its files tell, and what it lacks."""
    world.build(bare, tmp_path / "first")
    base = next(Path(world.environ["XDG_CACHE_HOME"]).glob("dlcontainer/bases/*/base.sqfs"))
    image = tmp_path / "foreign.sif"
    size = str(base.stat().st_size)
    for words in (
        ["sif", "new", str(image)],
        ["sif", "add", *sif.part_options(os.uname().machine)["tree"], str(image), str(base)],
    ):
        subprocess.run([str(engine.program), *words], check=True, capture_output=True)
    body = inspect(world, image)
    assert size == str(body["parts"][0]["size"])
    assert (body["manifest"], body["record"], body["sbom"]) == (None, None, False)
    assert "not an image of dlcontainer" in body["notes"][0]
    assert "libc6" in {package["name"] for package in body["contents"]["packages"]}
    done = world.run("inspect", image, "--sbom", code=1)
    assert "contains no bill of materials" in done.stderr


@pytest.mark.parametrize("command", ["inspect", "diff", "diff --bits"])
def test_cut_and_none(command: str, as_built: Built, world: World, tmp_path: Path) -> None:
    words = command.split()
    more = [as_built.image] if "diff" in words else []
    text = tmp_path / "no image.sif"
    text.write_text("text\n")
    assert "is not a SIF image" in world.run(*words, text, *more, code=1).stderr
    hollow = write_sif(tmp_path / "hollow.sif")
    assert "can't read the file tree" in world.run(*words, hollow, *more, code=1).stderr
    os.truncate(as_built.image, as_built.image.stat().st_size // 2)
    done = world.run(*words, as_built.image, *more, code=1)
    assert "is truncated or damaged" in done.stderr


def test_a_moment_that_is_none(world: World, bare: Path, tmp_path: Path) -> None:
    done = world.having(SOURCE_DATE_EPOCH="now").run(
        "build", bare, "--site", "local", "-o", tmp_path, code=3
    )
    assert "SOURCE_DATE_EPOCH='now' is not a time" in done.stderr


@pytest.mark.long  # two whole builds; the faults' builds are compared by their bits too
def test_two_builds_of_one_moment_are_the_same_bits(
    world: World, tiny: Path, wheels: Path, tmp_path: Path
) -> None:
    """Each step is run again for the second: nothing but the base is the same file."""
    links = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    dated = world.having(SOURCE_DATE_EPOCH=str(MOMENT), PIP_FIND_LINKS=links)
    images = [dated.build(tiny, tmp_path / n, "--no-cache").image for n in ("one", "two")]
    said = world.run("diff", "--bits", *images).stdout
    assert said == "the same, bit by bit\n"
    digests = {hashlib.sha256(image.read_bytes()).hexdigest() for image in images}
    assert len(digests) == 1


def test_bits_name_what_differs(world: World, bare: Path, tmp_path: Path) -> None:
    """The same recipe with another file in it, and another moment."""
    changed = tmp_path / "changed"
    shutil.copytree(bare, changed)
    (changed / "note.txt").write_text("another note\n")
    images = [
        world.having(SOURCE_DATE_EPOCH=str(moment)).build(recipe, tmp_path / name).image
        for recipe, name, moment in ((bare, "one", MOMENT), (changed, "two", MOMENT + 60))
    ]
    body = json.loads(world.run("diff", "--bits", *images, "--json").stdout)
    assert (body["schema"], body["same"]) == ("dlcontainer/bits/1", False)
    files = {one["path"]: one["how"] for one in body["files"]}
    assert files["/opt/bare/note.txt"] == ["content", "time"]
    assert files["/opt/dlcontainer/manifest.json"] == ["content", "time"]
    assert "/usr/bin/env" not in files  # older than both moments
    assert "the head" in {one["path"] for one in body["parts"]}

"""`validate --static` against real tools: an image of our own, a stranger's SIF, glibc's loader."""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dlcontainer.config.field_types import Arch
from dlcontainer.image.contents import TreeEntry, elf
from dlcontainer.image.contents.elf import ElfObject
from dlcontainer.validate.static import loader_settings
from dlcontainer.validate.static.loader import LoaderSearch
from tests import sifs, unpacked
from tests.integration.world import Built, World
from tests.skips import skip

# Programs and libraries of this host that are compared, spread over all of them.
_MOST = 150


def test_an_image_of_our_own(tiny_image: Built, world: World) -> None:
    done = world.run("validate", tiny_image.image, "--static", "--site", "local", "--json")
    body = json.loads(done.stdout)
    assert body["ok"]
    assert [one for one in body["findings"] if one["level"] == "warning"] == []
    # No engine: what reads the tree is all that it needs.
    program = shutil.which("unsquashfs", path=world.environ["PATH"])
    assert program is not None
    alone = world.having(PATH=Path(program).parent)
    assert alone.run("validate", tiny_image.image, "--static", "--site", "local").stdout


def test_a_sif_that_another_engine_made(world: World, tmp_path: Path) -> None:
    program = shutil.which("mksquashfs", path=world.environ["PATH"])
    if program is None:
        skip("no mksquashfs: apt-get install squashfs-tools")
    tree, packed = unpacked.broken(tmp_path / "tree"), tmp_path / "tree.sqfs"
    subprocess.run([program, tree, packed, "-quiet", "-no-progress"], check=True)
    part = (0x4004, "squashfs-1.sif", packed.read_bytes(), struct.pack("<2i3s", 1, 2, b"02\0"))
    image = sifs.write_sif(tmp_path / "theirs.sif", [part])
    told = [
        json.loads(
            world.run("validate", path, "--static", "--site", "frontier", "--json", code=1).stdout
        )
        for path in (image, tree)
    ]
    assert told[0]["findings"] == told[1]["findings"]
    assert {one["level"] for one in told[0]["findings"]} == {
        *("error", "warning", "not decided", "note")
    }


def test_the_level_that_a_real_linker_writes(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None or _arch() != "x86_64":
        skip("no gcc for x86_64: apt-get install gcc")
    source = tmp_path / "x.c"
    source.write_text("int x(void) { return 1; }\n")
    levels: list[int] = []
    for words in ([], *(["-z", f"x86-64-v{level}"] for level in (2, 3, 4))):
        library = tmp_path / f"lib{len(levels)}.so"
        options = ["-shared", "-fPIC", *(f"-Wl,{word}" for word in words)]
        subprocess.run([compiler, *options, "-o", library, source], check=True)
        described = elf.read_object(library)
        assert described is not None
        levels.append(described.x86_level)
    assert levels[0] <= 1
    assert levels[1:] == [2, 3, 4]


@pytest.fixture(scope="module")
def host_tree() -> Mapping[str, TreeEntry]:
    """List what the loader may meet on this host."""
    links = [path for path in map(Path, ("/lib", "/lib64", "/bin", "/sbin")) if path.is_symlink()]
    top = [TreeEntry(path="/usr", kind="d", size=0), *map(_link, links)]
    return {entry.path: entry for entry in (*top, *_listed("/usr"))}


def _link(path: Path) -> TreeEntry:
    return TreeEntry(path=str(path), kind="l", size=0, target=str(path.readlink()))


def _listed(folder: str) -> Iterator[TreeEntry]:
    for name, folders, files in os.walk(folder):
        for child in (*folders, *files):
            path = Path(name, child)
            if path.is_symlink():
                yield _link(path)
            elif path.is_dir() or path.is_file():
                size = path.stat().st_size
                yield TreeEntry(path=str(path), kind="d" if path.is_dir() else "-", size=size)


def test_the_search_meets_what_the_loader_meets(host_tree: Mapping[str, TreeEntry]) -> None:
    """Each library of each file is the one that ldd names, and those that it misses are missed."""
    objects = {
        entry.path: described
        for entry in host_tree.values()
        if entry.kind == "-"
        and (elf.is_library(entry) or "/bin/" in entry.path)
        and (described := _read(entry.path))
    }
    cache = Path(loader_settings.CACHE).read_text(errors="replace")
    search = LoaderSearch(
        entries=host_tree,
        objects=objects,
        unreadable=frozenset(),
        folders=loader_settings.read({loader_settings.CACHE: cache}, {}, host_tree, _arch()),
    )
    paths, compared = sorted(objects), 0
    for path in paths[:: max(1, len(paths) // _MOST)]:
        told = _ldd(path)
        if told is None:
            continue
        loaded = search.loaded(path)
        ours: dict[str, str | None] = {
            **{missing.need.library: None for missing in loaded.missing},
            **{need.library: target for need, target in loaded.edges.items()},
        }
        assert {name: place for name, place in ours.items() if name in told} == told, path
        compared += 1
    assert compared > _MOST // 3


def _read(path: str) -> ElfObject | None:
    try:
        return elf.read_object(Path(path))
    except (OSError, ValueError):
        return None


def _arch() -> Arch:
    machine = os.uname().machine
    arch = next((arch for arch in loader_settings.TRIPLES if arch == machine), None)
    if arch is None:
        skip(f"{machine} is no architecture of images", elsewhere="another processor")
    return arch


def _ldd(path: str) -> dict[str, str | None] | None:
    """Return what glibc's own loader resolves; None for what it does not take."""
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run(["ldd", path], capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        return None
    told: dict[str, str | None] = {}
    for line in done.stdout.splitlines():
        name, arrow, place = line.strip().partition(" => ")
        if arrow and "/" not in name and not name.startswith("ld-linux"):
            is_missing = place.startswith("not found")
            told[name] = None if is_missing else os.path.realpath(place.split()[0])
    return told

"""Files in the order of a trace, in a real image; the trace is of a real command."""

import json
from pathlib import Path

import pytest

from dlcontainer.image import open_trace, sif
from dlcontainer.image.open_trace import Trace
from dlcontainer.system.machine import find_program
from tests.integration.world import World, missing, write_bare

# What does not compress lies in the image as it is, and can be found there.
NAMES = ("a first", "#b", "c\\d", "it's", "ünï", "z last")
# Larger than a block of the image: the first block of each file holds nothing else, and noise stays
# as it is there.
WORK = """\
mkdir -p "/opt/made/in here"
cd "/opt/made/in here"
for name in 'a first' '#b' 'c\\d' "it's" 'ünï' 'z last'; do
    { printf '<%s>' "$name"; head -c 700000 /dev/urandom; } > "$name"
done
ln -s "/opt/made/in here" /opt/link
"""


def places(image: Path) -> list[str]:
    """Name the files in the order in which their bytes lie in the image."""
    data = sif.read(image, sif.tree(image))
    found = {name: data.find(f"<{name}>".encode()) for name in NAMES}
    assert -1 not in found.values()
    return sorted(found, key=lambda name: found[name])


@pytest.mark.long  # two builds; tests/unit/build/test_file_order.py has the order
def test_files_lie_in_the_order_of_the_trace(alone: World, tmp_path: Path) -> None:
    recipe, output = write_bare(tmp_path / "a recipe", WORK), tmp_path / "images"
    plain = alone.build(recipe, output)
    assert places(plain.image) == sorted(NAMES, key=str.encode)
    wanted = ("z last", "ünï", "it's", "c\\d", "#b", "a first")
    folders = ["opt/link", *["opt/made/in here"] * 5]
    paths = [f"{folder}/{name}" for folder, name in zip(folders, wanted, strict=True)]
    trace = Trace(paths=("none/of these", *paths, "no/more"))
    path = tmp_path / "it's a trace"
    open_trace.write(trace, path)
    done = alone.run("build", recipe, "--site", "local", "-o", output, "--order-from", path)
    assert "ordered 6 files of the image as in the trace" in done.stderr
    assert "skipped 2 paths of the trace that are not in the image" in done.stderr
    assert places(plain.image) == list(wanted)
    assert plain.recorded()["engine"]["order"] == trace.digest
    assert plain.recorded()["digest"] == plain.body["digest"], "the same plan"
    work = {step["name"]: step["key"] for step in plain.recorded()["work"]}
    again = alone.build(recipe, output, "--order-from", path)
    assert again.body["found"] is True
    back = alone.build(recipe, output)
    assert back.body["found"] is False, "another order is another image"
    assert {step["name"]: step["key"] for step in back.recorded()["work"]} == work
    assert alone.build(recipe, output, "--level", "1").body["found"] is False


def test_a_bad_trace_is_refused_before_anything_is_built(world: World, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{open_trace.HEADER}\nusr/bin/x\n/usr/bin/y\n")
    argv = ("build", "pytorch", "--site", "local", "-o", tmp_path / "images", "--order-from", path)
    done = world.run(*argv, code=3)
    assert f"{path}:3: '/usr/bin/y': a path from '/'" in done.stderr
    assert not (tmp_path / "images").exists()


@pytest.mark.parametrize("tool", ["strace", "slowfs", "audit"])
def test_a_trace_of_a_command(world: World, tmp_path: Path, tool: str) -> None:
    if find_program("strace", world.environ) is None:
        missing("strace")
    folder = tmp_path / "it's a tree"
    (folder / "sub folder").mkdir(parents=True)
    for name in ("b", "sub folder/a"):
        (folder / name).write_text("x")
    code = (
        f"import sys\nfor n in ('b', 'sub folder/a', 'b'): open({str(folder)!r} + '/' + n).read()"
    )
    path = tmp_path / "trace"
    argv = ["lab", "count", "--with", tool, "--under", folder, "--trace", path, "--json"]
    world.run(*map(str, argv), "--", Path(world.program[0]).with_name("python"), "-c", code)
    assert open_trace.read(path).paths == ("b", "sub folder/a")
    assert json.dumps(open_trace.read(path).text).startswith('"# dlcontainer/trace/1')

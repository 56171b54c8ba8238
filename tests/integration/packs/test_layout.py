"""Where a packed image has its files, and how they are compressed; docs/use/importing.md."""

from pathlib import Path

import pytest

from dlcontainer.image import layout, sif
from dlcontainer.image.contents import SquashfsTree
from dlcontainer.image.open_trace import HEADER
from dlcontainer.system.process import ProcessRunner
from tests.integration.world import TINY, VERIFY, Built, World

# An import that reads a file and a "library"; what does not compress can be found in the image.
WORK = r"""
  - name: made
    shell: |
      mkdir -p /opt/made
      cd /opt/made
      for name in 'a first' 'z last'; do
          { printf '<%s>' "$name"; head -c 300000 /dev/urandom; } > "$name"
      done
      for name in hot cold; do
          for number in $(seq 20000); do echo "$name library"; done > lib$name.so
      done
      file=$(/opt/tiny/bin/python -c 'import dlctiny; print(dlctiny.__file__)')
      echo 'for _name in ("z last", "libhot.so"):' >> "$file"
      echo '    open("/opt/made/" + _name, "rb").close()' >> "$file"
      /opt/tiny/bin/python -m compileall -q -f --invalidation-mode unchecked-hash "$file"
exposes: [python]"""


def tree(image: Path) -> bytes:
    """Give the bytes of an image's SquashFS."""
    return sif.read(image, sif.tree(image))


def trace(image: Path, world: World, folder: Path) -> str:
    """Give the trace that an image has of its own imports."""
    folder.mkdir()
    packed = SquashfsTree.of(image, world.environ, ProcessRunner(environ=world.environ))
    return packed.fetch([layout.TRACE], folder)[layout.TRACE].read_text()


def test_an_image_says_in_which_order_it_is_read(
    world: World, tiny_image: Built, tmp_path: Path
) -> None:
    lines = trace(tiny_image.image, world, tmp_path / "read").splitlines()
    assert lines[0] == HEADER
    assert lines.index("etc/ld.so.cache") < lines.index("usr/bin/python3.11")
    assert any(line.endswith("/libc.so.6") for line in lines)
    # Of the pack's own modules none is opened.
    assert not [line for line in lines if "/json/" in line or layout.PROBE[1:] in line]


@pytest.mark.long  # the order alone: tests/unit/build/test_file_order.py
@pytest.mark.timeout(1200)
def test_what_an_import_reads_lies_first_and_its_libraries_as_wanted(
    world: World, wheels: Path, tmp_path: Path
) -> None:
    recipe, output = tmp_path / "recipe", tmp_path / "images"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(TINY.replace("\nexposes: [python]", WORK))
    (recipe / "verify.py").write_text(VERIFY)
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    here = world.having(PIP_FIND_LINKS=found, SOURCE_DATE_EPOCH="1750000000")
    images = {
        name: here.build(recipe, output / name, "--set", f"image.compression={name}", *more)
        for name, more in (("raw-libraries", ()), ("lz4", ()), ("zstd", ()))
    }
    again = here.build(recipe, output / "again", "--no-cache")
    sizes = {name: one.image.stat().st_size for name, one in images.items()}
    assert sizes["zstd"] < sizes["raw-libraries"] < sizes["lz4"]
    for name, one in images.items():
        data = tree(one.image)
        assert -1 < data.find(b"<z last>") < data.find(b"<a first>")
        assert (data.find(b"hot library\n" * 100) > 0) is (name == "raw-libraries")
        assert data.find(b"cold library\n" * 100) == -1
        assert world.checks(one.image)["pack"][0]
    assert images["lz4"].recorded()["engine"]["squash"][:2] == ["-comp", "lz4"]
    every = [*images.values(), again]
    traces = {trace(one.image, world, tmp_path / f"read {n}") for n, one in enumerate(every)}
    assert len(traces) == 1, "built again, it is the same"

"""Every command block of README and docs that says no reason is typed, as it stands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_blocks import Block, blocks
from tests.integration.world import World
from tests.values import ROOT

# What a centre's engineer types first, without the build: the rest of the first day is long.
LOOKING = ("doctor", "site", "recipe", "plan")


def typed(block: Block, lines: list[str], world: World, folder: Path, limit_s: float) -> None:
    """Type lines in a shell that ends at the first that fails."""
    for name in ("site-configs", "recipes", "docs"):
        if not (folder / name).exists():
            shutil.copytree(ROOT / name, folder / name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env={**world.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, f"{block.name}\n{done.stdout[-4000:]}"


def day() -> Block:
    (block,) = [one for one in blocks() if one.heading == "Your first day at a centre"]
    return block


def test_the_first_look(world: World, tmp_path: Path) -> None:
    block = day()
    lines = [line for line in block.commands if line.split()[1] in LOOKING]
    assert len(lines) == len(LOOKING)
    typed(block, lines, world, tmp_path, 300)


@pytest.mark.long  # the same as above, with the build, the module and the verdict
@pytest.mark.timeout(5400)
def test_the_first_day(world: World, tmp_path: Path) -> None:
    block = day()
    typed(block, list(block.commands), world, tmp_path, 5000)
    assert re.search(r"SLOWER|EQUIVALENT|FASTER|INCONCLUSIVE", (tmp_path / "report.md").read_text())


@pytest.mark.long  # test_commands.py types the quick ones of them
@pytest.mark.timeout(5400)
def test_every_block_that_can_be_run(world: World, tmp_path: Path) -> None:
    runnable = [b for b in blocks() if b.excuse is None and b.heading != day().heading]
    assert runnable
    for number, block in enumerate(runnable):
        folder = tmp_path / f"it's {number}"
        folder.mkdir()
        typed(block, list(block.commands), world, folder, 900)

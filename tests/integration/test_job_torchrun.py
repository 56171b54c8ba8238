"""PyTorch's own torchrun in the image, as a rendered job script starts it: ranks meet and add."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.world import Built, World

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SITE = """\
schema: 1
name: lab
facts: host
summary: this machine, and a launcher
default_recipe: pytorch
scheduler:
  kind: none
  launcher: [mpirun]
  forms:
    torchrun:
      summary: one torchrun a node
      launcher: [mpirun, -n, "{nodes}"]
      ranks_per_node: 2
      inside: torchrun
      remembered: [summary, launcher, ranks_per_node, inside]
  remembered: [kind, launcher]
"""
# One write a line: both ranks have the same output.
SUM = """\
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(total)
place = dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"]
os.write(1, (" ".join(map(str, ["met", *place, *total.tolist()])) + chr(10)).encode())
"""


def test_two_ranks_of_torchrun_in_the_image(
    launching: World, pytorch_image: Built, engine: Apptainer, tmp_path: Path
) -> None:
    (tmp_path / "lab.yaml").write_text(SITE)
    (tmp_path / "sum.py").write_text(SUM)
    argv = ("render", "pytorch", "--site", tmp_path / "lab.yaml", "--format", "job")
    (tmp_path / "job.sh").write_text(launching.run(*argv).stdout)
    own = launching.having(
        PATH=f"{engine.program.parent}:{launching.environ['PATH']}",
        DLCONTAINER_IMAGE=pytorch_image.image,
        APPTAINER_USERNS="1",
    )
    job = replace(own, folder=tmp_path, program=("bash", "job.sh"))
    said = job.run("/opt/pytorch/bin/python", tmp_path / "sum.py").stdout
    ranks = sorted(line.rstrip() for line in said.splitlines() if line.startswith("met "))
    assert ranks == ["met 0 2 0 3.0 3.0 3.0", "met 1 2 1 3.0 3.0 3.0"]

"""What a centre without apt hands in: a bundle, or a registry; and the command that uses it."""

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.system.machine import find_program, read_host
from tests.bare import trees
from tests.bare.machines import PACKAGES, Goal, Machine
from tests.bare.trees import Tree
from tests.integration import registries
from tests.integration.registries import Repository
from tests.integration.world import write_tiny, write_wheel
from tests.values import ROOT

# Kept between runs: a fetch takes what came before.
_BUNDLE = ROOT / ".tools/bare/bundle"
# The three commands of docs/image/bases.md; pip finds the tiny recipe's wheel in the home.
_FIRST_IMAGE = """\
set -e
make setup EXTRAS=
export PIP_FIND_LINKS="$PIP_FIND_LINKS $HOME/wheels" PATH=$PWD/.venv/bin:$PATH
dlcontainer doctor
dlcontainer base pin ~/tiny --site local --image {image}:12
dlcontainer build ~/tiny --site local -o ~/out
dlcontainer validate ~/out/tiny-1.0-local.sif
"""
# A file that the command of a goal leaves in the home where it went well.
IMAGE = "out/tiny-1.0-local.sif"


def obstacle(machine: Machine) -> str | None:
    """Say why a machine can't be handed its things here; None where it can."""
    if machine.handed == "registry" and find_program("docker-registry", os.environ) is None:
        return "no docker-registry here: make setup-tests"
    return None


@contextlib.contextmanager
def command(tree: Tree, goal: Goal) -> Iterator[str]:
    """Hand in what the machine is to have, and give the command that is typed in the checkout."""
    if tree.machine.handed == "bundle":
        yield f"make {goal} BUILD='--offline {_hand_in_bundle(tree)}'"
    elif goal == "image":
        with _registry(tree) as image:
            yield _FIRST_IMAGE.format(image=image)
    else:
        yield f"make {goal}"


def _hand_in_bundle(tree: Tree) -> Path:
    """Fetch the demo's bundle on this machine, and copy it; give its path over there."""
    fetch = ["fetch", "pytorch", "--site", "local", "-o", str(_BUNDLE)]
    subprocess.run([str(Path(sys.executable).with_name("dlcontainer")), *fetch], check=True)
    target = tree.home / "bundle"
    subprocess.run(["cp", "-r", str(_BUNDLE), str(target)], check=True)
    tree.own(target)
    return Path("/") / target.relative_to(tree.root)


@contextlib.contextmanager
def _registry(tree: Tree) -> Iterator[str]:
    """Serve a Debian 12 as an image, and give the account the tiny recipe and its wheel."""
    write_tiny(tree.home / "tiny")
    write_wheel(tree.home / "wheels")
    for part in ("tiny", "wheels"):
        tree.own(tree.home / part)
    arch: Arch = read_host({}).arch  # type: ignore[assignment]
    with (
        tempfile.TemporaryDirectory(prefix="dlcontainer-registry-") as storage,
        registries.running(Path(storage)) as address,
    ):
        repository = Repository(address=address, name="base/debian")
        layer = _layer(trees.archive("bookworm", sorted(PACKAGES)))
        repository.push(layer, OCI_ARCH[arch], tag="12")
        yield repository.image


def _layer(archive: Path) -> bytes:
    """Give a tree's archive as a layer: no devices, which no ordinary user unpacks."""
    packed = io.BytesIO()
    with tarfile.open(archive) as source, tarfile.open(fileobj=packed, mode="w") as target:
        for entry in source:
            if not entry.isdev():
                target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    return packed.getvalue()

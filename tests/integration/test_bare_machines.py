"""Set-up, doctor and a small build on machines with nothing on them, as ordinary users."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bare import trees
from tests.bare.machines import MACHINES
from tests.integration.world import write_tiny, write_wheel
from tests.skips import skip
from tests.values import ROOT

_COMMANDS = """\
set -e
cd dlcontainer
make setup EXTRAS=
.venv/bin/dlcontainer doctor
PIP_FIND_LINKS=$HOME/wheels .venv/bin/dlcontainer build ~/tiny --site local -o ~/out
.venv/bin/dlcontainer validate ~/out/tiny-1.0-local.sif
"""


@pytest.mark.parametrize(
    "name",
    [
        "13-no-ids",
        # The same road on the older release; without newuidmap and with lines for it.
        pytest.param("12-ids", marks=pytest.mark.long),
    ],
)
def test_two_commands_and_a_build(name: str) -> None:
    refusal = trees.obstacle()
    if refusal is not None:
        skip(refusal, elsewhere="a run as root" if os.geteuid() != 0 else None)
    # Below no folder of root's own: the account must be able to enter.
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bare-", dir="/var/tmp") as folder:
        tree = trees.make(MACHINES[name], Path(folder) / "tree")
        write_tiny(tree.home / "tiny")
        write_wheel(tree.home / "wheels")
        for part in ("tiny", "wheels"):
            tree.own(tree.home / part)
        done = tree.call(_COMMANDS)
        assert done.returncode == 0, done.stdout[-6000:]
        assert "this host can build and run images" in done.stdout
        assert (tree.home / "out/tiny-1.0-local.sif").is_file()
        # A user needs neither mypy nor ruff.
        assert not re.search(r"Downloading (mypy|ruff)-", done.stdout)
        assert str(ROOT) not in done.stdout


# From the wheel to a first image: the lines of docs/start/bare-machines.md, with a smaller recipe.
_FROM_THE_WHEEL = """\
set -e
python3 -m venv venv
export PATH=$PWD/venv/bin:$PATH
pip install --quiet ./dlcontainer-*.whl
dlcontainer doctor >before || echo "doctor ended with $?"
dlcontainer setup engine
dlcontainer doctor
PIP_FIND_LINKS=$HOME/wheels dlcontainer build ~/tiny --site local -o ~/out
dlcontainer validate ~/out/tiny-1.0-local.sif
"""


@pytest.mark.long
def test_from_the_wheel_to_a_first_image() -> None:
    """The road of the tests above, without a checkout: three commands."""
    refusal = trees.obstacle()
    if refusal is not None:
        skip(refusal, elsewhere="a run as root" if os.geteuid() != 0 else None)
    # The tree of another bare machine's, which is packed once.
    machine = replace(MACHINES["13-no-ids"], release="bookworm", packages=("python3-venv",))
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bare-", dir="/var/tmp") as folder:
        tree = trees.make(machine, Path(folder) / "tree")
        shutil.rmtree(tree.checkout)
        write_tiny(tree.home / "tiny")
        write_wheel(tree.home / "wheels")
        argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree.home)]
        subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
        tree.own(tree.home)
        done = tree.call(_FROM_THE_WHEEL)
        assert done.returncode == 0, done.stdout[-6000:]
        assert "doctor ended with 1" in done.stdout
        assert "run `dlcontainer setup engine`" in (tree.home / "before").read_text()
        assert "this host can build and run images" in done.stdout
        engine = tree.home / ".local/share/dlcontainer/engine"
        assert (engine / "bin/apptainer").is_symlink()
        assert (tree.home / "out/tiny-1.0-local.sif").is_file()
        assert str(ROOT) not in done.stdout
        removed = tree.call("venv/bin/dlcontainer setup engine --remove")
        assert removed.returncode == 0, removed.stdout
        assert not engine.exists()

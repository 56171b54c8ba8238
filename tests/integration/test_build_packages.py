"""A step's packages for building: there for its snippet, and none of them in the image."""

import os
import subprocess
from pathlib import Path

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from tests.integration.world import BARE, World

# The snippet leaves its own mark, and tries to hide what is to be removed.
WORK = """\
      dlc_before=$(dpkg-query -W -f '${binary:Package}\\n')
      mkdir -p /opt/bare
      printf 'all:\\n\\techo made > /opt/bare/made.txt\\n' > /tmp/Makefile
      make -f /tmp/Makefile
    build_packages: [make]
"""


def test_they_are_there_and_gone(
    world: World, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    (recipe / "recipe.yaml").write_text(BARE.replace("WORK\n", WORK))
    (recipe / "note.txt").write_text("a note\n")
    (recipe / "verify.py").write_text("")
    built = world.build(recipe, tmp_path / "images")
    look = "cat /opt/bare/made.txt; command -v make; ls /usr/share/doc/make; command -v apt-get"
    spec = RunSpec(
        image=built.image, argv=("/bin/sh", "-c", look), mode=str(tried.run_mode), environment={}
    )
    done = subprocess.run(
        engine.run_argv(spec),
        env={**apptainer.environment(world.environ), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["made", "/usr/bin/apt-get"]
    assert "/usr/share/doc/make" in done.stderr  # not there

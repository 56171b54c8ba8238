"""`publish --layout tree`: an unpacked image, loaded by Lmod, run by Apptainer as a folder."""

import json
from pathlib import Path

from tests.integration.publish.tools import Shelf, clean_home, in_shell
from tests.integration.world import Built, World

_SITE = """\
schema: 1
name: local
summary: for tests
facts: host
default_recipe: pytorch
"""


def test_it_loads_and_runs(world: World, tiny_image: Built, tmp_path: Path, lmod: str) -> None:
    root, site = tmp_path / "a root", tmp_path / "lab.yaml"
    site.write_text(_SITE)
    publish = ("publish", tiny_image.image, "-s", site, "--root", root, "--json")
    tree = json.loads(world.run(*publish, "--layout", "tree").stdout)
    release = Path(tree["folder"])
    assert (release / "tree/usr").is_dir()
    assert not (release / "image.sif").exists()
    again = json.loads(world.run(*publish, "--layout", "tree").stdout)
    assert (again["new"], again["folder"]) == (False, tree["folder"])
    name, version = tree["module"].split("/")
    shelf = Shelf(root=root, name=name, version=version, environ=clean_home(tmp_path))
    script = f"module load {name}; python -c 'import os; print(os.getpid() > 0)'"
    assert "True" in in_shell(shelf, (lmod, "lmod"), script)
    faults = json.loads(world.run("modules", "audit", "--root", root, "--json", code=None).stdout)[
        "faults"
    ]
    assert [one for one in faults if str(root) in one["where"]] == []
    # The same version as one file is another release, and the other way round.
    sif = json.loads(world.run(*publish).stdout)
    assert (sif["new"], sif["folder"] != tree["folder"]) == (True, True)

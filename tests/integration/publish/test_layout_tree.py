"""`publish --layout tree`: an unpacked image, loaded by Lmod, run by Apptainer as a folder."""

import json
import os
import subprocess
from pathlib import Path

import pytest

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


_STUB = """\
#!/bin/sh
{ printf '%s' "${0##*/}"; printf ' <%s>' "$@"; echo; } >> "$LOG"
[ "${0##*/}" = cvmfs_server ] || exit "$CODE"
"""


@pytest.mark.parametrize("code", [0, 6])
def test_a_release_in_cernvm_fs(world: World, tiny_image: Built, tmp_path: Path, code: int) -> None:
    """The script's order of commands, with programs of the test's: no CernVM-FS is here."""
    root, script, folder = "/cvmfs/sw.example.org/a", tmp_path / "it's.sh", tmp_path / "programs"
    argv = ("publish", tiny_image.image, "-s", "local", "--layout", "tree", "--root", root)
    world.run(*argv, "--cvmfs", script, "--release")
    folder.mkdir()
    for name in ("cvmfs_server", "dlcontainer"):
        (folder / name).write_text(_STUB)
        (folder / name).chmod(0o755)
    log = tmp_path / "log"
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(log), "CODE": str(code)}
    done = subprocess.run(["sh", str(script)], env=environ, cwd=tmp_path, check=False)
    assert done.returncode == code
    begin, publish, end = log.read_text().splitlines()
    assert begin == "cvmfs_server <transaction> <sw.example.org>"
    assert publish.startswith(f"dlcontainer <publish> <{tiny_image.image}>")
    assert publish.endswith(f"<--root> <{root}> <--layout> <tree> <--release>")
    # What failed is aborted: users see the release before it.
    published = f"<publish> <-m> <dlcontainer publish {tiny_image.image.name}> <sw.example.org>"
    assert end == f"cvmfs_server {'<abort> <-f> <sw.example.org>' if code else published}"

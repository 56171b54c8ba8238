"""A kernelspec of a published module, started as Jupyter starts it; a stand-in is the kernel.

test_users_day.py has the real one, with a real client.
"""

import json
from pathlib import Path

from tests.integration.publish.tools import Shelf
from tests.integration.world import World

LAUNCHER = """
import pathlib, sys
print(pathlib.Path(sys.argv[2]).read_text(), sys.prefix, sys.argv[1])
"""


def test_a_kernel_of_the_loaded_module(shelf: Shelf, world: World, tmp_path: Path) -> None:
    home, venv = tmp_path / "home", tmp_path / "my env"
    home.mkdir()
    user = world.having(HOME=home, PATH=f"{shelf.folder / 'bin'}:{shelf.environ['PATH']}")
    bare = user.run("export", "jupyter", code=2)
    assert "ipykernel is missing in pytorch/2.13.0" in bare.stderr
    assert not (home / ".local/share/jupyter/kernels").exists()
    shelf.run(str(shelf.folder / "bin/dlcontainer-venv"), str(venv))
    (packages,) = venv.glob("lib/python3*/site-packages")
    (packages / "ipykernel").mkdir()
    (packages / "ipykernel/__init__.py").touch()
    (packages / "ipykernel_launcher.py").write_text(LAUNCHER)
    done = user.having(DLCONTAINER_VENV=venv).run("export", "jupyter", "--json")
    file = home / ".local/share/jupyter/kernels/pytorch-2.13.0-my-env/kernel.json"
    assert json.loads(done.stdout)["file"] == str(file)
    kernel = json.loads(file.read_text())
    connection = home / ".local/share/jupyter/runtime/kernel-1.json"
    connection.write_text("{}")
    argv = [word.replace("{connection_file}", str(connection)) for word in kernel["argv"]]
    assert shelf.run(*argv, **kernel["env"]).stdout == f"{{}} {venv} -f\n"

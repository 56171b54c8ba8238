"""A tree of generations in real module systems: defaults, aliases, warnings, and switches."""

import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.generation import Deprecation
from tests.integration.publish.test_modules import (
    environment_modules,  # noqa: F401  a fixture
    system,  # noqa: F401  a fixture
)
from tests.integration.publish.tools import Shelf, clean_home, in_shell, program
from tests.trees import act, image_file, put

# Whatever a shell, a modulefile or a format of C could take for its own.
MESSAGE = 'use "2.0" 100%s $HOME [exit 3] `id` ]===] {'


@pytest.fixture
def tree(tmp_path: Path) -> Shelf:
    """Publish two versions, for a user with an empty home."""
    root, images = tmp_path / "root", tmp_path / "images"
    root.mkdir()
    put(root, image_file(images))
    put(root, image_file(images, b"another"), "2.0")
    return Shelf(root=root, name="demo", version="1.0", environ=clean_home(tmp_path))


def loaded(shelf: Shelf, system: tuple[str, str], name: str) -> str:  # noqa: F811
    return in_shell(shelf, system, f'module load {name}; echo "$LOADEDMODULES"')


def test_default_and_aliases(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    assert loaded(tree, system, "demo") == "demo/2.0\n"
    act(tree.root, lambda held: changes.set_default(held, "demo/1.0"))
    act(tree.root, lambda held: changes.set_alias(held, "demo/2.0", "next"))
    assert loaded(tree, system, "demo") == "demo/1.0\n"
    assert loaded(tree, system, "demo/next") == "demo/2.0\n"
    act(tree.root, lambda held: changes.rollback(held, 2))
    assert loaded(tree, system, "demo") == "demo/2.0\n"


def test_users_of_a_deprecated_version_are_warned(
    tree: Shelf,
    system: tuple[str, str],  # noqa: F811
) -> None:
    warning = Deprecation(message=MESSAGE, removal="2027-01-31")
    act(tree.root, lambda held: changes.deprecate(held, "demo/1.0", warning))
    said = in_shell(
        tree, system, 'module load demo/1.0; type -P tool; echo "--"; module unload demo; echo end'
    )
    warned, _, unloaded = said.partition("--\n")
    # Lmod's reader of Tcl takes ]= for the end of a text, and folds long lines.
    told = " ".join(warned.split())
    assert "demo/1.0 is deprecated and will be removed on 2027-01-31: use" in told
    for text in ('"2.0"', "100%s", "$HOME", "[exit 3]", "`id`"):
        assert text in told
    (tool,) = (line for line in warned.splitlines() if line.endswith("/bin/tool"))
    assert tool.startswith(f"{tree.root}/releases/")
    assert unloaded == "end\n"
    assert "deprecated" not in in_shell(tree, system, "module load demo/2.0; module list")


def test_what_is_loaded_goes_on(tree: Shelf, system: tuple[str, str]) -> None:  # noqa: F811
    """A shell loads, the module is taken back, and the shell runs and unloads it."""
    waiting, going = tree.root.parent / "waiting", tree.root.parent / "going"
    script = """
module load demo/1.0; : > "$1"; until [ -e "$2" ]; do sleep 0.1; done
tool && echo runs; module unload demo/1.0; module load demo/2.0; type -P tool
"""
    said: list[str] = []
    shell = threading.Thread(
        target=lambda: said.append(in_shell(tree, system, script, str(waiting), str(going)))
    )
    shell.start()
    try:
        deadline = time.monotonic() + 60
        while not waiting.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        act(tree.root, lambda held: changes.unpublish(held, "demo/1.0"))
    finally:
        going.touch()
        shell.join(120)
    assert "runs" in said[0]
    # Environment Modules unloads by the modulefile, which is gone: there a new shell is needed.
    new, old = (f"generations/2/modules/tcl/demo/{version}" for version in ("2.0", "1.0"))
    release = (tree.root / (new if "modulecmd" not in system[0] else old)).resolve().parent
    assert said[0].splitlines()[-1] == f"{release}/bin/tool"


@pytest.mark.parametrize("loads", [5, pytest.param(25, marks=pytest.mark.long)])
def test_readers_through_switches(
    tree: Shelf,
    system: tuple[str, str],  # noqa: F811
    loads: int,
) -> None:
    """Four users load and run again and again while the tree goes to and fro."""
    start, kind = system
    script = f"""{start}
module use "$USE"
for i in $(seq {loads}); do
    module load demo/1.0 || echo FAILED
    tool || echo FAILED
    module unload demo
done
echo done"""
    environ = {**tree.environ, "USE": f"{tree.root}/modules/{kind}"}
    argv = [program("bash", "bash"), "--norc", "-c", script]
    users = [
        subprocess.Popen(
            argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(4)
    ]
    switches = 0
    while any(user.poll() is None for user in users) or switches < 50:
        act(tree.root, partial(changes.rollback, number=1 + switches % 2))
        switches += 1
    said = [user.communicate(timeout=60)[0] for user in users]
    assert said == ["done\n"] * 4
    assert switches >= 50

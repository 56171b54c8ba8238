"""The modulefiles in real module systems: Lmod, and Environment Modules."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dlcontainer.publish import modulefiles
from dlcontainer.publish.modulefiles import ModuleRelease
from tests.integration.publish.tools import (
    ARGUMENTS,
    SHOW,
    Shelf,
    clean_home,
    in_shell,
    program,
)
from tests.integration.world import missing
from tests.values import HOSTILE, TEMPLATES

# In Lua, in Tcl, in a shell: each ends a text or runs something where quoting is missing.
NASTY = (
    *HOSTILE,
    "]==]",
    "]]",
    '"..os.execute("touch CANARY").."',
    "[exec touch CANARY]",
    '"; exec touch CANARY; set x "',
    "{ unbalanced",
    "} unbalanced",
    "\\",
    "\\[exec touch CANARY\\]",
    "$env(HOME)",
    "two\nlines",
    "\\101 \\x41 \\u0041",
    "😀 𝄞",
    ']===]..os.execute("touch CANARY")..[===[',
)


@pytest.fixture(scope="session")
def environment_modules(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the shell line that starts Environment Modules.

    As a Debian package it conflicts with Lmod: unpacked into a folder it does not.
    """
    tclsh = program("tclsh", "tcl")
    folder = tmp_path_factory.mktemp("environment-modules")
    given = os.environ.get("DLCONTAINER_TEST_MODULECMD")
    if given is None:
        argv = [program("apt-get", "apt"), "download", "-q", "environment-modules"]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        packages = list(folder.glob("*.deb"))
        if done.returncode != 0 or not packages:
            missing(f"environment-modules, which apt-get can't download: {done.stderr}")
        subprocess.run(["dpkg", "-x", packages[0], folder / "x"], check=True)
        (found,) = (folder / "x/usr/lib").glob("*-linux-gnu*/modulecmd.tcl")
        given = str(found)
    return f'module() {{ eval "$({tclsh} {given} bash "$@")"; }}'


@pytest.fixture(params=["lmod-lua", "lmod-tcl", "environment-modules"])
def system(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Give the shell line that starts a module system, and its folder of modulefiles."""
    if request.param == "environment-modules":
        return str(request.getfixturevalue("environment_modules")), "tcl"
    return str(request.getfixturevalue("lmod")), str(request.param).removeprefix("lmod-").replace(
        "lua", "lmod"
    )


def test_it_loads_runs_and_unloads(shelf: Shelf, system: tuple[str, str]) -> None:
    script = """
module load pytorch/2.13.0
type -P python torchrun
python -c "$@"
module unload pytorch
type -P torchrun || echo gone
"""
    first, second, said, gone = in_shell(shelf, system, script, SHOW, *ARGUMENTS).splitlines()
    assert (first, second) == (shelf.python, str(shelf.folder / "bin/torchrun"))
    assert json.loads(said) == list(ARGUMENTS)
    assert gone == "gone"


def test_help_names_the_evidence(shelf: Shelf, system: tuple[str, str]) -> None:
    said = in_shell(shelf, system, "module help pytorch/2.13.0; module whatis pytorch/2.13.0")
    record = json.loads((shelf.folder / "record.json").read_text())
    for text in (
        f"plan    sha256:{record['digest']}",
        f"image   sha256:{record['image']['sha256']}",
        f"record  {shelf.folder}/record.json",
        f"checks  {shelf.folder}/checks.json",
        "Description: PyTorch for CPUs",
        "Version: 2.13.0",
    ):
        assert text in said
    assert "bench" not in said
    report = shelf.folder / "report.html"
    report.touch()
    try:
        said = in_shell(shelf, system, "module help pytorch/2.13.0")
    finally:
        report.unlink()
    assert f"bench   {report}" in said


def test_texts_stay_texts(tmp_path: Path, system: tuple[str, str]) -> None:
    shelf = Shelf(root=tmp_path / "r", name="nasty", version="1.0", environ=clean_home(tmp_path))
    for kind in ("lmod", "tcl"):
        (shelf.root / "modules" / kind / "nasty").mkdir(parents=True)
    release = ModuleRelease(
        name="nasty",
        version="1.0",
        summary=" ".join(NASTY),
        homepage=None,
        license="<".join(NASTY),
        commands=("python",),
        prefix="/opt/nasty",
        digest="0" * 64,
        sha256="1" * 64,
        offset=4096,
    )
    folder = tmp_path / "a (folder); touch CANARY; 'x'"
    texts = modulefiles.modulefiles(release, folder, [TEMPLATES])
    for name, text in zip(("lmod/nasty/1.0.lua", "tcl/nasty/1.0"), texts, strict=True):
        (shelf.root / "modules" / name).write_text(text)
    said = in_shell(shelf, system, 'module help nasty/1.0; module load nasty/1.0; echo "$PATH"')
    for text in (*NASTY[:9], "[exec touch CANARY]", "{ unbalanced", "two\nlines", "\\101 \\x41"):
        if text.isascii():
            assert text in said
    assert f"{folder}/bin" in said.splitlines()[-1]
    assert not list(tmp_path.rglob("CANARY"))


def test_a_root_with_a_space(
    shelf: Shelf, lmod: str, environment_modules: str, tmp_path: Path
) -> None:
    # Lmod's reader of Tcl modulefiles can't do that; it takes the Lua ones.
    root = tmp_path / "a root"
    root.symlink_to(shelf.root)
    for system in ((lmod, "lmod"), (environment_modules, "tcl")):
        said = in_shell(shelf, system, "module load pytorch; type -P torchrun", root=root)
        assert said == f"{shelf.folder}/bin/torchrun\n"


def test_a_second_version_takes_the_place_of_the_first(
    shelf: Shelf, lmod: str, environment_modules: str, tmp_path: Path
) -> None:
    for kind, name in (("lmod", "9.9.lua"), ("tcl", "9.9")):
        module = tmp_path / "modules" / kind / "pytorch"
        module.mkdir(parents=True)
        source = shelf.folder / ("module.lua" if kind == "lmod" else "module.tcl")
        shutil.copyfile(source, module / name)
    two = f'module use "{tmp_path}/modules/KIND"\nmodule load pytorch/2.13.0\n'
    two += 'module load pytorch/9.9; echo "$LOADEDMODULES"'
    # Lmod swaps by itself; Environment Modules refuses, and says why.
    said = in_shell(shelf, (lmod, "lmod"), two.replace("KIND", "lmod"))
    assert said.splitlines()[-1] == "pytorch/9.9"
    said = in_shell(shelf, (environment_modules, "tcl"), two.replace("KIND", "tcl"))
    assert "conflict" in said.lower()
    assert said.splitlines()[-1] == "pytorch/2.13.0"

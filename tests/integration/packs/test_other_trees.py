"""What is not as it was when the pack was made is imported as usual; so is all with a bad pack."""

import importlib.util
import os
import py_compile
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.packs import environments
from tests.integration.packs.environments import FILES, VERSION, WRITER, Environment
from tests.skips import skip

ONE = "import alpha.one; print(alpha.one.Thing.value)"


@pytest.fixture
def world(tmp_path: Path) -> Environment:
    found = environments.make(tmp_path / "environment")
    found.pack()
    return found


def changed(world: Environment, tmp_path: Path) -> Path:
    """Make a package that shadows the packed one."""
    (tmp_path / "mine" / "alpha").mkdir(parents=True)
    (tmp_path / "mine" / "alpha" / "__init__.py").write_text("")
    (tmp_path / "mine" / "alpha" / "one.py").write_text("class Thing:\n    value = 'mine'\n")
    return tmp_path / "mine"


def test_a_writable_tree_has_no_pack(world: Environment) -> None:
    world.pack("alpha", words=())
    assert world.loader("alpha.one") == "SourceFileLoader"
    (world.packages / "alpha" / "one.py").write_text("class Thing:\n    value = 'edited'\n")
    shutil.rmtree(world.packages / "alpha" / "__pycache__")
    assert world.run("-c", ONE).stdout == "edited\n"


def test_a_folder_that_changed_below(world: Environment) -> None:
    assert world.loader("alpha.one") == "PackLoader"
    package = world.packages / "alpha"
    (package / "new.py").write_text("")
    assert world.run("-c", "import alpha.new").returncode == 0
    loaders = [world.loader(name) for name in ("alpha", "alpha.one", "alpha.sub.two", "json")]
    # neither its modules nor its own: those of other folders still come from the pack
    assert loaders == ["SourceFileLoader", "SourceFileLoader", "PackLoader", "PackLoader"]


def test_another_package_in_its_place(world: Environment, tmp_path: Path) -> None:
    parent = world.packages.stat()
    shutil.rmtree(world.packages / "alpha")
    shutil.copytree(changed(world, tmp_path) / "alpha", world.packages / "alpha")
    os.utime(world.packages, ns=(parent.st_atime_ns, parent.st_mtime_ns))
    assert world.run("-c", ONE).stdout == "mine\n"


def test_a_folder_that_is_gone(world: Environment) -> None:
    parent = world.packages.stat()
    shutil.rmtree(world.packages / "alpha")
    os.utime(world.packages, ns=(parent.st_atime_ns, parent.st_mtime_ns))
    done = world.run("-c", "import alpha", check=False)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'alpha'\n")


@pytest.mark.parametrize("how", ["moved", "copied", "linked"])
def test_an_environment_at_another_path_has_its_pack(tmp_path: Path, how: str) -> None:
    first, place = environments.make(tmp_path / "first"), tmp_path / "other" / "place"
    (first.prefix / "lib64").symlink_to("lib")
    (first.packages / "both.pth").write_text(f"../../../lib64/{VERSION}/site-packages\n")
    first.pack()
    place.parent.mkdir()
    if how == "moved":
        first.prefix.rename(place)
    elif how == "copied":
        subprocess.run(["cp", "-a", first.prefix, place], check=True)
    else:
        place.symlink_to(first.prefix)
    world = Environment(prefix=place)
    second = place / "lib64" / VERSION / "site-packages"
    for packages in (world.packages, second):
        program = (
            f"import sys; sys.path.insert(0, {str(packages)!r}); import alpha.sub.two as two\n"
        )
        program += "print(type(two.__loader__).__name__, two.__file__, two.double.__code__)"
        told = world.run("-c", program).stdout
        assert told.startswith(f"PackLoader {packages}/alpha/sub/two.py <code object double")
        assert f'file "{packages}/alpha/sub/two.py", line 4>' in told
    # of the standard library, which stays where it is
    assert world.loader("json.decoder") == "PackLoader"


@pytest.mark.parametrize("how", ["at its path", "by a link"])
@pytest.mark.parametrize("target", ["alpha/one.py", "alpha"])
def test_what_is_bound_below(world: Environment, tmp_path: Path, target: str, how: str) -> None:
    # A bound file leaves the time of its folder as it was. Byte code that is checked against its
    # source: a usual import sees the bound file.
    source = changed(world, tmp_path) / target
    py_compile.compile(str(world.packages / "alpha" / "one.py"))
    world.pack()
    assert world.loader("alpha.one") == "PackLoader"
    shown = world
    if how == "by a link":  # the kernel names mounts by their real paths
        shown = Environment(prefix=tmp_path / "link")
        shown.prefix.symlink_to(world.prefix)
        assert shown.loader("alpha.one") == "PackLoader"
    script = 'mount --bind "$1" "$2" && exec "$3" -B -c "$4"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    words += [str(source), str(world.packages / target), str(shown.python), ONE]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.stderr.startswith(("unshare:", "mount:")):
        skip(f"no user namespace: {done.stderr.strip()}", elsewhere="another kernel")
    assert done.stdout == "mine\n", done.stderr
    assert world.run("-c", ONE).stdout == "1\n"


def test_pythonpath_and_the_working_folder_win(world: Environment, tmp_path: Path) -> None:
    mine = changed(world, tmp_path)
    assert world.run("-c", ONE, path=str(mine)).stdout == "mine\n"
    assert world.run("-c", ONE, cwd=mine).stdout == "mine\n"
    assert world.run("-I", "-c", ONE, cwd=mine, path=str(mine)).stdout == "1\n"


def test_an_environment_on_top_shadows(world: Environment, tmp_path: Path) -> None:
    top = environments.make(tmp_path / "top", {"alpha/__init__.py": "", "alpha/one.py": ""})
    (top.packages / "alpha" / "one.py").write_text("class Thing:\n    value = 'top'\n")
    shutil.rmtree(top.packages / "alpha" / "__pycache__")
    line = f"import site; site.addsitedir({str(world.packages)!r})\n"
    (top.packages / "below.pth").write_text(line)
    assert top.run("-c", ONE).stdout == "top\n"
    shutil.rmtree(top.packages / "alpha")
    assert top.run("-c", ONE).stdout == "1\n"
    assert top.loader("alpha.one") == "PackLoader"


def test_an_editable_install_wins_as_before(world: Environment, tmp_path: Path) -> None:
    mine = changed(world, tmp_path)
    finder = (
        "import sys, importlib.machinery as m\n"
        "class Editable:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        place = [{str(mine)!r}] if name == 'alpha' else []\n"
        "        return m.PathFinder.find_spec(name, place)\n"
        "sys.meta_path.insert(0, Editable)\n"
    )
    (world.packages / "_editable.py").write_text(finder)
    (world.packages / "zz.pth").write_text("import _editable\n")
    assert world.run("-c", ONE).stdout == "mine\n"


PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "alpha"
version = "2.0"
[tool.hatch.build]
dev-mode-dirs = ["."]
packages = ["alpha"]
"""


def test_pip_s_editable_install_of_a_packed_package_wins(tmp_path: Path) -> None:
    every = dict(FILES) | {"alpha-1.5.dist-info/INSTALLER": "pip\n"}
    every["alpha-1.5.dist-info/RECORD"] = "".join(f"{name},,\n" for name in every)
    world = environments.make(tmp_path / "environment", every)
    world.pack()
    assert world.run("-c", ONE).stdout == "1\n"
    mine = changed(world, tmp_path)
    (mine / "pyproject.toml").write_text(PROJECT)
    # pip and hatchling from beside the environment: it has none.
    tools = str(Path(pytest.__file__).parent.parent)
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-e", mine)
    done = world.run("-m", "pip", *install, path=tools, check=False)
    if "No module named" in done.stderr:
        skip(f"pip install -e: {done.stderr.splitlines()[-1]}: install pip and hatchling")
    assert done.returncode == 0, done.stderr
    assert world.run("-c", ONE).stdout == "mine\n"
    assert world.same(f"{ONE}; print(alpha.one.__file__, alpha.__path__)").startswith("mine\n")
    assert world.loader("json.decoder") == "PackLoader"


def test_a_module_that_puts_another_in_its_place_is_packed(tmp_path: Path) -> None:
    own = "class Own(types.ModuleType):\n    value = 3\n"
    swapped = f"import sys, types\n{own}sys.modules[__name__] = Own(__name__)\n"
    files = {"alpha/__init__.py": "import alpha.swapped\n", "alpha/swapped.py": swapped}
    world = environments.make(tmp_path / "environment", files)
    assert world.pack()["failed"] == {}
    program = (
        "import sys, alpha, importlib.machinery as machinery\n"
        "print(sys.modules['alpha.swapped'].value)\n"
        "spec = machinery.PathFinder.find_spec('alpha.swapped', alpha.__path__)\n"
        "print(type(spec.loader).__name__)\n"
    )
    assert world.run("-c", program).stdout == "3\nPackLoader\n"


def test_namespace_packages_and_zip_files(tmp_path: Path) -> None:
    world = environments.make(tmp_path / "environment")
    world.write({"space/part.py": "VALUE = 'a'\n", "alpha/__init__.py": "import space.part\n"})
    (tmp_path / "more" / "space").mkdir(parents=True)
    (tmp_path / "more" / "space" / "other.py").write_text("VALUE = 'b'\n")
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "inside.py").write_text("VALUE = 'c'\n")
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "zipped")
    world.pack()
    program = (
        "import space, space.part, space.other, inside\n"
        "print(list(space.__path__), space.__file__, space.part.VALUE, space.other.VALUE)\n"
        "print(inside.VALUE, type(inside.__loader__).__name__)\n"
    )
    path = f"{archive}:{tmp_path / 'more'}"
    assert "None a b\nc zipimporter\n" in world.same(program, path=path)
    assert world.loader("space.part", path=path) == "PackLoader"


def test_a_folder_has_its_pack_under_both_of_its_names(tmp_path: Path) -> None:
    world = environments.make(tmp_path / "environment")
    (world.prefix / "lib64").symlink_to("lib")
    second = str(world.packages).replace("/lib/", "/lib64/")
    (world.packages / "both.pth").write_text(f"{second}\n")
    world.pack()
    assert world.loader("alpha.sub.two") == "PackLoader"
    program = f"import sys; sys.path.insert(0, {second!r}); import alpha.sub.two as two; print(two)"
    assert "/lib64/" in world.same(program)
    told = world.run("-c", f"{program}; print(two.__loader__, two.double.__code__.co_filename)")
    assert "PackLoader" in told.stdout
    assert f"{second}/alpha/sub/two.py" in told.stdout


@pytest.mark.parametrize("harm", ["truncated", "empty", "magic", "python", "gone"])
def test_a_pack_that_can_not_be_used(world: Environment, harm: str) -> None:
    data = bytearray(world.file.read_bytes())
    if harm == "truncated":
        data = data[:-1]
    elif harm == "empty":
        data.clear()
    elif harm in {"magic", "python"}:
        data[9 if harm == "python" else 3] ^= 1
    world.file.write_bytes(data)
    if harm == "gone":
        world.file.unlink()
    assert world.run("-c", ONE).stdout == "1\n"
    assert world.run("-c", ONE).stderr == ""
    assert world.loader("alpha.one") == "SourceFileLoader"
    assert world.run("-v", "-c", "").stderr.count("# dlcontainer: no module pack: ") == 1


def test_code_that_was_edited_is_told_when_it_is_checked(world: Environment) -> None:
    writer = _writer()
    data = bytearray(world.file.read_bytes())
    assert writer.check(bytes(data)) == ""
    data[-3] ^= 1
    assert writer.check(bytes(data)) == "its checksum differs: it was edited"
    assert writer.check(bytes(data[:-1])).startswith("it is truncated")
    assert writer.check(b"PK") == "it is not a module pack"


def test_code_that_can_not_be_read_is_the_file_s(world: Environment) -> None:
    data = bytearray(world.file.read_bytes())
    size = int.from_bytes(data[24:32], "little")
    data[64 + size :] = bytes(len(data) - 64 - size)
    world.file.write_bytes(data)
    assert world.run("-c", ONE).stdout == "1\n"


def _writer() -> Any:
    spec = importlib.util.spec_from_file_location("pack_modules", WRITER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BROKEN = {
    "alpha/__init__.py": "import alpha.one\nraise RuntimeError('no GPU')\n",
    "beta.py": "import json, os\nos.kill(os.getpid(), 11)\n",
    "gamma.py": "import sys, alpha_ok\nsys.exit(3)\n",
    "alpha_ok.py": "",
    "net.py": "import alpha_ok, urllib.request\n"
    "try:\n    urllib.request.urlopen('http://127.0.0.1:9/')\n"
    "except OSError as error:\n    print('net says', error)\n    raise\n",
}


def test_imports_that_fail_leave_the_others(tmp_path: Path) -> None:
    world = environments.make(tmp_path / "environment", BROKEN)
    world.write({"alpha/one.py": "class Thing:\n    value = 1\n"})
    report = world.pack("alpha", "beta", "gamma", "net", "none", "alpha_ok")
    assert report["failed"] == {
        "alpha": "RuntimeError: no GPU",
        "beta": "killed by signal 11",
        "gamma": "SystemExit: 3",
        "net": "URLError: <urlopen error [Errno 101] no network while modules are packed>",
        "none": "ModuleNotFoundError: No module named 'none'",
    }
    assert world.loader("alpha_ok") == "PackLoader"
    assert "no GPU" in world.run("-c", "import alpha", check=False).stderr


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "environment", ignore_errors=True)
        world = environments.make(tmp_path / "environment")
        report = world.pack()
        folders = [world.packages, world.packages / "alpha", world.packages / "alpha" / "sub"]
        times = [folder.stat().st_mtime for folder in folders]
        assert all(when == int(when) < 2**29 + 2**28 for when in times)
        made.append((world.file.read_bytes(), report, times))
        time.sleep(0.01)
    assert made[0] == made[1]
    world.pack()  # over an earlier pack
    assert world.file.read_bytes() == made[0][0]
    world.write({"alpha/one.py": "class Thing:\n    value = 2\n"})
    world.pack()
    assert world.file.read_bytes() != made[0][0]


SOME = """\
import sys
asked = []
sys.addaudithook(lambda event, given: asked.append((event, str(given[:1])))
    if event in ("open", "os.listdir", "os.scandir") else None)
import importlib, big
print([importlib.import_module(f"big.m{number}").N for number in range(0, COUNT, COUNT // 50)])
try:
    import big.none
except ImportError as error:
    print(error)
here = len([one for one in asked if "/big" in one[1]])
"""


def many(folder: Path, count: int) -> tuple[int, int]:
    """Pack that many modules; give the index's bytes, and the opens and listings of 51 imports."""
    world = environments.make(folder, {"big/__init__.py": ""})
    for number in range(count):
        (world.packages / f"big/m{number}.py").write_text(f"N = {number}\n")
    code = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=1, workers=1)"
    world.run("-c", code, world.packages / "big")
    text = f"import importlib\nfor number in range({count}):\n"
    text += "    importlib.import_module('big.m%d' % number)\n"
    world.write({"all_of_it.py": text})
    report = world.pack("all_of_it")
    assert report["modules"] > count
    assert world.loader(f"big.m{count - 1}") == "PackLoader"
    some = SOME.replace("COUNT", str(count))
    assert "No module named 'big.none'" in world.same(some)
    with world.without():
        assert int(world.run("-c", f"{some}\nprint(here)").stdout.split()[-1]) > 50
    requests = int(world.run("-c", f"{some}\nprint(here)").stdout.split()[-1])
    return int.from_bytes(world.file.read_bytes()[24:32], "little"), requests


@pytest.mark.parametrize(
    ("few", "more"), [(100, 400), pytest.param(1_000, 10_000, marks=pytest.mark.long)]
)
def test_a_pack_grows_with_its_modules_and_an_import_with_none_of_them(
    tmp_path: Path, few: int, more: int
) -> None:
    sizes, requests = zip(*(many(tmp_path / str(n), n) for n in (few, more)), strict=True)
    assert requests == (0, 0)
    # Of the standard library's modules both have the same; a name may have a digit more.
    each = (sizes[1] - sizes[0]) / (more - few)
    assert 20 < each < 60


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Environment]:
    """An environment as an image has it: packed, in a SquashFS, mounted where it was."""
    world = environments.make(tmp_path / "environment")
    world.pack(words=())
    image = tmp_path / "image.squashfs"
    for program in ("mksquashfs", "squashfuse", "fusermount3"):
        if shutil.which(program) is None:
            skip(f"no {program}: install squashfs-tools, squashfuse and fuse3")
    subprocess.run(["mksquashfs", world.prefix, image, "-quiet", "-no-progress"], check=True)
    shutil.rmtree(world.prefix)
    world.prefix.mkdir()
    subprocess.run(["squashfuse", image, world.prefix], check=True)
    try:
        yield world
    finally:
        if world.prefix.is_mount():
            subprocess.run(["fusermount3", "-u", "-z", world.prefix], check=True)


def test_a_squashfs_has_its_pack(mounted: Environment) -> None:
    assert mounted.loader("alpha.sub.two") == "PackLoader"
    # the standard library is on another file system, which anybody may write to
    assert mounted.loader("json") == "SourceFileLoader"


def test_an_unpacked_image_is_writable_and_has_no_pack(mounted: Environment) -> None:
    # as tar and unsquashfs unpack: with the times that the files had
    copy = mounted.prefix.with_name("copy")
    subprocess.run(["cp", "-a", mounted.prefix, copy], check=True)
    subprocess.run(["fusermount3", "-u", mounted.prefix], check=True)
    mounted.prefix.rmdir()
    copy.rename(mounted.prefix)
    assert mounted.packages.stat().st_mtime < 2**29 + 2**28
    assert mounted.loader("alpha.sub.two") == "SourceFileLoader"

"""Native programs beside an emulated build: which are taken, how they start, what sees them."""

import os
from pathlib import Path

import pytest

from dlcontainer.build.base import native_helpers
from dlcontainer.errors import BuildError
from dlcontainer.planning.plan import Plan
from tests.fakes import RecordingRunner, completed
from tests.values import HOST, IMAGE_BASE, folder_of, host, plan_of, site_of

LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
PROGRAM = b"\x7fELF head " + LOADER + b" and the rest"


def plan(folder: Path, arch: str = "ppc64le") -> Plan:
    return plan_of(folder_of(folder), site=site_of(arch=arch))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a root tree of this host's architecture, as unsquashfs would leave it."""
    tree = tmp_path / "it's a tree"
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    for folder in (libraries, tree / "usr/bin", tree / "usr/lib/python3.11"):
        folder.mkdir(parents=True)
    (libraries / "ld-linux-x86-64.so.2").write_bytes(b"the loader")
    (libraries / "libc.so.6").write_bytes(b"a library")
    (tree / "usr/lib/python3.11/os.py").write_text("")
    for name in ("dpkg-deb", "dpkg", "uname", "python3.11", "apt-get", "mawk"):
        (tree / "usr/bin" / name).write_bytes(PROGRAM)
    (tree / "usr/bin/sed").write_text("#!/bin/sh\n")
    methods = tree / "usr/lib/apt/methods"
    methods.mkdir(parents=True)
    (methods / "http").write_bytes(PROGRAM)
    (methods / "https").symlink_to("http")
    return tree


@pytest.fixture
def routing(tmp_path: Path, tree: Path) -> Path:
    folder = tmp_path / "routing"
    folder.mkdir()
    (folder / "routing.sh").write_text("export FIRST=1\n")
    (folder / "apt.conf").write_text('First "1";\n')
    native_helpers.add(plan(tmp_path), HOST, tree, folder)
    return folder


def test_where_they_are_possible(tmp_path: Path) -> None:
    foreign = plan(tmp_path)
    assert native_helpers.possible(foreign, HOST)
    assert not native_helpers.possible(foreign, host(arch="ppc64le"))
    assert not native_helpers.possible(foreign, host(arch="aarch64"))
    work = [{"name": "work", "shell": "true"}]
    without_packages = plan_of(folder_of(tmp_path, steps=work), site=site_of(arch="ppc64le"))
    assert not native_helpers.possible(without_packages, HOST)
    of_image = plan_of(folder_of(tmp_path, base=IMAGE_BASE), site=site_of(arch="ppc64le"))
    assert not native_helpers.possible(of_image, HOST)


def test_programs_find_their_loader_at_its_new_place(routing: Path) -> None:
    native = routing / "native"
    for name in ("bin/dpkg-deb", "bin/python3.11", "apt/apt-get", "methods/http", "methods/https"):
        program = (native / name).read_bytes()
        assert len(program) == len(PROGRAM)
        assert program.startswith(b"\x7fELF head /mnt/native/ld\0\0")
        assert os.access(native / name, os.X_OK)
    assert (native / "ld").read_bytes() == b"the loader"
    assert (native / "lib/libc.so.6").read_bytes() == b"a library"
    assert (native / "lib/python3.11/os.py").is_file()


def test_what_knows_its_architecture_stays_the_images_own(routing: Path) -> None:
    there = {path.name for path in (routing / "native/bin").iterdir()}
    # sed is a script in this tree: no native program to take.
    assert there == {"awk", "dpkg-deb", "mawk", "py3compile", "python3.11"}


def test_only_apt_and_dpkg_see_them(routing: Path) -> None:
    assert (routing / "routing.sh").read_text().splitlines() == [
        "export FIRST=1",
        "export APT_CONFIG=/mnt/apt.conf",
        'export PATH="/mnt/native/first:$PATH"',
    ]
    assert [path.name for path in (routing / "native/first").iterdir()] == ["apt-get"]
    assert (routing / "apt.conf").read_text().splitlines() == [
        'First "1";',
        'APT::Architecture "ppc64el";',
        'APT::Architectures { "ppc64el"; };',
        'Dir::Bin::methods "/mnt/native/methods";',
        'Dir::Bin::dpkg "/mnt/native/dpkg";',
        'APT::Sandbox::User "root";',
    ]
    assert (routing / "native/dpkg").read_text().splitlines()[-1] == 'exec /usr/bin/dpkg "$@"'


def test_the_compiler_is_the_images_script_in_a_native_python(routing: Path) -> None:
    text = (routing / "native/bin/py3compile").read_text()
    assert text.startswith("#!/mnt/native/bin/python3.11\n")
    compile(text, "py3compile", "exec")


def test_unpacking(tmp_path: Path) -> None:
    program = tmp_path / "unsquashfs"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    on = host(environ={"PATH": str(tmp_path)})
    runner = RecordingRunner()
    native_helpers.unpack(Path("/b.sqfs"), Path("/to"), on, runner)
    options = ("-quiet", "-no-progress", "-d", "/to", "/b.sqfs", "usr")
    assert runner.argvs == [(str(program), *options)]
    failing = RecordingRunner([completed("x", code=1, stderr="no space\n")])
    with pytest.raises(BuildError, match="cannot unpack") as caught:
        native_helpers.unpack(Path("/b.sqfs"), Path("/to"), on, failing)
    assert caught.value.why == "no space"

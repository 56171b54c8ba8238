"""A real Apptainer, put together in a private prefix, builds and runs an image."""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engine_setup.aptget import private_apt
from dlcontainer.engine_setup.aptsources import archive_of, read_sources, suite_of
from dlcontainer.engine_setup.surroundings import Session, begun
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import EngineError
from tests.integration.accounts import NOBODY as NOBODY_ACCOUNT
from tests.integration.accounts import Account, given, without, world_of
from tests.integration.world import write_bare
from tests.setup_scripts import Told, copy_scripts
from tests.skips import skip

NOBODY = 65534
LIMIT = 300.0  # seconds for one command; a download over a slow line is the longest


def need(command: str, package: str) -> str:
    """Return the command's path; without it fail in CI and skip elsewhere."""
    found = shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        skip(f"no {command} here: apt-get install {package}")
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A folder of somebody's, with the set-up scripts in it, and who that is."""

    folder: Path
    become: tuple[str, ...]

    @property
    def prefix(self) -> Path:
        return self.folder / "a prefix"

    @property
    def bin(self) -> Path:
        return self.folder / "a bin"

    def __call__(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.become, *argv],
            cwd=self.folder,
            env={
                "HOME": str(self.folder),
                "XDG_DATA_HOME": str(self.folder / "data"),
                # No Apptainer of the machine's, nor the links of this checkout's environment.
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            },
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done

    def setup(self, python: str = "/usr/bin/python3") -> subprocess.CompletedProcess[str]:
        script = str(self.folder / "tools/setup_engine.py")
        options = ("--only", "prefix", "--prefix", str(self.prefix), "--bin", str(self.bin))
        return self(python, script, *options)


def make_place(folder: Path, become: Sequence[str]) -> Place:
    copy_scripts(folder)
    place = Place(folder=folder, become=tuple(become))
    place.bin.mkdir()
    make_rootfs(folder / "rootfs")
    (folder / "image.def").write_text(
        f"Bootstrap: localimage\nFrom: {folder}/rootfs\n%post\n    echo from-post >/built\n"
    )
    return place


def make_rootfs(root: Path) -> None:
    """Make the least that Apptainer takes for a root tree: a shell, cat and their libraries."""
    for name in ("bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr/bin", "var/tmp"):
        (root / name).mkdir(parents=True)
    programs = [Path("/bin/sh"), Path("/bin/cat")]
    argv = ["ldd", *map(str, programs)]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    libraries = {Path(path) for path in re.findall(r"(?<![^\s])(/\S+)(?= \()", listed)}
    assert libraries
    for file in [*programs, *libraries]:
        target = root / str(file).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.resolve(), target)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


@pytest.fixture(scope="module")
def debian() -> None:
    need("apt-get", "apt (on a Debian or Ubuntu)")
    need("dpkg-deb", "dpkg")


# As root: `make test`, typed by root, sets the engine that it runs on up by the same steps.
@pytest.fixture(scope="module", params=[pytest.param("root", marks=pytest.mark.long), "user"])
def place(request: pytest.FixtureRequest, debian: None) -> Iterator[Place]:
    """Yield a folder that holds an Apptainer, set up by root and by an ordinary user."""
    become: tuple[str, ...] = ()
    if os.geteuid() == 0 and request.param == "user":
        ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        become = (need("setpriv", "util-linux"), *ids)
    elif os.geteuid() != 0 and request.param == "root":
        skip(
            "only root can set it up as root: run the tests as root too", elsewhere="a run as root"
        )
    # Not tmp_path: another user must be able to enter.
    folder = Path(tempfile.mkdtemp(prefix="dlcontainer-test-"))
    try:
        made = make_place(folder, become)
        if become:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        made.setup()
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_it_runs_and_its_record_names_what_it_is_made_of(place: Place) -> None:
    version = place(str(place.bin / "apptainer"), "--version").stdout
    record = json.loads((place.prefix / "apptainer/record.json").read_text())
    assert version.startswith("apptainer version 1.")
    assert record["version"] == version.strip()
    packages = {package["name"]: package for package in record["packages"]}
    assert {"apptainer", "libc6", "libseccomp2"} <= packages.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", package["sha256"]) for package in packages.values())


def test_a_second_run_finds_it_and_changes_nothing(place: Place) -> None:
    def state() -> list[tuple[Path, int, int]]:
        told = ((path, path.lstat()) for path in sorted(place.prefix.rglob("*")))
        return [(path, info.st_ino, info.st_mtime_ns) for path, info in told]

    before = state()
    done = place.setup()
    assert "found: all helper programs (private prefix)" in done.stdout
    assert "private prefix)" in done.stdout.splitlines()[1]
    # Nothing is unpacked again: the files are those of the first run.
    assert state() == before


def test_the_private_programs_run(place: Place) -> None:
    for name, option in (
        ("mmdebstrap", "--version"),
        ("mksquashfs", "-version"),
        ("unsquashfs", "-version"),
        ("fuse-overlayfs", "--version"),
    ):
        program = place.bin / name
        assert place.prefix in program.readlink().parents
        done = place(str(program), option, check=False)
        assert name.split("-")[0] in done.stdout + done.stderr


def test_it_builds_and_runs_an_image(place: Place) -> None:
    apptainer = str(place.bin / "apptainer")
    ordinary = bool(place.become) or os.geteuid() != 0
    # The tree has no getopt, which the fakeroot command would need.
    build = ["--ignore-fakeroot-command"] if ordinary else ["--fakeroot"]
    place(apptainer, "build", *build, "an image.sif", "image.def")
    # Who may not mount with FUSE runs the image unpacked.
    mode = stat.S_IMODE(Path("/dev/fuse").stat().st_mode) if Path("/dev/fuse").exists() else 0
    mount = [] if mode & 0o006 == 0o006 or not ordinary else ["--unsquash"]
    done = place(apptainer, "exec", "--userns", *mount, "an image.sif", "cat", "/built")
    assert done.stdout == "from-post\n"


@pytest.mark.long
def test_a_build_needs_no_program_of_the_systems(place: Place) -> None:
    account = NOBODY_ACCOUNT if place.become else Account(uid=os.getuid(), gid=os.getgid())
    names = ("apptainer", "mmdebstrap", "mmtarfilter", "mksquashfs", "unsquashfs")
    with world_of(account, Apptainer(program=place.bin / "apptainer")) as user:
        # A space in the PATH, and programs of this machine's own that would do the work.
        path = f"{place.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        world = replace(user, program=(*without(*names), *user.program)).having(PATH=path)
        recipe = given(account, write_bare(world.folder / "a recipe"))
        said = world.run("doctor").stdout
        for name in ("apptainer", "mmdebstrap", "mksquashfs", "unsquashfs"):
            assert f"{place.bin / name}" in said
        assert world.build(recipe, world.folder / "out").image.is_file()


@pytest.mark.long
def test_what_a_killed_run_left_is_mended(place: Place) -> None:
    record = place.prefix / "apptainer/record.json"
    tree = (place.prefix / "apptainer").resolve()
    left = tree.with_name("apptainer-00000000")
    place("mkdir", str(left))
    record.unlink()
    place.setup()
    assert record.is_file()
    assert not left.exists()
    assert not tree.exists()
    assert place(str(place.bin / "apptainer"), "--version").stdout.startswith("apptainer")


def test_a_mirror_signed_by_another_key_is_refused(debian: None, tmp_path: Path) -> None:
    keyring = tmp_path / "none.gpg"
    keyring.touch()
    codename = re.search(r"VERSION_CODENAME=(\S+)", Path("/etc/os-release").read_text())
    assert codename
    source = replace(archive_of(read_sources(), codename[1]), signed_by=str(keyring))
    session = Session(environ=os.environ, teller=Told(), elsewhere="")
    with begun(session), tempfile.TemporaryDirectory() as folder:
        apt = private_apt(Path(folder), sources=suite_of(source, codename[1]))
        with pytest.raises(EngineError, match="update") as caught:
            apt.update()
        assert re.search(r"NO_PUBKEY|not signed|verif", str(caught.value))
        with pytest.raises(EngineError):
            apt.download(["libc6"])

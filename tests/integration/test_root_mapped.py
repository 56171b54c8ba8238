"""A user who can map one id alone: no newuidmap, no fakeroot; images are built all the same."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines import base_modes
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system import machine
from tests.integration import accounts
from tests.integration.accounts import NOBODY, Account
from tests.integration.world import World, missing, write_bare, write_tiny, write_wheel

HIDDEN = ("newuidmap", "newgidmap", "fakeroot", "fakechroot")
# Of a user namespace with one id, all of this fails without the filter.
OWNERS = """\
cd "$(mktemp -d)"
echo x > file
chown 1:2 file
chown -h daemon:mail file
mkdir folder
chgrp -R 8 folder
mknod null c 1 3
[ ! -e null ]
mkfifo pipe
[ -p pipe ]
setpriv --reuid 33 --regid 33 --clear-groups true
id -u
rm -r file folder pipe
"""
CHANGES = """\
touch /opt/bare/owned
chown 33:33 /opt/bare/owned
install -o daemon -g mail -m 2755 /bin/true /opt/bare/program
chgrp -R 8 /opt/bare
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A user with subordinate ids, in a world without the programs that map them."""

    account: Account
    world: World

    def call(self, *argv: str, hidden: bool) -> None:
        """Run a program as this user, with or without what maps subordinate ids."""
        hiding = accounts.without(*HIDDEN) if hidden else ()
        done = subprocess.run(
            [*hiding, *self.account.argv(*argv)],
            env=dict(self.world.environ),
            cwd=self.world.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def owner(engine: Apptainer) -> Iterator[Owner]:
    """Give a user with lines in /etc/subuid and /etc/subgid, as useradd writes them."""
    with accounts.with_ids("dlc-mapped") as account, accounts.world_of(account, engine) as world:
        program = (*accounts.without(*HIDDEN), *world.program)
        yield Owner(account=account, world=replace(world, program=program))


def test_owners_seem_to_change() -> None:
    if os.getuid() != 0:
        missing("root, which becomes an ordinary user")
    _, *options, program = base_modes.fake_ids()
    mapped = NOBODY.argv("unshare", "--map-root-user", "--mount")
    script = ["/bin/sh", "-c", f"set -eu\n{OWNERS}"]
    # By its text: an ordinary user may not enter the checkout.
    filtered = ["/usr/bin/python3", *options, "-c", Path(program).read_text()]
    said = subprocess.run(
        [*mapped, *filtered, *script], capture_output=True, text=True, check=False, cwd="/"
    )
    assert (said.returncode, said.stdout) == (0, "0\n"), said.stderr
    without = subprocess.run(
        [*mapped, *script], capture_output=True, text=True, check=False, cwd="/"
    )
    assert without.returncode != 0
    assert "Invalid argument" in without.stderr


def test_doctor_names_the_cause(owner: Owner) -> None:
    lines = owner.world.run("doctor").stdout.splitlines()
    assert lines[-1] == "this host can build and run images"
    [build] = [line for line in lines if line.startswith("ok       build: ")]
    assert "works in mode root-mapped; not in plain" in build
    [base] = [line for line in lines if line.startswith("ok       base: ")]
    assert "mmdebstrap works in mode root-mapped; not in unshare" in base
    [at] = [at for at, line in enumerate(lines) if line.startswith("warning  subordinate ids: ")]
    assert "there is no newuidmap and no newgidmap" in lines[at]
    assert lines[at + 1].strip() == "-> an administrator types: apt-get install uidmap"


def test_a_home_that_is_closed_to_others(engine: Apptainer) -> None:
    """A subordinate user can't run a private mmdebstrap there, nor make a folder."""
    with accounts.with_ids("dlc-closed") as account, accounts.world_of(account, engine) as world:
        closed = world.folder / "closed"
        closed.mkdir()
        shutil.copy("/usr/bin/mmdebstrap", closed)
        accounts.given(account, closed).chmod(0o700)
        path = f"{closed}:{world.environ['PATH']}"
        for changes in ({"PATH": path}, {"TMPDIR": str(closed)}):
            said = world.having(**changes).run("doctor", "-v").stdout
            [base] = [line for line in said.splitlines() if line.startswith("ok       base: ")]
            assert "mmdebstrap works in mode root-mapped; not in unshare" in base
            # Why is for those who ask for all.
            assert "Permission denied" in said


@pytest.mark.long
def test_steps_that_change_owners(owner: Owner) -> None:
    account, world = owner.account, owner.world
    recipe = accounts.given(account, write_bare(world.folder / "a bare recipe", CHANGES))
    built = world.build(recipe, world.folder / "out")
    assert built.recorded()["engine"]["mode"] == "root-mapped"
    assert list(Path(world.environ["TMPDIR"]).iterdir()) == []


@pytest.mark.long
def test_a_user_without_subordinate_ids_and_fakeroot(engine: Apptainer) -> None:
    with accounts.world_of(NOBODY, engine) as user:
        world = replace(user, program=(*accounts.without(*HIDDEN), *user.program))
        recipe = accounts.given(NOBODY, write_bare(world.folder / "a bare recipe", CHANGES))
        built = world.build(recipe, world.folder / "out")
        assert built.recorded()["engine"]["mode"] == "plain"


@pytest.mark.long
def test_a_recipe_with_packages_from_end_to_end(owner: Owner) -> None:
    account, world = owner.account, owner.world
    wheels = accounts.given(account, write_wheel(world.folder / "wheels").parent)
    recipe = accounts.given(account, write_tiny(world.folder / "a tiny recipe"))
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    built = world.having(PIP_FIND_LINKS=found).build(recipe, world.folder / "out")
    assert world.checks(built.image)["verify"] == (True, "answer: answer 42")
    root = world.folder / "software"
    world.run("publish", built.image, "--site", "local", "--root", root)
    python = str((root / "modules/tcl/tiny/1.0").resolve().parent / "bin/python")
    # Who has newuidmap runs the same module.
    for hidden in (True, False):
        owner.call(python, "-c", "import dlctiny", hidden=hidden)


@pytest.mark.long
def test_the_base_is_the_one_that_root_makes(
    owner: Owner, world: World, bare: Path, unsquashfs: str, tmp_path: Path
) -> None:
    account, user = owner.account, owner.world
    if not world.base().exists():
        world.build(bare, tmp_path / "for the base")
    recipe = accounts.given(account, write_bare(user.folder / "a bare recipe"))
    user.build(recipe, user.folder / "out")
    trees = []
    for name, base in (("root's", world.base()), ("the user's", user.base())):
        argv = [unsquashfs, "-no-progress", "-quiet", "-d", str(tmp_path / name), str(base)]
        subprocess.run(argv, check=True, capture_output=True)
        trees.append(contents(tmp_path / name))
    root, own = trees
    assert len(root) > 5000
    differing = {name for name in root.keys() | own.keys() if root.get(name) != own.get(name)}
    assert differing == set()


def contents(tree: Path) -> dict[str, tuple[int, int, int, str]]:
    """Say of each file its mode, owner, group, and what is in it or where it leads."""
    found = {}
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(folder, name)
            info = path.lstat()
            if path.is_symlink():
                said = os.readlink(path)  # noqa: PTH115  the link as written
            elif path.is_file():
                said = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                said = ""
            key = str(path.relative_to(tree))
            found[key] = (info.st_mode, info.st_uid, info.st_gid, said)
    return found


def test_the_program_is_where_the_commands_look_for_it() -> None:
    assert Path(base_modes.fake_ids()[-1]).is_file()
    assert machine.find_program("unshare", os.environ) is not None

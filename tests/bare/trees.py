"""Bare trees: a minimal Debian, an account, a copy of the checkout; and a command run in one."""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bare import network
from tests.bare.machines import PACKAGES, Machine, Release
from tests.values import ROOT

_ENTER = Path(__file__).with_name("enter.sh")
# There is one in each tree: no bare machine is made in another.
MARK = "etc/dlcontainer-bare"
# Debian's point releases and security updates are not waited for longer.
_KEPT_S = 7 * 86400
_NOT_COPIED = (".git", ".venv", ".tools", "demo", "images", "dist", "__pycache__", ".*_cache")
ENGINE = "/opt/engine"
# Debian's package manager and what is written in Perl.
_STRIPPED = (
    *("usr/bin/apt*", "usr/bin/dpkg*", "usr/sbin/dpkg*", "usr/bin/perl*", "usr/bin/debconf*"),
    *("usr/lib/apt", "usr/lib/dpkg", "usr/libexec/dpkg", "var/lib/dpkg", "etc/apt"),
    *("etc/debian_version", "opt/engine/bin/mmdebstrap*"),
)
_OTHER_FAMILY = (
    'ID=el\nID_LIKE="rhel fedora"\nVERSION_ID="9"\nPRETTY_NAME="a host of another family"\n'
)


def obstacle() -> str | None:
    """Say why no bare machine can be made here; None where one can."""
    if os.geteuid() != 0:
        return "bare machines are made as root only"
    if (Path("/") / MARK).exists():
        return "this is a bare machine itself"
    for program, package in (("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux")):
        if shutil.which(program) is None:
            return f"no {program} here: apt-get install {package}"
    return None


def archive(release: Release, packages: Sequence[str]) -> Path:
    """Give a minimal tree of a release as an archive: the kept one, or a new one."""
    line, names = network.sources(release), ",".join(packages)
    key = hashlib.sha256(f"{line}|{names}".encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "dlcontainer-tests" / f"{release}-{key}.tar"
    if path.is_file() and time.time() - path.stat().st_mtime < _KEPT_S:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"new-{os.getpid()}-{path.name}")
    options = ["--quiet", "--variant=minbase", f"--include={names}"]
    try:
        subprocess.run(["mmdebstrap", *options, release, str(new), line], check=True)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A bare machine on this one's disk."""

    machine: Machine
    root: Path

    @property
    def home(self) -> Path:
        """The account's home, as this host sees it."""
        name = self.machine.user
        return self.root / ("root" if name == "root" else f"home/{name}")

    @property
    def checkout(self) -> Path:
        """The copy of this checkout there."""
        return self.home / "dlcontainer"

    def argv(self, command: str, *, user: str | None = None) -> list[str]:
        """Give the command that runs another in a login shell of the account there."""
        # Nothing that was started there outlives it.
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        fuse = "yes" if self.machine.fuse else "no"
        folders = map(str, network.folders())
        account = user or self.machine.user
        return [*own, "sh", str(_ENTER), str(self.root), account, fuse, command, *folders]

    def call(self, command: str, *, user: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end; output and errors are one text."""
        return subprocess.run(
            self.argv(command, user=user),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )

    def own(self, folder: Path) -> None:
        """Give a folder there to the account."""
        there = self.home.stat()
        ids = f"{there.st_uid}:{there.st_gid}"
        subprocess.run(["chown", "-R", "--no-dereference", ids, str(folder)], check=True)

    def remove(self) -> None:
        """Remove the tree; what was mounted there went with its processes."""
        shutil.rmtree(self.root)


def make(machine: Machine, root: Path) -> Tree:
    """Make a bare machine in a folder that is not there yet."""
    packed = archive(machine.release, sorted({*PACKAGES, *machine.packages}))
    root.mkdir(parents=True)
    subprocess.run(["tar", "-C", str(root), "--numeric-owner", "-xpf", str(packed)], check=True)
    (root / MARK).write_text(f"{machine.name}\n")
    tree = Tree(machine=machine, root=root)
    network.hand_in(root)
    if machine.user != "root":
        _add_user(machine, root)
    copy_checkout(tree)
    if machine.stripped:
        _hand_in_engine(tree)
        _strip(root)
    return tree


def copy_checkout(tree: Tree) -> None:
    """Copy this checkout into the account's home, without what was made in it."""
    ignore = shutil.ignore_patterns(*_NOT_COPIED)
    shutil.copytree(ROOT, tree.checkout, symlinks=True, ignore=ignore)
    tree.own(tree.checkout)


def _add_user(machine: Machine, root: Path) -> None:
    chroot = ["chroot", str(root)]
    subprocess.run([*chroot, "useradd", "-m", "-s", "/bin/bash", machine.user], check=True)
    (root / "home" / machine.user).chmod(machine.home_mode)
    for name in ("subuid", "subgid"):
        file = root / "etc" / name
        kept = re.sub(rf"(?m)^{machine.user}:.*\n", "", file.read_text())
        given = f"{machine.user}:100000:65536\n" if machine.subordinate_ids else ""
        file.write_text(kept + given)


def _hand_in_engine(tree: Tree) -> None:
    """Put an engine on PATH, as a centre's administrator does; its packages are Debian's."""
    script = f"python3 {tree.home}/dlcontainer/tools/setup_engine.py --only prefix"
    script = script.replace(str(tree.root), "")
    folders = f"--bin {ENGINE}/bin --prefix {ENGINE}/prefix"
    done = tree.call(f"mkdir -p {ENGINE}/bin && {script} {folders}", user="root")
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    profile = tree.root / "etc/profile.d/engine.sh"
    profile.write_text(f"export PATH={ENGINE}/bin:$PATH\n")


def _strip(root: Path) -> None:
    for pattern in _STRIPPED:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    (root / "usr/lib/os-release").write_text(_OTHER_FAMILY)

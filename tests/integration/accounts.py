"""Ordinary users, for tests that root runs: root becomes one, everybody else is one already."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dlcontainer
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.world import World, isolated, missing
from tests.processes import poll
from tests.skips import skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A user without any right of root's."""

    uid: int
    gid: int

    def argv(self, *argv: str) -> list[str]:
        """Give the command that runs another as this user."""
        ids = [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        return ["setpriv", *ids, "--inh-caps=-all", *argv]

    def own(self, folder: Path) -> Path:
        """Make a folder and all in it the user's."""
        folder.chmod(0o755)
        subprocess.run(["chown", "-R", f"{self.uid}:{self.gid}", str(folder)], check=True)
        return folder


NOBODY = Account(uid=65534, gid=65534)


@contextlib.contextmanager
def with_ids(name: str) -> Iterator[Account]:
    """Make an account with subordinate ids, as an administrator would; root only."""
    if os.getuid() != 0:
        missing("root, which makes an account for the test")
    for program in ("useradd", "userdel", "newuidmap"):
        if shutil.which(program) is None:
            missing(f"{program} (passwd, uidmap)")
    _remove(name)  # of a killed test
    subprocess.run(["useradd", "--create-home", name], check=True, capture_output=True)
    try:
        entry = pwd.getpwnam(name)
        # useradd gives ids to whom it makes; some distributions' does not.
        ids = ["--add-subuids", "300000-365535", "--add-subgids", "300000-365535"]
        if f"{name}:" not in Path("/etc/subuid").read_text():
            subprocess.run(["usermod", *ids, name], check=True)
        yield Account(uid=entry.pw_uid, gid=entry.pw_gid)
    finally:
        _remove(name)


def _remove(name: str) -> None:
    """Remove a test's account; first what still runs as it, Podman's pause process for one."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and folder.stat().st_uid == uid:
                os.kill(int(folder.name), signal.SIGKILL)

    def removed() -> bool:
        return (
            subprocess.run(
                ["userdel", "--remove", name], check=False, capture_output=True
            ).returncode
            == 0
        )

    assert poll(removed, 60)


@contextlib.contextmanager
def world_of(account: Account, engine: Apptainer) -> Iterator[World]:
    """Give an ordinary user with a home; root becomes the account."""
    with tempfile.TemporaryDirectory(prefix="dlcontainer-user-") as name:
        folder = Path(name)
        world = isolated(folder / "world", folder / "cache")
        # Not this user's variables, but the way to the outside.
        kept = ("PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "SSL_CERT_FILE", "no_proxy")
        environ = {
            key: value
            for key, value in world.environ.items()
            if key in kept or key.startswith(("PIP_", "http_", "https_", "HTTP_", "HTTPS_"))
        }
        world = replace(world, environ={**environ, "LANG": "C.UTF-8"})
        if os.getuid() != 0:
            yield world
            return
        if shutil.which("setpriv") is None:
            missing("setpriv")
        for path in (str(engine.program), dlcontainer.__file__):
            if subprocess.run(account.argv("test", "-r", path), check=False).returncode != 0:
                skip(f"an ordinary user can't read {path}")
        start, variables = _entry(world, account)
        account.own(folder)
        yield replace(
            world,
            program=tuple(account.argv(*start)),
            environ={**world.environ, **variables},
        )
        # Trees of a user namespace, should a test have failed in the middle.
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)


# Over each program on the system's PATH goes a device, which nobody can execute.
_HIDE = """\
while [ "$1" != -- ]; do
    for folder in /usr/local/bin /usr/bin /usr/sbin; do
        [ ! -e "$folder/$1" ] || mount --bind /dev/null "$folder/$1" || exit 99
    done
    shift
done
shift
exec "$@"
"""


def without(*programs: str) -> tuple[str, ...]:
    """Give what goes before a command that is to find none of these programs; root only."""
    if os.getuid() != 0:
        missing("root, which hides programs from a test")
    return ("unshare", "--mount", "/bin/sh", "-c", _HIDE, "sh", *programs, "--")


def with_file(source: Path, target: str) -> tuple[str, ...]:
    """Give what goes before a command that is to see one file in another's place; root only."""
    if os.getuid() != 0:
        missing("root, which shows a test another file")
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    return ("unshare", "--mount", "/bin/sh", "-c", script, "sh", str(source), target)


def given(account: Account, path: Path) -> Path:
    """Give a folder to the user, where root made it."""
    return account.own(path) if os.getuid() == 0 else path


def _entry(world: World, account: Account) -> tuple[tuple[str, ...], dict[str, str]]:
    """Give a program that an ordinary user can run, and the variables that it needs.

    root's own Python may lie in root's home: the distribution's then runs the same packages.
    """
    # Through a shell: setpriv itself still has root's rights when it starts its command.
    runs = account.argv("/bin/sh", "-c", '"$0" -c "import dlcontainer"', sys.executable)
    if subprocess.run(runs, check=False, capture_output=True, cwd="/").returncode == 0:
        return world.program, {}
    packages = [path for path in sys.path if path.endswith("site-packages")]
    packages.append(str(Path(dlcontainer.__file__).parent.parent))
    variables = {"PYTHONPATH": os.pathsep.join(packages)}
    start = ("/usr/bin/python3", "-c", "from dlcontainer.cli.main import run; run()")
    done = subprocess.run(
        account.argv(*start, "--version"),
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        skip(f"an ordinary user can run neither {sys.executable} nor {done.stderr[-200:]}")
    return start, variables

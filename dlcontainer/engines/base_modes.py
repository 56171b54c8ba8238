"""How mmdebstrap can work here, as whom: each way is tried as a build goes it, the best first."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
)

_FAKEIDS = Path(__file__).resolve().with_name("fake_ids.py")
_TIMEOUT_S = 60.0

# What mmdebstrap needs of a way: that its own program can be read, and a folder made.
_LOOK = '"$1" --version >/dev/null && folder=$(mktemp -d) && rmdir "$folder"'
_CHOWN = 'folder=$(mktemp -d) && chown 1:1 "$folder" && rmdir "$folder"'

_BOTH = f"{_LOOK} && {_CHOWN}"

_SAYS_NOTHING = ("E: system failed", "E: unshared command failed")

_DEVICES = "null zero full random urandom tty"
# mmdebstrap's own /dev can't be mounted there: its devpts belongs to an id that is not mapped.
_OWN_DEV = (
    "--skip=chroot/mount/dev",
    (
        f'--extract-hook=for name in {_DEVICES}; do : > "$1/dev/$name" && '
        'mount --bind "/dev/$name" "$1/dev/$name" || exit; done'
    ),
)
_NO_DEV = (
    (
        f'--customize-hook=for name in {_DEVICES}; do umount "$1/dev/$name" && '
        'rm "$1/dev/$name" || exit; done'
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseMode:
    """One way: what goes before mmdebstrap, its options, and those that come after all others.

    `own_files`: all that it makes is this user's, so it may work in a private folder.
    """

    name: str
    prefix: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    last_options: tuple[str, ...] = ()
    own_files: bool = True

    def around(self, argv: list[str]) -> list[str]:
        """Return mmdebstrap's command as it goes this way; suite and target stay its last words."""
        program, *options = argv
        command = [program, *self.options, *options[:-2], *self.last_options]
        return [*self.prefix, *command, *options[-2:]]

    def trial(self, program: Path) -> list[str]:
        """Return the command that shows whether this way can be gone here."""
        if self.name == "unshare":
            return [str(program), "--unshare-helper", *_shell(_LOOK, program)]
        return [*self.prefix, *_shell(_LOOK if self.name == "root" else _BOTH, program)]


def fake_ids() -> tuple[str, ...]:
    """Return what goes before a command that is to believe it may change owners and ids."""
    return (sys.executable, "-I", "-S", str(_FAKEIDS))


# root's mmdebstrap mounts /proc and the like: they end with its mount namespace, however it ends.
ROOT = BaseMode(name="root", prefix=("unshare", "--mount"), options=("--mode=root",))
# With subordinate ids and newuidmap.
UNSHARE = BaseMode(name="unshare", options=("--mode=unshare",), own_files=False)
# Without either: one id is mapped, and to change owners only looks as if it worked.
ROOT_MAPPED = BaseMode(
    name="root-mapped",
    prefix=("unshare", "--map-root-user", "--mount", *fake_ids()),
    options=("--mode=root", '--aptopt=APT::Sandbox::User "root"', *_OWN_DEV),
    last_options=('--customize-hook=rm "$1"/etc/apt/apt.conf.d/99mmdebstrap', *_NO_DEV),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeAttempt:
    """The first way that works, and what the others before it answered, by name."""

    mode: BaseMode | None
    failures: Mapping[str, str]


def environment(host: HostMachine) -> dict[str, str]:
    """Return the bare environment in which a base is made."""
    kept = {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PERL5LIB"}
    return {name: value for name, value in host.environ.items() if name in kept}


def attempt(program: Path, host: HostMachine, runner: Runner) -> ModeAttempt:
    """Try the ways in their order until one works."""
    env = environment(host)
    failures: dict[str, str] = {}
    for mode in (ROOT, ROOT_MAPPED) if host.uid == 0 else (UNSHARE, ROOT_MAPPED):
        try:
            runner(mode.trial(program), env=env, timeout=_TIMEOUT_S)
        except CommandFailedError as error:
            failures[mode.name] = _reason(error.completed.stderr) or str(error)
        except (CommandNotFoundError, CommandTimeoutError) as error:
            failures[mode.name] = str(error)
        else:
            return ModeAttempt(mode=mode, failures=failures)
    return ModeAttempt(mode=None, failures=failures)


def require(program: Path, host: HostMachine, runner: Runner) -> BaseMode:
    """Return the first way that works; raises BuildError with what each of them answered."""
    tried = attempt(program, host, runner)
    if tried.mode is None:
        raise BuildError(
            "mmdebstrap cannot make a base here",
            why="; ".join(f"{name}: {reason}" for name, reason in tried.failures.items()),
            next_step="run `dlcontainer doctor`: it names the cause, and the line that fixes it",
        )
    return tried.mode


def _reason(text: str) -> str:
    """Pick the line that says why; mmdebstrap's last ones only say that."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith(_SAYS_NOTHING)]
    return (reasons or lines or [""])[-1]


def _shell(script: str, program: Path) -> list[str]:
    return ["/bin/sh", "-c", script, "sh", str(program)]

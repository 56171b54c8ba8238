"""The base: a distribution's minimal root tree, made outside the image and kept for a day."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import lockedbase
from dlcontainer.bundle import Bundle
from dlcontainer.errors import BuildError
from dlcontainer.fields import DEBIAN_ARCH
from dlcontainer.formats.apptainer import BASE_FILE
from dlcontainer.machine import Host, find_program
from dlcontainer.plan import Plan
from dlcontainer.render import quote
from dlcontainer.routing import Routed
from dlcontainer.shell import CommandFailedError, Runner
from dlcontainer.workspace import settle

# A base holds the distribution's security updates of the day it was made.
MAX_AGE_S = 24 * 3600.0

# Raise it when the way a base is made changes: older ones in caches are then not used.
_MAKER = 2
_EPOCH = "1577836800"  # 2020-01-01


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseTree:
    """A base on disk, and what is known of it."""

    path: Path
    sha256: str
    made: str
    cached: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseMaker:
    """Who makes bases: this user, with this cache."""

    host: Host
    runner: Runner
    cache: Path
    on_line: Callable[[str], None]
    on_wait: Callable[[str], None]


def prepare(plan: Plan, routed: Routed, maker: BaseMaker, work: Path, log: Path) -> BaseTree:
    """Give the base of a plan: a fresh enough one from the cache, or a new one.

    `work` is a private folder. Raises BuildError with the last lines of what failed.
    """
    folder = _folder(plan, maker.cache, routed.bundle)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder, maker.on_wait):
        kept = recall(plan, maker.cache, routed.bundle)
        if kept is not None:
            return kept
        return _make(plan, routed, maker, (work, folder, log))


def recall(plan: Plan, cache: Path, bundle: Bundle | None = None) -> BaseTree | None:
    """Give the base of a plan if a fresh enough one is in the cache; of a lock: the locked one."""
    # A locked one holds the packages of its lock: it does not age.
    return _recall(_folder(plan, cache, bundle), MAX_AGE_S if bundle is None else None)


def _folder(plan: Plan, cache: Path, bundle: Bundle | None) -> Path:
    base = plan.recipe.base
    name = f"{base.distribution}-{base.release}-{DEBIAN_ARCH[plan.site.arch]}"
    return cache / "bases" / (f"{name}-{bundle.lock.base_key[:16]}" if bundle else name)


def _make(
    plan: Plan, routed: Routed, maker: BaseMaker, places: tuple[Path, Path, Path]
) -> BaseTree:
    work, folder, log = places
    for left in folder.glob(".*"):
        left.unlink()  # of a killed maker: this one holds the lock
    tar = work / "rootfs.tar"
    if routed.bundle is not None:
        lockedbase.stage(routed.bundle, work, maker.runner)
    _run(maker, mmdebstrap_argv(plan, routed, maker.host, tar), routed, (work, log))
    if routed.bundle is not None:
        lockedbase.check(routed.bundle.lock, tar)
    clean = work / "clean.tar"
    _without_devices(tar, clean)
    tar.unlink()
    squash = work / BASE_FILE
    _run(maker, _squash_argv(maker.host, clean, squash), routed, (work, log))
    clean.unlink()
    sha256, made = _sha256(squash), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # The cache may lie on another file system: copy beside the target, then rename.
    aside = folder / f".{BASE_FILE}.{os.getpid()}"
    shutil.copyfile(squash, aside)
    squash.unlink()
    (folder / "base.json").unlink(missing_ok=True)
    settle(aside, folder / BASE_FILE)
    note = folder / f".base.json.{os.getpid()}"
    note.write_text(json.dumps({"maker": _MAKER, "sha256": sha256, "made": made}) + "\n")
    settle(note, folder / "base.json")
    return BaseTree(path=folder / BASE_FILE, sha256=sha256, made=made, cached=False)


def _recall(folder: Path, max_age: float | None) -> BaseTree | None:
    path = folder / BASE_FILE
    try:
        record = json.loads((folder / "base.json").read_text())
        age = time.time() - path.stat().st_mtime
        if max_age is not None and not 0 <= age < max_age:
            return None
        if _sha256(path) != record["sha256"]:
            return None
        if record["maker"] != _MAKER:
            return None
        return BaseTree(path=path, sha256=record["sha256"], made=record["made"], cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mmdebstrap_argv(plan: Plan, routed: Routed, host: Host, target: Path) -> list[str]:
    """Give the command that makes the root tree through the host's mirrors.

    The tree's own sources stay what mmdebstrap writes by default: they are put aside while the
    mirrors are in use.
    """
    program = find_program("mmdebstrap", host.environ)
    if program is None:
        raise BuildError(
            "no mmdebstrap on PATH",
            why="it makes the base, a distribution's minimal root tree",
            next_step="type `make setup` in dlcontainer's checkout, or: "
            "sudo apt-get install mmdebstrap",
        )
    base = plan.recipe.base
    argv = [str(program), "--variant=minbase", "--format=tar"]
    argv.append(f"--architectures={DEBIAN_ARCH[plan.site.arch]}")
    argv += [f"--aptopt={setting.rstrip(';')}" for setting in routed.apt_settings]
    if routed.bundle is not None:
        argv += lockedbase.options(routed.bundle.lock, target.parent)
    elif routed.apt_sources:
        lines = [
            source.line(str(source.keyring) if source.keyring else None)
            for source in routed.apt_sources
        ]
        listed = " ".join(map(quote, lines))
        argv += [
            '--setup-hook=mv "$1"/etc/apt/sources.list "$1"/etc/apt/sources.default',
            f"--setup-hook=printf '%s\\n' {listed} > \"$1\"/etc/apt/sources.list",
            '--customize-hook=mv "$1"/etc/apt/sources.default "$1"/etc/apt/sources.list',
        ]
    argv += [
        # Nothing of this host: its resolver, its name, its apt settings.
        '--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
        '--customize-hook=: > "$1"/etc/resolv.conf',
        '--customize-hook=echo localhost > "$1"/etc/hostname',
        '--customize-hook=cd "$1"/var/log && rm -rf apt dpkg.log bootstrap.log alternatives.log',
    ]
    return [*argv, str(base.release), str(target)]


def _squash_argv(host: Host, tar: Path, target: Path) -> list[str]:
    program = find_program("mksquashfs", host.environ)
    if program is None:
        raise BuildError(
            "no mksquashfs on PATH",
            why="it packs the base",
            next_step="type `make setup` in dlcontainer's checkout, or: sudo apt-get install "
            "squashfs-tools",
        )
    # lz4: the base is unpacked once and thrown away, so quick beats small.
    options = ["-tar", "-comp", "lz4", "-noappend", "-quiet", "-no-progress"]
    # All files root's: a user without subordinate ids can unpack no others, and one base for all
    # users means one image for all.
    options += ["-root-mode", "0755", "-all-root"]
    # mksquashfs reads a tar only from its standard input; values arrive as arguments, not as text.
    script = 'program=$1 tar=$2; shift 2; exec "$program" - "$@" < "$tar"'
    return ["/bin/sh", "-c", script, "sh", str(program), str(tar), str(target), *options]


def _run(maker: BaseMaker, argv: list[str], routed: Routed, places: tuple[Path, Path]) -> None:
    work, log = places
    env = {
        name: value
        for name, value in maker.host.environ.items()
        if name in {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PERL5LIB"}
    }
    # Files of the archive's packages keep their times; those made now get this one.
    env |= {"SOURCE_DATE_EPOCH": _EPOCH, **routed.environment}
    if maker.host.uid == 0:
        # Others' mmdebstrap works as a subordinate user, who can't enter a private folder.
        env["TMPDIR"] = str(work)
    try:
        maker.runner(argv, env=env, on_line=maker.on_line, log=log)
    except CommandFailedError as error:
        last = "\n".join(error.completed.stdout.splitlines()[-8:])
        raise BuildError(
            "the base could not be made",
            why=last,
            next_step="read the log; `dlcontainer doctor` tells what mmdebstrap lacks here",
        ) from None


def _without_devices(source: Path, target: Path) -> None:
    # In a user namespace a device node can't be made, and the copy fails with a message that
    # does not say so; every engine mounts its own /dev.
    with (
        tarfile.open(source) as old,
        tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as new,
    ):
        folder = tarfile.TarInfo("dev")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        new.addfile(folder)
        for member in old:
            name = member.name.removeprefix("./")
            if name in {"", ".", "dev"} or name.startswith("dev/"):
                continue
            new.addfile(member, old.extractfile(member) if member.isreg() else None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(folder: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # Two builders at once: the second waits and takes what the first made.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait("another build is making this base: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            on_wait(f"{folder} has no locks: two builds at once would both make the base")
        yield
    finally:
        os.close(lock)

"""The base: a distribution's minimal root tree, made outside the image and kept for a day."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import aptconfig, emulation, lockedbase
from dlcontainer.bundle import Bundle
from dlcontainer.errors import BuildError
from dlcontainer.fields import ARCHES, DEBIAN_ARCH, Arch
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
_MAKER = 3
_EPOCH = "1577836800"  # 2020-01-01

# What nobody reads in an image: dpkg leaves it out in the base and in all that comes later.
# Copyright files stay, as their licenses ask. docs/measurements.md has what it saves.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
_KEPT = ("/usr/share/doc/*/copyright", "/usr/share/locale/locale.alias")


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseTree:
    """A base on disk, and what is known of it."""

    path: Path
    sha256: str
    made: str
    cached: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RootTree:
    """Which root tree: a distribution's release for an architecture, with further packages."""

    distribution: str
    release: str
    arch: Arch
    packages: tuple[str, ...] = ()
    # key of the locked packages that it is made of, and of nothing else
    locked: str | None = None

    @property
    def name(self) -> str:
        """Name of its folder in the cache."""
        parts = [self.distribution, self.release, DEBIAN_ARCH[self.arch], *self.packages]
        return "-".join([*parts, self.locked[:16]] if self.locked else parts)


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
    return _prepare(root_tree(plan, routed.bundle), routed, maker, (work, log))


def prepare_companion(
    plan: Plan, routed: Routed, maker: BaseMaker, work: Path, log: Path
) -> BaseTree:
    """Give the root tree of the same release for this host's own architecture, with tools.

    As `prepare`; what it holds serves while an emulated image is made, and is no part of it.
    """
    return _prepare(companion_tree(plan, maker.host), routed, maker, (work, log))


def root_tree(plan: Plan, bundle: Bundle | None = None) -> RootTree:
    """Say which root tree a plan's image starts from."""
    base = plan.recipe.base
    return RootTree(
        distribution=str(base.distribution),
        release=str(base.release),
        arch=plan.site.arch,
        locked=bundle.lock.base_key if bundle else None,
    )


def companion_tree(plan: Plan, host: Host) -> RootTree:
    """Say which root tree has this host's own programs of the release."""
    arch = next(arch for arch in ARCHES if arch == host.arch)
    return replace(root_tree(plan), arch=arch, packages=("openssl", "python3-minimal"))


def _prepare(
    wanted: RootTree, routed: Routed, maker: BaseMaker, places: tuple[Path, Path]
) -> BaseTree:
    folder = _folder(wanted, maker.cache)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder, maker.on_wait):
        kept = _recall(wanted, maker.cache)
        if kept is not None:
            return kept
        work, log = places
        return _make(wanted, routed, maker, (work, folder, log))


def recall(plan: Plan, cache: Path, bundle: Bundle | None = None) -> BaseTree | None:
    """Give the base of a plan if a fresh enough one is in the cache; of a lock: the locked one."""
    return _recall(root_tree(plan, bundle), cache)


def _folder(wanted: RootTree, cache: Path) -> Path:
    return cache / "bases" / wanted.name


def _make(
    wanted: RootTree, routed: Routed, maker: BaseMaker, places: tuple[Path, Path, Path]
) -> BaseTree:
    work, folder, log = places
    for left in folder.glob(".*"):
        left.unlink()  # of a killed maker: this one holds the lock
    tar = work / "rootfs.tar"
    bundle = routed.bundle if wanted.locked else None
    if bundle is not None:
        lockedbase.stage(bundle, work, maker.runner)
    env = emulation.environment(wanted.arch) if wanted.arch != maker.host.arch else {}
    argv = mmdebstrap_argv(wanted, routed, maker.host, tar)
    if maker.host.uid == 0:
        # Root's mmdebstrap mounts /proc and the like: they end with it, however it ends.
        argv = ["unshare", "--mount", *argv]
    _run(maker, argv, {**env, **routed.environment}, (work, log))
    aptconfig.take_lists(work / "lists", routed.folder)
    if bundle is not None:
        lockedbase.check(bundle.lock, tar)
    clean = work / "clean.tar"
    _without_devices(tar, clean)
    tar.unlink()
    squash = work / BASE_FILE
    _run(maker, _squash_argv(maker.host, clean, squash), {}, (work, log))
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


def _recall(wanted: RootTree, cache: Path) -> BaseTree | None:
    folder = _folder(wanted, cache)
    path = folder / BASE_FILE
    try:
        record = json.loads((folder / "base.json").read_text())
        age = time.time() - path.stat().st_mtime
        # A locked one holds the packages of its lock: it does not age.
        if not (wanted.locked or 0 <= age < MAX_AGE_S) or _sha256(path) != record["sha256"]:
            return None
        if record["maker"] != _MAKER:
            return None
        return BaseTree(path=path, sha256=record["sha256"], made=record["made"], cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mmdebstrap_argv(wanted: RootTree, routed: Routed, host: Host, target: Path) -> list[str]:
    """Give the command that makes a root tree through the host's mirrors.

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
    argv = [str(program), "--variant=minbase", "--format=tar"]
    argv.append(f"--architectures={DEBIAN_ARCH[wanted.arch]}")
    if wanted.arch != host.arch:
        # Looked at before, without the further program that mmdebstrap wants for it.
        argv.append("--skip=check/qemu")
    if wanted.packages:
        argv.append(f"--include={','.join(wanted.packages)}")
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    argv += [f"--dpkgopt=path-include={pattern}" for pattern in _KEPT]
    argv += [f"--aptopt={setting.rstrip(';')}" for setting in routed.apt_settings]
    if routed.bundle is not None and wanted.locked:
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
            # The steps' apt begins with these: it asks whether they still hold, and fetches none.
            f"--customize-hook=copy-out /var/lib/apt/lists {quote(str(target.parent))}",
        ]
    argv += [
        # Nothing of this host: its resolver, its name, its apt settings.
        '--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
        '--customize-hook=: > "$1"/etc/resolv.conf',
        '--customize-hook=echo localhost > "$1"/etc/hostname',
        '--customize-hook=cd "$1"/var/log && rm -rf apt dpkg.log bootstrap.log alternatives.log',
    ]
    return [*argv, wanted.release, str(target)]


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


def _run(
    maker: BaseMaker, argv: list[str], more: Mapping[str, str], places: tuple[Path, Path]
) -> None:
    work, log = places
    env = {
        name: value
        for name, value in maker.host.environ.items()
        if name in {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PERL5LIB"}
    }
    # Files of the archive's packages keep their times; those made now get this one.
    env |= {"SOURCE_DATE_EPOCH": _EPOCH, **more}
    if maker.host.uid == 0:
        # Others' mmdebstrap works as a subordinate user, who can't enter a private folder.
        env["TMPDIR"] = str(work)
    try:
        maker.runner(argv, env=env, on_line=maker.on_line, log=log)
    except CommandFailedError as error:
        said = error.completed.stdout
        step = "read the log; `dlcontainer doctor` tells what mmdebstrap lacks here"
        if "E: Failed to fetch" in said:
            # Mirrors may lag, more often for the rarer architectures.
            step = "try later, or name suites that your mirror has whole: routing.apt of the site"
        last = "\n".join(said.splitlines()[-8:])
        raise BuildError("the base could not be made", why=last, next_step=step) from None


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

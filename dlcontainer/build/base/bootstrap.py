"""What makes a base: mmdebstrap and mksquashfs, of which tree, in which surroundings."""

import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import installation
from dlcontainer.build import error_patterns
from dlcontainer.config.field_types import DEBIAN_ARCH, Arch
from dlcontainer.config.templating import quote
from dlcontainer.engines import base_modes
from dlcontainer.errors import BuildError
from dlcontainer.packages import locked_base
from dlcontainer.packages.apt import keyrings, mirror_faults
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import CommandFailedError, Runner

# Names in the tree of the files that `stage` writes.
_SETTINGS = "98dlcontainer"
_SOURCES = "sources.list"
_KEYRING = "dlcontainer-keyring.gpg"
# In the staged sources: mmdebstrap says only as it runs where its tree is.
_TREE = "@TREE@"

_EPOCH = "1577836800"  # 2020-01-01

# What nobody reads in an image: dpkg leaves it out in the base and in all that comes later.
# Copyright files stay, as their licenses ask. docs/measurements/build.md has what it saves.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
_KEPT = ("/usr/share/doc/*/copyright", "/usr/share/locale/locale.alias")


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
    """Who makes bases: this user, with this cache.

    `since`, s since 1970: a tree of the cache that was made before is not taken.
    """

    host: HostMachine
    runner: Runner
    cache: Path
    on_line: Callable[[str], None]
    on_wait: Callable[[str], None]
    since: float | None = None


def mmdebstrap(host: HostMachine) -> Path:
    """Find mmdebstrap; raises BuildError that says how to get it."""
    program = find_program("mmdebstrap", host.environ)
    if program is None:
        raise BuildError(
            "no mmdebstrap on PATH",
            why="it makes the base, a distribution's minimal root tree",
            next_step=installation.helper(host.environ, "mmdebstrap"),
        )
    return program


def mmdebstrap_argv(
    root_tree: RootTree, routed: PreparedRouting, host: HostMachine, target: Path
) -> list[str]:
    """Return the command that makes a root tree through the host's mirrors.

    The tree's own sources stay what mmdebstrap writes by default: they are put aside while the
    mirrors are in use.
    """
    argv = [str(mmdebstrap(host)), "--variant=minbase", "--format=tar"]
    argv.append(f"--architectures={DEBIAN_ARCH[root_tree.arch]}")
    if root_tree.arch != host.arch:
        # Looked at before, without the further program that mmdebstrap wants for it.
        argv.append("--skip=check/qemu")
    archive = keyrings.ARCHIVES.get(root_tree.distribution)
    if archive is not None and not root_tree.locked:
        # mmdebstrap's own default is main alone; python3-venv is in universe.
        argv.append(f"--components={','.join(archive.components)}")
    # In Ubuntu apt is not among the packages of priority `required`, as it is in Debian.
    include = (*(("apt",) if archive is not None else ()), *root_tree.packages)
    if include and not root_tree.locked:
        argv.append(f"--include={','.join(include)}")
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    argv += [f"--dpkgopt=path-include={pattern}" for pattern in _KEPT]
    if routed.bundle is not None and root_tree.locked:
        argv += locked_base.options(routed.bundle.lock, target.parent)
    argv += _way_out(root_tree, routed, target.parent)
    argv += [
        # Nothing of this host: its resolver, its name.
        '--customize-hook=: > "$1"/etc/resolv.conf',
        '--customize-hook=echo localhost > "$1"/etc/hostname',
        '--customize-hook=cd "$1"/var/log && rm -rf apt dpkg.log bootstrap.log alternatives.log',
    ]
    return [*argv, root_tree.release, str(target)]


def stage(root_tree: RootTree, routed: PreparedRouting, work: Path) -> None:
    """Write the files that mmdebstrap carries into the tree, and out again, for nobody else."""
    # An address may hold a password: arguments can be read by all users of a machine.
    if routed.apt_settings:
        _write_private(work / _SETTINGS, routed.apt_settings)
    if routed.apt_sources and not root_tree.locked:
        lines = []
        for source in routed.apt_sources:
            keyring = source.keyring
            if keyring is not None and _is_private(keyring, routed):
                shutil.copyfile(keyring, work / _KEYRING)
                keyring = Path(f"{_TREE}/{_KEYRING}")
            lines.append(source.line(str(keyring) if keyring else None))
        _write_private(work / _SOURCES, lines)


def unstage(work: Path) -> None:
    """Remove what `stage` wrote."""
    for name in (_SETTINGS, _SOURCES, _KEYRING):
        (work / name).unlink(missing_ok=True)


def _way_out(root_tree: RootTree, routed: PreparedRouting, work: Path) -> list[str]:
    # copy-in: mmdebstrap may work as a subordinate user, who can't enter a private folder. It keeps
    # the files' mode.
    argv = []
    if routed.apt_settings:
        argv += [
            f"--setup-hook=copy-in {quote(str(work / _SETTINGS))} /etc/apt/apt.conf.d",
            f'--customize-hook=rm "$1"/etc/apt/apt.conf.d/{_SETTINGS}',
        ]
    if routed.apt_sources and not root_tree.locked:
        argv += [
            '--setup-hook=mv "$1"/etc/apt/sources.list "$1"/etc/apt/sources.default',
            f"--setup-hook=copy-in {quote(str(work / _SOURCES))} /etc/apt",
            *_keys_in(routed, work),
            '--customize-hook=mv "$1"/etc/apt/sources.default "$1"/etc/apt/sources.list',
            # The steps' apt begins with these: it asks whether they still hold, and fetches none.
            f"--customize-hook=copy-out /var/lib/apt/lists {quote(str(work))}",
        ]
    return argv


def _is_private(keyring: Path, routed: PreparedRouting) -> bool:
    return keyring.is_relative_to(routed.folder)


def _keys_in(routed: PreparedRouting, work: Path) -> list[str]:
    keyrings = [source.keyring for source in routed.apt_sources if source.keyring]
    if not any(_is_private(keyring, routed) for keyring in keyrings):
        return []
    return [
        f"--setup-hook=copy-in {quote(str(work / _KEYRING))} /",
        f'--setup-hook=sed -i "s|{_TREE}|$1|" "$1"/etc/apt/sources.list',
        f'--customize-hook=rm "$1"/{_KEYRING}',
    ]


def _write_private(path: Path, lines: Iterable[str]) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{line}\n" for line in lines)


def squash_argv(host: HostMachine, tar: Path, target: Path) -> list[str]:
    """Return the command that packs a root tree's tar."""
    program = find_program("mksquashfs", host.environ)
    if program is None:
        raise BuildError(
            "no mksquashfs on PATH",
            why="it packs the base",
            next_step=installation.helper(host.environ, "squashfs-tools"),
        )
    # lz4: the base is unpacked once and thrown away, so quick beats small.
    options = ["-tar", "-comp", "lz4", "-noappend", "-quiet", "-no-progress"]
    # All files root's: a user without subordinate ids can unpack no others, and one base for all
    # users means one image for all.
    options += ["-root-mode", "0755", "-all-root"]
    # mksquashfs reads a tar only from its standard input; values arrive as arguments, not as text.
    script = 'program=$1 tar=$2; shift 2; exec "$program" - "$@" < "$tar"'
    return ["/bin/sh", "-c", script, "sh", str(program), str(tar), str(target), *options]


def run(maker: BaseMaker, argv: list[str], more: Mapping[str, str], log: Path) -> None:
    """Run a command of the two in a bare environment.

    Raises MirrorFaultError where packages are not to be had, else BuildError with its last lines.
    """
    # Files of the archive's packages keep their times; those made now get this one.
    env = {**base_modes.environment(maker.host), "SOURCE_DATE_EPOCH": _EPOCH, **more}
    try:
        maker.runner(argv, env=env, on_line=maker.on_line, log=log)
    except CommandFailedError as error:
        stdout = error.completed.stdout
        urls = mirror_faults.missing(stdout)
        if urls:
            raise mirror_faults.MirrorFaultError(urls) from None
        step = "read the log, and run `dlcontainer doctor`: it names what mmdebstrap needs here"
        if "E: Failed to fetch" in stdout:
            # Mirrors may lag, more often for the rarer architectures.
            step = (
                "try again later, or set routing.apt of the site to suites that your mirror has "
                "completely"
            )
            cause = error_patterns.explain(stdout, error.completed.returncode)
            step = cause.next_step if cause else step
        if "NO_PUBKEY" in stdout:
            step = (
                "install the keys of the distribution's archive (a package like "
                "ubuntu-keyring or debian-archive-keyring), or name their file in "
                "routing.apt of the site: [signed-by=FILE]"
            )
        last = "\n".join(stdout.splitlines()[-8:])
        raise BuildError("cannot make the base", why=last, next_step=step) from None


def without_devices(source: Path, target: Path) -> None:
    """Copy a root tree's tar without what is in /dev."""
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

"""The base from a bundle: mmdebstrap gets the locked packages alone, and the tree is checked."""

import os
import shutil
import tarfile
from pathlib import Path

from dlcontainer.config.templating import quote
from dlcontainer.errors import BuildError
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages.apt.apt_resolver import parse_stanzas
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import Lock
from dlcontainer.system.process import Runner

_STAGED = "locked-debs"
_STATUS = "var/lib/dpkg/status"


def stage(bundle: Bundle, work: Path, runner: Runner) -> None:
    """Make a repository of the base's packages in a private folder; raises BuildError."""
    folder = work / _STAGED
    (folder / bundles.DEBS).mkdir(parents=True)
    for pin in bundle.lock.base.packages:
        _link_or_copy(bundle.folder / bundles.DEBS / pin.file, folder / bundles.DEBS / pin.file)
    packages = bundle.lock.base.packages
    bundles.write_lists(bundle.lock, packages, folder / bundles.DEBS, folder, runner)


def options(lock: Lock, work: Path) -> list[str]:
    """Return mmdebstrap's options that make the tree of what `stage` put into `work`.

    The repository is carried into the tree, and out again: a subordinate user, as whom
    mmdebstrap may work, can't enter a private folder.
    """
    # By name: the packages of priority `required` are known to the mirror's lists alone.
    names = ",".join(pin.name for pin in lock.base.packages)
    staged = quote(str(work / _STAGED))
    place = f'"$1"/{_STAGED}'
    return [
        f"--include={names}",
        f"--setup-hook=copy-in {staged} /",
        '--setup-hook=mv "$1"/etc/apt/sources.list "$1"/etc/apt/sources.default',
        f'--setup-hook=echo "deb [trusted=yes] copy:$1/{_STAGED} ./" > "$1"/etc/apt/sources.list',
        f"--customize-hook=rm -rf {place}",
        '--customize-hook=mv "$1"/etc/apt/sources.default "$1"/etc/apt/sources.list',
    ]


def check(lock: Lock, tar: Path) -> None:
    """Compare the packages of a root tree with its lock; raises BuildError where they differ."""
    with tarfile.open(tar) as tree:
        member = next((m for m in tree if m.name.removeprefix("./") == _STATUS), None)
        file = tree.extractfile(member) if member else None
        text = file.read().decode() if file else ""
    installed = {(s["Package"], s["Version"], s["Architecture"]) for s in parse_stanzas(text)}
    locked = {(pin.name, pin.version, pin.arch) for pin in lock.base.packages}
    if installed != locked:
        more = [
            f"{name} {version} is in the base, but not in the lock"
            for name, version, _ in installed - locked
        ]
        less = [
            f"{name} {version} is in the lock, but not in the base"
            for name, version, _ in locked - installed
        ]
        raise BuildError(
            "the new base differs from the locked one",
            why="\n    ".join(["", *sorted(more + less)[:10]]),
            next_step="lock again with this machine's apt and mmdebstrap: dlcontainer lock",
        )


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, target)

"""The packages of an image beside those that mirrors and indexes offer: newer ones, and older."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from dlcontainer.errors import BuildError
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.packages.lock_resolver import Locker
from dlcontainer.system.machine import find_program

_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMove:
    """A package of the image, and its newer version of the mirrors or indexes."""

    name: str
    before: str
    after: str


def wheel(version: str, sha256: str) -> str:
    """Return what stands for a wheel: another file of the same version is another."""
    return f"{version} (sha256 {sha256[:12]}…)"


def against(packages: Iterable[InstalledPackage], offered: Mapping[str, str]) -> list[PackageMove]:
    """List the packages of an image that are offered in another version."""
    moves = {}
    for package in packages:
        name, version = f"{package.kind}:{package.name}", package.version
        if package.kind == "pypi":
            # An environment of the distribution's may have the same one: that is no wheel.
            name, version = (
                f"pypi:{canonicalize_name(package.name)}",
                wheel(version, package.sha256),
            )
            if not package.sha256:
                continue
        if offered.get(name, version) != version:
            moves[name] = PackageMove(name=name, before=version, after=offered[name])
    return [moves[name] for name in sorted(moves)]


def parted(
    moves: Sequence[PackageMove], locker: Locker
) -> tuple[tuple[PackageMove, ...], tuple[PackageMove, ...]]:
    """Part the newer ones from the older ones, as dpkg orders versions."""
    older = tuple(
        move for move in moves if move.name.startswith("deb:") and _is_older(move, locker)
    )
    return tuple(move for move in moves if move not in older), older


def _is_older(move: PackageMove, locker: Locker) -> bool:
    program = find_program("dpkg", locker.host.environ)
    argv = [str(program), "--compare-versions", move.after, "lt", move.before]
    return program is not None and locker.runner(argv, check=False).returncode == 0


def require_no_older(moves: Sequence[PackageMove], older: Sequence[PackageMove]) -> None:
    """Refuse mirrors that have newer packages and older ones; raises BuildError."""
    if not (moves and older):
        return
    raise BuildError(
        f"the mirrors have older packages than the image: {named(older)}",
        why=f"and newer ones: {named(moves)}; one of the mirrors lags behind",
        next_step="repeat it in some hours, or name another mirror (routing.apt of the site); "
        "to take what the mirrors have: build --no-cache",
    )


def older_alone(packages: str) -> BuildError:
    """Return why no other image is made from mirrors that have older packages, and none newer."""
    return BuildError(
        f"the mirrors have nothing newer, and older packages than the image: {packages}",
        why="this line makes another image (--level, a changed recipe …), and it could get these",
        next_step="repeat it in some hours, or name another mirror (routing.apt of the site); "
        "without --refresh it is built from the cache, and from what the mirrors have",
    )


def named(moves: Sequence[PackageMove]) -> str:
    """Name the first few of them, with both versions."""
    more = f" and {len(moves) - _SHOWN} more" if len(moves) > _SHOWN else ""
    names = (f"{move.name.partition(':')[2]} {move.before} → {move.after}" for move in moves)
    return ", ".join(list(names)[:_SHOWN]) + more

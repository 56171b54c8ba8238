"""A refresh: what mirrors and indexes have now, against the image that is there."""

import contextlib
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from dlcontainer.build.context import BuildContext
from dlcontainer.engines.engine import RefreshKind
from dlcontainer.errors import BuildError, ChecksFailedError, ConfigError
from dlcontainer.image import listed_packages, record
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.image.record import Record, RefreshProvenance
from dlcontainer.packages import lock_resolver
from dlcontainer.packages.lock_resolver import Locker, ResolvedPackages
from dlcontainer.packages.lockfile import MirrorRelease, WheelPin
from dlcontainer.planning import built_for
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import find_program

_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBefore:
    """The image that a refresh starts from: its record, and the packages of its bill."""

    record: Record
    packages: tuple[InstalledPackage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMove:
    """A package of the image, and its newer version of the mirrors or indexes."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshAnswer:
    """What mirrors and indexes have; `moves` are those packages of the image that are older.

    `is_newer`: the image has to be built again, with `refreshed` in its context; a root tree of
    before `base_since` (s since 1970) is not taken then. `notes` says what stays as it is, and why.
    """

    refreshed: RefreshProvenance
    moves: tuple[PackageMove, ...]
    is_newer: bool
    base_since: float | None
    notes: tuple[str, ...]

    def into(self, context: BuildContext) -> BuildContext:
        """Return the context of a build with these packages; the same where none is newer."""
        if not self.is_newer:
            return context
        return replace(context, refreshed=self.refreshed, base_since=self.base_since)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Offer:
    """What is offered now: each step's key, the packages by name, the mirrors' states."""

    keys: Mapping[str, str]
    offered: Mapping[str, str]
    mirror: tuple[MirrorRelease, ...] = ()
    # No answer: why it can't be told whether there is anything newer.
    unknown: str | None = None


def before(image_record: Path, bill: Path) -> ImageBefore | None:
    """Read what is in the image that is there; None where there is none, or no bill of it."""
    with contextlib.suppress(ChecksFailedError):
        written = record.read(image_record)
        if written is not None and bill.is_file():
            return ImageBefore(record=written, packages=listed_packages.read(bill))
    return None


def require(plan: Plan, context: BuildContext, kind: RefreshKind) -> None:
    """Refuse what a plan has nothing of, or a pin fixes; raises ConfigError."""
    named = f"{plan.recipe.name} --site {built_for.named(plan.site)}"
    has_os = any(step.os_packages or step.build_packages for step in plan.recipe.steps)
    has_python = any(step.python_packages or step.conda_packages for step in plan.recipe.steps)
    image = plan.recipe.base.image
    if image and (kind == "base" or (kind == "os" and not has_os)):
        origins = {key: origin for key, _, origin in plan.origins}
        raise ConfigError(
            f"cannot refresh the base {plan.recipe.base.reference}: a digest pins it",
            where=origins["base.image"].where,
            why="the same digest is the same image",
            next_step=f"pin the image of today: dlcontainer base pin {named}; then build",
        )
    if context.base is not None and kind == "base":
        raise ConfigError(
            f"cannot refresh the base of --base {context.base}",
            why="a file is made once",
            next_step=f"make it again: dlcontainer base make {named} -o FILE",
        )
    if kind == "python" and not has_python:
        raise ConfigError(
            f"no step of {plan.recipe.name} installs Python packages",
            next_step="--refresh os",
        )


def ask(
    plan: Plan,
    context: BuildContext,
    kind: RefreshKind,
    image: ImageBefore | None,
    locker: Locker,
) -> RefreshAnswer:
    """Resolve the packages of a kind again, and compare them with an image's.

    `context` has what the last refresh made. Raises BuildError where a mirror or an index fails,
    and where the mirrors have older packages than the image beside newer ones.
    """
    require(plan, context, kind)
    began = time.time()
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    if kind == "python":
        part = _python_packages(plan, locker, moment)
    else:
        part = _os_packages(plan, kind, locker, moment)
    last = dict(context.refreshed.steps) if context.refreshed else {}
    moves, older = _parted(_moves(image, part.offered), locker)
    _require_no_older(moves, older)
    moved_keys = any(last.get(step, key) != key for step, key in part.keys.items())
    unknown = [part.unknown] if part.unknown else []
    is_tree = not plan.recipe.base.image and context.base is None
    return RefreshAnswer(
        refreshed=RefreshProvenance(
            asked_at=moment,
            kind=kind,
            mirror=tuple(map(_shown, part.mirror)),
            steps={**last, **part.keys},
        ),
        moves=moves,
        is_newer=bool(image is None or moves or unknown or (moved_keys and not older)),
        base_since=began if is_tree and kind != "python" else None,
        notes=(*unknown, *_notes(plan, context, kind, moves, older)),
    )


def _os_packages(plan: Plan, kind: RefreshKind, locker: Locker, moment: str) -> _Offer:
    steps = {step.name for step in plan.recipe.steps if step.os_packages or step.build_packages}
    try:
        if find_program("apt-get", locker.host.environ) is None:
            raise ConfigError("no apt-get on PATH")
        packages = lock_resolver.resolve(plan, locker, python_packages=False)
    except ConfigError as error:
        if kind == "base":
            raise
        return _untold(steps, moment, error)
    base = packages.base
    offered = {pin.name: pin.version for pin in base.packages} if base else {}
    keys = {}
    if kind == "os":
        stay = {step.name for step in plan.recipe.steps if step.os_packages}
        pins = [pin for step in packages.steps if step.name in stay for pin in step.os_packages]
        offered |= {pin.name: pin.version for pin in pins}
        keys = {step.name: step.key for step in packages.steps}
    offered = {f"deb:{name}": version for name, version in offered.items()}
    return _Offer(keys=keys, offered=offered, mirror=base.mirror if base else ())


def _python_packages(plan: Plan, locker: Locker, moment: str) -> _Offer:
    steps = plan.recipe.steps
    names = {step.name for step in steps if step.python_packages or step.conda_packages}
    try:
        if any(step.conda_packages for step in steps):
            raise ConfigError("conda resolves its packages during the build")
        packages = lock_resolver.resolve(plan, locker, os_packages=False)
    except ConfigError as error:
        return _untold(names, moment, error)
    return _Offer(
        keys={step.name: step.key for step in packages.steps},
        offered={
            f"pypi:{canonicalize_name(pin.name)}": _wheel(pin.version, pin.sha256)
            for pin in _wheels(packages)
        },
    )


def _wheels(packages: ResolvedPackages) -> Iterable[WheelPin]:
    return (pin for step in packages.steps for pin in step.python_packages)


def _wheel(version: str, sha256: str) -> str:
    return f"{version} (sha256 {sha256[:12]}…)"


def _untold(steps: Iterable[str], moment: str, error: ConfigError) -> _Offer:
    """Return a part that nobody can resolve ahead: its steps are run again."""
    key = hashlib.sha256(moment.encode()).hexdigest()
    why = f"it can't be told whether there are newer packages, so steps run again: {error.what}"
    return _Offer(keys=dict.fromkeys(steps, key), offered={}, unknown=why)


def _moves(image: ImageBefore | None, offered: Mapping[str, str]) -> list[PackageMove]:
    """List the packages of an image that are offered in another version."""
    moves = {}
    for package in image.packages if image else ():
        name, version = f"{package.kind}:{package.name}", package.version
        if package.kind == "pypi":
            # An environment of the distribution's may have the same one: that is no wheel.
            name, version = (
                f"pypi:{canonicalize_name(package.name)}",
                _wheel(version, package.sha256),
            )
            if not package.sha256:
                continue
        if offered.get(name, version) != version:
            moves[name] = PackageMove(name=name, before=version, after=offered[name])
    return [moves[name] for name in sorted(moves)]


def _parted(
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


def _require_no_older(moves: Sequence[PackageMove], older: Sequence[PackageMove]) -> None:
    if not (moves and older):
        return
    raise BuildError(
        f"the mirrors have older packages than the image: {_named(older)}",
        why=f"and newer ones: {_named(moves)}; one of the mirrors lags behind",
        next_step="repeat it in some hours, or name another mirror (routing.apt of the site); "
        "to take what the mirrors have: build --no-cache",
    )


def _notes(
    plan: Plan,
    context: BuildContext,
    kind: RefreshKind,
    moves: Sequence[PackageMove],
    older: Sequence[PackageMove],
) -> list[str]:
    named = f"{plan.recipe.name} --site {built_for.named(plan.site)}"
    notes = []
    if older:
        notes.append(f"the mirrors lag behind the image: {_named(older)}")
    if kind == "os" and plan.recipe.base.image:
        notes.append(
            f"the base {plan.recipe.base.reference} stays, for a digest pins it: "
            f"dlcontainer base pin {named}"
        )
    if kind == "os" and context.base is not None:
        notes.append(f"the base {context.base} stays: dlcontainer base make {named} -o FILE")
    if kind == "python" and not moves:
        notes.append(
            "the recipe pins its Python packages; newer releases: dlcontainer recipe outdated "
            f"{plan.recipe.name}"
        )
    return notes


def _named(moves: Sequence[PackageMove]) -> str:
    more = f" and {len(moves) - _SHOWN} more" if len(moves) > _SHOWN else ""
    names = (f"{move.name.partition(':')[2]} {move.before} → {move.after}" for move in moves)
    return ", ".join(list(names)[:_SHOWN]) + more


def _shown(state: MirrorRelease) -> str:
    parts = (state.origin, state.suite, state.version, state.date or state.snapshot)
    return " ".join(filter(None, parts))

"""A refresh: what mirrors and indexes have now, against the image that is there."""

import contextlib
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from dlcontainer.build import package_moves
from dlcontainer.build.base import root_tree
from dlcontainer.build.context import BuildContext
from dlcontainer.build.package_moves import PackageMove
from dlcontainer.engines.engine import RefreshKind
from dlcontainer.errors import ChecksFailedError, ConfigError
from dlcontainer.image import listed_packages, record
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.image.record import Record, RefreshProvenance
from dlcontainer.packages import host_access, lock_resolver
from dlcontainer.packages.lock_resolver import Locker, ResolvedPackages
from dlcontainer.packages.lockfile import MirrorRelease, WheelPin
from dlcontainer.planning import built_for
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image
from dlcontainer.system.machine import HostMachine, find_program


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBefore:
    """The image that a refresh starts from: its record, and the packages of its bill."""

    record: Record
    packages: tuple[InstalledPackage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshStart:
    """What a refresh of a kind starts from: the image that is there, and what came before.

    `last` is the refresh that builds go on from; `base` a base that was handed over (--base).
    """

    kind: RefreshKind
    image: ImageBefore | None
    last: RefreshProvenance | None = None
    base: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshAnswer:
    """What mirrors and indexes have; `moves` are those packages of the image that are older.

    `is_newer`: the image has to be built again; `is_told` is False where that is so because nobody
    can tell. `older` are packages that the mirrors have older than the image. `refreshed` is what
    an image that is made now records; a root tree of before `base_since` (s since 1970) is not
    taken. `notes` says what stays as it is, and why.
    """

    refreshed: RefreshProvenance
    moves: tuple[PackageMove, ...]
    older: tuple[PackageMove, ...] = ()
    is_newer: bool
    is_told: bool = True
    base_since: float | None
    notes: tuple[str, ...]

    def into(self, context: BuildContext) -> BuildContext:
        """Return the context of a build with these packages; the steps' stay where none is newer.

        An image that is packed again then keeps its base, of whatever age.
        """
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


def require(plan: Plan, start: RefreshStart) -> None:
    """Refuse what a plan has nothing of, or a pin fixes; raises ConfigError."""
    kind, named = start.kind, f"{plan.recipe.name} --site {built_for.named(plan.site)}"
    has_os = any(step.os_packages or step.build_packages for step in plan.recipe.steps)
    has_python = any(step.python_packages or step.conda_packages for step in plan.recipe.steps)
    image = plan.recipe.base.image
    if image and (kind == "base" or (kind == "os" and not has_os)):
        origins = {key: origin for key, _, origin in plan.origins}
        raise ConfigError(
            f"cannot refresh the base {plan.recipe.base.reference}: a digest pins it",
            where=origins["base.image"].where,
            why="the same digest is the same image",
            next_step=f"pin the image of today: {pin_command(plan)}; then build",
        )
    if start.base is not None and kind == "base":
        raise ConfigError(
            f"cannot refresh the base of --base {start.base}",
            why="a file is made once",
            next_step=f"make it again: dlcontainer base make {named} -o FILE",
        )
    if kind == "python" and not has_python:
        raise ConfigError(
            f"no step of {plan.recipe.name} installs Python packages",
            next_step="--refresh os",
        )


def ask(plan: Plan, start: RefreshStart, locker: Locker) -> RefreshAnswer:
    """Resolve the packages of a kind again, and compare them with an image's.

    Needs no engine, and writes nothing but what the cache keeps of a registry's layers. Raises
    BuildError where a mirror or an index fails, and where the mirrors have older packages than the
    image beside newer ones.
    """
    require(plan, start)
    began = time.time()
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    if start.kind == "python":
        part = _python_packages(plan, locker, moment)
    else:
        part = _os_packages(plan, start, locker, moment)
    last = dict(start.last.steps) if start.last else {}
    packages = start.image.packages if start.image else ()
    moves, older = package_moves.parted(package_moves.against(packages, part.offered), locker)
    package_moves.require_no_older(moves, older)
    moved_keys = any(last.get(step, key) != key for step, key in part.keys.items())
    unknown = [part.unknown] if part.unknown else []
    is_newer = bool(start.image is None or moves or unknown or (moved_keys and not older))
    return RefreshAnswer(
        refreshed=RefreshProvenance(
            asked_at=moment,
            kind=start.kind,
            mirror=tuple(map(_shown, part.mirror)),
            steps={**last, **part.keys} if is_newer else last,
        ),
        moves=moves,
        older=older,
        is_newer=is_newer,
        is_told=not unknown,
        base_since=_base_since(plan, start, locker, began if is_newer else None),
        notes=(*unknown, *_notes(plan, start, moves, older)),
    )


def pin_command(plan: Plan) -> str:
    """Return the command that pins the base of today."""
    return f"dlcontainer base pin {plan.recipe.name} --site {built_for.named(plan.site)}"


def base_tag(plan: Plan, host: HostMachine) -> tuple[PackageMove, ...] | None:
    """Ask a registry whether the tag of a pinned base has another digest now.

    None for a base that is no image, or has no tag beside its digest. Raises BuildError where the
    registry fails.
    """
    reference = plan.recipe.base.reference
    if reference is None or reference.digest is None or reference.tag is None:
        return None
    now = base_image.find_digest(reference, plan.site.arch, host_access.registry_way(plan, host))
    if now == reference.digest:
        return ()
    return (PackageMove(name=f"base:{reference.tagged}", before=reference.digest, after=now),)


def _base_since(
    plan: Plan, start: RefreshStart, locker: Locker, began: float | None
) -> float | None:
    """Return from when on a root tree of the cache is taken; None: its usual age counts.

    `began` is when a refresh with newer packages began. Without any the image's own tree serves,
    however old: a new one would make all steps again, for the same packages.
    """
    if plan.recipe.base.image or start.base is not None:
        return None
    if began is not None:
        return began if start.kind != "python" else None
    made_of = start.image.record.base if start.image else None
    kept = root_tree.recall(plan, locker.cache, since=0.0)
    return 0.0 if kept and made_of and kept.sha256 == made_of.sha256 else None


def _os_packages(plan: Plan, start: RefreshStart, locker: Locker, moment: str) -> _Offer:
    kind = start.kind
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
    # A base that was handed over stays, whatever the mirrors have of its packages.
    is_tree = base is not None and start.base is None
    offered = {pin.name: pin.version for pin in base.packages} if base and is_tree else {}
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
            f"pypi:{canonicalize_name(pin.name)}": package_moves.wheel(pin.version, pin.sha256)
            for pin in _wheels(packages)
        },
    )


def _wheels(packages: ResolvedPackages) -> Iterable[WheelPin]:
    return (pin for step in packages.steps for pin in step.python_packages)


def _untold(steps: Iterable[str], moment: str, error: ConfigError) -> _Offer:
    """Return a part that nobody can resolve ahead: its steps are run again."""
    key = hashlib.sha256(moment.encode()).hexdigest()
    why = f"it can't be told whether there are newer packages, so steps run again: {error.what}"
    return _Offer(keys=dict.fromkeys(steps, key), offered={}, unknown=why)


def _notes(
    plan: Plan,
    start: RefreshStart,
    moves: Sequence[PackageMove],
    older: Sequence[PackageMove],
) -> list[str]:
    named = f"{plan.recipe.name} --site {built_for.named(plan.site)}"
    kind, notes = start.kind, []
    if older:
        notes.append(f"the mirrors lag behind the image: {package_moves.named(older)}")
    if kind == "os" and plan.recipe.base.image:
        notes.append(
            f"the base {plan.recipe.base.reference} stays, for a digest pins it: "
            f"{pin_command(plan)}"
        )
    if kind == "os" and start.base is not None:
        notes.append(f"the base {start.base} stays: dlcontainer base make {named} -o FILE")
    if kind == "python" and not moves:
        notes.append(
            "the recipe pins its Python packages; newer releases: dlcontainer recipe outdated "
            f"{plan.recipe.name}"
        )
    return notes


def _shown(state: MirrorRelease) -> str:
    parts = (state.origin, state.suite, state.version, state.date or state.snapshot)
    return " ".join(filter(None, parts))

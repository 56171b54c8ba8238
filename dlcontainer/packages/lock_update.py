"""A lock with some of its packages newer, and all others as they were."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlcontainer import __version__
from dlcontainer.config.suggestions import suggest
from dlcontainer.errors import ConfigError
from dlcontainer.packages import host_access, lock_resolver
from dlcontainer.packages.apt.apt_resolver import Apt, Stanza
from dlcontainer.packages.apt.image_status import DpkgPackage
from dlcontainer.packages.lock_resolver import Locker, Resolver
from dlcontainer.packages.lockfile import Lock, LockedStep, OsPin, WheelPin
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.image_files import ImageReader
from dlcontainer.system.environ import proxies
from dlcontainer.system.workspace import workspace

# What apt resolves by. Of a version that no mirror lists any more its needs are unknown: they held
# when it was locked.
_KEPT = ("Essential", "Protected", "Priority", "Multi-Arch", "Provides", "Source")
_NEEDS = ("Pre-Depends", "Depends", "Breaks", "Conflicts")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Update:
    """One update under way: the lock, what is asked of it, and what answers."""

    lock: Lock
    names: frozenset[str]
    apt: Apt
    # name -> the paragraphs of all versions that the mirrors have, the newest first
    offered: Mapping[str, Sequence[Stanza]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LockUpdate:
    """Which packages of a lock to update: by name, or by that of the source they are built from."""

    lock: Lock
    display: str
    names: Sequence[str]


def update(request: LockUpdate, plan: Plan, locker: Locker) -> Lock:
    """Resolve some packages of a lock again, with what their newer versions need; no other moves.

    Raises ConfigError for a name that the lock does not have, and what `lock_resolver.lock` raises.
    """
    lock, names = request.lock, request.names
    lock.require(plan, request.display)
    host, runner = locker.host, locker.runner
    with (
        proxies.naming_faults(proxies_of(plan.site.routing, host)),
        workspace(locker.scratch, runner, locker.progress.note) as work,
    ):
        resolver = lock_resolver.resolver_of(plan, host, runner, work, locker.progress)
        wheels = {pin.name for pin in lock.wheels} & set(names)
        if wheels:
            again = lock_resolver.resolve(plan, locker, os_packages=False).steps
            lock = _with_wheels(lock, again, wheels)
        remaining = [name for name in names if name not in wheels]
        if not remaining:
            return _dated(lock)
        if lock.base.image and lock.base.distribution is None:
            raise _unknown(remaining, [pin.name for pin in lock.wheels], request.display)
        request = replace(request, lock=lock, names=remaining)
        return _dated(_with_os_packages(request, plan, resolver, locker))


def _with_os_packages(request: LockUpdate, plan: Plan, resolver: Resolver, locker: Locker) -> Lock:
    lock, names, apt = request.lock, request.names, resolver.apt
    locker.progress.step(f"packages: {', '.join(names)}")
    access = host_access.registry_way(plan, locker.host)
    reader = ImageReader(access=access, cache=locker.cache, progress=locker.progress)
    mirror = lock_resolver.begin(plan, resolver, reader).mirror
    offered: dict[str, list[Stanza]] = {}
    for stanza in apt.stanzas({pin.name for pin in lock.os_pins}):
        offered.setdefault(stanza["Package"], []).append(stanza)
    meant = _meant(request, offered)
    change = _Update(lock=lock, names=meant, apt=apt, offered=offered)
    gone = {step.name for step in plan.recipe.steps if step.build_packages}
    staying = [step for step in lock.steps if step.name not in gone]
    base, *stay = _moved(change, [lock.base.packages, *(step.os_packages for step in staying)])
    pins = {step.name: pins for step, pins in zip(staying, stay, strict=True)}
    for step in lock.steps:
        if step.name in gone:
            (pins[step.name],) = _moved(change, [step.os_packages])
    steps = [step.model_copy(update={"os_packages": pins[step.name]}) for step in lock.steps]
    return lock.model_copy(
        update={
            "base": lock.base.model_copy(update={"packages": base, "mirror": mirror}),
            "steps": tuple(steps),
        }
    )


def _meant(request: LockUpdate, offered: Mapping[str, Sequence[Stanza]]) -> frozenset[str]:
    """Name the packages that are meant, with those of the same source: these may need them."""
    lock, names = request.lock, request.names
    of_source: dict[str, set[str]] = {}
    for pin in lock.os_pins:
        stanzas = offered.get(pin.name)
        source = _source(stanzas[0]) if stanzas else pin.name
        of_source.setdefault(source, set()).add(pin.name)
    candidates = {pin.name for pin in lock.os_pins} | set(of_source)
    lost = [name for name in names if name not in candidates]
    if lost:
        raise _unknown(lost, [*candidates, *(pin.name for pin in lock.wheels)], request.display)
    return frozenset(
        package
        for source, packages in of_source.items()
        for package in packages
        if source in names or packages & set(names)
    )


def _moved(change: _Update, places: Sequence[Sequence[OsPin]]) -> list[tuple[OsPin, ...]]:
    """Update the packages of places whose packages are in one tree; new ones go to the first."""
    has = {pin.name for pins in places for pin in pins}
    targets = sorted(change.names & has)
    if not targets:
        return [tuple(pins) for pins in places]
    change.apt.assume(_installed(pin, change) for pins in places for pin in pins)
    newer = {(pin.name, pin.arch): pin for pin in change.apt.upgrade(targets)}
    moved = [tuple(newer.get((pin.name, pin.arch), pin) for pin in pins) for pins in places]
    locked = {(pin.name, pin.arch) for pins in places for pin in pins}
    added = [pin for key, pin in newer.items() if key not in locked]
    at = next(n for n, pins in enumerate(places) if any(pin.name in change.names for pin in pins))
    moved[at] = tuple(sorted([*moved[at], *added], key=lambda pin: (pin.name, pin.arch)))
    return moved


def _installed(pin: OsPin, change: _Update) -> DpkgPackage:
    """Return a locked package as dpkg would list it."""
    stanzas = change.offered.get(pin.name, ())
    exact = next((stanza for stanza in stanzas if stanza["Version"] == pin.version), None)
    fields = {"Package": pin.name, "Status": "install ok installed"}
    fields |= {"Architecture": pin.arch, "Version": pin.version}
    for stanza in [exact] if exact else stanzas[:1]:
        names = (*_KEPT, *_NEEDS) if exact else _KEPT
        fields |= {name: stanza[name] for name in names if name in stanza}
    paragraph = "".join(f"{name}: {text}\n" for name, text in fields.items())
    return DpkgPackage(name=pin.name, arch=pin.arch, paragraph=paragraph)


def _with_wheels(lock: Lock, again: Iterable[LockedStep], names: Iterable[str]) -> Lock:
    wheels = {step.name: {pin.name: pin for pin in step.python_packages} for step in again}
    chosen_names = set(names)

    def newer(step: LockedStep) -> Callable[[WheelPin], WheelPin]:
        chosen = wheels.get(step.name, {})
        return lambda pin: chosen.get(pin.name, pin) if pin.name in chosen_names else pin

    steps = tuple(
        step.model_copy(update={"python_packages": tuple(map(newer(step), step.python_packages))})
        for step in lock.steps
    )
    return lock.model_copy(update={"steps": steps})


def _dated(lock: Lock) -> Lock:
    """Check a lock that was put together, and write today's date into it."""
    today = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = lock.model_copy(update={"made": today, "dlcontainer": __version__})
    return Lock.model_validate_json(body.model_dump_json(by_alias=True))


def _source(stanza: Stanza) -> str:
    """Name the source that a package is built from: `Source: openssl (3.0.15-1)`."""
    return stanza.get("Source", stanza["Package"]).partition(" ")[0]


def _unknown(names: Sequence[str], candidates: Iterable[str], display: str) -> ConfigError:
    return ConfigError(
        f"no package {names[0]!r} in the lock{suggest(names[0], candidates)}",
        where=display,
        next_step="name a package of the lock, the source that it is built from, or `all`",
    )

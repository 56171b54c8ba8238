"""Locking: plan -> lock. apt and pip resolve on this host, for the image's architecture."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.config.field_types import DEBIAN_ARCH
from dlcontainer.config.image_names import ImageReference
from dlcontainer.errors import ConfigError
from dlcontainer.packages import host_access
from dlcontainer.packages.apt import image_status
from dlcontainer.packages.apt.apt_resolver import Apt
from dlcontainer.packages.host_access import HostAccess
from dlcontainer.packages.lockfile import (
    HostParts,
    Lock,
    LockedBase,
    LockedStep,
    OsPin,
    SourcePin,
    WheelPin,
)
from dlcontainer.packages.pip.pip_resolver import Pip
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.conflicts.toolkits import line_of
from dlcontainer.planning.plan import Plan, base_python
from dlcontainer.planning.versions import numbers, written
from dlcontainer.recipes.base import System
from dlcontainer.recipes.steps import Step
from dlcontainer.registry import image_files
from dlcontainer.registry.image_files import ImageReader
from dlcontainer.system.environ import proxies
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress
from dlcontainer.system.workspace import workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolver:
    """apt and pip for one plan, with the routing that both use."""

    access: HostAccess
    apt: Apt
    # None: nothing is known of the base's Python.
    pip: Pip | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPackages:
    """What a plan's packages come to now; `base` is None where no OS packages were asked for."""

    base: LockedBase | None
    steps: tuple[LockedStep, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Locker:
    """Who locks: this user, here; `cache` keeps what the layers of images told."""

    host: HostMachine
    runner: Runner
    scratch: Path
    cache: Path
    progress: Progress


def lock(plan: Plan, locker: Locker) -> Lock:
    """Lock a plan: resolve all its packages again. Needs no root, no engine and no emulation.

    Raises MisfitError for a package that is not built for the architecture, ConfigError for what
    can't be locked, BuildError where a mirror or an index fails.
    """
    for step in plan.recipe.steps:
        if step.conda_packages:
            raise ConfigError(
                f"step {step.name!r}: cannot lock conda packages",
                why="conda resolves their dependencies during the build",
                next_step="build without --locked",
            )
    packages = resolve(plan, locker)
    return _lock_of(plan, packages.base or LockedBase(), packages.steps)


def resolve(
    plan: Plan, locker: Locker, *, os_packages: bool = True, python_packages: bool = True
) -> ResolvedPackages:
    """Resolve the packages of a plan's base and steps, of one kind or both; raises as `lock`."""
    host, runner, progress = locker.host, locker.runner, locker.progress
    with (
        proxies.naming_faults(proxies_of(plan.site.routing, host)),
        workspace(locker.scratch, runner, progress.note) as work,
    ):
        resolver = resolver_of(plan, host, runner, work, progress)
        access = host_access.registry_way(plan, host)
        reader = ImageReader(access=access, cache=locker.cache, progress=progress)
        base = _base(plan, resolver, reader) if os_packages else None
        steps = []
        for number, step in enumerate(plan.recipe.steps):
            has_os = os_packages and (step.os_packages or step.build_packages)
            if has_os or (python_packages and step.python_packages):
                progress.step(f"step {step.name}: dependencies of its packages")
                folder = work / f"pip-{number}"
                folder.mkdir()
                steps.append(_step(step, resolver, folder))
    return ResolvedPackages(base=base, steps=tuple(steps))


def _lock_of(plan: Plan, base: LockedBase, steps: tuple[LockedStep, ...]) -> Lock:
    return Lock(
        schema="dlcontainer/lock/1",
        name=plan.name,
        plan=plan.digest,
        recipe=plan.recipe.name,
        site=plan.site.target,
        variant=plan.choice.name if plan.choice else None,
        arch=plan.site.arch,
        python=base_python(plan.recipe),
        dlcontainer=__version__,
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        base=base,
        steps=steps,
        sources=tuple(
            SourcePin(name=name, sha256=upstream.sha256)
            for name, upstream in plan.recipe.upstreams.items()
            if upstream.sha256
        ),
        host=_host(plan),
    )


def resolver_of(
    plan: Plan, host: HostMachine, runner: Runner, work: Path, progress: Progress
) -> Resolver:
    """Make apt and pip ready for a plan, in a private folder."""
    access = host_access.find(plan, host, runner, work)
    for note in access.notes:
        progress.note(note)
    apt = Apt(
        folder=work / "apt",
        arch=DEBIAN_ARCH[plan.site.arch],
        sources=access.apt_sources,
        settings=access.apt_settings,
        host=host,
        environment=access.environment,
        runner=runner,
        on_line=progress.line,
    )
    facts = plan.recipe.base.facts
    if facts is None or facts.python is None or facts.glibc is None:
        return Resolver(access=access, apt=apt, pip=None)
    pip = Pip(
        python=facts.python,
        arch=plan.site.arch,
        glibc=facts.glibc,
        arguments=access.pip_arguments,
        environment=access.environment,
        host=host,
        runner=runner,
        on_line=progress.line,
    )
    return Resolver(access=access, apt=apt, pip=pip)


def _host(plan: Plan) -> HostParts:
    mpi, cuda = plan.site.mpi, numbers(plan.recipe.stack.cuda or "")
    line = line_of(cuda) if cuda else None
    return HostParts(
        mpi=mpi.soname if mpi and mpi.mode != "container" else None,
        nvidia_driver=written(line.driver) if line else None,
    )


def _base(plan: Plan, resolver: Resolver, reader: ImageReader) -> LockedBase:
    base = plan.recipe.base
    begun = begin(plan, resolver, reader)
    if base.reference is not None:
        return begun
    # What mmdebstrap puts into a tree of the variant minbase: see its manual, "VARIANTS".
    archives = f"?or(?archive(^{base.release}$),?codename(^{base.release}$))"
    chosen = f"?narrow({archives},?architecture({resolver.apt.arch}),"
    packages = resolver.apt.install(
        ["apt", f"{chosen}?essential)", f"{chosen}?priority(required))"]
    )
    return begun.model_copy(update={"packages": packages})


def begin(plan: Plan, resolver: Resolver, reader: ImageReader) -> LockedBase:
    """Fetch the mirrors' lists, and let apt know what an image has; return the base without its
    packages.
    """
    base = plan.recipe.base
    if base.reference is not None:
        return _image_base(plan, base.reference, resolver, reader)
    _require_sources(resolver.apt, str(base.distribution), str(base.release))
    reader.progress.step(f"base: the packages of {base.distribution} {base.release}")
    resolver.apt.update()
    return LockedBase(
        distribution=base.distribution, release=base.release, mirror=resolver.apt.releases()
    )


def _require_sources(apt: Apt, distribution: str, release: str) -> None:
    if not apt.sources:
        raise ConfigError(
            f"no apt sources of {distribution} {release} on this host",
            why="routing.apt is auto, so apt resolves the packages through the build host's "
            "mirrors",
            next_step=f"lock on a {distribution} host whose apt sources have {release}",
        )


def _image_base(
    plan: Plan, image: ImageReference, resolver: Resolver, reader: ImageReader
) -> LockedBase:
    """Lock an image by its digest; where steps install OS packages, apt learns what it has."""
    base, facts = plan.recipe.base, plan.recipe.base.facts
    if image.digest is None:
        raise ConfigError(
            f"base.image: {base.image} has no digest: a tag can move",
            next_step=f"pin the image: dlcontainer base pin {plan.recipe.name} --site "
            f"{plan.site.name}",
        )
    if not any(step.os_packages or step.build_packages for step in plan.recipe.steps):
        return LockedBase(image=str(image))
    if facts is None or base.manager != "apt":
        raise _without_apt(image, facts)
    _require_sources(resolver.apt, facts.distribution, facts.release)
    reader.progress.step(f"base: the packages of {base.title}")
    files = image_files.read(image, plan.site.arch, image_status.WANTED, reader)
    resolver.apt.assume(image_status.read(files, facts, str(image)))
    resolver.apt.update()
    return LockedBase(
        image=str(image),
        distribution=facts.distribution,
        release=facts.release,
        mirror=resolver.apt.releases(),
    )


def _without_apt(image: ImageReference, facts: System | None) -> ConfigError:
    why = "the recipe does not state the image's distribution"
    next_step = "write it in the recipe: base.system with distribution, release and a source"
    if facts is not None:
        why = f"locks need apt, and {facts.distribution} has another package manager"
        next_step = "build without --locked, or use a base of Debian or Ubuntu"
    what = "cannot lock OS packages on this image"
    return ConfigError(what, where=str(image), why=why, next_step=next_step)


def _step(step: Step, resolver: Resolver, folder: Path) -> LockedStep:
    os_pins: tuple[OsPin, ...] = ()
    wheels: tuple[WheelPin, ...] = ()
    if step.os_packages or step.build_packages:
        # Those that a snippet is built with are gone after it: the next step starts without.
        stay = bool(step.os_packages)
        os_pins = resolver.apt.install(step.os_packages or step.build_packages, stay=stay)
    if step.python_packages:
        if resolver.pip is None:
            raise ConfigError(
                f"step {step.name!r}: cannot choose wheels for the image",
                why="the Python and C library of this base are not known",
                next_step="write them in the recipe: base.system with python, glibc and a source",
            )
        upstream = resolver.access.upstreams.get(step.python_packages.upstream or "", "")
        packages = step.python_packages.packages
        wheels = tuple(resolver.pip.resolve(packages, upstream, folder))
    return LockedStep(name=step.name, os_packages=os_pins, python_packages=wheels)


def facts(lock: Lock) -> Mapping[str, int]:
    """Count what is locked; `bytes` is the size of the OS packages."""
    return {
        "os_packages": len(lock.os_pins),
        "python_packages": len(lock.wheels),
        "bytes": sum(pin.size for pin in lock.os_pins),
    }

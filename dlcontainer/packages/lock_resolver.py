"""Locking: plan -> lock. apt and pip resolve on this host, for the image's architecture."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.config.field_types import DEBIAN_ARCH
from dlcontainer.errors import ConfigError
from dlcontainer.packages import host_access
from dlcontainer.packages.apt.apt_resolver import Apt
from dlcontainer.packages.host_access import Outside
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
from dlcontainer.planning.conflicts.toolkits import line_of
from dlcontainer.planning.plan import Plan, base_python
from dlcontainer.planning.versions import numbers, written
from dlcontainer.recipes.steps import Step
from dlcontainer.system.machine import Host
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress
from dlcontainer.system.workspace import workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolver:
    """apt and pip for one plan, with the routing that both use."""

    way: Outside
    apt: Apt
    # None: nothing is known of the base's Python.
    pip: Pip | None


def lock(plan: Plan, host: Host, runner: Runner, scratch: Path, progress: Progress) -> Lock:
    """Lock a plan: resolve all its packages again. Needs no root, no engine and no emulation.

    Raises MisfitError for a package that is not built for the architecture, ConfigError for what
    can't be locked, BuildError where a mirror or an index fails.
    """
    for step in plan.recipe.steps:
        if step.conda_packages:
            raise ConfigError(
                f"step {step.name!r}: conda packages can't be locked",
                why="conda finds what they need while it builds",
                next_step="build without --locked",
            )
    with workspace(scratch, runner, progress.note) as work:
        resolver = resolver_of(plan, host, runner, work, progress)
        base = _base(plan, resolver, progress)
        steps = []
        for number, step in enumerate(plan.recipe.steps):
            if step.os_packages or step.python_packages or step.build_packages:
                progress.step(f"step {step.name}: what its packages bring along")
                folder = work / f"pip-{number}"
                folder.mkdir()
                steps.append(_step(plan, step, resolver, folder))
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
        steps=tuple(steps),
        sources=tuple(
            SourcePin(name=name, sha256=upstream.sha256)
            for name, upstream in plan.recipe.upstreams.items()
            if upstream.sha256
        ),
        host=_host(plan),
    )


def resolver_of(plan: Plan, host: Host, runner: Runner, work: Path, progress: Progress) -> Resolver:
    """Make apt and pip ready for a plan, in a private folder."""
    way = host_access.find(plan, host, runner, work)
    for note in way.notes:
        progress.note(note)
    apt = Apt(
        folder=work / "apt",
        arch=DEBIAN_ARCH[plan.site.arch],
        sources=way.apt_sources,
        settings=way.apt_settings,
        host=host,
        environment=way.environment,
        runner=runner,
        on_line=progress.line,
    )
    facts = plan.recipe.base.facts
    if facts is None or facts.python is None or facts.glibc is None:
        return Resolver(way=way, apt=apt, pip=None)
    pip = Pip(
        python=facts.python,
        arch=plan.site.arch,
        glibc=facts.glibc,
        arguments=way.pip_arguments,
        environment=way.environment,
        host=host,
        runner=runner,
        on_line=progress.line,
    )
    return Resolver(way=way, apt=apt, pip=pip)


def _host(plan: Plan) -> HostParts:
    mpi, cuda = plan.site.mpi, numbers(plan.recipe.stack.cuda or "")
    line = line_of(cuda) if cuda else None
    return HostParts(
        mpi=mpi.soname if mpi and mpi.mode != "container" else None,
        nvidia_driver=written(line.driver) if line else None,
    )


def _base(plan: Plan, resolver: Resolver, progress: Progress) -> LockedBase:
    base = plan.recipe.base
    if base.reference is not None:
        if base.reference.digest is None:
            raise ConfigError(
                f"base.image: {base.image} has no digest: a tag can move",
                next_step="pin it: `dlcontainer build` prints the line",
            )
        return LockedBase(image=str(base.reference))
    if not resolver.apt.sources:
        raise ConfigError(
            f"no apt sources of {base.distribution} {base.release} on this host",
            why="apt resolves the packages through the build host's mirrors (routing.apt: auto)",
            next_step=f"lock on a {base.distribution} machine with {base.release} in apt's sources",
        )
    progress.step(f"base: the packages of {base.distribution} {base.release}")
    resolver.apt.update()
    # What mmdebstrap puts into a tree of the variant minbase: see its manual, "VARIANTS".
    here = f"?or(?archive(^{base.release}$),?codename(^{base.release}$))"
    chosen = f"?narrow({here},?architecture({resolver.apt.arch}),"
    packages = resolver.apt.install(
        ["apt", f"{chosen}?essential)", f"{chosen}?priority(required))"]
    )
    return LockedBase(
        distribution=base.distribution,
        release=base.release,
        mirror=resolver.apt.releases(),
        packages=packages,
    )


def _step(plan: Plan, step: Step, resolver: Resolver, folder: Path) -> LockedStep:
    os_pins: tuple[OsPin, ...] = ()
    wheels: tuple[WheelPin, ...] = ()
    if step.os_packages or step.build_packages:
        if plan.recipe.base.image:
            raise ConfigError(
                f"step {step.name!r}: OS packages on an image can't be locked",
                why="what they bring along depends on what the image holds",
                next_step="take them from a distribution's base, or an image that has them",
            )
        # Those that a snippet is built with are gone after it: the next step starts without.
        stay = bool(step.os_packages)
        os_pins = resolver.apt.install(step.os_packages or step.build_packages, stay=stay)
    if step.python_packages:
        if resolver.pip is None:
            raise ConfigError(
                f"step {step.name!r}: wheels for an image can't be chosen",
                why="its Python and its C library are not known before it is there",
                next_step="state them in the recipe: base.system with python, glibc and a source",
            )
        upstream = resolver.way.upstreams.get(step.python_packages.upstream or "", "")
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

"""What a site's file asks of a host: folders, engine, commands of its scheduler. Nothing is made.

The host may be another than the site's own: what it does not have is a warning.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dlcontainer import schedulers
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.errors import ConfigError
from dlcontainer.packages import routing
from dlcontainer.sites.site import Site
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
)

_TIMEOUT_S = 60.0


def placed(site: Site, host: HostMachine) -> HostMachine:
    """Return the host with the site's folder for temporary files, as a build for it takes it."""
    folder = site.engine.tmpdir
    if folder is None or not Path(folder).is_dir():
        return host
    return replace(host, environ={**host.environ, variables.TEMPORARY: folder})


def examine(site: Site, host: HostMachine, runner: Runner) -> Iterator[DoctorFinding]:
    """Look at all that a site's file names of a host."""
    folders = {
        "engine.tmpdir": (site.engine.tmpdir, False),
        "engine.cache": (site.engine.cache, True),
        "modules.root": (site.modules.root, True),
    }
    for key, (path, is_made) in folders.items():
        if path is not None:
            yield _folder(key, Path(path), is_made=is_made)
    yield from _given(site, host)
    yield _runtime(site, host, runner)
    if site.scheduler.kind != "none":
        yield _scheduler(site, host)


def _folder(key: str, path: Path, *, is_made: bool) -> DoctorFinding:
    """Look at a folder; `is_made` for one that is made when it is needed."""
    existing = next(candidate for candidate in (path, *path.parents) if candidate.exists())
    if existing != path and not is_made:
        what = "no such folder here; builds use TMPDIR, memory or /tmp instead"
    elif not existing.is_dir():
        what = f"{existing} is not a folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = f"you cannot write to {existing}"
    else:
        note = (
            ""
            if existing == path
            else ", which does not exist yet: dlcontainer makes it when needed"
        )
        return DoctorFinding(name=key, state="ok", detail=f"{path}{note}")
    return DoctorFinding(
        name=key,
        state="warning",
        detail=f"{path}: {what}",
        mend=f"use a host of the site, or name another folder: --set site.{key}=FOLDER, or "
        "overrides.yaml",
    )


def _given(site: Site, host: HostMachine) -> Iterator[DoctorFinding]:
    """Look at files and groups that the site's file names."""
    try:
        ca = routing.ca_of(site.routing, host)
    except ConfigError as error:
        yield DoctorFinding(
            name="routing.ca", state="error", detail=error.what, mend=error.next_step
        )
    else:
        if site.routing.ca not in ("auto", "default"):
            yield DoctorFinding(name="routing.ca", state="ok", detail=str(ca))
    missing = [str(folder) for folder in site.routing.wheels if not Path(folder).is_dir()]
    if missing:
        mend = "make the folder, or correct routing.wheels of the site"
        detail = f"no folder {', '.join(missing)}"
        yield DoctorFinding(name="routing.wheels", state="error", detail=detail, mend=mend)
    if site.modules.group is not None:
        yield _group(site.modules.group)


def _group(name: str) -> DoctorFinding:
    import grp

    try:
        number = grp.getgrnam(name).gr_gid
    except KeyError:
        number = None
    if number in (os.getegid(), *os.getgroups()) or (number is not None and os.geteuid() == 0):
        return DoctorFinding(name="modules.group", state="ok", detail=name)
    what = "you are not a member" if number is not None else "this host has no such group"
    mend = "publish as a member of the group, on a host that has the group"
    return DoctorFinding(name="modules.group", state="warning", detail=f"{name}: {what}", mend=mend)


def _runtime(site: Site, host: HostMachine, runner: Runner) -> DoctorFinding:
    """Compare what starts images here with what the site's jobs start."""
    name, site_version = site.engine.runtime, site.engine.version
    program = find_program(name, host.environ)
    load = f"module load {site.engine.module}, or " if site.engine.module else ""
    mend = f"{load}use a host of the site: its jobs start images with this program"
    if program is None:
        detail = f"no {name} on PATH"
        return DoctorFinding(name="engine.runtime", state="warning", detail=detail, mend=mend)
    if site_version is None:
        detail = f"{program}; the site file names no version"
        return DoctorFinding(name="engine.runtime", state="ok", detail=detail)
    try:
        words = runner([str(program), "--version"], timeout=_TIMEOUT_S).stdout.split()
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        words = []
    host_version = next((word for word in words if word[:1].isdigit()), "unknown")
    if host_version.partition("-")[0] == site_version:
        return DoctorFinding(name="engine.runtime", state="ok", detail=f"{name} {host_version}")
    detail = f"{name} {host_version} here, {site_version} at the site"
    return DoctorFinding(name="engine.runtime", state="warning", detail=detail, mend=mend)


def _scheduler(site: Site, host: HostMachine) -> DoctorFinding:
    """Look for the command that submits jobs, and for the one that starts their ranks."""
    kind, words = site.scheduler.kind, site.scheduler.launcher
    commands = dict.fromkeys((schedulers.SCHEDULERS[kind].submit, *words[:1]))
    missing = [name for name in commands if find_program(name, host.environ) is None]
    if not missing:
        detail = f"{kind}: {', '.join(commands)}"
        return DoctorFinding(name="scheduler", state="ok", detail=detail)
    return DoctorFinding(
        name="scheduler",
        state="warning",
        detail=f"{kind}: no {', '.join(missing)} on PATH",
        mend="submit jobs on a login node of the site; you can still build images here",
    )

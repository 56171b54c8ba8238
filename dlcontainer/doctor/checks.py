"""Doctor: what this user may build and run with here, why, and what to type to fix it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import installation
from dlcontainer.config.field_types import ARCHES
from dlcontainer.doctor import causes, egress, oci, of_site
from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.engines import apptainer, base_modes, capabilities, emulation
from dlcontainer.engines.engine import EngineKind
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.packages.resolve import resolvers
from dlcontainer.sites.routing import Routing
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.process import Runner

# program -> (what for, package)
HELPERS = {
    "mmdebstrap": ("makes the base of an image", "mmdebstrap"),
    "mksquashfs": ("packs images", "squashfs-tools"),
    "unsquashfs": ("unpacks the base", "squashfs-tools"),
}
# Words in an engine's or mmdebstrap's answer, a missing program first -> its package.
_MISSING: Mapping[str, str] = {
    "newuidmap": "uidmap",
    "mksquashfs": "squashfs-tools",
    "unsquashfs": "squashfs-tools",
    "unshare: not found": "util-linux",
}
# Words in such an answer -> the cause, and what to type.
_SAID: Mapping[str, str] = {
    "No space left": "the disk is full: export TMPDIR=/a/roomier/folder",
    "Read-only file system": "a folder is read-only: export TMPDIR=/a/writable/folder",
    "files/directories ownership": (
        "the file system of the temporary folder cannot change owners (a network file system?): "
        "export TMPDIR=/a/local/folder"
    ),
}
# How an engine begins the line that says why; which bits it asked the kernel for.
_PREFIX = re.compile(r"^(?:FATAL|ERROR|WARNING|INFO)\s*(?::|\[U=\d+,P=\d+\]\S*)\s*")
_MASK = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_WAYS = (
    "use base images of a registry (dlcontainer base pin), a bundle with the finished base "
    "(dlcontainer build --offline), or a base from another host (dlcontainer base make)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorScope:
    """What is meant: an engine, for the others' faults are no flaw; and a site.

    With a site the engine is tried in the folder that the site names, and what else the site's
    file asks of this host is looked at. `note` says why a TMPDIR that is set counts as not set.
    """

    engine: EngineKind = "apptainer"
    site: Site | None = None
    note: str | None = None


def examine(
    host: HostMachine, runner: Runner, cache: Path, scope: DoctorScope
) -> list[DoctorFinding]:
    """Look at all that building and running needs; the engine is really tried."""
    site = scope.site
    if site is not None:
        host = of_site.placed(site, host)
    why = causes.examine(host, scope.note)
    findings = [_host(host), *_engine(host, runner, cache, why), *_helpers(host)]
    findings += [*_base(host, runner, why), *why]
    findings += [egress.examine(site.routing if site else Routing(), host), _emulation(host)]
    if site is not None:
        findings += of_site.examine(site, host, runner)
    return [*findings, *oci.examine(host, scope.engine), _resolver(host, runner)]


def _host(host: HostMachine) -> DoctorFinding:
    what = f"{host.distribution} {host.release}, {host.arch}, kernel {host.kernel}"
    return DoctorFinding(
        name="host", state="ok", detail=f"{what}; {host.cores} cores, {host.memory_mb} MB"
    )


def _engine(
    host: HostMachine, runner: Runner, cache: Path, why: Sequence[DoctorFinding]
) -> Iterable[DoctorFinding]:
    try:
        engine = apptainer.find(host.environ)
        trial = capabilities.perform(cache, engine, host, runner)
    except (EngineError, BuildError) as error:
        detail = f"{error.what}: {error.why}" if error.why else error.what
        yield DoctorFinding(name="engine", state="error", detail=detail, mend=error.next_step)
        return
    yield DoctorFinding(name="engine", state="ok", detail=f"{trial.version} ({trial.program})")
    for what, mode in (("build", trial.build_mode), ("run", trial.run_mode)):
        failed = {
            name.split()[1]: reason
            for name, reason in trial.failures.items()
            if name.startswith(f"{what} ")
        }
        if mode is not None:
            detail = f"works in mode {mode}{_others(failed)}"
            yield DoctorFinding(name=what, state="ok", detail=detail, said=_said(failed))
        elif failed:
            mend = _mend(what, "; ".join(failed.values()), why, host)
            yield DoctorFinding(
                name=what, state="error", detail=_plain(failed), mend=mend, said=_said(failed)
            )
        else:
            detail = "not tried: could not build or pack a tiny test image"
            mend = _setup("squashfs-tools", host)
            yield DoctorFinding(name=what, state="error", detail=detail, mend=mend)


def _base(
    host: HostMachine, runner: Runner, why: Sequence[DoctorFinding]
) -> Iterable[DoctorFinding]:
    program = find_program("mmdebstrap", host.environ)
    if program is None:
        # Where there is no apt there is nothing to install: it is done otherwise.
        lacks_apt = find_program("apt-get", host.environ) is None
        detail = "not found; it makes the base of an image from a distribution's packages"
        mend = f"without it: {_WAYS}" if lacks_apt else _setup("mmdebstrap", host)
        yield DoctorFinding(
            name="base", state="warning" if lacks_apt else "error", detail=detail, mend=mend
        )
        return
    tried = base_modes.attempt(program, host, runner)
    failed = tried.failures
    if tried.mode is None:
        mend = f"{_mend('base', '; '.join(failed.values()), why, host)}; without it: {_WAYS}"
        yield DoctorFinding(
            name="base", state="error", detail=_plain(failed), mend=mend, said=_said(failed)
        )
        return
    detail = f"mmdebstrap works in mode {tried.mode.name}{_others(failed)}"
    yield DoctorFinding(name="base", state="ok", detail=detail, said=_said(failed))


def _others(failed: Mapping[str, str]) -> str:
    """Name the modes that do not work, where another does: why, only those ask who type -v."""
    return f"; not in {', '.join(failed)}, which is not needed" if failed else ""


def _plain(failed: Mapping[str, str]) -> str:
    """Return what was answered in each mode, without an engine's marks and bit masks."""
    answers = {name: _MASK.sub("0x…", _PREFIX.sub("", words)) for name, words in failed.items()}
    return "; ".join(f"{name} failed: {words}" for name, words in answers.items())


def _said(failed: Mapping[str, str]) -> str | None:
    """Return the very words, for the report of a fault."""
    return "; ".join(f"{name}: {words}" for name, words in failed.items()) or None


def _setup(package: str, host: HostMachine) -> str:
    return installation.helper(host.environ, package)


def _mend(what: str, answer: str, why: Sequence[DoctorFinding], host: HostMachine) -> str:
    """Name the causes with their lines: of this host, and of the answer itself."""
    flaws = [finding for finding in why if finding.state != "ok" and finding.mend]
    if what != "run":
        flaws = [flaw for flaw in flaws if flaw.name != causes.FUSE]  # only a run mounts images
    # Slow or small temporary files are there all the same.
    flaws = [flaw for flaw in flaws if flaw.name != causes.TEMPORARY or flaw.state == "error"]
    flaws = [flaw for flaw in flaws if flaw.name != causes.MEMORY]
    named = [f"{flaw.name}: {flaw.mend}" for flaw in flaws]
    for word, package in _MISSING.items():
        if word in answer:
            line = installation.line(host.environ, package)
            named.append(f"{word.partition(':')[0]} is missing; an administrator types: {line}")
    named += [cause for word, cause in _SAID.items() if word in answer]
    if named:
        return "; ".join(named)
    return "show this answer to your site's support: the cause is unknown"


def _helpers(host: HostMachine) -> Iterable[DoctorFinding]:
    for name, (purpose, package) in HELPERS.items():
        path = find_program(name, host.environ)
        if path is None and name == "mmdebstrap":
            continue  # what that means is said of the base
        if path is not None:
            yield DoctorFinding(name=name, state="ok", detail=f"{path}: {purpose}")
        else:
            yield DoctorFinding(
                name=name,
                state="error",
                detail=f"not found; it {purpose}",
                mend=_setup(package, host),
            )


def _resolver(host: HostMachine, runner: Runner) -> DoctorFinding:
    uv = resolvers.find_uv(host, runner)
    if uv is not None:
        detail = f"uv {uv.version} ({uv.path}): resolves Python packages for any site"
        return DoctorFinding(name="resolver", state="ok", detail=detail)
    # No warning: recipes that are there need none.
    if resolvers.has_pip():
        target = f"Python {resolvers.python_here()} on {host.arch}"
        detail = (
            f"pip: resolves Python packages for {target} alone; for others: "
            f"{installation.resolver()}"
        )
        return DoctorFinding(name="resolver", state="ok", detail=detail)
    detail = "neither uv nor pip: no Python packages of your own"
    mend = f"needed only for images of your own packages: {installation.resolver()}"
    return DoctorFinding(name="resolver", state="ok", detail=detail, mend=mend)


def _emulation(host: HostMachine) -> DoctorFinding:
    foreign = [arch for arch in ARCHES if arch != host.arch]
    obstacles = {arch: emulation.obstacle(arch) for arch in foreign}
    runs = [arch for arch in foreign if obstacles[arch] is None]
    if runs == foreign:
        detail = f"programs for {' and '.join(foreign)} run here"
        return DoctorFinding(name="emulation", state="ok", detail=detail)
    why, cure = next(obstacle for obstacle in obstacles.values() if obstacle is not None)
    return DoctorFinding(
        name="emulation",
        # No warning: who builds for this architecture never needs it.
        state="ok",
        detail=f"this host can build for {', '.join(runs) or 'no other architecture'}: {why}",
        mend=f"needed only for sites of another architecture; run once as root: {cure}",
    )


def is_fit(findings: list[DoctorFinding]) -> bool:
    """Return whether images can be built and run here."""
    return not any(finding.state == "error" for finding in findings)

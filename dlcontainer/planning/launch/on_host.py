"""Surroundings on this host: variables filled in, host libraries where the site's MPI is loaded.

Facts that do not hold here are left out by name.
For launches that this process starts itself (`bench`, `validate`); jobs and wrappers have a shell
for the same (templates/module/around.sh.j2).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer import schedulers
from dlcontainer.config.templating import Literal
from dlcontainer.engines import apptainer
from dlcontainer.errors import EngineError
from dlcontainer.image.record import ImageContent
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.here import HostSurroundings, target
from dlcontainer.planning.launch.surroundings import ImageFacts, Surroundings
from dlcontainer.sites.facts import MAY_BE_UNSET, VARIABLE, Mpi
from dlcontainer.sites.site import Site
from dlcontainer.system.environ import variables

# These lead to files of the image: on the host they would lead elsewhere.
_IMAGE_PATHS = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"})
# Apptainer and SingularityCE, each by its own name, bind these files into an image.
_LIBRARIES = ("APPTAINER_CONTAINLIBS", "SINGULARITY_CONTAINLIBS")
# The user's wish about the MPI library: host, image or auto.
_MPI = "DLCONTAINER_MPI"

Exists = Callable[[Path], bool]


class UnsetError(Exception):
    """A text uses a variable that this host has not set; holds its name."""


def facts_of(content: ImageContent) -> ImageFacts:
    """Return the facts of an image that its record holds."""
    return ImageFacts(uses_mpi=content.offer.stack.mpi is not None, environment=content.environment)


def here(
    site: Site, image: ImageFacts, environ: Mapping[str, str], exists: Exists = Path.exists
) -> HostSurroundings:
    """Fill in the surroundings of an image at a site, as far as they hold on this host."""
    host = _Host(environ=environ, exists=exists)
    applied, mpi = surroundings.alone(site, image), None
    swapped = surroundings.swapped(site, image)
    if swapped is not None and _is_wanted(swapped, environ):
        whole = surroundings.of(site, image)
        missing = next(_obstacles(swapped, whole, applied, host), None)
        if missing is None:
            applied, mpi = whole, " ".join(filter(None, (swapped.name, swapped.version)))
        else:
            host.left_out.append(f"the host's {swapped.name}: {missing}")
    if not surroundings.is_apptainer(site):
        applied = replace(applied, flags=())  # words of another runtime
    return replace(_filled(applied, host), mpi=mpi)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    """This host's variables and files, and the facts that do not hold on it."""

    environ: Mapping[str, str]
    exists: Exists
    left_out: list[str] = field(default_factory=list)

    def all(self, name: str, texts: Iterable[str]) -> tuple[str, ...]:
        """Fill in texts that count together or not at all."""
        try:
            return tuple(filled for text in texts if (filled := fill(text, self.environ)))
        except UnsetError as error:
            self.left_out.append(f"{name}: ${error} is empty or not set")
            return ()

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Fill in the values that can be filled in."""
        reasons = {name: self.unset([value]) for name, value in variables.items()}
        self.left_out.extend(f"{name}: {why}" for name, why in reasons.items() if why)
        return {
            name: fill(value, self.environ)
            for name, value in variables.items()
            if not reasons[name]
        }

    def setting(self, variables: Mapping[str, str]) -> "_Host":
        """Return this host with variables set, which further facts may use."""
        return replace(self, environ={**self.environ, **variables})

    def binds(self, binds: Iterable[str]) -> tuple[str, ...]:
        """Fill in the binds whose source is there."""
        reasons = {bind: self.absent(bind.partition(":")[0]) for bind in binds}
        self.left_out.extend(f"bind {bind}: {why}" for bind, why in reasons.items() if why)
        present = [bind for bind, why in reasons.items() if not why]
        return tuple(filled for bind in present for filled in self.all(f"bind {bind}", [bind]))

    def folders(self, folders: Iterable[str], binds: Iterable[str]) -> tuple[str, ...]:
        """Return the file systems that this host has, but for those that a bind shows."""
        shown = set(map(target, binds))
        return tuple(
            folder for folder in folders if folder not in shown and not self.absent(Literal(folder))
        )

    def absent(self, text: str) -> str:
        """Return why a file can't be shown in an image; empty where it can."""
        try:
            path = Path(fill(text, self.environ))
            apptainer.require_bindable(path)
        except UnsetError as error:
            return f"${error} is empty or not set"
        except EngineError as error:
            return error.why or error.what
        return "" if self.exists(path) else f"there is no {path} on this host"

    def unset(self, texts: Iterable[str]) -> str:
        """Name the first variable that is not set; empty where all are."""
        try:
            for text in texts:
                fill(text, self.environ)
        except UnsetError as error:
            return f"${error} is empty or not set"
        return ""


def _is_wanted(mpi: Mpi, environ: Mapping[str, str]) -> bool:
    """Return whether the host's MPI is to take the image's place, as wrappers do."""
    choice = variables.text(environ, _MPI) or ""
    if choice in ("own", "host"):
        return choice == "host"
    if mpi.version_variable is None:
        return schedulers.allocation(environ) is not None
    return bool(environ.get(mpi.version_variable))


def _obstacles(mpi: Mpi, whole: Surroundings, alone: Surroundings, host: _Host) -> Iterator[str]:
    """Name the facts that keep the host's MPI out: swapping is all or nothing."""
    variable = mpi.version_variable
    if variable and variables.text(host.environ, _MPI) != "host":
        version, versions = host.environ.get(variable, ""), mpi.known_versions
        if version not in versions:
            yield f"${variable} is {version}, and the site config knows {' '.join(versions)}"
    if whole.scripts:
        yield f"only a job's shell reads {whole.scripts[0]}"
    if unset := host.unset(whole.environment.values()):
        yield unset
    host = host.setting(host.variables(whole.environment))
    binds = [bind for bind in whole.binds if bind not in alone.binds]
    files = (*(bind.partition(":")[0] for bind in binds), *whole.libraries)
    yield from filter(None, map(host.absent, files))
    if unset := host.unset((*binds, *whole.preload, *whole.own_library_path)):
        yield unset


def _filled(surroundings: Surroundings, host: _Host) -> HostSurroundings:
    environment = host.variables(surroundings.environment)
    host = host.setting(environment)
    inside = {**environment, **host.variables(surroundings.inside)}
    lists = {
        "LD_PRELOAD": ":".join(host.all("LD_PRELOAD", surroundings.preload)),
        "LD_LIBRARY_PATH": ":".join(host.all("LD_LIBRARY_PATH", surroundings.own_library_path)),
    }
    libraries = ",".join(host.all("libraries", surroundings.libraries))
    # An option and its value are two words: one alone would change the other's meaning.
    flags = host.all("flags", surroundings.own_flags)
    binds = host.binds(surroundings.binds)
    paths = {name: value for name, value in inside.items() if name in _IMAGE_PATHS}
    return HostSurroundings(
        flags=flags,
        binds=(*binds, *host.folders(surroundings.folders, binds)),
        environment={**environment, **({name: libraries for name in _LIBRARIES if libraries})},
        inside={name: value for name, value in inside.items() if name not in _IMAGE_PATHS},
        image_paths={**paths, **{name: value for name, value in lists.items() if value}},
        left_out=tuple(dict.fromkeys(host.left_out)),
        facts=_facts(surroundings),
    )


def _facts(surroundings: Surroundings) -> dict[str, tuple[str, ...]]:
    variables = {**surroundings.environment, **surroundings.inside}
    return {
        "flags": surroundings.own_flags,
        "binds": surroundings.binds,
        "variables": tuple(f"{name}={value}" for name, value in variables.items()),
        "libraries": surroundings.libraries,
        "LD_PRELOAD": surroundings.preload,
        "LD_LIBRARY_PATH": surroundings.own_library_path,
    }


def fill(text: str, environ: Mapping[str, str]) -> str:
    """Fill in $NAME and ${NAME}, but in a Literal; raises UnsetError for an empty or unset one."""
    if isinstance(text, Literal):
        return str(text)

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not environ.get(name) and name != MAY_BE_UNSET:
            raise UnsetError(name)
        return environ.get(name, "")

    return VARIABLE.sub(value, text)

"""Site and image -> launch files: what surrounds the image, and how the host's MPI takes over.

One file an epoch of the site, in the words that a wrapper knows (templates/module/around.sh.j2).
"""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dlcontainer.config.templating import Literal, Text, render_template
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables
from dlcontainer.planning.conflicts import toolkits
from dlcontainer.planning.launch import model_folders, surroundings
from dlcontainer.planning.launch.surroundings import ImageFacts, Surroundings
from dlcontainer.planning.versions import is_newer, numbers
from dlcontainer.publish.modulefiles import CACHES, ModuleRelease, WrapperContext, epoch_of
from dlcontainer.sites.facts import Mpi
from dlcontainer.sites.site import Site, SiteTarget

FOLDER = "launch"


def sites_of(
    site: Site, at: Callable[[SiteTarget], Site] | None, release: ModuleRelease
) -> Mapping[str, Site]:
    """Return the site as it is in each of its epochs, by the launch file's name; `site` is the
    image's own.

    Left out is one whose host libraries the image's C library can't load, and one whose GPU-aware
    MPI is made for another major release of ROCm or CUDA than that of the image's own epoch.
    """
    by_file = {epoch_of(site): site}
    for epoch in site.epochs if at else ():
        if at and epoch != site.epoch:
            with contextlib.suppress(ConfigError):  # it has no nodes of this type
                by_file[epoch] = at(SiteTarget(epoch=epoch, node_type=site.node_type))
    return {
        name: epoch_site
        for name, epoch_site in by_file.items()
        if epoch_site is site or _fits(epoch_site, site, release)
    }


def _fits(site: Site, own: Site, release: ModuleRelease) -> bool:
    if swaps(site, release) is None:
        return True
    host = site.os.glibc if site.os else None
    return not is_newer(host, release.glibc) and _takes_its_buffers(site, own)


def _takes_its_buffers(site: Site, own: Site) -> bool:
    majors = {
        version[0]
        for gpu in (site.accelerator, own.accelerator)
        if gpu and (version := numbers(gpu.toolkit or ""))
    }
    return len(majors) < 2 or not toolkits.brings_gtl(site)


def swaps(site: Site, release: ModuleRelease) -> Mpi | None:
    """Return the site's MPI where wrappers put it in place of the image's, else None."""
    return surroundings.swapped(site, _facts(release))


def _facts(release: ModuleRelease) -> ImageFacts:
    return ImageFacts(uses_mpi=release.mpi is not None, environment=release.environment)


def choose(sites: Mapping[str, Site], release: ModuleRelease, default: str) -> list[Text]:
    """Write which epoch's facts hold, by the version of the MPI that is loaded; the image's own
    epoch comes last, and wins.
    """
    lines = []
    for name in sorted(sites, key=lambda name: name == default):
        mpi = swaps(sites[name], release)
        if mpi is not None and mpi.version_variable and len(sites) > 1:
            versions = " | ".join(map(shlex.quote, mpi.known_versions))
            chosen = f"dlc_epoch={shlex.quote(name)}"
            lines.append(f"case ${{{mpi.version_variable}-}} in {versions}) {chosen} ;; esac")
    return list(map(Text, lines))


def around(sites: Mapping[str, Site], release: ModuleRelease, default: str) -> WrapperContext:
    """Return which launch file a wrapper reads, and which MPI the ranks run over."""
    mpi = swaps(sites[default], release)
    lines = [] if release.mpi is None else [f"MPI: the image's own, of the family {release.mpi}."]
    if mpi is not None:
        where = f" (epoch {default})" if sites[default].epoch else ""
        when = f"where ${mpi.version_variable} is set" if mpi.version_variable else "in jobs"
        lines = [
            f"MPI: the host's {mpi_name(mpi)}{where} in place of the image's, {when};",
            "  DLCONTAINER_MPI=own keeps the image's, DLCONTAINER_DEBUG=1 says which it is.",
        ]
    return WrapperContext(
        epoch=default,
        models=model_folders.of(sites[default]),
        choose=tuple(choose(sites, release, default)),
        mpi=("", *lines) if lines else (),
    )


def texts(
    sites: Mapping[str, Site], release: ModuleRelease, templates: list[Path]
) -> Mapping[str, str]:
    """Render the launch file of each epoch."""
    return {
        f"{name}.sh": render_template(templates, "module/launch.sh.j2", _values(site, release))
        for name, site in sites.items()
    }


def _values(site: Site, release: ModuleRelease) -> Mapping[str, object]:
    mpi = swaps(site, release)
    alone = surroundings.alone(site, _facts(release))
    whole = surroundings.of(site, _facts(release))
    return {
        "module": Text(f"{release.name} {release.version}"),
        "target": Text(site.target),
        "family": (release.mpi or "") if surroundings.is_apptainer(site) else "",
        "swaps": mpi.mode if mpi else "",
        "mpi": mpi_name(mpi) if mpi else "",
        "load": "; ".join(f"module {line}" for line in mpi.modules) if mpi else "",
        "mpi_family": mpi.family if mpi else "",
        "variable": (mpi.version_variable or "") if mpi else "",
        "versions": "\n".join(mpi.known_versions) if mpi else "",
        "alone": list(_lines(alone, site)),
        "ready": list(_ready(whole, alone)) if mpi else [],
        "swapped": list(_lines(whole, site)) if mpi else [],
    }


def mpi_name(mpi: Mpi) -> str:
    """Name a site's MPI with its version, where that is known."""
    return " ".join(filter(None, (mpi.name, mpi.version)))


def _lines(applied: Surroundings, site: Site) -> Iterator[Text]:
    """Write the facts as words of the wrapper, each behind a look at the variables it uses."""
    for script in applied.scripts:
        yield _guarded(f"dlc_read {host_variables.shell(script)}", script)
    for name, value in applied.environment.items():
        yield _guarded(f"dlc_host {name} {host_variables.shell(value)}", value)
    for name, value in applied.inside.items():
        if name not in CACHES:  # wrappers name a folder that no other user can write to
            yield _guarded(f"dlc_inside {name} {host_variables.shell(value)}", value)
    yield from _libraries(applied)
    for bind in applied.binds:
        yield _guarded(f"dlc_bind_in {host_variables.shell(bind)}", bind)
    for flag in applied.own_flags if surroundings.is_apptainer(site) else ():
        yield _guarded(f"dlc_flag {host_variables.shell(flag)}", flag)


def _libraries(applied: Surroundings) -> Iterator[Text]:
    if entries := applied.own_library_path:
        yield _guarded(f"dlc_path {_words(entries)}", *entries)
    if applied.preload:
        joined = ":".join(map(host_variables.shell, applied.preload))
        yield _guarded(f"dlc_pass LD_PRELOAD {joined}", *applied.preload)
    if applied.libraries:
        yield _guarded(f"dlc_libraries {_words(applied.libraries)}", *applied.libraries)


def _ready(whole: Surroundings, alone: Surroundings) -> Iterator[Text]:
    """Write what must be on this host before the host's MPI takes over."""
    binds = [bind for bind in whole.binds if bind not in alone.binds]
    used = host_variables.variables(
        [*binds, *whole.libraries, *whole.preload, *whole.own_library_path, *whole.scripts]
    )
    set_here = {*whole.environment}
    names = [name for name in used if name not in set_here]
    if names:
        yield Text(f"dlc_need {' '.join(names)}")
    for bind in binds:
        yield Text(f'dlc_parts {host_variables.shell(bind)} && dlc_file "$dlc_from"')
    for file in (*whole.libraries, *whole.scripts):
        yield Text(f"dlc_file {host_variables.shell(file)}")
    for file in whole.preload:
        if binds and not isinstance(file, Literal):
            yield Text(f"dlc_bound {host_variables.shell(file)} {_words(binds)}")


def _guarded(line: str, *values: str) -> Text:
    names = host_variables.variables(values)
    if not names:
        return Text(line)
    return Text(f"if dlc_need {' '.join(names)}; then {line}; else dlc_without; fi")


def _words(values: list[str] | tuple[str, ...]) -> str:
    return " ".join(map(host_variables.shell, values))

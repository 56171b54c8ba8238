"""Load a site: what it extends, the host's facts, its epoch and node type, the user's overrides."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dlcontainer import config
from dlcontainer.config import Document, SelectedDocument
from dlcontainer.errors import ConfigError
from dlcontainer.sites import binding, fabric_jobs, gpu_flags, gpu_jobs, sources
from dlcontainer.sites.scheduler_words import require_one_scheduler
from dlcontainer.sites.site import USUAL, WHOLE_SITE, Site, SiteTarget
from dlcontainer.sites.sources import FileSource
from dlcontainer.system.machine import HostMachine

# Nothing in a name that a shell reads; a value is one string of the EDF, whatever it holds.
_ANNOTATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/ -]*=")
# What a layer below a site (`extends`) does not hand on.
_OWN = ("schema", "name", "extends", "status", "source")


class FileReader(Protocol):
    """Whoever reads a file into a document; where many sites are loaded, one that keeps them."""

    def __call__(self, path: Path, *, layer: str, display: str) -> Document:
        """Read a file; raises ConfigError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFiles:
    """Where the files of sites are: how messages name one, the file of a site's name, its text."""

    display: Callable[[Path], str]
    find: Callable[[str], Path]
    read: FileReader = config.load


def host_facts(host: HostMachine) -> Document:
    """What this machine says of itself, as the lowest layer of a site with `facts: host`."""
    os: dict[str, object] = {
        "distribution": host.distribution,
        "release": host.release,
        "glibc": host.glibc,
        "kernel": host.kernel,
    }
    data: dict[str, object] = {
        "arch": host.arch,
        "os": {key: value for key, value in os.items() if value is not None},
        "cpu": {"model": host.cpu_model, "cores": host.cores},
        # The native twin needs the same system below it: the image takes the host's.
        "base": {"distribution": host.distribution, "release": host.release},
    }
    return config.from_data(data, layer="host")


def load(
    path: Path,
    *,
    files: SiteFiles,
    overrides: Document | None,
    host: HostMachine,
    target: SiteTarget = USUAL,
) -> SelectedDocument[Site]:
    """Load a site file: over what it extends and the host's facts, under the overrides.

    The epoch's changes lie over the file, the node type's over those. Raises ConfigError that names
    every place that is wrong.
    """
    named: dict[str, FileSource] = {}
    merged = _extended(path, files, named)
    if merged.data.get("facts") == "host":
        merged = config.merge(host_facts(host), merged)
    changed = config.merge(merged, overrides) if overrides else merged
    for key, plural, selected in (
        ("epoch", "epochs", target.epoch),
        ("node_type", "node_types", target.node_type),
    ):
        merged = _chosen(merged, changed, key, plural, selected)
    if overrides is not None:
        merged = config.merge(merged, overrides)
    asked_for = {"epoch": target.epoch, "node_type": target.node_type}
    for key, name in asked_for.items():
        if name is not None:
            option = f"--{key.replace('_', '-')}"
            merged = config.merge(merged, config.from_data({key: name}, layer=option))
    site = SelectedDocument(value=config.validate(merged, Site), document=merged)
    display = files.display(path)
    named.pop(display, None)  # one's own overrides may have changed it
    site = sources.serve(site, {**named, **sources.of_file(merged, display)})
    sources.require(site)
    gpu_flags.require_fit(site)
    _require_annotations(site)
    require_one_scheduler(site)
    binding.require_near(site)
    fabric_jobs.require_brought(site)
    asking = SelectedDocument(value=gpu_jobs.settle(site.value), document=site.document)
    settled = fabric_jobs.settle(binding.settle(asking))
    return SelectedDocument(value=settled, document=site.document)


def _require_annotations(site: SelectedDocument[Site]) -> None:
    """Refuse what the Container Engine takes for no annotation: it has no flags."""
    if site.value.engine.runtime != "container-engine":
        return
    for path, group in site.value.groups():
        for at, word in enumerate(getattr(group, "flags", ())):
            if not _ANNOTATION.match(word):
                raise ConfigError(
                    f"{config.dotted((*path, 'flags'))}: {word!r} is not an annotation",
                    where=site.document.origin((*path, "flags", at)).where,
                    why="the Container Engine takes annotations, no flags; their names have "
                    "letters, digits, spaces and ._-/",
                    next_step="write NAME=VALUE: com.hooks.cxi.enabled=true",
                )


def _extended(
    path: Path, files: SiteFiles, named: dict[str, FileSource], chain: tuple[Path, ...] = ()
) -> Document:
    """Read a site file over those that it extends; `named` gets the source of each."""
    layer, display = f"site {path.stem}" if chain else "site", files.display(path)
    written = files.read(path, layer=layer, display=display)
    named.update(sources.of_file(written, display))
    parent = written.data.get("extends")
    if not isinstance(parent, str):
        return written
    where = written.origin(("extends",)).where
    try:
        below = files.find(parent)
    except ConfigError as error:
        raise ConfigError(
            f"extends: {error.what}", where=where, next_step=error.next_step
        ) from None
    resolved = (*chain, path.resolve())
    if below.resolve() in resolved:
        names = " -> ".join([*(step.stem for step in resolved), below.stem])
        raise ConfigError(
            f"extends: circular reference: {names}",
            where=where,
            next_step="remove `extends` from one of these sites",
        )
    lower = _extended(below, files, named, resolved)
    for key in _OWN:
        lower = config.without(lower, key)
    # Of a key that is missing, the place is this file: the other may have it, for itself.
    lower = replace(lower, origins={path: at for path, at in lower.origins.items() if path})
    return config.merge(lower, written)


def _chosen(
    merged: Document, changed: Document, key: str, plural: str, selected: str | None
) -> Document:
    """Lay the changes of the asked, or usual, epoch or node type over a site."""
    choices = changed.data.get(plural)
    names = list(choices) if isinstance(choices, dict) else []
    name = selected or changed.data.get(key)
    what = key.replace("_", " ")
    where = changed.origin((key,)).where if not selected else f"--{key.replace('_', '-')}"
    if name is None and not names:
        return merged
    if name is None:
        raise ConfigError(
            f"{key} is missing: name the default of {plural}",
            where=changed.origin((plural,)).where,
            next_step=f"one of: {', '.join(names)}",
        )
    if name not in names:
        site = changed.data.get("name")
        alternatives = f"one of: {', '.join(names)}" if names else f"site {site} has no {plural}"
        raise ConfigError(
            f"no {what} {name!r} in site {site}{config.suggest(str(name), names)}",
            where=where,
            next_step=alternatives,
        )
    changes = config.subtree(changed, (plural, str(name), "changes"))
    if changes is None:
        return merged  # the model says what is wrong with it
    for top_key in WHOLE_SITE:
        if top_key in changes.data:
            raise ConfigError(
                f"{top_key} belongs to the whole site: remove it from this {what}",
                where=changes.origin((top_key,)).where,
            )
    return config.merge(merged, changes)

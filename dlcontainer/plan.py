"""The plan: one recipe for one site, every value settled, with the origin of each. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import document, render
from dlcontainer.distributions import DISTRIBUTIONS
from dlcontainer.document import Document, KeyPath, Origin, Sourced
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import ConfigError
from dlcontainer.machine import Host
from dlcontainer.recipe import OVERRIDABLE, Recipe
from dlcontainer.siteconfig import Site

# The lowest of the layers: default < recipe < site < user's overrides < --set.
DEFAULTS: Mapping[str, object] = {"environment": {"LANG": "C.UTF-8"}}

# Where the image carries its own description and its proof.
IMAGE_FOLDER = "/opt/dlcontainer"
PROBE_FOLDER = f"{IMAGE_FOLDER}/probe"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """A file that goes into the image, by content: of the recipe's folder, or of the probe."""

    source: Path
    name: str
    target: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One recipe settled for one site; the same inputs give the same plan and digest."""

    recipe: Recipe
    site: Site
    environment: Mapping[str, str]
    files: tuple[FileEntry, ...]
    # the probe's files: they go in as one folder, PROBE_FOLDER
    probe: tuple[FileEntry, ...]
    templates: Mapping[str, str]
    origins: tuple[tuple[str, object, Origin], ...]
    notes: tuple[str, ...]
    trial: Trial | None

    @property
    def name(self) -> str:
        """Name of the image's files, without a suffix."""
        return f"{self.recipe.name}-{self.recipe.version}-{self.site.name}"

    @property
    def python(self) -> str:
        """Path of the image's Python."""
        return f"{self.recipe.prefix}/bin/python"

    @property
    def content(self) -> dict[str, object]:
        """All that decides what is in the image, as plain data; no path or mirror of this host."""
        recipe = self.recipe.model_dump(
            mode="json", by_alias=True, exclude={"environment", "space_mb"}
        )
        return {
            "schema": 1,
            "site": self.site.name,
            "arch": self.site.arch,
            "recipe": recipe,
            "environment": dict(sorted(self.environment.items())),
            "files": {entry.target: entry.sha256 for entry in (*self.files, *self.probe)},
            "templates": dict(self.templates),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        text = json.dumps(self.content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What surrounds a plan: this host, what is remembered of its engine, the templates."""

    host: Host
    trial: Trial | None
    # template -> its SHA-256
    templates: Mapping[str, str]
    # the files of the probe, which every image carries as one folder
    probe: tuple[Path, ...] = ()


def resolve(
    *,
    site: Sourced[Site],
    recipe: Document,
    folder: Path,
    changes: Sequence[Document],
    setting: Setting,
) -> Plan:
    """Settle a recipe for a site.

    `folder` holds the recipe's files; `changes` are the user's overrides and --set, in this
    order. Raises ConfigError that names every place that is wrong.
    """
    merged = _layers(site, recipe, changes)
    expanded = _expand(merged, site.value)
    settled = document.validate(expanded, Recipe)
    settled, environment = _apply_conditions(settled, site.value, expanded)
    files = _files(settled, folder, expanded)
    return Plan(
        recipe=settled,
        site=site.value,
        environment=environment,
        files=files,
        probe=tuple(map(_probe_entry, setting.probe)),
        templates=dict(sorted(setting.templates.items())),
        origins=tuple(document.flatten(expanded)),
        notes=tuple(_notes(settled, site.value, setting.host, setting.trial)),
        trial=setting.trial,
    )


def _layers(site: Sourced[Site], recipe: Document, changes: Sequence[Document]) -> Document:
    name = recipe.data.get("name")
    layers = [document.from_data(DEFAULTS, layer="default"), recipe]
    for key in ("base", "environment"):
        part = document.subtree(site.document, (key,))
        if part is not None:
            layers.append(document.nest(part, key))
    of_site = document.subtree(site.document, ("recipes", str(name)))
    for change in [of_site, *changes] if of_site else changes:
        _only_overridable(change)
        layers.append(change)
    return _one_base(layers)


def _only_overridable(change: Document) -> None:
    for key in change.data:
        if key not in OVERRIDABLE:
            raise ConfigError(
                f"{key}: can't be overridden here{document.suggest(key, OVERRIDABLE)}",
                where=change.origin((key,)).where,
                why=f"only {', '.join(OVERRIDABLE)} of a recipe may be overridden",
                next_step="copy the recipe to your own folder and change it there",
            )


def _one_base(layers: Sequence[Document]) -> Document:
    # A base is one choice: an image replaces a distribution and the other way round.
    merged = document.merge()
    for layer in layers:
        new, old = layer.data.get("base"), merged.data.get("base")
        if isinstance(new, dict) and isinstance(old, dict):
            other = "distribution" if "image" in new else "image"
            if other in old and ("image" in new or "distribution" in new):
                merged = document.without(merged, "base")
        merged = document.merge(merged, layer)
    return merged


def _values(data: Mapping[str, object], site: Site) -> dict[str, object]:
    # A site's accelerator is always there to ask for: {{ site.accelerator }} is none without one.
    return {
        "site": site.model_dump(mode="json", exclude={"recipes", "routing"}),
        "recipe": {"name": data.get("name")},
        "base": data.get("base"),
        "versions": data.get("versions", {}),
        "prefix": data.get("prefix"),
    }


def _expand(merged: Document, site: Site) -> Document:
    values = _values(merged.data, site)

    def one(path: KeyPath, text: str, origin: Origin) -> str:
        # Of a step itself, not of its environment, whose variables may have any name.
        of_step = path[2] if len(path) == 3 and path[0] == "steps" else None
        if path[0] in {"versions", "base", "prefix", "name"} or of_step == "when":
            return text
        return render.expand(text, values, where=origin.where, shell=of_step == "shell")

    return document.map_text(merged, one)


def _apply_conditions(
    recipe: Recipe, site: Site, settled: Document
) -> tuple[Recipe, dict[str, str]]:
    values = _values(recipe.model_dump(mode="json"), site)
    steps = []
    environment: dict[str, str] = {}
    for index, step in enumerate(recipe.steps):
        if step.when is not None:
            where = settled.origin(("steps", index, "when")).where
            if not render.holds(step.when, values, where=where):
                continue
        # The condition is settled: what is left does not depend on it any more.
        steps.append(step.model_copy(update={"when": None}))
        environment |= step.environment
    environment |= recipe.environment
    if "PATH" in environment:
        raise ConfigError(
            "environment.PATH: PATH is set by dlcontainer",
            why=f"{recipe.prefix}/bin stands before the system's folders",
            next_step="link a program into that folder in a shell step",
        )
    return recipe.model_copy(update={"steps": tuple(steps)}), environment


def _files(recipe: Recipe, folder: Path, settled: Document) -> tuple[FileEntry, ...]:
    wanted: list[tuple[str, str, KeyPath]] = [
        (recipe.verify.script, f"{IMAGE_FOLDER}/verify.py", ("verify", "script"))
    ]
    for index, step in enumerate(recipe.steps):
        wanted += [
            (source, target, ("steps", index, "files"))
            for source, target in sorted(step.files.items())
        ]
    entries = []
    taken = {f"{IMAGE_FOLDER}/manifest.json"}
    for name, target, key in wanted:
        if target in taken:
            raise ConfigError(
                f"{target} is taken already, {name!r} can't go there too",
                where=settled.origin(key).where,
                next_step="give each file a path of its own in the image",
            )
        taken.add(target)
        path = folder / name
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"no file {name!r} in the recipe's folder",
                where=settled.origin(key).where,
                next_step=f"put it into {folder}",
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        entries.append(FileEntry(source=path, name=name, target=target, sha256=digest))
    return tuple(entries)


def _probe_entry(path: Path) -> FileEntry:
    return FileEntry(
        source=path,
        name=path.name,
        target=f"{PROBE_FOLDER}/{path.name}",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def native_twin_reason(recipe: Recipe, site: Site, host: Host) -> str | None:
    """Say why no native twin of this recipe can stand on this host; None where one can."""
    base = recipe.base
    if site.arch != host.arch:
        return f"the image is for {site.arch}, this host is {host.arch}"
    if base.image:
        return "the base is an image, whose libraries this host does not have"
    if (base.distribution, base.release) != (host.distribution, host.release):
        there = f"{host.distribution} {host.release}"
        return f"the base is {base.distribution} {base.release}, this host is {there}"
    return None


def _notes(recipe: Recipe, site: Site, host: Host, trial: Trial | None) -> list[str]:
    notes = []
    if trial is None:
        notes.append("engine: not tried on this host; `dlcontainer doctor` tries it")
    reason = native_twin_reason(recipe, site, host)
    if reason:
        notes.append(f"no native twin: {reason}; the unpacked image is the native side of a bench")
    if site.os is not None and site.os.glibc is None:
        notes.append("glibc of the site is unknown: no promise about host libraries in the image")
    if site.status == "decommissioned":
        notes.append("the site is decommissioned: rendered for the record")
    return notes


def base_python(recipe: Recipe) -> str | None:
    """Python of the base (MAJOR.MINOR) where the distribution is known; None for an image."""
    base = recipe.base
    if base.image or not base.distribution or not base.release:
        return None
    return DISTRIBUTIONS[(base.distribution, base.release)].python

"""The plan: one recipe for one site, every value settled, with the origin of each. Pure."""

import datetime
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dlcontainer import config
from dlcontainer.config import Document, KeyPath, SelectedDocument, ValueOrigin
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.image import layout
from dlcontainer.planning import candidates, changed_pins, conflicts, layers, newness, variants
from dlcontainer.planning.choice import VariantChoice
from dlcontainer.recipes.extends import WrittenRecipe
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites import citations, gpu_jobs, rank_requests
from dlcontainer.sites.site import Site
from dlcontainer.system import digests, machine
from dlcontainer.system.machine import HostMachine


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """A file that goes into the image, by content: of the recipe's folder, or of the probe."""

    source: Path
    name: str
    target: str
    sha256: str


# How a note begins that is about what a site leaves out.
UNKNOWN = "unknown at the site: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One recipe settled for one site; the same inputs give the same plan and digest."""

    recipe: Recipe
    site: Site
    choice: VariantChoice | None
    environment: Mapping[str, str]
    files: tuple[FileEntry, ...]
    # of the recipe itself: files may come from those of the recipes that it extends
    folder: Path
    # the probe's files: they go in as one folder, layout.PROBE
    probe: tuple[FileEntry, ...]
    templates: Mapping[str, str]
    origins: tuple[tuple[str, object, ValueOrigin], ...]
    # the site's file as it was written, for the places of its values
    written: Document
    notes: tuple[str, ...]
    trial: EngineCapabilities | None

    @property
    def name(self) -> str:
        """Name of the image's files, without a suffix; what is not the usual choice is in it."""
        unusual = self.choice.name if self.choice and not self.choice.usual else None
        parts = (self.recipe.name, self.recipe.version, self.site.target, unusual)
        return "-".join(part for part in parts if part)

    @property
    def python(self) -> str:
        """Path of the image's Python."""
        return f"{self.recipe.prefix}/bin/python"

    @property
    def earlier_proofs(self) -> tuple[str, ...]:
        """Paths, in the image, of the scripts that run before its own proof."""
        return tuple(layout.proof(proof.recipe) for proof in self.recipe.verify.before)

    @property
    def has_pack(self) -> bool:
        """Whether the image gets a module pack; the probe, which goes in, writes it."""
        return self.recipe.has_pack and bool(self.probe)

    def place_in_site(self, *path: str) -> Mark | str:
        """Return where a key of the site's file stands."""
        return self.written.origin(path).where

    def place_of(self, text: str) -> Mark | str | None:
        """Return where a text stands, in the recipe or in the site's file; None for one of ours."""
        of_recipe = (origin for _, value, origin in self.origins if value == text)
        of_site = (origin for _, value, origin in config.flatten(self.written) if value == text)
        first = next(itertools.chain(of_recipe, of_site), None)
        return first.where if first else None

    @property
    def content(self) -> dict[str, object]:
        """All that decides what is in the image, as plain data; no path or mirror of this host."""
        recipe = self.recipe.model_dump(
            mode="json",
            by_alias=True,
            exclude={
                *("environment", "space_mb", "variants", "extends", "wishes", "changed_pins"),
                "job",  # of its script, and not of the image
                "held",  # of `recipe outdated` alone
            },
        )
        if not self.recipe.verify.before:
            del recipe["verify"]["before"]
        if not self.recipe.slim:
            del recipe["slim"]  # plans from before there was such a choice stay what they were
        del recipe["image"]
        image: dict[str, object] = {}
        if self.has_pack:
            image["pack"] = "training" if self.recipe.packs_training else True
        if self.recipe.image.compression != "zstd":
            image["compression"] = self.recipe.image.compression
        if image:
            recipe["image"] = image
        for step in recipe["steps"]:
            if not step["image_only"]:
                del step["image_only"]
        return {
            "schema": 1,
            "site": self.site.name,
            "epoch": self.site.epoch,
            "node_type": self.site.node_type,
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
class PlanContext:
    """What surrounds a plan: this host, what is remembered of its engine, the templates."""

    host: HostMachine
    trial: EngineCapabilities | None
    # template -> its SHA-256
    templates: Mapping[str, str]
    # the files of the probe, which every image carries as one folder
    probe: tuple[Path, ...] = ()
    # the day for which a site's epochs are looked at; None: for no day
    today: datetime.date | None = None


def resolve(
    *,
    site: SelectedDocument[Site],
    recipe: WrittenRecipe,
    changes: Sequence[Document],
    setting: PlanContext,
    variant: str | None = None,
    cpu: bool = False,
) -> Plan:
    """Settle a recipe for a site.

    `changes` are the user's overrides and --set, in this order; `variant` is one or a kind of
    them; `cpu` asks for one without device code.

    Raises ConfigError that names every place that is wrong, MisfitError where the
    recipe and the site contradict each other.
    """
    conflicts.require_site(site)
    document = recipe.document
    above = layers.over(site, recipe.names, changes)
    wish = variants.wish(above, variant, cpu=cpu)
    choice = variants.choose(document, site, wish, candidates.judge)
    merged = layers.layers(site, document, above, choice)
    expanded = layers.expand(merged, site.value)
    settled = config.validate(expanded, Recipe)
    settled, environment = layers.apply_conditions(settled, site.value, expanded)
    contradictions = list(conflicts.find(site.value, settled))
    if contradictions:
        raise conflicts.refusal(contradictions, site=site.document, recipe=merged)
    changed = changed_pins.notes(settled, expanded)
    files = _files(settled, recipe, expanded)
    return Plan(
        recipe=settled,
        site=site.value,
        choice=choice,
        environment=environment,
        files=files,
        folder=recipe.folder,
        probe=tuple(map(_probe_entry, setting.probe)),
        templates=dict(sorted(setting.templates.items())),
        origins=tuple(config.flatten(expanded)),
        written=site.document,
        notes=(
            *changed,
            *newness.note(document, choice.name if choice else None, settled.version),
            *_variant_notes(choice),
            *_notes(settled, site.value, setting.host, setting.trial),
            *conflicts.notes(site, settled, merged, setting.today),
            *_site_notes(site.value, setting.today),
        ),
        trial=setting.trial,
    )


def _files(recipe: Recipe, written: WrittenRecipe, settled: Document) -> tuple[FileEntry, ...]:
    texts: list[tuple[str, str, KeyPath]] = [
        (recipe.verify.script, layout.VERIFY, ("verify", "script"))
    ]
    texts += [
        (proof.script, layout.proof(proof.recipe), ("verify", "before", index, "script"))
        for index, proof in enumerate(recipe.verify.before)
    ]
    # Steps whose condition does not hold are left out of the recipe: by its place, not its number.
    places = {str(name): index for index, name in enumerate(_step_names(settled))}
    for step in recipe.steps:
        texts += [
            (source, target, ("steps", places[step.name], "files", source))
            for source, target in sorted(step.files.items())
        ]
    entries = []
    taken = {layout.MANIFEST}
    for name, target, key in texts:
        if target in taken:
            raise ConfigError(
                f"two files have the target {target}; the second is {name!r}",
                where=settled.origin(key).where,
                next_step="give each file its own path in the image",
            )
        taken.add(target)
        folder = written.folder_of(settled.origin(key).layer)
        path = folder / name
        if not _is_file_of(path, folder):
            raise ConfigError(
                f"no file {name!r} in the recipe's folder",
                where=settled.origin(key).where,
                next_step=f"put the file into {folder}",
            )
        digest = digests.of_file(path)
        entries.append(FileEntry(source=path, name=name, target=target, sha256=digest))
    return tuple(entries)


def _is_file_of(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except OSError:  # longer than a name may be
        return False


def _step_names(settled: Document) -> list[object]:
    steps = settled.data.get("steps")
    listed = steps if isinstance(steps, list) else []
    return [step.get("name") if isinstance(step, dict) else None for step in listed]


def _probe_entry(path: Path) -> FileEntry:
    info = path.stat()
    return FileEntry(
        source=path,
        name=path.name,
        target=f"{layout.PROBE}/{path.name}",
        sha256=_sha256(path, info.st_size, info.st_mtime_ns),
    )


# Every image carries the same files, and `plan --all` makes hundreds of plans.
@lru_cache(maxsize=1024)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    return digests.of_file(path)


def native_twin_reason(recipe: Recipe, site: Site, host: HostMachine) -> str | None:
    """Return why no native twin of this recipe can stand on this host; None where one can."""
    base = recipe.base
    if site.arch != host.arch:
        return f"the image is for {site.arch}, this host is {host.arch}"
    if base.image:
        return "the base is an image, whose libraries this host does not have"
    if (base.distribution, base.release) != (host.distribution, host.release):
        system = f"{host.distribution} {host.release}"
        return f"the base is {base.distribution} {base.release}, this host is {system}"
    missing = machine.missing_packages(recipe.native_packages, host)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        reason = f"{', '.join(missing)} {verb} missing on this host"
        return f"{reason} (an administrator types: apt-get install {' '.join(missing)})"
    return None


def _variant_notes(choice: VariantChoice | None) -> list[str]:
    notes = list(choice.refused) if choice else []
    if choice and choice.status == "never built":
        notes.append(f"variant {choice.name}: never built by dlcontainer's authors, only rendered")
    if choice and choice.lock:
        notes.append(
            f"variant {choice.name}: the site must lock it; the recipe's author could not "
            "reach its base and packages, so pin the base's digest, and run `dlcontainer "
            "lock` for the packages"
        )
    return notes


def _device_notes(recipe: Recipe, site: Site) -> list[str]:
    gpu, stack = site.accelerator, recipe.stack
    if gpu and not stack.has_device_code:
        return [f"the image has no device code: programs will not use the site's {gpu.model}"]
    if not gpu and (stack.cuda or stack.rocm):
        made_for = f"CUDA {stack.cuda}" if stack.cuda else f"ROCm {stack.rocm}"
        return [f"the image is built with {made_for}, but the site has no accelerator"]
    return []


def _notes(
    recipe: Recipe, site: Site, host: HostMachine, trial: EngineCapabilities | None
) -> list[str]:
    notes = []
    if trial is None:
        notes.append("engine: not tested on this host; run `dlcontainer doctor` to test it")
    reason = native_twin_reason(recipe, site, host)
    if reason:
        notes.append(f"no native twin: {reason}; the unpacked image is the native side of a bench")
    image = recipe.base.reference
    if image and image.digest is None:
        notes.append(
            f"base: {image} is not pinned, and its tag can move to another image; "
            "`dlcontainer build` refuses it, and prints its digest"
        )
    notes += _device_notes(recipe, site)
    notes += conflicts.unknown(site)
    notes += gpu_jobs.notes(site)
    return notes


def _site_notes(site: Site, today: datetime.date | None) -> list[str]:
    notes = list(rank_requests.disagreements(site))
    old = citations.old(site.sources, today) if today and site.status == "active" else ()
    if old:
        notes.append(
            f"{len(old)} of the site's {len(site.sources)} sources are over a year old, the oldest "
            f"of {old[0].day} ({old[0].name}): see `dlcontainer site outdated {site.name}`"
        )
    notes += [f"{UNKNOWN}{line}" for line in site.unknown]
    if site.status == "decommissioned":
        notes.append("the site is decommissioned: this plan is for the record only")
    return notes


def base_python(recipe: Recipe) -> str | None:
    """Python of the base (MAJOR.MINOR) where it is known; None for an image that states none."""
    facts = recipe.base.facts
    return facts.python if facts else None

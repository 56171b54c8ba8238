"""How quick the file system is: from a probe's file, from the site, or assumed; and which."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from dlcontainer import config
from dlcontainer.config.field_types import Line, Strict
from dlcontainer.errors import UsageError
from dlcontainer.lab.storm.alternatives import StagingCost
from dlcontainer.lab.storm.storm_model import ServerModel
from dlcontainer.sites.facts import FileSystemSpeed
from dlcontainer.sites.site import Site

# Orders of magnitude, for want of better: no machine's. They are marked wherever they are used.
_ASSUMED: Mapping[str, float] = {
    "latency_ms": 0.5,
    "operations_per_s": 20_000.0,
    "read_latency_ms": 1.0,
    "client_mb_s": 1000.0,
    "target_mb_s": 1000.0,
    "stripes": 1,
    "total_mb_s": 100_000.0,
    "network_mb_s": 1000.0,
}


class FactsFile(Strict):
    """A file of a file system's speed, with where each figure comes from."""

    schema_: Literal[1] = Field(alias="schema")
    source: Line
    speed: FileSystemSpeed


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One figure, and whether somebody stands for it."""

    key: str
    value: float
    source: str
    assumed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StormFacts:
    """All figures of a file system."""

    facts: tuple[Fact, ...]

    def __getitem__(self, key: str) -> float:
        return next(fact.value for fact in self.facts if fact.key == key)

    @property
    def assumed(self) -> tuple[str, ...]:
        """Keys that nobody measured or stated."""
        return tuple(fact.key for fact in self.facts if fact.assumed)

    def system(self) -> ServerModel:
        """Return them as the model takes them."""
        return ServerModel(
            latency_s=self["latency_ms"] / 1000,
            rate=self["operations_per_s"],
            read_s=self["read_latency_ms"] / 1000,
            client_mb_s=self["client_mb_s"],
            target_mb_s=self["target_mb_s"],
            stripes=int(self["stripes"]),
            total_mb_s=self["total_mb_s"],
        )

    def staging(self, mb: float) -> StagingCost:
        """Return what staging so many MB means here."""
        return StagingCost(mb=mb, network_mb_s=self["network_mb_s"])


def gather(file: Path | None, site: Site | None, path: str | None = None) -> StormFacts:
    """Take each figure from the file, else from the site's file system, else assume it.

    `path` chooses the site's file system; without it the first that states a speed. Raises
    ConfigError for a file that is wrong, UsageError for a path that the site does not have.
    """
    stated: list[tuple[FileSystemSpeed, str]] = []
    if file is not None:
        stated.append(_from_file(file))
    if site is not None:
        stated += _from_site(site, path)
    facts = []
    for key, assumed in _ASSUMED.items():
        figures = [(getattr(speed, key), why) for speed, why in stated]
        value, why = next(((v, w) for v, w in figures if v is not None), (None, ""))
        facts.append(
            Fact(key=key, value=float(value), source=why, assumed=False)
            if value is not None
            else Fact(key=key, value=assumed, source="assumed, nobody's figure", assumed=True)
        )
    return StormFacts(facts=tuple(facts))


def _from_file(file: Path) -> tuple[FileSystemSpeed, str]:
    read = config.validate(config.load(file, layer="facts", display=str(file)), FactsFile)
    return read.speed, f"{file.name}: {read.source}"


def _from_site(site: Site, path: str | None) -> list[tuple[FileSystemSpeed, str]]:
    chosen = [system for system in site.filesystems if path in (None, system.path)]
    if path is not None and not chosen:
        paths = ", ".join(system.path for system in site.filesystems) or "none"
        raise UsageError(
            f"--path {path}: site {site.name} has no such file system",
            next_step=f"choose from: {paths}",
        )
    return [
        (system.speed, f"site {site.name}, {system.path}: {', '.join(system.sources) or 'own'}")
        for system in chosen
        if system.speed is not None
    ][:1]


def text(speed: FileSystemSpeed, source: str) -> str:
    """Write a facts file."""
    figures = speed.model_dump(exclude_none=True)
    lines = [f"  {key}: {value:g}" for key, value in figures.items()]
    quoted = source.replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(["schema: 1", f'source: "{quoted}"', "speed:", *lines]) + "\n"

"""The site config: where an image runs. Facts about a centre's machine, each with its source."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from dlcontainer import config
from dlcontainer.config.field_types import Arch, EnvName, Line, Name, Strict
from dlcontainer.config.image_names import parse_image
from dlcontainer.sites.collectives import Collectives
from dlcontainer.sites.engine import EngineConfig
from dlcontainer.sites.facts import (
    Accelerator,
    Cpu,
    FileSystem,
    Jobs,
    Memory,
    Mpi,
    Network,
    Os,
    Scheduler,
)
from dlcontainer.sites.groups import SiteFacts
from dlcontainer.sites.modules import Modules
from dlcontainer.sites.routing import Routing
from dlcontainer.sites.trust import Trust, VulnerabilityRules
from dlcontainer.system.guarded_files import Owners


def _unpinned(value: str) -> str:
    if parse_image(value).digest is not None:
        raise ValueError(
            "expected an image as recipes name it, without a digest: docker://NAME[:TAG]"
        )
    return value


def _pinned(value: str) -> str:
    if parse_image(value).digest is None:
        raise ValueError(
            "expected a digest: docker://NAME[:TAG]@sha256:… (`dlcontainer base pin` reads it)"
        )
    return value


def _date(value: str) -> str:
    datetime.date.fromisoformat(value)
    return value


Date = Annotated[str, AfterValidator(_date)]
ImageName = Annotated[str, AfterValidator(_unpinned)]
PinnedImage = Annotated[str, AfterValidator(_pinned)]


class NodeType(Strict):
    """One kind of node: what differs there from the rest of the site file."""

    summary: Line
    changes: dict[str, object] = Field(min_length=1)


# What no epoch and no node type may change.
WHOLE_SITE = ("schema", "name", "extends", "node_types", "epochs", "source")
# In the order of lists: those in use first.
Status = Literal["active", "example", "decommissioned", "archive"]
STATUSES: Sequence[Status] = get_args(Status)


class Epoch(Strict):
    """A stretch of the site's life with one software stack: what differs from the site file."""

    summary: Line
    since: Date | None = Field(default=None, description="YYYY-MM-DD")
    until: Date | None = None
    changes: dict[str, object] = Field(min_length=1)


class Site(Strict):
    """A centre's machine as dlcontainer needs to know it."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    summary: Line
    extends: Name | None = Field(default=None, description="a site that this one differs from")
    status: Status = Field(
        default="active", description="archive: left out where all sites are meant"
    )
    facts: Literal["written", "host"] = Field(
        default="written", description="host: what is not written here is read from this machine"
    )
    sources: dict[Line, Line] = Field(
        default_factory=dict, description="a name for each place where facts are written"
    )
    source: Line | None = Field(
        default=None,
        description="of `sources`: where the facts of this file are written whose group names none",
    )
    unknown: tuple[Line, ...] = Field(
        default=(), description="looked for and not found: what therefore can't be promised"
    )
    node_types: dict[Name, NodeType] = Field(default_factory=dict)
    node_type: Name | None = Field(default=None, description="the usual one of node_types")
    epochs: dict[Name, Epoch] = Field(default_factory=dict)
    epoch: Name | None = Field(default=None, description="the usual one of epochs")
    arch: Arch
    os: Os | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    accelerator: Accelerator | None = None
    network: Network | None = None
    collectives: Collectives = Collectives.model_construct()
    mpi: Mpi | None = None
    scheduler: Scheduler = Scheduler.model_construct()
    jobs: Jobs = Jobs.model_construct()
    modules: Modules = Modules.model_construct()
    trust: Trust = Trust.model_construct()
    vulnerabilities: VulnerabilityRules = VulnerabilityRules.model_construct()
    engine: EngineConfig = EngineConfig.model_construct()
    filesystems: tuple[FileSystem, ...] = ()
    routing: Routing = Routing.model_construct()
    environment: dict[EnvName, Line] = Field(
        default_factory=dict, description="set in every image of this site"
    )
    default_recipe: Name = Field(description="what is built where no recipe is named")
    base: dict[str, object] | None = Field(
        default=None,
        description="the base of every recipe here that starts from a distribution",
    )
    images: dict[ImageName, PinnedImage] = Field(
        default_factory=dict,
        description="a base's image as recipes name it -> the same by digest, here or on a mirror",
    )
    recipes: dict[Name, dict[str, object]] = Field(
        default_factory=dict, description="overrides per recipe: see docs/centre/add-a-site.md"
    )

    @property
    def target(self) -> str:
        """Name of the site with its epoch and node type, where it has several."""
        return "-".join(part for part in (self.name, self.epoch, self.node_type) if part)

    @property
    def owners(self) -> Owners:
        """Whose records count as one's own: the builders, and the owner of the published tree."""
        root = self.modules.root
        return Owners(names=self.engine.builders, tree=Path(root) if root else None)

    @property
    def never_run(self) -> tuple[str, ...]:
        """What of the site this project has only rendered: it had no such machine."""
        if self.facts == "host":
            return ()
        gpu, network, mpi = self.accelerator, self.network, self.mpi
        return (
            *([f"GPU: {gpu.model}"] if gpu else []),
            *([f"host MPI: {mpi.name}"] if mpi and mpi.mode != "container" else []),
            *([f"fabric: {network.model}"] if network else []),
            *([f"scheduler: {self.scheduler.kind}"] if self.scheduler.kind != "none" else []),
            *([f"runtime: {self.engine.runtime}"] if self.engine.runtime != "apptainer" else []),
        )

    def groups(self) -> Iterable[tuple[config.KeyPath, SiteFacts]]:
        """Yield each group of facts with its path."""
        keys = (
            "os",
            "cpu",
            "memory",
            "accelerator",
            "network",
            "collectives",
            "mpi",
            "scheduler",
            "jobs",
        )
        for key in (*keys, "modules", "engine"):
            group = getattr(self, key)
            if group is not None:
                yield (key,), group
        for name, form in self.scheduler.forms.items():
            yield ("scheduler", "forms", name), form
        for index, system in enumerate(self.filesystems):
            yield ("filesystems", index), system


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteTarget:
    """Which of a site's node types and epochs is meant; None is the usual one."""

    node_type: str | None = None
    epoch: str | None = None

    def named(self, site: str) -> str:
        """Write it as `read_target` reads it: SITE[@EPOCH][:NODE_TYPE]."""
        epoch = f"@{self.epoch}" if self.epoch else ""
        return f"{site}{epoch}:{self.node_type}" if self.node_type else f"{site}{epoch}"


USUAL = SiteTarget()


def targets(site: "Site", meant: SiteTarget = USUAL) -> list[SiteTarget]:
    """List the epochs and node types of a site, each with each; `meant` fixes either."""
    epochs: list[str | None] = [meant.epoch] if meant.epoch else list(site.epochs) or [None]
    nodes: list[str | None] = (
        [meant.node_type] if meant.node_type else list(site.node_types) or [None]
    )
    return [SiteTarget(epoch=epoch, node_type=node) for epoch in epochs for node in nodes]


def read_target(text: str) -> tuple[str, SiteTarget]:
    """Read SITE[@EPOCH][:NODE_TYPE]; a path is a site's file and nothing else."""
    if "/" in text or text.endswith((".yaml", ".yml")):
        return text, USUAL
    rest, _, node_type = text.partition(":")
    site, _, epoch = rest.partition("@")
    return site, SiteTarget(node_type=node_type or None, epoch=epoch or None)

"""The site config: where an image runs. Facts about a centre's machine, each with its source."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from dlcontainer import document
from dlcontainer.document import Document, Sourced
from dlcontainer.engines.base import EngineKind
from dlcontainer.fields import (
    AbsolutePath,
    Arch,
    EnvName,
    EnvPattern,
    GroupName,
    Line,
    Name,
    Strict,
    Url,
    Version,
)
from dlcontainer.machine import Host

SchedulerKind = Literal["none", "slurm", "lsf", "pbs"]


class Facts(Strict):
    """A group of facts: `sources` names where they stand, `remembered` the keys nobody checked."""

    sources: tuple[Line, ...] = ()
    remembered: tuple[Line, ...] = ()

    @model_validator(mode="after")
    def _remembered_are_keys(self) -> Self:
        for key in self.remembered:
            if key not in type(self).model_fields:
                raise ValueError(f"'remembered' names {key!r}, which is no key here")
        return self


class Os(Facts):
    """The operating system of the compute nodes."""

    distribution: Name
    release: Line = Field(description="codename or version: bookworm, 8.2")
    glibc: Version | None = None
    kernel: Line | None = None


class Cpu(Facts):
    """The processors of one node."""

    model: Line
    cores: int = Field(gt=0, description="cores a job can use, per node")
    threads_per_core: int = Field(default=1, gt=0)


class Accelerator(Facts):
    """The accelerators of one node; a site without the key has none."""

    vendor: Literal["nvidia", "amd", "intel"]
    model: Line
    per_node: int = Field(gt=0)
    target: Line | None = Field(default=None, description="sm_70, gfx90a …")
    driver: Version | None = None


class Scheduler(Facts):
    """Who starts jobs, and the argv prefix that starts ranks in them."""

    kind: SchedulerKind = "none"
    launcher: tuple[Line, ...] = Field(default=(), description="argv prefix: [srun], [ibrun] …")
    directives: tuple[Line, ...] = Field(default=(), description="lines of a job script's head")


class Modules(Facts):
    """The module system of the site."""

    kind: Literal["none", "lmod", "tcl"] = "none"
    root: AbsolutePath | None = Field(default=None, description="where modules are published")
    group: GroupName | None = Field(
        default=None, description="owner group of what is published; without it the root's"
    )
    bind_home: bool = Field(default=True, description="wrappers show the user's home")
    pass_environment: tuple[EnvPattern, ...] = Field(
        default=(), description="further variables that wrappers let in: NAME or PREFIX_*"
    )


class FileSystem(Facts):
    """A file system that jobs see."""

    path: AbsolutePath
    kind: Line = Field(description="lustre, gpfs, nfs, local …")
    purpose: Literal["home", "project", "scratch", "node-local"]


class EngineConfig(Facts):
    """The container engine that builds and runs here."""

    kind: EngineKind = "apptainer"
    module: Line | None = Field(default=None, description="module to load first")
    tmpdir: AbsolutePath | None = Field(default=None, description="fast local disk for builds")


class PipRouting(Strict):
    """Where pip finds packages during a build, said outright."""

    index: Url | None = None
    extra_indexes: tuple[Line, ...] = ()


class Routing(Strict):
    """The way to the outside during a build: never content, so never in a text or a digest."""

    apt: Literal["auto", "default"] = Field(
        default="auto", description="auto: the build host's mirrors"
    )
    pip: Literal["auto", "default"] | PipRouting = "auto"
    ca: Literal["auto", "default"] | AbsolutePath = "auto"
    proxy: Literal["auto", "none"] | Line = "auto"
    wheels: tuple[AbsolutePath, ...] = Field(default=(), description="folders of wheels")
    upstreams: dict[Url, Literal["auto", "none"] | Url] = Field(
        default_factory=dict, description="a recipe's upstream -> your mirror of it"
    )


class Site(Strict):
    """A centre's machine as dlcontainer needs to know it."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    summary: Line
    status: Literal["active", "decommissioned", "example"] = "active"
    facts: Literal["written", "host"] = Field(
        default="written", description="host: what is not written here is read from this machine"
    )
    sources: dict[Line, Line] = Field(default_factory=dict)
    arch: Arch
    os: Os | None = None
    cpu: Cpu | None = None
    accelerator: Accelerator | None = None
    scheduler: Scheduler = Scheduler()
    modules: Modules = Modules()
    engine: EngineConfig = EngineConfig()
    filesystems: tuple[FileSystem, ...] = ()
    routing: Routing = Routing()
    environment: dict[EnvName, Line] = Field(
        default_factory=dict, description="set in every image of this site"
    )
    default_recipe: Name
    base: dict[str, object] | None = Field(
        default=None, description="the base of every recipe here, over the recipe's own"
    )
    recipes: dict[Name, dict[str, object]] = Field(
        default_factory=dict, description="overrides per recipe: see docs/add-a-site.md"
    )

    @model_validator(mode="after")
    def _sources_are_known(self) -> Self:
        groups = [self.os, self.cpu, self.accelerator, self.scheduler, self.modules, self.engine]
        for group in [*groups, *self.filesystems]:
            for source in group.sources if group else ():
                if source not in self.sources:
                    raise ValueError(f"source {source!r} is not in 'sources'")
        return self


def host_facts(host: Host) -> Document:
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
    return document.from_data(data, layer="host")


def load(path: Path, *, display: str, overrides: Document | None, host: Host) -> Sourced[Site]:
    """Load a site file: over the host's facts where it asks for them, under the overrides.

    Raises ConfigError that names every place that is wrong.
    """
    written = document.load(path, layer="site", display=display)
    layers = [written]
    if written.data.get("facts") == "host":
        layers.insert(0, host_facts(host))
    if overrides is not None:
        layers.append(overrides)
    merged = document.merge(*layers)
    return Sourced(value=document.validate(merged, Site), document=merged)

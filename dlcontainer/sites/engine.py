"""The engine of a site: what builds there, and what starts images in jobs."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dlcontainer.config.field_types import AbsolutePath, Line, Name, Version
from dlcontainer.engines.engine import EngineKind
from dlcontainer.sites.groups import SiteFacts

# What starts images in jobs.
Runtime = Literal["apptainer", "singularity", "podman-hpc", "shifter", "container-engine"]
# The modes of dlcontainer.engines.apptainer.RUN_MODES.
RunMode = Literal["plain", "userns", "unpacked"]


class EngineConfig(SiteFacts):
    """The container engine that builds here, and what starts images in jobs."""

    kind: EngineKind = "apptainer"
    module: Line | None = Field(default=None, description="module to load first")
    tmpdir: AbsolutePath | None = Field(default=None, description="fast local disk for builds")
    cache: AbsolutePath | None = Field(
        default=None, description="where builds keep their steps; without it each user's own"
    )
    cache_gb: int = Field(default=20, gt=0, description="what the kept steps may take up")
    builders: tuple[Name, ...] = Field(
        default=(), description="users whose kept steps are trusted, where a group shares a cache"
    )
    runtime: Runtime = Field(default="apptainer", description="what starts images in jobs")
    run_mode: RunMode | None = Field(
        default=None,
        description="how Apptainer or Singularity must run images in jobs: userns where no setuid "
        "starter may; on the site `local` it is tried",
    )
    without_gpu_flag: Line | None = Field(
        default=None,
        description="why images start without --nv, --rocm or --gpu, which else follow from "
        "`accelerator`: the centre's jobs do",
    )
    version: Version | None = Field(default=None, description="of the runtime, at the site")
    route: tuple[Line, ...] = Field(
        default=(), description="how the site documents a build: podman, docker-archive, apptainer"
    )

    @model_validator(mode="after")
    def _modes_are_apptainer_s(self) -> Self:
        if self.run_mode is not None and self.runtime not in ("apptainer", "singularity"):
            raise ValueError(f"only Apptainer and Singularity have 'run_mode', not {self.runtime}")
        return self

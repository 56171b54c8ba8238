"""The groups of facts that a site config is made of; each names its sources."""

import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dlcontainer.config.field_types import (
    AbsolutePath,
    EnvName,
    Gpu,
    HostText,
    Line,
    MpiFamily,
    MpiMode,
    Name,
    SiteFabric,
    Strict,
    UserFolder,
    Vendor,
    Version,
)
from dlcontainer.config.gpu_targets import AMD, NVIDIA
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.sites.groups import SiteFacts
from dlcontainer.sites.launching import (
    EndWarning,
    ParallelEnvironment,
    Rendezvous,
    Resources,
    Staging,
)

if TYPE_CHECKING:
    SchedulerKind = str
else:
    # Literal, so that messages and the JSON schema list the names; mypy takes no computed one.
    SchedulerKind = Literal[tuple(SCHEDULERS)]
# As Linux numbers a node's NUMA domains and cores; none has as many.
DomainNumber = Annotated[int, Field(ge=0, le=255)]
CoreNumber = Annotated[int, Field(ge=0, le=8191)]
# $NAME and ${NAME}, which the host fills in.
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# A site need not have set it; an error about it would be wrong.
MAY_BE_UNSET = "LD_LIBRARY_PATH"
# What a launcher's words may ask for: filled in by the job script.
LAUNCH_WORDS = ("nodes", "ranks", "ranks_per_node")


class Os(SiteFacts):
    """The operating system of the compute nodes."""

    distribution: Name
    release: Line = Field(description="codename or version: bookworm, 8.2")
    glibc: Version | None = None
    kernel: Line | None = None


class Cpu(SiteFacts):
    """The processors of one node."""

    model: Line
    cores: int = Field(gt=0, description="cores a job can use, per node")
    threads_per_core: int = Field(default=1, gt=0)
    cores_per_domain: int | None = Field(
        default=None,
        gt=0,
        le=1024,
        description="cores of one NUMA domain: domain n has the n-th so many",
    )
    reserved: tuple[CoreNumber, ...] = Field(
        default=(), description="numbers of further cores, which jobs do not get: [0, 8, 16]"
    )
    target: Name | None = Field(
        default=None, description="GCC's name for it: power9, knl, znver3 …"
    )

    @model_validator(mode="after")
    def _whole_domains(self) -> Self:
        if len({*self.reserved}) != len(self.reserved):
            raise ValueError("'reserved' names a core twice")
        if any(core >= self.all_cores for core in self.reserved):
            raise ValueError(
                f"'reserved' names core {max(self.reserved)}, but 'cores' and 'reserved' are "
                f"{self.all_cores} cores, from 0 on"
            )
        if self.cores_per_domain and self.all_cores % self.cores_per_domain:
            raise ValueError(
                f"'cores' and 'reserved' are {self.all_cores} cores, not a multiple of "
                f"'cores_per_domain': {self.cores_per_domain}"
            )
        return self

    @property
    def all_cores(self) -> int:
        """The cores of the node, those too that jobs do not get."""
        return self.cores + len(self.reserved)


class Memory(SiteFacts):
    """The memory of one node, GB."""

    gb: int = Field(gt=0)
    fast_gb: int | None = Field(default=None, gt=0, description="MCDRAM or HBM of the processor")
    fast_mode: Literal["cache", "flat"] | None = Field(
        default=None, description="cache: in front of the rest; flat: a NUMA node of its own"
    )


class Accelerator(SiteFacts):
    """The accelerators of one node; a site without the key has none."""

    vendor: Vendor
    model: Line
    per_node: int = Field(gt=0, description="devices that ranks see: GCDs, tiles")
    memory_gb: int | None = Field(default=None, gt=0, description="of one device")
    target: Gpu | None = Field(default=None, description="sm_70, gfx90a, pvc …")
    near: tuple[DomainNumber, ...] = Field(
        default=(), description="NUMA domain of the processor beside each device: [3, 2, 1, 0]"
    )
    driver: Version | None = Field(
        default=None, description="NVIDIA's release; AMD's as modinfo amdgpu says it: 6.10.5"
    )
    toolkit: Version | None = Field(
        default=None, description="newest CUDA, ROCm or oneAPI that the site supports"
    )

    @model_validator(mode="after")
    def _named_as_its_vendor_does(self) -> Self:
        form = {"nvidia": NVIDIA, "amd": AMD}.get(self.vendor)
        # A name of the other vendor's is a contradiction of two facts: planning/conflicts/.
        if self.target and form and not (NVIDIA.fullmatch(self.target) or AMD.match(self.target)):
            example = "sm_90" if form is NVIDIA else "gfx90a"
            raise ValueError(f"'target' is not a GPU of {self.vendor}; an example is {example}")
        return self

    @model_validator(mode="after")
    def _near_each(self) -> Self:
        if self.near and len(self.near) != self.per_node:
            raise ValueError(
                f"'near' has {len(self.near)} domains, but 'per_node' is {self.per_node}"
            )
        return self


class Network(SiteFacts):
    """What connects the nodes."""

    kind: SiteFabric = Field(description="`other`: one that has no name here; `model` says which")
    model: Line
    busbw_min: float | None = Field(
        default=None,
        gt=0,
        description="GB/s of bus bandwidth, as nccl-tests: a proof over nodes with less fails",
    )


class Mpi(SiteFacts):
    """The site's MPI, and how images come by one.

    `container`: the image's own, which the host only wires up. `swap`: the host's takes the place
    of the image's at run time. `compile`: the image is compiled against the host's, bound while
    it is built.
    """

    family: MpiFamily
    also: tuple[MpiFamily, ...] = Field(
        default=(), description="families of images' own MPIs that jobs here start besides"
    )
    mode: MpiMode
    name: Line
    version: Version | None = None
    soname: Line | None = Field(default=None, description="libmpi.so.12 …")
    root: HostText | None = Field(
        default=None, description="where it stands on the host: $MPI_ROOT"
    )
    modules: tuple[Line, ...] = Field(default=(), description="module commands: load NAME …")
    environment: dict[EnvName, HostText] = Field(default_factory=dict, description="on the host")
    inside: dict[EnvName, HostText] = Field(default_factory=dict, description="in the image")
    binds: tuple[HostText, ...] = Field(default=(), description="HOST or HOST:IMAGE")
    libraries: tuple[HostText, ...] = Field(
        default=(), description="host libraries put into the image (CONTAINLIBS)"
    )
    preload: tuple[HostText, ...] = Field(default=(), description="LD_PRELOAD in the image")
    library_path: tuple[HostText, ...] = Field(
        default=(), description="LD_LIBRARY_PATH in the image, in this order"
    )
    flags: tuple[HostText, ...] = Field(
        default=(), description="the runtime's: --mpi …; container-engine: annotations, NAME=VALUE"
    )
    scripts: tuple[HostText, ...] = Field(
        default=(), description="files of the site that the job's shell reads, after the modules"
    )
    version_variable: EnvName | None = Field(
        default=None,
        description="variable that the MPI's module sets to its version: CRAY_MPICH_VERSION …",
    )
    known_versions: tuple[Version, ...] = Field(
        default=(), description="values of version_variable for which these facts hold"
    )

    @model_validator(mode="after")
    def _versions_of_a_variable(self) -> Self:
        if bool(self.known_versions) != (self.version_variable is not None):
            raise ValueError("'version_variable' and 'known_versions' must be given together")
        return self

    @model_validator(mode="after")
    def _others_are_the_images_own(self) -> Self:
        if self.also and self.mode != "container":
            raise ValueError(f"'also' names MPIs inside images, and excludes 'mode: {self.mode}'")
        return self

    @property
    def families(self) -> tuple[MpiFamily, ...]:
        """Return the families whose images run here."""
        return (self.family, *self.also)


class LaunchForm(SiteFacts):
    """One documented way to place ranks; words may hold {nodes}, {ranks}, {ranks_per_node}.

    With `inside` the launcher starts one process a node, in the image: `torchrun`, which starts the
    ranks itself, or Ray's head and workers.
    """

    summary: Line
    launcher: tuple[HostText, ...] = Field(min_length=1)
    ranks_per_node: int = Field(gt=0)
    mpi: MpiFamily | None = Field(
        default=None, description="the usual form of images that use this family"
    )
    inside: Literal["torchrun", "ray"] | None = Field(
        default=None, description="what the one process of a node starts, in the image"
    )
    cpu_bind: Literal["near"] | None = Field(
        default=None,
        description="near: the launcher's words that bind each rank to cores of the NUMA domain "
        "beside its device follow from accelerator.near",
    )

    @field_validator("launcher")
    @classmethod
    def _known_words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for word in value:
            for name in re.findall(r"(?<!\$)\{([^}]*)\}", word):
                if name not in LAUNCH_WORDS:
                    raise ValueError(f"{{{name}}} is not one of {', '.join(LAUNCH_WORDS)}")
        return value


class Scheduler(SiteFacts):
    """Who starts jobs, and the argv prefix that starts ranks in them."""

    kind: SchedulerKind = "none"
    launcher: tuple[HostText, ...] = Field(default=(), description="argv prefix: [srun], [ibrun] …")
    directives: tuple[Line, ...] = Field(default=(), description="lines of a job script's head")
    resources: Resources = Field(
        default=Resources.model_construct(),
        description="account, partition, time and nodes of a job",
    )
    whole_nodes: bool = Field(
        default=False,
        description="a job has its nodes for itself, and need not ask for their GPUs; else that "
        "request follows from `accelerator`, unless `directives` or `forms` have one",
    )
    parallel_environment: ParallelEnvironment | None = Field(
        default=None, description="Grid Engine's: what a job asks for slots of"
    )
    forms: dict[Name, LaunchForm] = Field(
        default_factory=dict, description="documented ways to place ranks; the first is the usual"
    )

    @field_validator("directives")
    @classmethod
    def _comments(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for line in value:
            if not line.startswith("#"):
                raise ValueError(f"a directive must be a comment (#) of the job script: {line!r}")
        return value


class Jobs(SiteFacts):
    """What surrounds the engine in every job of this site."""

    modules: tuple[Line, ...] = Field(default=(), description="module commands: load NAME, purge …")
    environment: dict[EnvName, HostText] = Field(default_factory=dict, description="on the host")
    inside: dict[EnvName, HostText] = Field(default_factory=dict, description="in the image")
    binds: tuple[HostText, ...] = Field(default=(), description="HOST or HOST:IMAGE")
    flags: tuple[HostText, ...] = Field(
        default=(),
        description="the runtime's; container-engine: annotations, NAME=VALUE. --nv, --rocm and "
        "--gpu follow from `accelerator`",
    )
    flags_without_mpi: tuple[HostText, ...] = Field(
        default=(), description="more of them where the recipe uses no MPI, in place of mpi.flags"
    )
    prefix: tuple[Line, ...] = Field(
        default=(), description="argv before the engine on each rank: numactl --preferred=1"
    )
    rendezvous: Rendezvous = Field(
        default=Rendezvous.model_construct(), description="how ranks find the job's first node"
    )
    staging: Staging = Field(
        default=Staging.model_construct(how="none"),
        description="where the image is brought before ranks start",
    )
    warning: EndWarning | None = Field(
        default=None, description="the signal that ranks get before the time limit"
    )
    requeue: bool | None = Field(
        default=None, description="whether a job may begin again; else as the scheduler has it"
    )


class FileSystemSpeed(Strict):
    """How quick a file system is; the consumer assumes missing values, and reports so."""

    latency_ms: float | None = Field(
        default=None, ge=0, description="of a metadata operation, no queue before it"
    )
    operations_per_s: float | None = Field(default=None, gt=0, description="metadata, all clients")
    read_latency_ms: float | None = Field(default=None, ge=0, description="of a small read")
    client_mb_s: float | None = Field(default=None, gt=0, description="one node reads")
    target_mb_s: float | None = Field(default=None, gt=0, description="one stripe's target gives")
    stripes: int | None = Field(default=None, ge=1, description="of an image's file")
    total_mb_s: float | None = Field(default=None, gt=0, description="all nodes read")
    network_mb_s: float | None = Field(default=None, gt=0, description="node to node")


class FileSystem(SiteFacts):
    """A file system that jobs see."""

    path: AbsolutePath
    kind: Line = Field(description="lustre, gpfs, nfs, local …")
    purpose: Literal["home", "project", "scratch", "node-local"]
    user_folder: UserFolder | None = Field(
        default=None,
        description="a user's own folder there: $SCRATCH, /scratch/$USER; models and data that "
        "frameworks fetch go there and not into the home",
    )
    speed: FileSystemSpeed | None = None

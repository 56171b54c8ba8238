"""What builds work with: the same for every image, and the folders and origin of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import run_steps
from dlcontainer.build.backends.oci_export import ExportTarget
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.engines import base_modes
from dlcontainer.engines.apptainer import LEVEL, squash
from dlcontainer.engines.execution import Execution
from dlcontainer.engines.oci import OciClient
from dlcontainer.formats import texts
from dlcontainer.image.open_trace import Trace
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.sites.engine import EngineConfig
from dlcontainer.system import machine
from dlcontainer.system.background import BackgroundWork
from dlcontainer.system.machine import find_program
from dlcontainer.system.progress import StepProgress


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildContext:
    """Everything a build needs; the same for every image."""

    execution: Execution
    templates: tuple[Path, ...]
    # Native programs help an emulated build; without them the image is the same, later.
    shortcuts: bool = True
    # zstd's, of the image: higher is smaller and takes longer to make
    level: int = LEVEL
    # which files lie first in the image, and together
    order: Trace | None = None
    worth_keeping_s: float = run_steps.WORTH_KEEPING_S
    # Docker or Podman, where one of them builds; Apptainer makes the SIF of what they built.
    oci: OciClient | None = None
    export: ExportTarget = ExportTarget()  # noqa: RUF009  frozen
    # Where all packages come from, and nowhere else (--locked, --offline).
    bundle: Bundle | None = None
    # A finished base: it was made where its distribution's programs are (--base).
    base: Path | None = None

    @property
    def kind(self) -> str:
        """The engine that builds: apptainer, docker, podman."""
        return self.oci.daemon.kind if self.oci else "apptainer"

    @property
    def version(self) -> str:
        """What builds, and its version; of two engines the one whose steps they are first."""
        packer = self.execution.capabilities.version
        if self.oci is None:
            return packer
        return f"{self.oci.daemon.kind} {self.oci.daemon.version}, {packer}"

    @property
    def step_mode(self) -> str:
        """The engine's mode for steps: only builds make an ordinary user root unasked."""
        mode = self.execution.build_mode
        return "fakeroot" if self.execution.host.uid != 0 and mode == "plain" else mode

    @property
    def step_prefix(self) -> tuple[str, ...]:
        """What goes before a step's command: owners can be changed, or seem to be.

        Where one id is mapped, the engine itself works with the program fakeroot, if there is one.
        """
        host = self.execution.host
        one_id = self.execution.build_mode == "root-mapped" or machine.maps_one_id(host)
        if one_id and not find_program("fakeroot", host.environ):
            return base_modes.fake_ids()
        return ()

    @property
    def lock(self) -> str | None:
        """Digest of the lock that is built from."""
        return self.bundle.lock.digest if self.bundle else None

    @property
    def pins(self) -> Mapping[str, str]:
        """What a lock gives each step, for the steps' keys."""
        return self.bundle.lock.step_keys() if self.bundle else {}

    @property
    def debs(self) -> Mapping[tuple[str, str, str], str]:
        """The SHA-256 of a lock's .deb files, by name, version and architecture."""
        pins = self.bundle.lock.os_pins if self.bundle else ()
        return {(pin.name, pin.version, pin.arch): pin.sha256 for pin in pins}

    def squash(self, plan: Plan) -> tuple[str, ...]:
        """Return mksquashfs's settings for a plan's image."""
        return squash(self.level, lz4=plan.recipe.image.compression == "lz4")

    def text(self, plan: Plan) -> str:
        """Return the definition file of a plan."""
        return texts.text(plan, "apptainer", list(self.templates))

    def step_cache(self, site: EngineConfig, *, quiet: bool = False) -> StepCache:
        """Return the cache of kept steps, with the makers that a site trusts."""
        return StepCache(
            folder=Path(site.cache) if site.cache else self.execution.cache / "steps",
            builders=site.builders,
            on_note=(lambda _: None) if quiet else self.execution.progress.note,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFolders:
    """Where one build works: what is finished in `staging` is renamed into `output`.

    `work` is private and may lie on another file system.
    """

    output: Path
    staging: Path
    work: Path

    @property
    def log(self) -> Path:
        """What the tools say."""
        return self.staging / "build.log"

    @property
    def image(self) -> Path:
        """The image, until it is finished; none where it stays in an engine's store."""
        return self.staging / "image.sif"

    @property
    def record(self) -> Path:
        """The image's record."""
        return self.staging / "record.json"

    @property
    def sbom(self) -> Path:
        """The image's bill of materials."""
        return self.staging / "sbom.json"

    @property
    def context(self) -> Path:
        """The files that the steps put into the image."""
        return self.work / "context"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRun:
    """One build under way: where it works, what follows its steps, what runs beside them."""

    folders: BuildFolders
    steps: StepProgress
    background: BackgroundWork


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStart:
    """What the first step starts from, and how the steps get out."""

    routed: PreparedRouting
    base: BaseTree | BaseImage


def registry_access(plan: Plan, routed: PreparedRouting) -> RegistryAccess:
    """Return how a registry is reached."""
    plain = plan.site.routing.plain_http
    return RegistryAccess(proxies=routed.environment, ca=routed.ca, plain_http=plain)


def speaks_plain_http(plan: Plan, routed: PreparedRouting) -> bool:
    """Return whether the base comes from a registry that is spoken to without TLS."""
    image = plan.recipe.base.reference
    return image is not None and registry_access(plan, routed).is_plain(image.address)

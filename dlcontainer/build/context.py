"""Everything a build needs: routing, base and backend, made ready."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build import build_steps, description, run_steps
from dlcontainer.build.backends.backend import Workbench
from dlcontainer.build.backends.oci_export import Route
from dlcontainer.build.base import native_helpers, pinning, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.build.description import Description
from dlcontainer.build.provenance import Sources
from dlcontainer.build.run_steps import Done
from dlcontainer.config.image_names import Reference
from dlcontainer.engines import base_modes
from dlcontainer.engines.apptainer import LEVEL, Apptainer
from dlcontainer.engines.capabilities import Trial
from dlcontainer.engines.oci import OciClient
from dlcontainer.formats import texts
from dlcontainer.image.open_trace import Trace
from dlcontainer.packages import routing
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.routing import Routed
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image as registry
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.registry.client import Way
from dlcontainer.system import machine
from dlcontainer.system.background import Task
from dlcontainer.system.machine import Host, find_program
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress, Steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """Everything a build needs: engine, host, cache, progress; the same for every image."""

    engine: Apptainer
    trial: Trial
    host: Host
    runner: Runner
    cache: Path
    templates: tuple[Path, ...]
    progress: Progress
    # Native programs help an emulated build; without them the image is the same, later.
    shortcuts: bool = True
    # zstd's, of the image: higher is smaller and takes longer to make
    level: int = LEVEL
    # which files lie first in the image, and together
    order: Trace | None = None
    worth_keeping_s: float = run_steps.WORTH_KEEPING_S
    # Docker or Podman, where one of them builds; Apptainer makes the SIF of what they built.
    oci: OciClient | None = None
    delivery: Route = Route()  # noqa: RUF009  frozen
    # Where all packages come from, and nowhere else (--locked, --offline).
    bundle: Bundle | None = None

    @property
    def kind(self) -> str:
        """The engine that builds: apptainer, docker, podman."""
        return self.oci.daemon.kind if self.oci else "apptainer"

    @property
    def version(self) -> str:
        """What builds, and its version; of two engines the one whose steps they are first."""
        if self.oci is None:
            return self.trial.version
        return f"{self.oci.daemon.kind} {self.oci.daemon.version}, {self.trial.version}"

    @property
    def mode(self) -> str:
        """The engine's mode for builds."""
        return self.trial.build_mode or "plain"

    @property
    def step_mode(self) -> str:
        """The engine's mode for steps: only builds make an ordinary user root unasked."""
        return "fakeroot" if self.host.uid != 0 and self.mode == "plain" else self.mode

    @property
    def step_prefix(self) -> tuple[str, ...]:
        """What goes before a step's command: owners can be changed, or seem to be.

        Where one id is mapped, the engine itself works with the program fakeroot, if there is one.
        """
        one_id = self.mode == "root-mapped" or machine.maps_one_id(self.host)
        if one_id and not find_program("fakeroot", self.host.environ):
            return base_modes.fake_ids()
        return ()

    @property
    def pins(self) -> Mapping[str, str]:
        """What a lock gives each step, for the steps' keys."""
        return self.bundle.lock.step_keys() if self.bundle else {}

    def text(self, plan: Plan) -> str:
        """Give the definition file of a plan."""
        return texts.text(plan, "apptainer", list(self.templates))


def route(plan: Plan, workshop: Workshop, work: Path) -> Routed:
    """Write the routing of a build below `work`; say what it leaves out."""
    if workshop.bundle is not None:
        workshop.bundle.lock.require(plan, str(workshop.bundle.folder))
    folder = work / "routing"
    folder.mkdir(mode=0o700)
    routed = routing.prepare(plan, workshop.host, workshop.runner, folder, workshop.bundle)
    for note in routed.notes:
        workshop.progress.note(note)
    return routed


def base(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], progress: Steps
) -> BaseTree | BaseImage:
    """Give the base of a plan: a tree from the cache or made now, or a checked image."""
    wanted = plan.recipe.base
    progress.begin("base", f"base: {wanted.title}")
    image = wanted.reference
    if image is not None:
        return _base_image(plan, image, way(plan, routed), workshop.progress)
    work, log = places
    tree = root_tree.prepare(plan, routed, _maker(workshop), work, log)
    if tree.cached:
        workshop.progress.note(f"base of {tree.made} taken from the cache")
    return tree


def _maker(workshop: Workshop) -> BaseMaker:
    return BaseMaker(
        host=workshop.host,
        runner=workshop.runner,
        cache=workshop.cache,
        on_line=workshop.progress.line,
        on_wait=workshop.progress.note,
    )


def add_shortcuts(
    plan: Plan, workshop: Workshop, routed: Routed, places: tuple[Path, Path], progress: Steps
) -> None:
    """Lay native programs beside the routing, where they help an emulated build."""
    host = workshop.host
    # A lock has no packages for this host's architecture: a locked build takes its time.
    wanted = workshop.shortcuts and workshop.bundle is None
    if not (wanted and native_helpers.possible(plan, host)):
        return
    progress.begin("shortcuts", f"{host.arch} programs that help the emulated build")
    work, log = places
    tree = root_tree.prepare_companion(plan, routed, _maker(workshop), work, log)
    native_helpers.unpack(tree.path, work / "companion", host, workshop.runner)
    native_helpers.add(plan, host, work / "companion", routed.folder)
    shutil.rmtree(work / "companion")


def way(plan: Plan, routed: Routed) -> Way:
    """Say how a registry is reached."""
    plain = plan.site.routing.plain_http
    return Way(proxies=routed.environment, ca=routed.ca, plain_http=plain)


def _base_image(plan: Plan, image: Reference, how: Way, progress: Progress) -> BaseImage:
    if image.digest is None:
        raise pinning.refusal(plan, image, how)
    checked = registry.check(image, plan.site.arch, how)
    for note in checked.notes:
        progress.note(note)
    return checked


def root(plan: Plan, workshop: Workshop, tree: BaseTree | None) -> dict[str, str]:
    """Name what the first step starts from, for the steps' keys."""
    digest = tree.sha256 if tree else str(plan.recipe.base.reference)
    return build_steps.root(digest, plan.site.arch, workshop.kind)


def step_cache(plan: Plan, workshop: Workshop, *, quiet: bool = False) -> StepCache:
    """Give the cache of kept steps, with the makers that the site trusts."""
    engine = plan.site.engine
    return StepCache(
        folder=Path(engine.cache) if engine.cache else workshop.cache / "steps",
        builders=engine.builders,
        on_note=(lambda _: None) if quiet else workshop.progress.note,
    )


def sources(
    plan: Plan, workshop: Workshop, made_of: BaseTree | BaseImage, routed: Routed
) -> Sources:
    """Say what an image is made of beside its plan."""
    return Sources(
        text=workshop.text(plan),
        base=made_of.sha256 if isinstance(made_of, BaseTree) else None,
        engine=workshop.version,
        lock=routed.bundle.lock.digest if routed.bundle else None,
        runner=workshop.runner,
        environ=workshop.host.environ,
    )


def describe(
    plan: Plan,
    workshop: Workshop,
    grown: tuple[Workbench, Sources, Task[dict[str, object]]],
    done: Sequence[Done],
    work: Path,
) -> Description:
    """Let a grown image describe itself; say what could not be read."""
    bench, said, provenance = grown
    wheels = [package for one in done for package in one.packages]
    described = description.describe(plan, bench, (said, provenance.result()), wheels, work)
    for note in described.notes:
        workshop.progress.note(note)
    return described

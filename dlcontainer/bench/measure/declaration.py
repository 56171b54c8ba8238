"""What is settled before the first launch: what was asked for, the sides, the declaration."""

import math
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dlcontainer import schedulers
from dlcontainer.bench.analysis import calibration
from dlcontainer.bench.measure.arms import Arm, ContainerArm, OfImage, Workload
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.launch import LaunchOutcome
from dlcontainer.bench.measure.outlook import MachineLoad
from dlcontainer.bench.measure.ranks import RankGroup
from dlcontainer.bench.probes.lending import SharedFolder
from dlcontainer.bench.probes.probe import (
    MARGIN,
    NATIVE_AS,
    STEADY_S,
    STEPS,
    Probe,
    ProbeCell,
    Values,
)
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.records import (
    GROUPS_PROCEDURE,
    IMAGE_ENVIRONMENT,
    PROCEDURE,
    SURROUNDINGS,
    ArmDescription,
    Arms,
    Json,
    SessionDeclaration,
)
from dlcontainer.bench.samples.resident.resident_records import GroupPlan
from dlcontainer.bench.samples.schedule import Schedule
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, NativeAs, Question
from dlcontainer.errors import BenchDataError
from dlcontainer.image import published_as
from dlcontainer.system.machine import mount_of

ALPHA = 0.05
# A step may be quicker still than the quickest of the warm-up launches.
_HEADROOM = 1.1
_TRIAL_STEPS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSettings:
    """A session as it is to be measured; `values` are the settled parameters of its probe.

    `cut` is the session that is to go on in `output`. With a `rank_group` a launch is that of its
    ranks.
    """

    probe: Probe
    question: Question
    schedule: Schedule
    output: Path
    site: str
    values: Values
    threads: int
    timeout_s: float
    native: Path | None
    probe_files: tuple[Path, ...]
    # The session's own; None: the probe's.
    margin: float | None = None
    gap_s: float = 0.2
    rank_group: RankGroup | None = None
    cut: Series | None = None
    # Whether controls were asked for: pairs of launches.
    has_controls: bool = False
    # Those of a process in a group; None: as many as a launch has.
    group_threads: int | None = None
    # Why it takes one look alone: others are at work on the machine.
    too_busy: str | None = None
    # Folders that the launches share.
    lent: tuple[SharedFolder, ...] = ()

    @property
    def steps(self) -> int:
        """The steps that were asked for; 0: as many as fill STEADY_S, or the probe has none."""
        return int(self.values.get(STEPS.name) or 0)

    @property
    def native_as(self) -> NativeAs:
        """How the native tree is shown."""
        return cast("NativeAs", self.values.get(NATIVE_AS.name) or "tree")

    def cell(self, steps: int) -> ProbeCell:
        """Return what one launch of so many steps runs."""
        ranks = self.rank_group.ranks if self.rank_group else 0
        return ProbeCell(values=self.values, steps=steps, threads=self.threads, ranks=ranks)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmupOutcome:
    """What the warm-up settles: the steps of a sample; with groups, how they are measured."""

    steps: int
    groups: GroupPlan | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSides:
    """Who is held against whom: `joiner` is the candidate on a mount that it shares.

    `between` is the third arm, where there are three.
    """

    reference: Arm
    candidate: OfImage
    joiner: ContainerArm | None
    why: str
    between: OfImage | None = None
    # What had to be done before the reference could be launched, and its seconds.
    setup_seconds: Mapping[str, float] = field(default_factory=dict)

    def arms(self) -> list[Arm]:
        """Return the sides that are held against each other."""
        sides = [self.reference, self.between, self.candidate]
        return [side for side in sides if side is not None]

    def names(self) -> Arms:
        """Return the arms' names as they are declared."""
        return cast("Arms", tuple(side.name for side in self.arms()))

    def all(self) -> list[Arm]:
        """Return every side once."""
        return [*self.arms(), *([self.joiner] if self.joiner else [])]

    def launches(self, group: Group) -> list[Arm]:
        """Return the launches of a pair or triple in their order; in a control all are one
        side's.
        """
        first: Arm = self.candidate if group.series == "candidate_control" else self.reference
        by_series: dict[str, Arm | None] = {"control": self.reference, "joiner": self.joiner}
        last = by_series.get(group.series) or self.candidate
        named: dict[str, Arm | None] = {"n": first, "u": self.between, "c": last}
        return [side for letter in group.order if (side := named[letter]) is not None]

    def described(self, work: Workload, image: Path) -> dict[ArmName, ArmDescription]:
        """Return what each side is, with the command that starts it."""
        native = "native twin" if self.why.startswith("same recipe") else "native side, given"
        what = {
            "native": native,
            "bare": "image's own Python, without an engine",
            "unpacked": "unpacked image",
            "container": f"image {image.name}",
        }
        return {
            side.name: ArmDescription(
                what=what[side.name],
                why=self.why if side is self.reference else "",
                argv=side.launch(work).argv,
            )
            for side in self.arms()
        }


def workload(
    settings: SessionSettings, subject: BenchImage, steps: int, context: BenchContext
) -> Workload:
    """Return what every arm runs, and the environment that is declared for all of them."""
    environment = common(subject.environment, settings.threads, context)
    environment |= settings.probe.environment
    return Workload(
        probe=settings.probe,
        cell=settings.cell(steps),
        environment=environment,
        lent=settings.lent,
    )


def common(environment: Mapping[str, str], threads: int, context: BenchContext) -> dict[str, str]:
    """Return the environment that is declared for all arms, the image's own in it.

    A site's variables are all arms': held back from one, they would be what is measured.
    """
    return {
        **environment,
        **context.surroundings.inside,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def trial_steps(settings: SessionSettings) -> int:
    """Return the steps of a warm-up launch."""
    return settings.steps or (_TRIAL_STEPS if settings.probe.repeats else 0)


def steps_for(settings: SessionSettings, thrown: Sequence[LaunchOutcome]) -> int:
    """Settle the steps of a launch: as asked, or as many as fill STEADY_S on the quickest side."""
    if settings.steps or not settings.probe.repeats:
        return settings.steps
    # The quickest step, not a typical one: others at work make steps longer, never shorter.
    quickest = min((step for outcome in thrown for step in outcome.steps_s), default=0.0)
    if quickest <= 0:
        raise BenchDataError("the warm-up launches measured no time", why="no step was timed")
    return math.ceil(_HEADROOM * STEADY_S / quickest)


def declare(
    settings: SessionSettings, subject: BenchImage, sides: SessionSides, settled: WarmupOutcome
) -> SessionDeclaration:
    """Write the declaration: it is hashed into the file before the first sample."""
    probe, schedule, steps = settings.probe, settings.schedule, settled.steps
    work: dict[str, Json] = {
        "threads": settings.threads,
        **probe.declared(settings.cell(steps)),
        "calibration": dict(calibration.DECLARED),
    }
    if settings.native_as != "tree":
        work |= {NATIVE_AS.name: settings.native_as}
    if probe.repeats and not settled.groups:
        work |= {"steady_s": 0.0 if settings.steps else STEADY_S}
    if settings.rank_group:
        # How ranks work together; empty where each works for itself.
        together = settings.values.get("distributed") or ""
        work |= {"distributed": together, **settings.rank_group.declared()}
    surroundings = sides.candidate.context.surroundings.declared()
    if surroundings:
        work |= {SURROUNDINGS: {name: list(values) for name, values in surroundings.items()}}
    if subject.own_environment:
        # Names alone: a value may be somebody's secret.
        work |= {IMAGE_ENVIRONMENT: list(subject.own_environment)}
    return SessionDeclaration(
        probe=probe.name,
        question=settings.question,
        metric=probe.metrics[0].name,
        margin=settings.margin or probe.metrics[0].margin or MARGIN,
        alpha=ALPHA,
        pairs=schedule.longest,
        looks=schedule.looks,
        secondary=probe.margins(settings.margin),
        control_pairs=schedule.controls,
        candidate_control_pairs=schedule.candidate_controls,
        joiner_pairs=schedule.joiners if sides.joiner else 0,
        seed=schedule.seed,
        warmups=len(sides.all()),
        arms=sides.names(),
        steps=steps,
        groups=settled.groups,
        lost_most=None if settled.groups else schedule.lost_most,
        loss_tolerance=probe.loss_tolerance,
        rows=probe.rows(settings.cell(steps)),
        procedure=GROUPS_PROCEDURE if settled.groups else PROCEDURE,
        workload=work,
        site=settings.site,
        recipe=subject.recipe,
        plan_digest=subject.digest,
        image=subject.image.name,
        image_sha256=subject.sha256,
    )


def machine(
    context: BenchContext, subject: BenchImage, sides: SessionSides, load: MachineLoad
) -> Mapping[str, str | int | float | None]:
    """Return this machine's facts, as they are at the start of the session."""
    host, reference = context.execution.host, sides.reference
    place = reference.image if isinstance(reference, ContainerArm) else reference.here
    published = published_as.module(subject.image)
    return {
        "node": platform.node(),
        "boot_id": boot_id(),
        "allocation": schedulers.allocation(host.environ),
        "arch": host.arch,
        "distribution": host.distribution,
        "release": host.release,
        "kernel": host.kernel,
        "glibc": host.glibc,
        "cpu_model": host.cpu_model,
        "cores": host.cores,
        "memory_mb": host.memory_mb,
        "load_1min": load.load_1min,
        "busy_cores": load.busy_cores,
        "engine": context.execution.capabilities.version,
        "engine_mode": context.execution.capabilities.run_mode,
        "image_on": mount_of(subject.image).kind,
        "reference_on": mount_of(place).kind,
        **({} if published is None else {"module": published}),
        **sides.setup_seconds,
    }


def boot_id() -> str | None:
    """Name this boot of the machine; None where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def now() -> str:
    """Return the time, ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

"""What a study's folder shows of each stage: kernels, input, communication, with file and line."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dlcontainer.bench.probes import threads
from dlcontainer.bench.probes.threads import KernelSetting
from dlcontainer.bench.samples import reader
from dlcontainer.bench.study import study_points
from dlcontainer.bench.study.forecast import next_step
from dlcontainer.bench.study.forecast.next_step import Limit, NextStep, StepShare, UnmeasuredStage
from dlcontainer.bench.study.study_records import ArmSteps, MeasuredPoint, MeasuredStudy, StudyPlan
from dlcontainer.errors import BenchDataError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName

_COMPARED = ("pair", "triple")
# A session of `bench threads` beside a study's points.
THREADS_FILE = "threads.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scene:
    """The study's last whole point, its session, and the side that is looked at."""

    plan: StudyPlan
    folder: Path
    point: MeasuredPoint
    steps: ArmSteps
    session: "Series"
    arm: "ArmName"
    image: str
    is_traced: bool

    @property
    def trace(self) -> str:
        """The command that traces as many ranks; empty where that was done."""
        plan = self.point.plan
        nodes = f" --nodes {plan.nodes}" if plan.nodes > 1 else ""
        options = f"--ranks {plan.ranks}{nodes} -o trace -- YOUR COMMAND"
        return "" if self.is_traced else self.command("trace", options)

    @property
    def per_node(self) -> int:
        return -(-self.point.plan.ranks // self.point.plan.nodes)

    @property
    def where(self) -> str:
        """The last launch that was compared, as `file:line`."""
        lines = [
            launch.line
            for launch in self.session.launches
            if launch.ok and launch.arm == self.arm and launch.role in _COMPARED
        ]
        return f"{self.folder / self.point.plan.file}:{lines[-1] if lines else 1}"

    def command(self, probe: str, options: str = "") -> str:
        words = f"dlcontainer bench {probe} --site {self.plan.site} --image {self.image}"
        return f"{words} {options}".rstrip()


def of(study: MeasuredStudy, image: str = "IMAGE", *, is_traced: bool = False) -> NextStep | None:
    """Say what to change next, by the last whole point of a study; None where there is none.

    The side looked at is the container's; `image` is written into the commands. Raises
    BenchDataError for a session that can't be read.
    """
    points = [point for point in study.points if point.complete and point.arms]
    if not points:
        return None
    point = points[-1]
    arm = list(point.arms)[-1]
    scene = _Scene(
        plan=study.plan,
        folder=study.folder,
        point=point,
        steps=point.arms[arm],
        session=reader.read(study.folder / point.plan.file),
        arm=cast("ArmName", arm),
        image=image,
        is_traced=is_traced,
    )
    talk = list(_communication(scene, points[0]))
    waits = list(_input(scene))
    rest = 1 - sum(limit.gain.centre for limit in (*talk, *waits))
    kernels = _kernels(scene, max(0.0, rest))
    unmeasured = [kernels] if isinstance(kernels, UnmeasuredStage) else []
    limits = [] if isinstance(kernels, UnmeasuredStage) else [kernels]
    return next_step.choose([*limits, *waits, *talk], unmeasured)


def _input(scene: _Scene) -> Iterator[Limit]:
    shares = [
        waited / step for waited, step in zip(scene.steps.input_s, scene.steps.step_s, strict=False)
    ]
    if not any(shares):  # Samples were made in memory, before the first step.
        return
    yield Limit(
        stage="input",
        cause="steps wait for their samples",
        gain=next_step.share(shares),
        where=scene.where,
        knob="the samples' format, or stage them to the node's own disk",
        confirm=scene.command("input"),
    )


def _communication(scene: _Scene, first: MeasuredPoint) -> Iterator[Limit]:
    if scene.point.plan.ranks == 1:
        return
    launches = list(zip(scene.steps.step_s, scene.steps.apart_s, scene.steps.input_s, strict=False))
    if not launches or not all(apart for _, apart, _ in launches):
        yield from _talk_together(scene, first)
        return
    yield Limit(
        stage="communication",
        cause="communication that no computing hides",
        gain=next_step.share(
            [max(0.0, step - waited - max(apart)) / step for step, apart, waited in launches]
        ),
        where=scene.where,
        knob="the way between nodes (transport, interface), larger batches, fewer bytes",
        confirm=scene.command(
            "collectives", f"--operations all_reduce,send_recv --ranks {scene.point.plan.ranks}"
        ),
        see=scene.trace,
    )
    yield Limit(
        stage="communication",
        cause=f"ranks wait for the slowest, rank {_slowest(scene.steps)} ({_node(scene)})",
        gain=next_step.share(
            [(max(apart) - sum(apart) / len(apart)) / step for step, apart, _ in launches]
        ),
        where=scene.where,
        knob="leave the slow node out of the allocation",
        confirm=scene.command("variability", f"--ranks {scene.point.plan.ranks}"),
        see=scene.trace,
    )


def _talk_together(scene: _Scene, first: MeasuredPoint) -> Iterator[Limit]:
    """Where ranks can't train without talking: all that a step of one rank has not."""
    base = first.arms.get(scene.arm)
    if base is None or not base.step_s or first.plan.ranks != 1:
        return
    alone = sum(base.step_s) / len(base.step_s)
    if scene.plan.scaling == "strong":
        alone /= scene.point.plan.ranks
    yield Limit(
        stage="communication",
        cause="communication and waiting together",
        gain=next_step.share([max(0.0, step - alone) / step for step in scene.steps.step_s]),
        where=scene.where,
        knob="another strategy: --parallel",
        confirm=scene.command(
            "collectives", f"--operations all_reduce,send_recv --ranks {scene.point.plan.ranks}"
        ),
        see=scene.trace,
    )


def _slowest(steps: ArmSteps) -> int:
    """Return the rank whose own step takes longest, by the sum over all launches."""
    sums = [math.fsum(rank) for rank in zip(*steps.apart_s, strict=True)]
    return sums.index(max(sums))


def _node(scene: _Scene) -> str:
    nodes = sorted({stack.node for stack in scene.session.stacks if stack.node})
    number = _slowest(scene.steps) // scene.per_node
    return nodes[number] if number < len(nodes) == scene.point.plan.nodes else f"node {number + 1}"


def _kernels(scene: _Scene, computing: float) -> Limit | UnmeasuredStage:
    """Return what the best setting of `bench threads` would take off the computing."""
    path = scene.folder / THREADS_FILE
    measure = scene.command("threads", f"-o {path}")
    facts = next((s.facts for s in scene.session.stacks if s.arm == scene.arm), {})
    now = threads.attested(facts)
    if now is None:
        return UnmeasuredStage(
            stage="kernel", why="the session says no number of threads", command=measure
        )
    if not path.exists():
        return UnmeasuredStage(stage="kernel", why=f"there is no {path}", command=measure)
    series = reader.read(path)
    if series.session.declared.image_sha256 != scene.plan.image_sha256:
        raise BenchDataError(
            "measured with another image than the study",
            where=str(path),
            next_step=f"measure again: {measure}",
        )
    times = threads.times(series, scene.arm)
    if now not in times:
        return UnmeasuredStage(
            stage="kernel",
            why=f"{path} has no {now.library} with {_threads(now.threads)}",
            command=f"{measure} --counts {now.threads},...",
        )
    return _gain(scene, times, now, computing)


def _gain(
    scene: _Scene,
    times: "Mapping[KernelSetting, object]",
    now: KernelSetting,
    computing: float,
) -> Limit:
    cores = _cores(scene)
    logs = {
        setting: cast("list[float]", column)
        for setting, column in times.items()
        if setting == now or setting.threads * scene.per_node <= cores
    }
    best = min(logs, key=lambda setting: math.fsum(logs[setting]))
    saved = [
        1 - math.exp(after - before) for before, after in zip(logs[now], logs[best], strict=True)
    ]
    gain = next_step.share(saved) if best != now else StepShare(centre=0.0, low=0.0, high=0.0)
    return Limit(
        stage="kernel",
        cause=f"{now.library} with {_threads(now.threads)}",
        gain=gain.times(computing),
        where=f"{scene.folder / THREADS_FILE}:1",
        knob=_knob(now, best),
        confirm=scene.command(
            scene.session.session.declared.probe,
            f"{study_points.network_words(scene.plan)} --threads {best.threads}",
        ),
    )


def _knob(now: KernelSetting, best: KernelSetting) -> str:
    changes = [
        *([f"{_threads(best.threads)} a rank"] if best.threads != now.threads else []),
        *([best.library] if best.library != now.library else []),
    ]
    return " and ".join(changes) or "nothing: it is the best of those measured"


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _cores(scene: _Scene) -> int:
    cpus = scene.session.session.machine.get("cores")
    return cpus if isinstance(cpus, int) and cpus > 0 else 1

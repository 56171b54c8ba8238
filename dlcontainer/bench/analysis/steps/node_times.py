"""Many nodes' step times: what is usual of a kind of node, and the nodes outside of that. Pure.

A node's figures are medians over its processes, those of all its launches. Nodes are of one kind
where they attest the same processor, number of processors, memory and kernel, and ran the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dlcontainer.bench.analysis.steps import step_times
from dlcontainer.bench.analysis.steps.step_times import Process
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, counted
from dlcontainer.bench.stats.scatter import outside
from dlcontainer.bench.stats.scatter.outside import Range
from dlcontainer.errors import BenchDataError

# Of fewer a node's median is that of a mood.
FEWEST_LAUNCHES = 3
State = Literal["usual", "outside", "not judged"]


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class NodeKind:
    """What nodes must have in common: what they are, as attested, and what they ran."""

    cpu_model: str
    cpus: int
    memory_gib: int
    kernel: str
    work: str

    def __str__(self) -> str:
        return (
            f"{self.cpu_model}, {counted(self.cpus, 'processor')}, {self.memory_gib} GiB, kernel "
            f"{self.kernel}; {self.work}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTimes:
    """One node: its median step, s, and its slow tail (99th percentile over the median)."""

    name: str
    kind: NodeKind
    launches: int
    median_s: float
    tail: float


@dataclass(frozen=True, kw_only=True, slots=True)
class UsualRanges:
    """What is usual of one kind: both ranges, of as many nodes."""

    median_s: Range
    tail: Range


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeJudgement:
    """A node beside what is usual; `why` says what is outside, or why it is not judged."""

    node: NodeTimes
    state: State
    why: str = ""
    usual: UsualRanges | None = None


def of(sessions: Sequence[Series], arm: ArmName) -> list[NodeTimes]:
    """Return the nodes of some sessions; those of one node count together.

    Raises BenchDataError where one session is there twice, where a node does not attest what it
    is, and where it attests two kinds.
    """
    by_seal: dict[str, Series] = {}
    kinds: dict[str, NodeKind] = {}
    processes: dict[str, list[Process]] = {}
    launches: dict[str, int] = {}
    for series in sessions:
        if series.seal in by_seal:
            raise BenchDataError(
                f"this is the same session as {by_seal[series.seal].path}",
                where=str(series.path),
                why="a session counted twice would look like more launches",
                next_step="give each session once",
            )
        by_seal[series.seal] = series
        for name, of_node in _by_node(series, arm).items():
            kind = _kind(series, arm, name)
            if kinds.setdefault(name, kind) != kind:
                raise _two_kinds(series, name)
            processes.setdefault(name, []).extend(of_node)
            launches[name] = launches.get(name, 0) + len({process.launch for process in of_node})
    return [
        NodeTimes(
            name=name,
            kind=kinds[name],
            launches=launches[name],
            median_s=median(process.median for process in of_node),
            tail=median(process.tail for process in of_node),
        )
        for name, of_node in sorted(processes.items())
    ]


def _by_node(series: Series, arm: ArmName) -> dict[str, list[Process]]:
    of_arm = step_times.of(series).get(arm)
    if of_arm is None:
        raise BenchDataError(
            f"this session has no arm {arm}",
            where=str(series.path),
            why=f"its arms are {', '.join(series.session.declared.arms)}",
            next_step="name another arm with --arm, or leave this file out",
        )
    nodes: dict[str, list[Process]] = {}
    for process in of_arm:
        nodes.setdefault(process.node, []).append(process)
    return nodes


def _two_kinds(series: Series, node: str) -> BenchDataError:
    return BenchDataError(
        f"{node}: its hardware, kernel or measured work differs from an earlier file",
        where=str(series.path),
        why="the launches of a node are pooled, so these must be the same in all files",
        next_step="give the sessions from before and after the change separately: first "
        "--write-baseline, then --baseline",
    )


def _kind(series: Series, arm: ArmName, node: str) -> NodeKind:
    stack = next((s.facts for s in series.stacks if s.arm == arm and s.node in {node, ""}), {})
    node_type, kernel = stack.get("node_type"), stack.get("kernel")
    declared = series.session.declared
    row = declared.rows.rows[0] if declared.rows else {}
    work = [f"{name} {value}" for name, value in row.items()]
    devices = stack.get("devices")
    if isinstance(devices, list):
        work.append(f"GPUs {', '.join(map(str, devices)) or 'none'}")
    per_node = declared.workload.get("ranks_per_node") or 1
    software = f"image {declared.image_sha256[:12]}" if arm != "native" else stack.get("framework")
    if isinstance(node_type, Mapping) and isinstance(kernel, str):
        model, cpus, memory = (node_type.get(name) for name in ("cpu_model", "cpus", "memory_gib"))
        if isinstance(model, str) and isinstance(cpus, int) and isinstance(memory, int):
            return NodeKind(
                cpu_model=model,
                cpus=cpus,
                memory_gib=memory,
                kernel=kernel,
                work=", ".join([*work, f"ranks a node {per_node}", f"{arm}: {software}"]),
            )
    raise BenchDataError(
        f"{node} does not attest its processor, memory and kernel",
        where=str(series.path),
        why="only nodes of the same kind can be compared",
        next_step="measure again with this version, and with an image that was built with its "
        "probe",
    )


def by_kind(nodes: Iterable[NodeTimes]) -> dict[NodeKind, list[NodeTimes]]:
    """Return the nodes of each kind that have launches enough."""
    grouped: dict[NodeKind, list[NodeTimes]] = {}
    for node in sorted(nodes, key=lambda node: (node.kind, node.name)):
        if node.launches >= FEWEST_LAUNCHES:
            grouped.setdefault(node.kind, []).append(node)
    return grouped


def baseline(nodes: Iterable[NodeTimes]) -> dict[NodeKind, UsualRanges]:
    """Return what is usual of each kind with nodes enough; raises BenchDataError where none has."""
    kinds = by_kind(nodes)
    usual_of: dict[NodeKind, UsualRanges] = {}
    for kind, of_kind in kinds.items():
        medians = outside.usual([node.median_s for node in of_kind])
        tails = outside.usual([node.tail for node in of_kind])
        if medians and tails:
            usual_of[kind] = UsualRanges(median_s=medians, tail=tails)
    if not usual_of:
        most = max((len(of_kind) for of_kind in kinds.values()), default=0)
        raise BenchDataError(
            f"too few nodes to find a usual range: {most} of one kind, {outside.FEWEST} are needed",
            why="the scatter of fewer nodes is not known; a node counts if it has "
            f"{FEWEST_LAUNCHES} launches or more; nodes of one kind have the same processor, "
            "memory, kernel and work",
            next_step="measure more nodes, or give a baseline of nodes of this kind with "
            "--baseline",
        )
    return usual_of


def judge(
    nodes: Iterable[NodeTimes], usual_of: Mapping[NodeKind, UsualRanges]
) -> list[NodeJudgement]:
    """Hold nodes against what is usual of their kind; those outside come first."""
    judgements = [_judged(node, usual_of.get(node.kind)) for node in nodes]
    order: list[State] = ["outside", "not judged", "usual"]
    return sorted(
        judgements, key=lambda judgement: (order.index(judgement.state), judgement.node.name)
    )


def _judged(node: NodeTimes, usual: UsualRanges | None) -> NodeJudgement:
    if node.launches < FEWEST_LAUNCHES:
        few = f"{counted(node.launches, 'launch', 'launches')}, {FEWEST_LAUNCHES} are needed"
        return NodeJudgement(node=node, state="not judged", why=few)
    if usual is None:
        return NodeJudgement(
            node=node, state="not judged", why=f"no baseline of its kind: {node.kind}"
        )
    reasons = []
    side = usual.median_s.side(node.median_s)
    if side:
        ratio = node.median_s / usual.median_s.centre
        word = "slower" if side == "above" else "quicker"
        reasons.append(f"{word}: its median step is {ratio:.3f} times the usual one")
    # Steps that are more even than usual are no trouble.
    if usual.tail.side(node.tail) == "above":
        reasons.append(f"a slow tail of {node.tail:.3f}, usual are {usual.tail.centre:.3f}")
    state: State = "outside" if reasons else "usual"
    return NodeJudgement(node=node, state=state, why="; ".join(reasons), usual=usual)

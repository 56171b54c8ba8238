"""A pipeline's step as a dependence graph: passes of stages, messages between them. Seconds.

Each stage has an order of passes (1F1B or GPipe). A forward pass of a micro-batch takes the
message of the stage before, a backward pass that of the stage behind. Sends do not hold the sender
up. With rendezvous (gloo) a message starts when its receive is posted, and a receive is posted when
the receiver has nothing else to do; without, it starts when it is ready and the link is free.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dlcontainer.bench.study.forecast.step_terms import Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """A pass of a micro-batch through a stage."""

    forward: bool
    micro: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineTimes:
    """What the passes and messages of a pipeline take; all stages are equal."""

    stages: int
    micro_batches: int
    forward_s: float
    backward_s: float
    # Of each border between two stages, seconds of one message; one fewer than stages.
    messages_s: Sequence[float]
    rendezvous: bool


def orders(stages: int, micro_batches: int, schedule: Schedule) -> list[list[Pass]]:
    """Return each stage's order of passes.

    GPipe: all forward, then all backward. 1F1B: stage s begins with stages - s forward passes, then
    one backward and one forward in turn (Narayanan et al., PipeDream-Flush, 2021, section 2.2).
    """
    return [
        list(_order(min(micro_batches, stages - stage), micro_batches))
        if schedule == "1f1b"
        else list(_order(micro_batches, micro_batches))
        for stage in range(stages)
    ]


def _order(first: int, micro_batches: int) -> Iterator[Pass]:
    """Yield so many forward passes, then a backward and a forward pass in turn."""
    yield from (Pass(forward=True, micro=micro) for micro in range(first))
    for micro in range(micro_batches):
        yield Pass(forward=False, micro=micro)
        if first + micro < micro_batches:
            yield Pass(forward=True, micro=first + micro)


def step_s(times: PipelineTimes, schedule: Schedule) -> float:
    """Return the seconds from the first pass's begin to the last one's end."""
    return max(finished(times, schedule).values(), default=0.0)


def finished(times: PipelineTimes, schedule: Schedule) -> Mapping[tuple[int, Pass], float]:
    """Return when each pass of each stage ends."""
    queues = orders(times.stages, times.micro_batches, schedule)
    ends: dict[tuple[int, Pass], float] = {}
    free = [0.0] * times.stages
    sent: dict[tuple[int, bool], float] = {}
    heads = [0] * times.stages
    ready = partial(_ready, times, ends)
    todo = sum(map(len, queues))
    while todo:
        before = todo
        for stage, queue in enumerate(queues):
            while heads[stage] < len(queue) and ready(stage, queue[heads[stage]]):
                this = queue[heads[stage]]
                begin = max(free[stage], _arrival(times, ends, free[stage], sent, (stage, this)))
                free[stage] = begin + (times.forward_s if this.forward else times.backward_s)
                ends[stage, this] = free[stage]
                heads[stage] += 1
                todo -= 1
        if todo == before:
            raise AssertionError("the passes of a pipeline wait for one another")
    return ends


def _source(times: PipelineTimes, stage: int, this: Pass) -> int | None:
    """Return the stage that sends what a pass takes, None where it takes nothing."""
    other = stage - 1 if this.forward else stage + 1
    return other if 0 <= other < times.stages else None


def _ready(
    times: PipelineTimes, ends: Mapping[tuple[int, Pass], float], stage: int, this: Pass
) -> bool:
    source = _source(times, stage, this)
    return source is None or (source, this) in ends


def _arrival(
    times: PipelineTimes,
    ends: Mapping[tuple[int, Pass], float],
    posted: float,
    sent: dict[tuple[int, bool], float],
    taken: tuple[int, Pass],
) -> float:
    """Return when the message of a pass is there; `sent`: until when each direction is busy."""
    stage, this = taken
    source = _source(times, stage, this)
    if source is None:
        return 0.0
    way = (min(stage, source), this.forward)
    begin = max(ends[source, this], sent.get(way, 0.0))
    if times.rendezvous:
        begin = max(begin, posted)
    sent[way] = begin + times.messages_s[way[0]]
    return sent[way]

"""A pipeline's step as a dependence graph: passes of stages, messages between them. Seconds.

Each stage has an order of passes (1F1B or GPipe). A forward pass of a micro-batch takes the
message of the stage before, a backward pass that of the stage behind. Sends do not hold the sender
up. With rendezvous (gloo) a message starts when its receive is posted, and a receive is posted when
the receiver has nothing else to do; without, it starts when it is ready and the link is free.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dlcontainer.bench.study.forecast.step_terms import Schedule


class PipelinePass(NamedTuple):
    """A pass of a micro-batch through a stage; a plain tuple, for there are thousands."""

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


def orders(stages: int, micro_batches: int, schedule: Schedule) -> list[list[PipelinePass]]:
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


def _order(first: int, micro_batches: int) -> Iterator[PipelinePass]:
    """Yield so many forward passes, then a backward and a forward pass in turn."""
    yield from (PipelinePass(forward=True, micro=micro) for micro in range(first))
    for micro in range(micro_batches):
        yield PipelinePass(forward=False, micro=micro)
        if first + micro < micro_batches:
            yield PipelinePass(forward=True, micro=first + micro)


def step_s(times: PipelineTimes, schedule: Schedule) -> float:
    """Return the seconds from the first pass's begin to the last one's end."""
    return max(max(ends.values()) for ends in finished(times, schedule))


def finished(times: PipelineTimes, schedule: Schedule) -> Sequence[Mapping[PipelinePass, float]]:
    """Return when each pass ends, for each stage."""
    queues = [deque(order) for order in orders(times.stages, times.micro_batches, schedule)]
    run = _PipelineRun(times)
    while any(queues):
        moved = False
        for stage, queue in enumerate(queues):
            while queue and run.take(stage, queue[0]):
                queue.popleft()
                moved = True
        if not moved:
            raise AssertionError("the passes of a pipeline wait for one another")
    return run.ends


class _PipelineRun:
    """The passes taken so far: when they ended, until when stages and borders are busy."""

    def __init__(self, times: PipelineTimes) -> None:
        """Begin at 0, with nothing taken."""
        self.ends: list[dict[PipelinePass, float]] = [{} for _ in range(times.stages)]
        self._times = times
        self._free = [0.0] * times.stages
        # Of each border, forward and backward apart: links carry both directions at once.
        self._sent = {forward: [0.0] * times.stages for forward in (True, False)}

    def take(self, stage: int, this: PipelinePass) -> bool:
        """Run a pass as soon as its stage is free and its message is there; False: not sent yet."""
        times, free = self._times, self._free[stage]
        source = stage - 1 if this.forward else stage + 1
        begin = free
        if 0 <= source < times.stages:
            ready = self.ends[source].get(this)
            if ready is None:
                return False
            border, sent = min(stage, source), self._sent[this.forward]
            leaves = max(ready, sent[border], free if times.rendezvous else 0.0)
            sent[border] = leaves + times.messages_s[border]
            begin = max(free, sent[border])
        self._free[stage] = begin + (times.forward_s if this.forward else times.backward_s)
        self.ends[stage][this] = self._free[stage]
        return True

"""A pipeline's step as a dependence graph: passes of stages, messages between them. Seconds.

Each stage has an order of passes (1F1B or GPipe). A forward pass of a micro-batch takes the
message of the stage before, a backward pass that of the stage behind. Sends do not hold the sender
up. With rendezvous (gloo) a message starts when its receive is posted, and a receive is posted when
the receiver has nothing else to do; without, it starts when it is ready and the link is free.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.study.forecast.step_terms import Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelinePass:
    """A pass of a micro-batch through a stage."""

    forward: bool
    micro: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePass:
    """A pass in one stage."""

    stage: int
    of: PipelinePass


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
    return max(finished(times, schedule).values(), default=0.0)


def finished(times: PipelineTimes, schedule: Schedule) -> Mapping[StagePass, float]:
    """Return when each pass of each stage ends."""
    queues = [deque(order) for order in orders(times.stages, times.micro_batches, schedule)]
    run = _PipelineRun(times)
    while any(queues):
        before = sum(map(len, queues))
        for stage, queue in enumerate(queues):
            while queue and run.ready(StagePass(stage=stage, of=queue[0])):
                run.take(StagePass(stage=stage, of=queue.popleft()))
        if sum(map(len, queues)) == before:
            raise AssertionError("the passes of a pipeline wait for one another")
    return run.ends


class _PipelineRun:
    """The passes taken so far: when they ended, until when stages and borders are busy."""

    def __init__(self, times: PipelineTimes) -> None:
        """Begin at 0, with nothing taken."""
        self.ends: dict[StagePass, float] = {}
        self._times = times
        self._free = [0.0] * times.stages
        # Of each border, forward and backward apart: links carry both directions at once.
        self._sent = {forward: [0.0] * times.stages for forward in (True, False)}

    def ready(self, this: StagePass) -> bool:
        """Tell whether what a pass takes was computed."""
        source = self._source(this)
        return source is None or source in self.ends

    def take(self, this: StagePass) -> None:
        """Run a pass as soon as its stage is free and its message is there."""
        begin = max(self._free[this.stage], self._arrival(this))
        of_pass = self._times.forward_s if this.of.forward else self._times.backward_s
        self._free[this.stage] = self.ends[this] = begin + of_pass

    def _source(self, this: StagePass) -> StagePass | None:
        other = this.stage - 1 if this.of.forward else this.stage + 1
        return StagePass(stage=other, of=this.of) if 0 <= other < self._times.stages else None

    def _arrival(self, this: StagePass) -> float:
        source = self._source(this)
        if source is None:
            return 0.0
        border, sent = min(this.stage, source.stage), self._sent[this.of.forward]
        begin = max(self.ends[source], sent[border])
        if self._times.rendezvous:
            begin = max(begin, self._free[this.stage])
        sent[border] = begin + self._times.messages_s[border]
        return sent[border]

"""Pipelines against schedules drawn by hand."""

import pytest

from dlcontainer.bench.study.forecast import pipeline_graph
from dlcontainer.bench.study.forecast.pipeline_graph import PipelinePass, PipelineTimes
from dlcontainer.bench.study.forecast.step_terms import Schedule


def times(
    stages: int, micro_batches: int, message: float = 0.0, *, rendezvous: bool = False
) -> PipelineTimes:
    """Forward passes of 1, backward passes of 2."""
    return PipelineTimes(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=1.0,
        backward_s=2.0,
        messages_s=[message] * (stages - 1),
        rendezvous=rendezvous,
    )


def words(stage: int, stages: int, micro_batches: int, schedule: Schedule) -> str:
    order = pipeline_graph.orders(stages, micro_batches, schedule)[stage]
    return " ".join(f"{'F' if this.forward else 'B'}{this.micro}" for this in order)


def test_orders() -> None:
    assert words(0, 3, 4, "gpipe") == "F0 F1 F2 F3 B0 B1 B2 B3"
    assert words(0, 3, 4, "1f1b") == "F0 F1 F2 B0 F3 B1 B2 B3"
    assert words(1, 3, 4, "1f1b") == "F0 F1 B0 F2 B1 F3 B2 B3"
    assert words(2, 3, 4, "1f1b") == "F0 B0 F1 B1 F2 B2 F3 B3"
    # Fewer micro-batches than stages.
    assert words(0, 4, 2, "1f1b") == "F0 F1 B0 B1"


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_without_messages_the_bubble_is_stages_minus_one(schedule: Schedule) -> None:
    for stages in (1, 2, 3, 5):
        for micro in (1, 2, 5, 8):
            assert pipeline_graph.step_s(times(stages, micro), schedule) == 3 * (micro + stages - 1)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_one_micro_batch_waits_for_every_message(schedule: Schedule) -> None:
    # Three stages: four messages of 0.5 on the way of the one micro-batch.
    for rendezvous in (True, False):
        one = times(3, 1, 0.5, rendezvous=rendezvous)
        assert pipeline_graph.step_s(one, schedule) == 9 + 4 * 0.5


def test_two_stages_and_two_micro_batches_by_hand() -> None:
    """GPipe, messages of 1.

    Buffered: stage 1 has F0 at 2-3 (sent at 1), F1 at 3-4 (sent 2-3, there when F0 ends), B0 4-6,
    B1 6-8; stage 0 has B0 at 7-9 (sent 6-7), B1 at 9-11 (sent 8-9). Rendezvous: F1's message starts
    when F0 has ended, at 3: F1 4-5, B0 5-7, B1 7-9; stage 0 B0 8-10, then B1's message 10-11, B1
    11-13.
    """
    buffered = pipeline_graph.finished(times(2, 2, 1.0), "gpipe")
    assert buffered[1][PipelinePass(forward=True, micro=1)] == 4
    assert buffered[0][PipelinePass(forward=False, micro=0)] == 9
    assert buffered[0][PipelinePass(forward=False, micro=1)] == 11
    waits = pipeline_graph.finished(times(2, 2, 1.0, rendezvous=True), "gpipe")
    assert waits[1][PipelinePass(forward=True, micro=1)] == 5
    assert waits[0][PipelinePass(forward=False, micro=0)] == 10
    assert waits[0][PipelinePass(forward=False, micro=1)] == 13


def test_one_forward_one_backward_by_hand() -> None:
    """Two stages, three micro-batches, messages of 1, buffered.

    Stage 0: F0 0-1, F1 1-2, B0 6-8 (stage 1: F0 2-3, B0 3-5, sent 5-6), F2 8-9, B1 9-11, B2.
    Stage 1: F1 (there at 3) 5-6, B1 6-8 (sent 8-9), F2 sent 9-10: 10-11, B2 11-13, sent 13-14.
    """
    ends = pipeline_graph.finished(times(2, 3, 1.0), "1f1b")
    assert ends[0][PipelinePass(forward=False, micro=0)] == 8
    assert ends[1][PipelinePass(forward=False, micro=1)] == 8
    assert ends[0][PipelinePass(forward=False, micro=1)] == 11
    assert ends[1][PipelinePass(forward=False, micro=2)] == 13
    assert ends[0][PipelinePass(forward=False, micro=2)] == 16


def test_a_link_carries_one_message_a_direction() -> None:
    # Messages of 5, passes of 1 and 2: the link's queue rules. Forward there at 6, 11, 16.
    ends = pipeline_graph.finished(times(2, 3, 5.0), "gpipe")
    assert [ends[1][PipelinePass(forward=True, micro=micro)] for micro in range(3)] == [7, 12, 17]


def test_a_slow_border_alone() -> None:
    slow = PipelineTimes(
        stages=3, micro_batches=1, forward_s=1.0, backward_s=2.0, messages_s=[0.0, 3.0],
        rendezvous=False,
    )  # fmt: skip
    assert pipeline_graph.step_s(slow, "1f1b") == 9 + 2 * 3

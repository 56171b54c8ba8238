"""Kineto files: streamed, whatever their size, and refused where they are none."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import collective_spans, kineto_events, rank_profile, rank_spans
from dlcontainer.bench.trace.kineto_events import KinetoFile, KinetoSpan
from dlcontainer.errors import BenchDataError
from tests.madetraces import BASE_NS, MS, MadeRank, write_kineto


def span(name: str, *shapes: Any, category: str = "user_annotation") -> KinetoSpan:
    """Give a span of tensors, each a type with its sizes."""
    arguments = {
        "Input type": [kind for kind, _ in shapes],
        "Input Dims": [sizes for _, sizes in shapes],
    }
    return KinetoSpan(
        name=name,
        category=category,
        thread=1,
        begin=0,
        end=5,
        arguments=arguments if shapes else {},
    )


def kernel(name: str, **arguments: Any) -> KinetoSpan:
    words = {"count": "In msg nelems", "dtype": "dtype"}
    named = {words[key]: value for key, value in arguments.items()}
    return KinetoSpan(name=name, category="kernel", thread=7, begin=0, end=5, arguments=named)


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_a_file_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(kineto_events, "_CHUNK", chunk)
    path = tmp_path / "k.json"
    write_kineto(path, MadeRank(spans=[("aten::mm µ", 0.5, 2.25), ("aten::add", 3, 4)], groups=2))
    file = KinetoFile(path)
    spans = list(file.spans())
    assert file.groups == 2
    assert [one.name for one in spans] == ["aten::mm µ", "aten::add"]
    assert (spans[0].begin, spans[0].end) == (BASE_NS + 500_000, BASE_NS + 2_250_000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no traceEvents"),
        ('{"schemaVersion": 1}', "it has no traceEvents"),
        ('{"traceEvents": [', "it is cut"),
        ('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1', "it is cut"),
        ('{"traceEvents": [7]}', "an event is no object"),
        ('{"traceEvents": [{"ph": "X", "name": "a"}]}', "'ts'"),
        ('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": NaN}]}', "a span at 1.0"),
        ('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": -4}]}', "a span at 1.0"),
        ('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1e30, "dur": 1}]}', "a span at 1e"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(text)
    with pytest.raises(BenchDataError, match="not a trace of Kineto") as caught:
        list(KinetoFile(path).spans())
    assert says in str(caught.value.why)
    assert str(path) in str(caught.value.where)


@pytest.mark.parametrize(
    ("named", "kind", "size"),
    [
        (span("gloo:all_reduce", ("float", [3, 4])), "all_reduce", 48),
        (span("gloo:all_gather", ("c10::BFloat16", [5]), ("long int", [2])), "all_gather", 26),
        (span("gloo:reduce", ("a new type", [5])), "reduce", None),
        (span("gloo:reduce", ("float", ["?"])), "reduce", None),
        (span("gloo:all_reduce"), "all_reduce", None),
        (span("gloo:barrier"), "barrier", 0),
        (
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", count=10, dtype="BFloat16"),
            "all_reduce",
            20,
        ),
        (
            kernel("ncclKernel_ReduceScatter_RING_LL_Sum_float(x)", count=10, dtype="Float"),
            "reduce_scatter",
            40,
        ),
        (kernel("ncclDevKernel_SendRecv(x)"), "send_recv", None),
    ],
)
def test_collectives_and_their_bytes(named: KinetoSpan, kind: str, size: int | None) -> None:
    collective = collective_spans.of(named)
    assert collective is not None
    assert (collective.kind, collective.bytes) == (kind, size)


@pytest.mark.parametrize("name", ["aten::add", "step", "glooming:all", "nccl:all_reduce"])
def test_what_is_no_collective(name: str) -> None:
    assert collective_spans.of(span(name)) is None


def test_computing_is_without_what_starts_and_awaits_communication(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    spans = [("aten::mm", 0, 10), ("c10d::allreduce_", 2, 4), ("aten::add", 3, 12, 5),
             ("_c10d_functional::wait_tensor", 20, 30), ("gloo:all_reduce", 4, 40)]  # fmt: skip
    write_kineto(path, MadeRank(spans=spans))
    profile = rank_profile.read(path)
    # The other thread computes while this one starts an all-reduce.
    assert [((a - BASE_NS) / MS, (b - BASE_NS) / MS) for a, b in profile.compute] == [
        (0, 2), (3, 12),
    ]  # fmt: skip
    assert [one.kind for one in profile.collectives] == ["all_reduce"]


def test_memory_is_bounded_and_what_is_left_out_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto_events, "_CHUNK", 2**14)
    monkeypatch.setattr(rank_profile, "_MOST_INTERVALS", 500)
    monkeypatch.setattr(rank_profile, "_MOST_COLLECTIVES", 300)
    path, count = tmp_path / "k.json", 20_000
    operations = [("aten::mm", 2 * i, 2 * i + 1) for i in range(count)]
    operations += [("gloo:all_reduce", 2 * i, 2 * i + 1) for i in range(400)]
    write_kineto(path, MadeRank(spans=operations))
    del operations
    tracemalloc.start()
    profile = rank_profile.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 2_000_000
    assert peak < path.stat().st_size / 2
    assert (profile.spans, len(profile.collectives), profile.left_out) == (count + 400, 300, 100)
    assert profile.coarse_ns >= 1_000_000
    assert len(profile.compute) <= 1000


def test_of_spans_for_another_format_the_others_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    operations = [("aten::mm", i, i + 1) for i in range(10)]
    write_kineto(path, MadeRank(spans=[*operations, ("gloo:all_reduce", 3, 4)]))
    spans = rank_spans.read(path, most=4)
    assert (spans.count, spans.left_out) == (5, 6)
    assert spans.threads[0].spans[0].begin == BASE_NS


def test_nested_and_overlapping_spans_become_nested_events(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    # The second reaches beyond the first; the third begins as both end.
    write_kineto(path, MadeRank(spans=[("b", 1, 9), ("a", 0, 5), ("c", 5, 6), ("d", 5, 5)]))
    (thread,) = rank_spans.read(path).threads
    events = list(rank_spans.events(thread.spans))
    told = [(event.span.name, event.is_begin, (event.at - BASE_NS) / MS) for event in events]
    assert told == [
        ("a", True, 0), ("b", True, 1), ("b", False, 5), ("a", False, 5),
        ("c", True, 5), ("d", True, 5), ("d", False, 5), ("c", False, 6),
    ]  # fmt: skip

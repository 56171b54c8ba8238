"""The spans of a rank by thread, nested, for a format that takes no others.

A thread's spans may overlap where PyTorch stamps them from several places: a span that reaches
beyond the one around it is cut at its end. Of each rank at most a number of spans is held: all
collectives, then the others in the order of the file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.trace import collective_spans
from dlcontainer.bench.trace.kineto_events import KinetoFile

MOST_SPANS = 500_000
_SHOWN = ("cpu_op", "user_annotation", "kernel", "gpu_memcpy", "gpu_memset")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedSpan:
    """A span, ns; `bytes` of a collective that says them."""

    begin: int
    end: int
    name: str
    is_collective: bool
    bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanThread:
    """A thread of the host or a stream of a device, and its spans in the order they begin."""

    name: str
    is_device: bool
    spans: Sequence[NamedSpan]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSpans:
    """A rank's threads, and how many spans were left out."""

    threads: Sequence[SpanThread]
    left_out: int

    @property
    def count(self) -> int:
        """Return how many spans there are."""
        return sum(len(thread.spans) for thread in self.threads)


def read(path: Path, most: int = MOST_SPANS) -> RankSpans:
    """Read the spans of a Kineto file, by its node's clock; raises BenchDataError."""
    threads: dict[tuple[bool, str], list[NamedSpan]] = {}
    names: dict[str, str] = {}
    operations = left_out = 0
    for span in KinetoFile(path).spans():
        if span.category not in _SHOWN:
            continue
        collective = collective_spans.of(span)
        operations += collective is None
        if collective is None and operations > most:
            left_out += 1
            continue
        key = (span.category in _DEVICE, str(span.thread))
        threads.setdefault(key, []).append(
            NamedSpan(
                begin=span.begin,
                end=span.end,
                # One text for all spans of a name.
                name=names.setdefault(span.name, span.name),
                is_collective=collective is not None,
                bytes=collective.bytes if collective else None,
            )
        )
    return RankSpans(
        threads=[
            SpanThread(
                name=f"{'stream' if is_device else 'thread'} {thread}",
                is_device=is_device,
                spans=sorted(spans, key=lambda span: (span.begin, -span.end)),
            )
            for (is_device, thread), spans in sorted(threads.items())
        ],
        left_out=left_out,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanEvent:
    """The begin or the end of a span; times never go back."""

    at: int
    span: NamedSpan
    is_begin: bool


def events(spans: Iterable[NamedSpan]) -> Iterator[SpanEvent]:
    """Yield begins and ends of a thread's spans, in order and nested."""
    open_spans: list[tuple[int, NamedSpan]] = []
    for span in spans:
        while open_spans and open_spans[-1][0] <= span.begin:
            end, outer = open_spans.pop()
            yield SpanEvent(at=end, span=outer, is_begin=False)
        end = min(span.end, open_spans[-1][0]) if open_spans else span.end
        yield SpanEvent(at=span.begin, span=span, is_begin=True)
        open_spans.append((end, span))
    while open_spans:
        end, outer = open_spans.pop()
        yield SpanEvent(at=end, span=outer, is_begin=False)

"""A rank's Kineto file as what an analysis needs: collectives, and when it computed.

Memory is bounded: the times of computing are joined as they are read. Computing are kernels on a
device where there are any, else operations of the host but those that start or await
communication.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.bench.trace import collective_spans, intervals
from dlcontainer.bench.trace.collective_spans import CollectiveSpan
from dlcontainer.bench.trace.intervals import Interval, Union
from dlcontainer.bench.trace.kineto_events import KinetoFile, KinetoSpan

_MOST_COLLECTIVES = 1_000_000
_MOST_INTERVALS = 200_000
_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankProfile:
    """What one rank did, ns since the epoch by its own clock.

    Gaps of computing of at most `coarse_ns` are closed; `left_out` collectives beyond a million are
    counted alone.
    """

    spans: int
    collectives: Sequence[CollectiveSpan]
    compute: Union
    groups: int | None
    coarse_ns: int = 0
    left_out: int = 0


class _JoinedTimes:
    """Intervals of several threads, of which at most a number is held."""

    def __init__(self) -> None:
        self.coarse_ns = 0
        self._threads: dict[int | str, list[Interval]] = {}
        self._count = 0
        self._most = 2 * _MOST_INTERVALS

    def add(self, span: KinetoSpan) -> None:
        self._threads.setdefault(span.thread, []).append((span.begin, span.end))
        self._count += 1
        if self._count > self._most:
            self._join()

    def _join(self) -> None:
        while True:
            self._threads = {
                thread: intervals.union(times, self.coarse_ns)
                for thread, times in self._threads.items()
            }
            self._count = sum(map(len, self._threads.values()))
            if self._count <= _MOST_INTERVALS:
                return
            self.coarse_ns = 2 * self.coarse_ns or 1000

    def of_thread(self, thread: int | str) -> list[Interval]:
        return intervals.union(self._threads.get(thread, ()), self.coarse_ns)

    def threads(self) -> Iterable[int | str]:
        return self._threads


@dataclass(slots=True)
class _Reading:
    spans: int = 0
    left_out: int = 0
    collectives: list[CollectiveSpan] = field(default_factory=list)
    issued: list[CollectiveSpan] = field(default_factory=list)
    host: _JoinedTimes = field(default_factory=_JoinedTimes)
    issuing: _JoinedTimes = field(default_factory=_JoinedTimes)
    device: _JoinedTimes = field(default_factory=_JoinedTimes)

    def take(self, span: KinetoSpan) -> None:
        self.spans += 1
        collective = collective_spans.of(span)
        if collective is not None:
            if len(self.collectives) < _MOST_COLLECTIVES:
                self.collectives.append(collective)
            else:
                self.left_out += 1
        elif span.category in _DEVICE_WORK:
            self.device.add(span)
        elif span.category == "cpu_op":
            times = self.issuing if collective_spans.is_issuing(span.name) else self.host
            times.add(span)
        elif (issue := collective_spans.issued(span)) and len(self.issued) < _MOST_COLLECTIVES:
            self.issued.append(issue)

    def compute(self) -> list[Interval]:
        if any(True for _ in self.device.threads()):
            return _joined(self.device.of_thread(thread) for thread in self.device.threads())
        return _joined(
            intervals.without(self.host.of_thread(thread), self.issuing.of_thread(thread))
            for thread in self.host.threads()
        )


def _joined(threads: Iterable[Union]) -> list[Interval]:
    return intervals.union(interval for times in threads for interval in times)


def _ordered(reading: _Reading) -> list[CollectiveSpan]:
    """Return the collectives in their order: those of a device where there are any."""
    on_device = [span for span in reading.collectives if span.is_on_device]
    ordered = sorted(on_device or reading.collectives, key=lambda span: (span.begin, span.end))
    if not any(span.bytes is None for span in on_device):
        return ordered
    # A kernel is what the host handed over: the first of a kind is the first one.
    handed: dict[str, list[int | None]] = {}
    for issue in sorted(reading.issued, key=lambda issue: issue.begin):
        handed.setdefault(issue.kind, []).append(issue.bytes)
    counts = Counter(span.kind for span in on_device)
    sizes = {kind: iter(told) for kind, told in handed.items() if len(told) == counts[kind]}
    return [
        replace(span, bytes=next(sizes[span.kind])) if span.kind in sizes else span
        for span in ordered
    ]


def read(path: Path) -> RankProfile:
    """Read a rank's Kineto file; raises BenchDataError where it is damaged."""
    file, reading = KinetoFile(path), _Reading()
    for span in file.spans():
        reading.take(span)
    return RankProfile(
        spans=reading.spans,
        collectives=_ordered(reading),
        compute=reading.compute(),
        groups=file.groups,
        coarse_ns=max(reading.host.coarse_ns, reading.device.coarse_ns),
        left_out=reading.left_out,
    )

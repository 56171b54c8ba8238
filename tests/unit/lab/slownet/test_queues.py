"""The switch's queues on a clock of the test's own."""

import pytest

from dlcontainer.lab.slownet import network, queues
from dlcontainer.lab.slownet.network import NetworkOptions
from dlcontainer.lab.slownet.queues import Queues

ACK, PUSH = 0x10, 0x18


def packet(begin: int, end: int, size: int, flags: int | None = None) -> bytes:
    """Give an IPv4 packet of so many bytes; of TCP with `flags`, else of UDP."""
    head = bytearray(size)
    head[0], head[9] = 0x45, 17 if flags is None else 6
    head[15], head[19] = begin + 1, end + 1
    if flags is not None:
        head[32], head[33] = 5 << 4, flags
    return bytes(head)


def made(**asked: object) -> Queues:
    return Queues(network.settled(NetworkOptions(**asked)))  # type: ignore[arg-type]


def arrivals(at: Queues, until: float = 1e9) -> list[float]:
    found = []
    while (parcel := at.pop(until)) is not None:
        found.append(parcel.due)
    return found


def test_a_packet_comes_after_its_own_time_and_the_latency() -> None:
    at = made(latency="1ms", rate="100Mbit")
    at.push(0, packet(0, 1, 1250), 5.0)
    due = at.next_due()
    assert due is not None
    assert due == pytest.approx(5.0 + 1250 * 8 / 100e6 + 1e-3)
    assert at.pop(due - 1e-6) is None
    parcel = at.pop(due)
    assert parcel is not None
    assert (parcel.to, parcel.packet[15]) == (1, 1)
    assert at.next_due() is None


def test_packets_wait_for_those_before_them() -> None:
    at = made(latency="0us", rate="10Mbit")
    for _ in range(3):
        at.push(0, packet(0, 1, 1250), 0.0)
    assert arrivals(at) == pytest.approx([0.001, 0.002, 0.003])
    # An idle link saves nothing up.
    at.push(0, packet(0, 1, 1250), 1.0)
    assert arrivals(at) == pytest.approx([1.001])


def test_half_the_rate_is_twice_the_time() -> None:
    ends = []
    for rate in ("200Mbit", "100Mbit"):
        at = made(latency="0us", rate=rate)
        for _ in range(100):
            at.push(0, packet(0, 1, 9000), 0.0)
        ends.append(arrivals(at)[-1])
    assert ends[1] / ends[0] == pytest.approx(2)


def test_directions_and_links_do_not_wait_for_each_other() -> None:
    at = made(hosts=3, latency="0us", rate="10Mbit")
    for begin, end in ((0, 1), (1, 0), (0, 2), (2, 1)):
        at.push(begin, packet(begin, end, 1250), 0.0)
    assert arrivals(at) == pytest.approx([0.001] * 4)


def test_without_a_rate_only_the_latency_counts() -> None:
    at = made(latency="2ms")
    for _ in range(3):
        at.push(0, packet(0, 1, 9000), 0.0)
    assert arrivals(at) == [0.002] * 3


def test_a_bare_acknowledgement_goes_first_and_takes_its_time() -> None:
    at = made(latency="1ms", rate="10Mbit")
    at.push(0, packet(0, 1, 12_500, PUSH), 0.0)
    at.push(0, packet(0, 1, 40, ACK), 0.0)
    at.push(0, packet(0, 1, 12_500, PUSH), 0.0)
    own = 40 * 8 / 10e6
    assert arrivals(at) == pytest.approx([own + 0.001, 0.011, 0.021 + own])


@pytest.mark.parametrize(
    ("one", "bare"),
    [
        (packet(0, 1, 40, ACK), True),
        (packet(0, 1, 41, ACK), False),
        (packet(0, 1, 40, ACK | 0x01), False),
        (packet(0, 1, 40), False),
        (packet(0, 1, 30, None), False),
    ],
)
def test_what_is_bare(one: bytes, *, bare: bool) -> None:
    assert queues.is_bare(one) is bare


def test_a_cut_link_loses_what_is_on_it_and_what_comes() -> None:
    at = made(hosts=3, latency="1ms", rate="100Mbit")
    at.push(0, packet(0, 1, 1250), 0.0)
    at.push(1, packet(1, 0, 1250), 0.0)
    at.push(0, packet(0, 2, 1250), 0.0)
    at.cut(0, 1)
    at.push(1, packet(1, 0, 1250), 0.1)
    parcel = at.pop(1.0)
    assert parcel is not None
    assert parcel.to == 2
    assert at.pop(1.0) is None
    assert (at.way(0, 1).lost, at.way(1, 0).lost, at.way(0, 2).lost) == (1, 2, 0)


def test_a_queue_has_an_end() -> None:
    at = made(latency="0us", rate="10Mbit")
    most = queues.DEEPEST // 50_000
    for _ in range(most + 10):
        at.push(0, packet(0, 1, 50_000), 0.0)
    way = at.way(0, 1)
    assert way.lost > 0
    assert way.packets + way.lost == most + 10
    assert way.packets * 50_000 <= queues.DEEPEST + 50_000


@pytest.mark.parametrize(
    "odd",
    [b"", b"\x45" * 10, b"\x60" + bytes(60), packet(0, 0, 100), packet(0, 7, 100)],
)
def test_what_is_for_nobody_is_dropped(odd: bytes) -> None:
    at = made(latency="0us")
    at.push(0, odd, 0.0)
    assert at.next_due() is None

"""The switch's queues: when each packet comes out at the other end. Pure: the clock is given.

A packet waits until those before it on its way are sent (bytes * 8 / rate), then for the latency.
TCP's bare acknowledgements go before what waits: a sender's own queue keeps itself short for them,
and behind megabytes they would slow the other direction.
"""

import heapq
from dataclasses import dataclass, field

from dlcontainer.lab.slownet.network import VirtualNetwork

# More than the window of one TCP connection (6 MB): what a way holds back before it loses packets.
DEEPEST = 32 << 20
_TCP, _ACK = 6, 0x10


@dataclass(slots=True)
class LinkDirection:
    """One direction of a link, and what went over it; times in s of one clock."""

    latency_s: float
    rate: float
    free_at: float = 0.0
    is_cut: bool = False
    packets: int = 0
    bytes: int = 0
    lost: int = 0

    def take(self, size: int, now: float, *, first: bool = False) -> float | None:
        """Take a packet of so many bytes; return when it arrives, None where it is lost.

        With `first` it goes before those that wait, and they wait for it.
        """
        begin, sending_s = max(self.free_at, now), size * 8 / self.rate if self.rate else 0.0
        if self.is_cut or (begin - now) * self.rate / 8 > DEEPEST:
            self.lost += 1
            return None
        self.free_at = begin + sending_s
        self.packets += 1
        self.bytes += size
        return (now + sending_s if first else self.free_at) + self.latency_s


def is_bare(packet: bytes) -> bool:
    """Return whether an IPv4 packet is TCP's acknowledgement and nothing else."""
    at = (packet[0] & 15) * 4
    if packet[9] != _TCP or len(packet) < at + 20:
        return False
    return packet[at + 13] == _ACK and len(packet) == at + (packet[at + 12] >> 4) * 4


@dataclass(frozen=True, slots=True, order=True)
class Parcel:
    """A packet under way: when it is due, its number, and the host that it is for."""

    due: float
    number: int
    to: int = field(compare=False)
    packet: bytes = field(compare=False)


class Queues:
    """All ways of a network, and the packets on them."""

    def __init__(self, network: VirtualNetwork) -> None:
        self._ways: dict[int, dict[int, LinkDirection]] = {
            host.number: {} for host in network.hosts
        }
        for link in network.links:
            for begin, end in ((link.one, link.other), (link.other, link.one)):
                self._ways[begin][end] = LinkDirection(latency_s=link.latency_s, rate=link.rate)
        self._under_way: list[Parcel] = []
        self._number = 0

    def way(self, begin: int, end: int) -> LinkDirection:
        """Return one direction of a link."""
        return self._ways[begin][end]

    def push(self, begin: int, packet: bytes, now: float) -> None:
        """Take a packet from a host; what is not for another host is dropped."""
        # IPv4 in a network of 24 bits: the address's last byte is the host's number and 1.
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return
        direction = self._ways[begin].get(packet[19] - 1)
        due = direction.take(len(packet), now, first=is_bare(packet)) if direction else None
        if due is not None:
            self._number += 1
            parcel = Parcel(due, self._number, packet[19] - 1, packet)
            heapq.heappush(self._under_way, parcel)

    def pop(self, now: float) -> Parcel | None:
        """Return the first packet that is due, once."""
        if self._under_way and self._under_way[0].due <= now:
            return heapq.heappop(self._under_way)
        return None

    def next_due(self) -> float | None:
        """Return when the next packet is due; None where none is under way."""
        return self._under_way[0].due if self._under_way else None

    def cut(self, first: int, second: int) -> None:
        """Cut a link: what is on it and what comes is lost, and nobody is told."""
        for begin, end in ((first, second), (second, first)):
            self._ways[begin][end].is_cut = True
        kept = []
        for parcel in self._under_way:
            sender = parcel.packet[15] - 1
            if {sender, parcel.to} == {first, second}:
                self._ways[sender][parcel.to].lost += 1
            else:
                kept.append(parcel)
        self._under_way = kept
        heapq.heapify(self._under_way)

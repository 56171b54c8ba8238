"""A link's round trip and rate as its two hosts see them, and whether that is what was asked for.

Runs in the hosts before the command: one answers, the other asks.
"""

import socket
import statistics
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from dlcontainer.lab.slownet.network import Link

_PORT = 7
_WAIT_S = 30.0
_SIZE = struct.Struct("!Q")
_CHUNK = bytes(1 << 16)
_TRANSFERS, _TRANSFER_S = 3, 0.3
_LEAST_BYTES, _MOST_BYTES, _ANY_BYTES = 1 << 16, 64 << 20, 32 << 20
_MOST_TRIPS, _FEWEST_TRIPS = 100, 5
# Declared: a median beyond these refuses the network. What a switch in user space adds to a trip
# doesn't grow with the latency.
RATE_OFF = 0.10
TRIP_OFF, TRIP_MORE_S = 0.10, 0.5e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkTrial:
    """One way of a link: medians of the round trip in s and of TCP's payload in bit/s."""

    begin: int
    end: int
    round_trip_s: float
    rate: float


def problem(link: Link, trial: LinkTrial) -> str:
    """Return what a way misses of what was asked of its link; empty where nothing."""
    name = f"n{trial.begin + 1} to n{trial.end + 1}"
    least, most = 2 * link.latency_s * (1 - TRIP_OFF), 2 * link.latency_s * (1 + TRIP_OFF)
    if link.latency_s and not least <= trial.round_trip_s <= most + TRIP_MORE_S:
        return (
            f"{name}: a round trip takes {1e6 * trial.round_trip_s:.0f} us, and twice the latency "
            f"are {2e6 * link.latency_s:.0f} us"
        )
    if link.rate and abs(trial.rate / link.rate - 1) > RATE_OFF:
        return f"{name}: {trial.rate / 1e6:.4g} Mbit/s in place of {link.rate / 1e6:.4g}"
    return ""


class Answers:
    """Answers what another host asks, in threads, until it is closed."""

    def __init__(self) -> None:
        self._trips = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._trips.bind(("", _PORT))
        self._transfers = socket.create_server(("", _PORT))
        for work in (self._echo, self._take):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """End both."""
        for listener in (self._trips, self._transfers):
            with suppress(OSError):  # not connected; it wakes who waits all the same
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _echo(self) -> None:
        with suppress(OSError):
            while True:
                packet, sender = self._trips.recvfrom(2048)
                self._trips.sendto(packet, sender)

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._transfers.accept()
                with connection, suppress(OSError):
                    connection.settimeout(_WAIT_S)
                    while _took(connection):
                        connection.sendall(b"k")


def _took(connection: socket.socket) -> bool:
    head = connection.recv(_SIZE.size, socket.MSG_WAITALL)
    remaining = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else 0
    buffer = bytearray(1 << 20)
    while remaining:
        got = connection.recv_into(buffer, min(remaining, len(buffer)))
        if not got:
            return False
        remaining -= got
    return bool(head)


def trip(address: str, latency_s: float) -> float:
    """Return the median round trip of small packets, s; raises OSError where one is lost."""
    count = _MOST_TRIPS
    if latency_s:
        count = min(count, max(_FEWEST_TRIPS, int(0.5 / latency_s)))
    times = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_WAIT_S)
        asking.connect((address, _PORT))
        for _ in range(count):
            begin = time.monotonic()
            asking.send(b"trip")
            asking.recv(64)
            times.append(time.monotonic() - begin)
    return statistics.median(times)


def transfer(address: str, rate: float, round_trip_s: float) -> float:
    """Return the median rate of TCP's payload, bit/s, over three transfers after a first one."""
    size = _ANY_BYTES
    if rate:
        size = int(min(_MOST_BYTES, max(_LEAST_BYTES, rate * _TRANSFER_S / 8)))
    rates = []
    with socket.create_connection((address, _PORT), _WAIT_S) as sending:
        for _ in range(1 + _TRANSFERS):
            begin = time.monotonic()
            sending.sendall(_SIZE.pack(size))
            remaining = size
            while remaining:
                remaining -= sending.send(_CHUNK[: min(remaining, len(_CHUNK))])
            if sending.recv(1) != b"k":
                raise ConnectionError("the other host ended the connection")
            rates.append(size * 8 / (time.monotonic() - begin - round_trip_s))
    return statistics.median(rates[1:])

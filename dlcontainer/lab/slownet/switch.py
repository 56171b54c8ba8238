"""The switch: reads each host's device, delays, writes to another's; in one process, one thread."""

import os
import select
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from dlcontainer.lab.slownet.queues import Queues

_LARGEST = 65_536
# At a time from one device, so that no host waits for another's burst.
_AT_ONCE = 16
_LOOK_S = 0.05


class Switch:
    """Carries packets between devices, `devices` by the number of their host."""

    def __init__(self, devices: Mapping[int, int], queues: Queues) -> None:
        self.queues = queues
        self._devices = dict(devices)
        # What the other end did not take: its queue was full, or its host is gone.
        self.refused = 0

    def drop(self, host: int) -> None:
        """Take no more from a host, and give it nothing."""
        device = self._devices.pop(host, None)
        if device is not None:
            os.close(device)

    def run(self, is_over: Callable[[], bool]) -> None:
        """Carry packets until that says so; it is asked every 50 ms at least."""
        look = 0.0
        while True:
            now = time.monotonic()
            if now >= look:
                if is_over():
                    return
                look = now + _LOOK_S
            due = self.queues.next_due()
            until = look if due is None else min(look, due)
            by_device = {device: host for host, device in self._devices.items()}
            # Not epoll: it counts in ms.
            ready, _, _ = select.select(list(by_device), [], [], max(0.0, until - now))
            for device in ready:
                self._read(by_device[device], device)
            self._deliver()

    def _read(self, host: int, device: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(device, _LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the host's network is gone
                self.drop(host)
                return
            self.queues.push(host, packet, time.monotonic())

    def _deliver(self) -> None:
        while (parcel := self.queues.pop(time.monotonic())) is not None:
            device = self._devices.get(parcel.to)
            written = 0
            if device is not None:
                with suppress(OSError):
                    written = os.write(device, parcel.packet)
            if not written:
                self.refused += 1

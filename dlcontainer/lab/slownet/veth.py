"""Links without /dev/net/tun: the kernel's pairs of devices, a rate each (tbf), no latency.

A pair of devices is a link; each host has one address, and a route to each other host.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slownet.hosts import RunningHost
from dlcontainer.lab.slownet.network import Link, VirtualNetwork
from dlcontainer.lab.slownet.network_devices import NAME
from dlcontainer.lab.slownet.queues import LinkDirection
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, ProcessRunner

# What a link may send at once, s of its rate; what waits longer before it is dropped, ms.
_BURST_S, _LONGEST_MS = 0.001, 100


class VethLinks:
    """The links of a network as pairs of devices; the hosts stand."""

    def __init__(self, network: VirtualNetwork, hosts: Sequence[RunningHost]) -> None:
        self._held = hosts
        self._runner = ProcessRunner(environ=dict(os.environ))
        for name in ("ip", "tc", "nsenter"):
            if find_program(name, os.environ) is None:
                raise ChecksFailedError(
                    f"{name} not found; --by tbf makes links with this program",
                    next_step="install iproute2 and util-linux",
                )
        for host in hosts:
            # A bridge without ports: the one name of a device that programs are told.
            self._on(host, f"ip link add {NAME} type bridge")
            self._on(host, f"ip addr add {host.host.address}/32 dev {NAME}")
            self._on(host, f"ip link set {NAME} up")
        for link in network.links:
            self._made(link, network.mtu)

    def _made(self, link: Link, mtu: int) -> None:
        first, second = self._held[link.one], self._held[link.other]
        ends = f"name to-{second.host.name} netns {first.pid} type veth".split()
        ends += f"peer name to-{first.host.name} netns {second.pid}".split()
        self._run(["ip", "link", "add", *ends])
        for near, far in ((first, second), (second, first)):
            device = f"to-{far.host.name}"
            self._on(near, f"ip link set {device} mtu {mtu} up")
            route = f"{far.host.address}/32 dev {device} src {near.host.address}"
            self._on(near, f"ip route add {route}")
            if link.rate:
                burst = int(max(2 * mtu, link.rate / 8 * _BURST_S))
                limits = f"rate {link.rate:.0f}bit burst {burst}b latency {_LONGEST_MS}ms"
                self._on(near, f"tc qdisc add dev {device} root tbf {limits}")

    def cut(self, begin: int, end: int) -> None:
        """Cut a link: what comes is lost, and nobody is told."""
        for near, far in ((begin, end), (end, begin)):
            device = f"to-{self._held[far].host.name}"
            self._on(self._held[near], f"tc qdisc replace dev {device} root blackhole")

    def way(self, begin: int, end: int) -> LinkDirection:
        """Return what went over one direction, as its device counts it."""
        device = f"to-{self._held[end].host.name}"
        try:
            text = self._on(self._held[begin], f"ip -j -s link show dev {device}")
        except ChecksFailedError:  # the host is gone, and its counts with it
            return LinkDirection(latency_s=0.0, rate=0.0)
        (counters,) = json.loads(text)
        sent: dict[str, Any] = counters["stats64"]["tx"]
        return LinkDirection(
            latency_s=0.0,
            rate=0.0,
            packets=sent["packets"],
            bytes=sent["bytes"],
            lost=sent["dropped"],
        )

    def _on(self, host: RunningHost, words: str) -> str:
        return self._run(["nsenter", "--target", str(host.pid), "--net", *words.split()])

    def _run(self, argv: list[str]) -> str:
        try:
            return self._runner(argv).stdout
        except (CommandFailedError, CommandNotFoundError) as error:
            stderr = error.completed.stderr if isinstance(error, CommandFailedError) else ""
            raise ChecksFailedError(
                f"links by tbf are not available: {error}",
                why=" ".join(stderr.split())[-400:] or None,
            ) from None

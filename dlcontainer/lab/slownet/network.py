"""What is asked for: hosts, the links between them, and what happens to these. Pure.

Each pair of hosts has a link of its own, and each of its two directions has the link's rate.
"""

import re
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

from dlcontainer.errors import UsageError

# A switch in user space, or the kernel's pairs of devices with rates alone.
Kind = Literal["tun", "tbf"]
MOST_HOSTS = 4
_TIME = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([kMG])bit")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BITS = {"k": 1e3, "M": 1e6, "G": 1e9}
_LONGEST_S = 1.0
_LEAST_RATE, _MOST_RATE = 1e7, 1e11
# What may wait before a link, s: TCP's senders take more than 0.2 s for a loss.
_WAITING_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class VirtualHost:
    """One host: `number` from 0, its name and its address."""

    number: int

    @property
    def name(self) -> str:
        """Its name, also that of its kernel (uname)."""
        return f"n{self.number + 1}"

    @property
    def address(self) -> str:
        """Its IPv4 address, in a network of 24 bits."""
        return f"10.99.0.{self.number + 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """The link of two hosts: one way's latency in s, each way's rate in bit/s, 0 for no limit."""

    one: int
    other: int
    latency_s: float
    rate: float

    @property
    def name(self) -> str:
        """Name it by its hosts."""
        return f"n{self.one + 1}-n{self.other + 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkLoss:
    """A link that is cut, or a host that is killed, so many s after the command's start."""

    after_s: float
    hosts: tuple[int, ...]

    @property
    def what(self) -> str:
        """Return what is lost."""
        names = [f"n{number + 1}" for number in self.hosts]
        return f"link {'-'.join(names)}" if len(names) == 2 else f"host {names[0]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class VirtualNetwork:
    """Hosts, their links, what is lost, the largest packet in bytes."""

    hosts: tuple[VirtualHost, ...]
    links: tuple[Link, ...]
    losses: tuple[LinkLoss, ...] = ()
    mtu: int = 9000
    # How long the command may go on after the last loss, s.
    patience_s: float = 60.0
    by: Kind = "tun"

    def link(self, begin: int, end: int) -> Link:
        """Return the link of two hosts."""
        (link,) = (link for link in self.links if {link.one, link.other} == {begin, end})
        return link

    @property
    def window(self) -> int | None:
        """Return how many bytes a connection may have under way; None where no link has a rate.

        It fills the longest link, and no link for longer than senders are patient.
        """
        rated = [link for link in self.links if link.rate]
        if not rated:
            return None
        longest = max(2 * link.latency_s * link.rate / 8 for link in rated)
        waiting = _WAITING_S * min(link.rate for link in rated) / 8
        return int(max(4 * self.mtu, longest + waiting))

    def body(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def read(body: dict[str, Any]) -> VirtualNetwork:
    """Read what `body` gave."""
    return VirtualNetwork(
        hosts=tuple(VirtualHost(**host) for host in body["hosts"]),
        links=tuple(Link(**link) for link in body["links"]),
        losses=tuple(
            LinkLoss(after_s=loss["after_s"], hosts=tuple(loss["hosts"])) for loss in body["losses"]
        ),
        mtu=body["mtu"],
        patience_s=body["patience_s"],
        by=body["by"],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkOptions:
    """The words of a command line."""

    hosts: int = 2
    latency: str = "0us"
    rate: str = "0"
    links: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    mtu: int = 9000
    patience_s: float = 60.0
    by: Kind = "tun"


def settled(options: NetworkOptions) -> VirtualNetwork:
    """Settle a network; raises UsageError with the option that is wrong."""
    if not 2 <= options.hosts <= MOST_HOSTS:
        raise UsageError(f"--hosts {options.hosts}: must be from 2 to {MOST_HOSTS}")
    if not 1280 <= options.mtu <= 65_000:
        raise UsageError(f"--mtu {options.mtu}: must be from 1280 to 65000 bytes")
    links = _links(options)
    if options.by == "tbf" and any(link.latency_s for link in links):
        raise UsageError(
            "--by tbf limits rates only and adds no latency",
            why="the kernel's tbf does not delay packets, and not every kernel has netem",
            next_step="leave out --latency; or leave out --by tbf where you may open /dev/net/tun",
        )
    losses = [
        *(_loss(word, options.hosts, "--down", count=2) for word in options.down),
        *(_loss(word, options.hosts, "--kill", count=1) for word in options.kill),
    ]
    return VirtualNetwork(
        hosts=tuple(VirtualHost(number=number) for number in range(options.hosts)),
        links=links,
        losses=tuple(sorted(losses, key=lambda loss: loss.after_s)),
        mtu=options.mtu,
        patience_s=options.patience_s,
        by=options.by,
    )


def _links(options: NetworkOptions) -> tuple[Link, ...]:
    usual_s, rate = latency(options.latency, "--latency"), bits(options.rate, "--rate")
    rates = {}
    for word in options.links:
        name, mark, values = word.partition("=")
        first, comma, second = values.partition(",")
        if not (mark and comma):
            raise UsageError(
                f"--link {word}: needs a latency and a rate",
                next_step="give both, e.g. --link n1-n2=200us,500Mbit",
            )
        pair = frozenset(_hosts(name, options.hosts, f"--link {word}", count=2))
        rates[pair] = (latency(first, f"--link {word}:"), bits(second, f"--link {word}:"))
    links = []
    for begin, end in combinations(range(options.hosts), 2):
        settings = rates.get(frozenset((begin, end)), (usual_s, rate))
        links.append(Link(one=begin, other=end, latency_s=settings[0], rate=settings[1]))
    return tuple(links)


def latency(text: str, option: str) -> float:
    """Read one way's latency, s; raises UsageError."""
    match = _TIME.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else -1.0
    if not 0 <= seconds <= _LONGEST_S:
        raise UsageError(
            f"{option} {text}: must be a time from 0 to {_LONGEST_S:g} s",
            next_step="give a time with its unit, e.g. 100us or 1.5ms",
        )
    return seconds


def bits(text: str, option: str) -> float:
    """Read a rate, bit/s, 0 for no limit; raises UsageError."""
    if text == "0":
        return 0.0
    match = _RATE.fullmatch(text)
    rate = float(match[1]) * _BITS[match[2]] if match else 0.0
    if not _LEAST_RATE <= rate <= _MOST_RATE:
        raise UsageError(
            f"{option} {text}: must be a rate from 10Mbit to 100Gbit",
            next_step="give a rate, e.g. 500Mbit or 1Gbit; 0 means no limit",
        )
    return rate


def _loss(word: str, hosts: int, option: str, *, count: int) -> LinkLoss:
    name, mark, when = word.partition("@")
    match = _TIME.fullmatch(when)
    if not (mark and match):
        example = "n1-n2@5s" if count == 2 else "n2@5s"
        raise UsageError(
            f"{option} {word}: the time is missing",
            next_step=f"give a time after @, e.g. {option} {example}",
        )
    numbers = _hosts(name, hosts, f"{option} {word}", count=count)
    return LinkLoss(after_s=float(match[1]) * _SECONDS[match[2]], hosts=numbers)


def _hosts(name: str, hosts: int, text: str, *, count: int) -> tuple[int, ...]:
    numbers = {f"n{number + 1}": number for number in range(hosts)}
    words = name.split("-")
    if len(words) != count or len(set(words)) != count or not set(words) <= numbers.keys():
        what = "host" if count == 1 else "link of two hosts"
        raise UsageError(
            f"{text}: not a {what} of this network",
            next_step=f"choose from the hosts {', '.join(numbers)}",
        )
    return tuple(sorted(numbers[word] for word in words))

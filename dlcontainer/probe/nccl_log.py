"""What NCCL and RCCL say of themselves with NCCL_DEBUG=INFO. Standard library, Python >= 3.6.

Their words changed over the years; tests/recorded/nccl has a log of each kind, with its source:
to 2.3   "Using internal Network IB"
2.4, 2.5 no such line: InfiniBand is used where NET/IB names a device, else sockets
from 2.6 "Using network IB", "… AWS Libfabric", "… Socket"
all      "… via NET/IB/0/GDRDMA", where channels are listed: that is how data really goes

A plug-in that was loaded proves nothing: it may give up, and NCCL goes on by sockets. So a network
is taken from these lines alone, for each process; without one of them it is not shown.
"""

import re

# host:pid:tid [device] NCCL INFO …; the oldest leave NCCL out, mpirun lays "[1,0]<stdout>:" before.
_PROCESS = re.compile(r"(?:^|[>\s|])([^\s>|]*:\d+):\d+ \[(\d+)\]")
_VERSION = re.compile(r"\b([NR]CCL) version\s*:?\s*(\d[^\s,'\"]*)")
_CHOSEN = re.compile(r"Using (?:internal Network|network) (.+?)\s*$")
_VIA = re.compile(
    r" via (?:NET/([^/\n]+)/\d+(\S*)|"
    r"((?:P2P|SHM)/[A-Za-z/]+(?: pointer[a-z/]*)?|direct shared memory))"
)
_DEVICES = re.compile(r"NET/IB\s?: Using (.*?)(?:; OOB|\s*\[RO\]|$)")
_OLD_DEVICES = re.compile(r"NET/IB: \[\d+\] (\S+:\d+/\w+)")
_DEVICE = re.compile(r"([\w.-]+:\d+/(?:IB|RoCE|Unspecified)[\w/]*)")
_SOCKETS = re.compile(r"NET/Socket\s?: Using ")
_NO_IB = re.compile(r"NET/IB\s?: No device found|Failed to open libibverbs")
_PROVIDER = re.compile(r"Selected [Pp]rovider is ([^,()]+?)(?:,| \(|\s*$)")
_OLD = re.compile(r"^2\.[45]\.")
_NVLINK = re.compile(r"\+ NVL\[|NVLS multicast support is available|via NVLS")
_DUPLICATE = re.compile(r"Duplicate GPU detected ?: rank (\d+) and rank (\d+)")
_WARNING = re.compile(r"N?R?CCL WARN (.+?)\s*$")
# What a libfabric provider without RDMA is called.
_PLAIN = ("tcp", "sockets", "udp")
_WARNINGS = 5


class _Process(object):
    """What one process of a log said."""

    def __init__(self):
        self.chosen, self.via = None, set()
        self.has_devices = self.has_sockets = self.has_no_ib = False

    def networks(self, version):
        """Name the networks: the way that data goes, else what was chosen, else the old rule."""
        if self.via:
            return self.via
        if self.chosen:
            return {self.chosen}
        if _OLD.match(version or ""):
            if self.has_devices:
                return {"IB"}
            if self.has_sockets and self.has_no_ib:
                return {"Socket"}
        return set()


def parsed(text):
    """Give what a log shows; `network` is None where no line says it."""
    processes, within, via, devices = {}, set(), set(), set()
    providers, warnings, duplicates = set(), [], []
    library = version = None
    has_nvlink = has_direct_rdma = False
    for line in text.splitlines():
        named = _PROCESS.search(line)
        own = processes.setdefault(named.groups() if named else None, _Process())
        hit = _VERSION.search(line)
        if hit and version is None:
            library, version = hit.groups()
        hit = _CHOSEN.search(line)
        if hit:
            own.chosen = hit.group(1)
        for net, rest, inside in _VIA.findall(line):
            if net:
                own.via.add(net)
                via.add("NET/" + net)
                has_direct_rdma = has_direct_rdma or "GDRDMA" in rest
            else:
                within.add(inside)
        hit = _DEVICES.search(line)
        names = _DEVICE.findall(hit.group(1)) if hit else _OLD_DEVICES.findall(line)
        devices.update(names)
        own.has_devices = own.has_devices or bool(names)
        own.has_sockets = own.has_sockets or bool(_SOCKETS.search(line))
        own.has_no_ib = own.has_no_ib or bool(_NO_IB.search(line))
        providers.update(name.strip() for name in _PROVIDER.findall(line))
        has_nvlink = has_nvlink or bool(_NVLINK.search(line))
        duplicates += [[int(one), int(other)] for one, other in _DUPLICATE.findall(line)]
        hit = _WARNING.search(line)
        if hit and len(warnings) < _WARNINGS and hit.group(1) not in warnings:
            warnings.append(hit.group(1)[:200])
    networks = set()
    for own in processes.values():
        networks |= own.networks(version)
    return {
        "library": library,
        "version": version,
        "networks": sorted(networks),
        "network": kind(networks, devices, providers),
        "devices": sorted(devices),
        "providers": sorted(providers),
        "channels": sorted(via | within),
        "within_node": sorted(within),
        "direct_rdma": has_direct_rdma,
        "nvlink": has_nvlink,
        "duplicates": duplicates,
        "warnings": warnings,
    }


def kind(networks, devices=(), providers=()):
    """Name a set of NCCL's networks in one word; None for none, "mixed" for several kinds.

    socket: TCP, whether NCCL's own or libfabric's; ib, roce: verbs, by the ports that it names;
    libfabric; a network that is not known keeps its name.
    """
    kinds = {_kind(name, devices, providers) for name in networks}
    if len(kinds) > 1:
        return "mixed"
    return kinds.pop() if kinds else None


def _kind(name, devices, providers):
    if name == "Socket":
        return "socket"
    if name == "IB" or name.startswith("IBext"):
        is_roce = devices and not [device for device in devices if "/RoCE" not in device]
        return "roce" if is_roce else "ib"
    if name in ("AWS Libfabric", "Libfabric", "OFI"):
        plain = [one for one in providers if one.split(";")[0].lower() in _PLAIN]
        return "socket" if plain else "libfabric"
    return name

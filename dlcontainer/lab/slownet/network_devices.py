"""Network devices of a host: TUN, read and written by the switch; the loopback. By ioctl(2).

Source: Linux, include/uapi/linux/if_tun.h, sockios.h, netdevice(7).
"""

import errno
import fcntl
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slownet.network import VirtualHost

TUN = Path("/dev/net/tun")
NAME = "eth0"
_SET_KIND, _IS_TUN, _NO_HEADER = 0x400454CA, 0x0001, 0x1000
_FLAGS, _SET_FLAGS, _ADDRESS, _MASK = 0x8913, 0x8914, 0x8916, 0x891C
_MTU, _QUEUE = 0x8922, 0x8943
_UP = 0x1
# The switch is to see a burst as it comes: what the device drops TCP takes for a bad link.
_QUEUE_PACKETS = 10_000


def tun(host: VirtualHost, mtu: int) -> int:
    """Make the device of the host that this process is in; return its descriptor.

    Raises ChecksFailedError where there is no TUN for this user.
    """
    try:
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(device, _SET_KIND, struct.pack("16sH22x", NAME.encode(), _IS_TUN | _NO_HEADER))
    except OSError as error:
        raise unavailable(error) from None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        _number(asking, _MTU, mtu)
        # By ioctl root's alone; else 500 packets, which the switch mostly reads before they are so
        # many, and the trial finds out where it does not.
        with suppress(PermissionError):
            _number(asking, _QUEUE, _QUEUE_PACKETS)
        _address(asking, _ADDRESS, host.address)
        _address(asking, _MASK, "255.255.255.0")
        _up(asking, NAME)
        _up(asking, "lo")
    return device


def unavailable(error: OSError) -> ChecksFailedError:
    """Return why there is no TUN, and what helps."""
    missing = error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO)
    return ChecksFailedError(
        f"links with latency are not available: {TUN}: {error.strerror}",
        why="the kernel has no TUN, or this container has no such device"
        if missing
        else "only its owner may open it here, and no namespace makes you the owner",
        next_step="ask an administrator for `modprobe tun` and `chmod 666 /dev/net/tun`, the "
        "default of most distributions; or use --by tbf without --latency, which only limits "
        "rates",
    )


def loopback() -> None:
    """Switch the loopback on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        _up(asking, "lo")


def _number(asking: socket.socket, what: int, value: int) -> None:
    fcntl.ioctl(asking, what, struct.pack("16si20x", NAME.encode(), value))


def _address(asking: socket.socket, what: int, address: str) -> None:
    packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
    fcntl.ioctl(asking, what, struct.pack("16s16s8x", NAME.encode(), packed))


def _up(asking: socket.socket, name: str) -> None:
    request = struct.pack("16sh22x", name.encode(), 0)
    flags = struct.unpack_from("16sh", fcntl.ioctl(asking, _FLAGS, request))[1]
    fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sh22x", name.encode(), flags | _UP))

"""The process that holds a host: its network and name live as long as it does.

Before the command it also asks the other hosts, and answers them.
"""

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dlcontainer.errors import DlcontainerError
from dlcontainer.lab.slownet import spaces, trial
from dlcontainer.lab.slownet.network import Host
from dlcontainer.system.supervisor import follow

_MOST_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A host that runs: its process, the socket to it, its device where a switch has it."""

    host: Host
    pid: int
    control: socket.socket
    device: int | None

    def tell(self, what: str, **more: object) -> None:
        """Tell it to do something; it answers by `told`."""
        self.control.send(json.dumps({"do": what, **more}).encode())

    def told(self) -> dict[str, Any] | None:
        """Give its answer; None where there is none yet. Raises ConnectionError where it is gone.

        What went wrong there is an answer with `error`.
        """
        try:
            answer = self.control.recv(_MOST_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not answer:
            raise ConnectionError(f"{self.host.name} is gone")
        said: dict[str, Any] = json.loads(answer)
        return said


def hold(host: Host, make_device: Callable[[], int | None]) -> Held:
    """Start a host; raises ChecksFailedError or OSError where it can't be made.

    `make_device` runs in it and gives a device for the switch, if there is one.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            follow(parent, signal.SIGKILL)
            _be(host, theirs, make_device)
        finally:
            os._exit(1)
    theirs.close()
    answer, devices, _, _ = socket.recv_fds(ours, _MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
    said = json.loads(answer or b'{"error": "it ended"}')
    if "error" in said:
        raise HostError(f"{host.name}: {said['error']}", said)
    return Held(host=host, pid=pid, control=ours, device=devices[0] if devices else None)


class HostError(Exception):
    """A host that can't be made; `said` is what it said of that."""

    def __init__(self, text: str, said: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.said = said


def _be(host: Host, control: socket.socket, make_device: Callable[[], int | None]) -> None:
    try:
        spaces.unshare(spaces.NEW_NET | spaces.NEW_NAMES)
        socket.sethostname(host.name)
        device = make_device()
    except DlcontainerError as error:
        more = {"error": error.what, "why": error.why, "next": error.next_step}
        control.send(json.dumps(more).encode())
        return
    except OSError as error:
        control.send(json.dumps({"error": str(error)}).encode())
        return
    socket.send_fds(control, [b"{}"], [] if device is None else [device])
    if device is not None:
        os.close(device)
    answers: trial.Answers | None = None
    while request := control.recv(_MOST_BYTES):
        asked = json.loads(request)
        said: dict[str, Any] = {}
        try:
            if asked["do"] == "answer":
                answers = trial.Answers()
            elif asked["do"] == "ask":
                trip = trial.trip(asked["address"], asked["latency_s"])
                said = {"round_trip_s": trip}
                said["rate"] = trial.transfer(asked["address"], asked["rate"], trip)
            elif answers is not None:
                answers.close()
        except OSError as error:
            said = {"error": str(error)}
        control.send(json.dumps(said).encode())

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
from dlcontainer.lab.slownet.network import VirtualHost
from dlcontainer.system.supervisor import follow

_MOST_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningHost:
    """A host that runs: its process, the socket to it, its device where a switch has it."""

    host: VirtualHost
    pid: int
    control: socket.socket
    device: int | None

    def tell(self, what: str, **more: object) -> None:
        """Tell it to do something; it answers by `told`."""
        self.control.send(json.dumps({"do": what, **more}).encode())

    def told(self) -> dict[str, Any] | None:
        """Return its answer; None where there is none yet. Raises ConnectionError where it is gone.

        What went wrong there is an answer with `error`.
        """
        try:
            answer = self.control.recv(_MOST_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not answer:
            raise ConnectionError(f"{self.host.name} is gone")
        body: dict[str, Any] = json.loads(answer)
        return body


def hold(host: VirtualHost, make_device: Callable[[], int | None]) -> RunningHost:
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
    body = json.loads(answer or b'{"error": "it ended"}')
    if "error" in body:
        raise HostError(f"{host.name}: {body['error']}", body)
    return RunningHost(host=host, pid=pid, control=ours, device=devices[0] if devices else None)


class HostError(Exception):
    """A host that can't be made; `said` is what it said of that."""

    def __init__(self, text: str, details: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.said = details


def _be(host: VirtualHost, control: socket.socket, make_device: Callable[[], int | None]) -> None:
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
        order = json.loads(request)
        body: dict[str, Any] = {}
        try:
            if order["do"] == "answer":
                answers = trial.Answers()
            elif order["do"] == "ask":
                trip = trial.trip(order["address"], order["latency_s"])
                body = {"round_trip_s": trip}
                body["rate"] = trial.transfer(order["address"], order["rate"], trip)
            elif answers is not None:
                answers.close()
        except OSError as error:
            body = {"error": str(error)}
        control.send(json.dumps(body).encode())

"""The program below a `lab slownet`: makes the hosts, tries the links, runs the command, carries.

Started by `session.py` with one word of JSON and the command's words. It says what it found in
`ready.json` and `end.json` of its folder, and ends with the command's exit code.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dlcontainer.errors import ChecksFailedError
from dlcontainer.lab.slownet import hosts, network, network_devices, spaces, trial
from dlcontainer.lab.slownet.hosts import HostError, RunningHost
from dlcontainer.lab.slownet.network import LinkLoss, VirtualNetwork
from dlcontainer.lab.slownet.queues import Queues
from dlcontainer.lab.slownet.spaces import Prompt
from dlcontainer.lab.slownet.switch import Switch
from dlcontainer.lab.slownet.trial import LinkTrial
from dlcontainer.lab.slownet.veth import VethLinks
from dlcontainer.system import atomic_files
from dlcontainer.system.supervisor import follow

READY, END, NAMES = "ready.json", "end.json", "hosts"
# How long a sender tries again, s about: 0.2 * (2**6 - 1). The kernel's own 15 would be 15 minutes.
_TRIES = 5
# A command that was told to end has so long to tell its own, s.
_LAST_S = 10.0
_LATE = -signal.SIGKILL
_KERNEL = Path("/proc/sys/net/ipv4")


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkJob:
    """What this program is to do: `out` and `err` are the command's streams, by their numbers."""

    network: VirtualNetwork
    work: Path
    out: int
    err: int
    argv: tuple[str, ...]


def main() -> None:
    """Read the order, carry it out, exit with the command's code."""
    body = json.loads(sys.argv[1])
    order = NetworkJob(
        network=network.read(body["network"]),
        work=Path(body["work"]),
        out=body["out"],
        err=body["err"],
        argv=tuple(sys.argv[2:]),
    )
    try:
        code = NetworkStand(order).run()
    except HostError as error:
        details = error.said
        _say(
            order,
            END,
            {"error": details["error"], "why": details.get("why"), "next": details.get("next")},
        )
        code = 1
    except ChecksFailedError as error:
        _say(order, END, {"error": error.what, "why": error.why, "next": error.next_step})
        code = 1
    # Nobody's threads or files are waited for.
    os._exit(code)


def _say(order: NetworkJob, name: str, body: Mapping[str, object]) -> None:
    atomic_files.write(order.work / name, json.dumps(body) + "\n")


class NetworkStand:
    """The hosts and the switch between them."""

    def __init__(self, order: NetworkJob) -> None:
        self._order = order
        self._network = order.network
        spaces.begin()
        spaces.show(order.work / NAMES, Path("/etc/hosts"))
        self._held = [self._made(host) for host in self._network.hosts]
        devices = {host.host.number: host.device for host in self._held if host.device is not None}
        queues = Queues(self._network)
        self._switch = Switch(devices, queues)
        self._links = queues if order.network.by == "tun" else VethLinks(order.network, self._held)
        self._usual = Prompt(nice=0, slack_ns=50_000)
        self._lost: list[dict[str, object]] = []
        self._lost_at = 0.0
        # Whether we ended the command.
        self.is_ended = False

    def _made(self, host: network.VirtualHost) -> RunningHost:
        def make() -> int | None:
            _tune(self._network)
            if self._network.by == "tun":
                return network_devices.tun(host, self._network.mtu)
            network_devices.loopback()
            return None

        return hosts.hold(host, make)

    def run(self) -> int:
        """Try the links, then run the command; return its exit code."""
        # Late packets are a slower link: the switch comes before what it carries for.
        self._usual = spaces.be(Prompt(nice=-15, slack_ns=1))
        trials = self._tried()
        self._check(trials)
        ready = {
            "hosts": {host.host.name: host.pid for host in self._held},
            "links": [asdict(link_trial) for link_trial in trials],
        }
        _say(self._order, READY, ready)
        before = self._counts()
        code = self._command()
        end = {"ways": self._since(before), "lost": self._lost, "code": code}
        _say(self._order, END, {**end, "ended": self.is_ended})
        return code

    def _ask(self, host: RunningHost, what: str, **more: object) -> dict[str, Any]:
        """Ask a host to do something, and carry packets until it has; return its answer."""
        host.tell(what, **more)
        answers: list[dict[str, Any]] = []

        def is_done() -> bool:
            answer = host.told()
            if answer is not None:
                answers.append(answer)
            return answer is not None

        self._switch.run(is_done)
        return answers[0]

    def _tried(self) -> list[LinkTrial]:
        """Measure each way of each link."""
        for host in self._held:
            self._ask(host, "answer")
        trials = []
        for link in self._network.links:
            for begin, end in ((link.one, link.other), (link.other, link.one)):
                limits = {"latency_s": link.latency_s, "rate": link.rate}
                address = self._network.hosts[end].address
                answer = self._ask(self._held[begin], "ask", address=address, **limits)
                if "error" in answer:
                    raise ChecksFailedError(
                        f"link {link.name} carries no traffic: {answer['error']}"
                    )
                trials.append(LinkTrial(begin=begin, end=end, **answer))
        for host in self._held:
            self._ask(host, "close")
        return trials

    def _check(self, trials: Sequence[LinkTrial]) -> None:
        for link_trial in trials:
            text = trial.problem(self._network.link(link_trial.begin, link_trial.end), link_trial)
            if text:
                raise ChecksFailedError(
                    f"the network does not behave as requested: {text}",
                    why="the switch in user space needs processor time for each packet, and this "
                    "machine may be busy",
                    next_step="use a lower --rate, a longer --latency or a larger --mtu, or "
                    "try again when the machine is idle",
                )

    def _command(self) -> int:
        """Run the command to its end, or to ours; return its exit code."""
        child, begin = self._started(), time.monotonic()
        pending, code = list(self._network.losses), list[int]()

        def is_over() -> bool:
            while pending and time.monotonic() - begin >= pending[0].after_s:
                self._lose(pending.pop(0), begin)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                code.append(os.waitstatus_to_exitcode(status))
            return bool(code) or self._is_late(child)

        self._switch.run(is_over)
        exit_code = code[0] if code else _LATE
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _is_late(self, child: int) -> bool:
        """End a command that goes on long after the last loss; tell whether it takes too long."""
        since = time.monotonic() - self._lost_at if self._lost_at else 0.0
        if since > self._network.patience_s and not self.is_ended:
            self.is_ended = True
            os.kill(child, signal.SIGTERM)
        return since > self._network.patience_s + _LAST_S

    def _started(self) -> int:
        """Start the command in the first host; return its process."""
        parent, order = os.getpid(), self._order
        pid = os.fork()
        if pid:
            return pid
        try:
            follow(parent, signal.SIGKILL)
            spaces.be(self._usual)
            spaces.enter(self._held[0].pid)
            os.dup2(order.out, 1)
            os.dup2(order.err, 2)
            os.execvp(order.argv[0], order.argv)  # noqa: S606 - no shell is what we want
        except OSError as error:
            os.write(2, f"dlcontainer: {order.argv[0]}: {error.strerror}\n".encode())
        os._exit(127)

    def _lose(self, loss: LinkLoss, begin: float) -> None:
        if len(loss.hosts) == 1:
            self._kill(self._held[loss.hosts[0]])
        else:
            self._links.cut(*loss.hosts)
        self._lost_at = time.monotonic()
        after = self._lost_at - begin
        self._lost.append({"what": loss.what, "after_s": round(after, 3)})
        text = "killed" if len(loss.hosts) == 1 else "cut"
        os.write(self._order.err, f"slownet: {loss.what} was {text} after {after:.1f} s\n".encode())

    def _kill(self, host: RunningHost) -> None:
        """End all processes of a host, as a failure of its power would."""
        space = _net_of(host.pid)
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and space and _net_of(int(folder.name)) == space:
                with suppress(OSError):
                    os.kill(int(folder.name), signal.SIGKILL)
        self._switch.drop(host.host.number)

    def _counts(self) -> dict[str, dict[str, int]]:
        totals = {}
        for link in self._network.links:
            for begin, end in ((link.one, link.other), (link.other, link.one)):
                direction = self._links.way(begin, end)
                counts = {
                    "packets": direction.packets,
                    "bytes": direction.bytes,
                    "lost": direction.lost,
                }
                totals[f"n{begin + 1}-n{end + 1}"] = counts
        return totals

    def _since(self, before: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        return {
            name: {key: value - before[name][key] for key, value in counts.items()}
            for name, counts in self._counts().items()
        }


def _tune(network: VirtualNetwork) -> None:
    """Set TCP's limits in the host that this process is in; raises ChecksFailedError."""
    settings = {}
    if network.losses:
        settings["tcp_retries2"] = str(_TRIES)
    if network.window is not None:
        # Of a buffer the kernel counts about half as payload.
        settings["tcp_wmem"] = f"4096 16384 {2 * network.window}"
    for name, value in settings.items():
        try:
            (_KERNEL / name).write_text(f"{value}\n")
        except OSError as error:
            raise ChecksFailedError(
                f"{_KERNEL / name} can't be set in a virtual host: {error.strerror}",
                why="without this setting TCP would wait too long for a lost link",
                next_step="run this where /proc/sys is writable: not in this container",
            ) from None


def _net_of(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return ""


if __name__ == "__main__":
    main()

"""How many mounts of images there are on each host, while a command runs: read from /proc."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.lab.filesystem import mount_watch
from dlcontainer.system.supervisor import processes


@dataclass(slots=True)
class HostMountWatch:
    """Looks at the processes of hosts that a file names; the most mounts at a time of each.

    Mounts that our own process sees too are not a host's.
    """

    ready: Path
    most: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    # A hundredth of a processor, beside a switch that needs one.
    every_s: float = 0.25
    patience_s: float = 5.0
    _names: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Look once; nothing before the hosts stand."""
        if not self._names and not self._known():
            return
        host_mounts = mount_watch.image_mounts("self")
        mounts: dict[str, set[str]] = {name: set() for name in self._names.values()}
        images: set[str] = set()
        for pid in self._processes():
            name, space = self._names.get(_space(pid, "net")), _space(pid, "mnt")
            if name is not None and space not in images:
                images.add(space)
                mounts[name] |= mount_watch.image_mounts(pid).keys() - host_mounts.keys()
        for name, devices in mounts.items():
            self.most[name] = max(self.most.get(name, 0), len(devices))
        self.looks += 1

    def _known(self) -> bool:
        try:
            hosts: dict[str, int] = json.loads(self.ready.read_text())["hosts"]
        except OSError:
            return False
        self._names = {space: name for name, pid in hosts.items() if (space := _space(pid, "net"))}
        return bool(self._names)

    def _processes(self) -> list[int]:
        return [pid for children in processes().values() for pid in children]


def _space(pid: int, kind: str) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    return ""

"""A stand-in as one value: what it shows, how slow it is, and what it counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import JsonValue

from dlcontainer.lab.slowfs import counters, mounting
from dlcontainer.lab.slowfs.cache_profiles import PROFILES, Profile
from dlcontainer.lab.slowfs.counters import Counters
from dlcontainer.lab.slowfs.mounting import ServedMount
from dlcontainer.lab.slowfs.passthrough import Delay, PassThrough, open_root
from dlcontainer.lab.slowfs.server_queue import ServerQueue, ServerRates
from dlcontainer.system.process import ProcessRunner


@dataclass(frozen=True, kw_only=True, slots=True)
class StandIn:
    """A folder, seen through a file system of such a speed; `server` is shared by its mounts."""

    source: Path
    profile: Profile = PROFILES["lustre"]
    delay: Delay = field(default_factory=Delay)
    speed: ServerRates = field(default_factory=ServerRates)
    server: Path | None = None
    counters: Counters = field(default_factory=Counters)

    def setting(self) -> dict[str, JsonValue]:
        """Return what the counts were counted with."""
        return {
            "profile": asdict(self.profile),
            "latency_ms": self.delay.operation_s * 1000,
            "read_latency_ms": self.delay.read_s * 1000,
            "rate_per_s": self.speed.rate,
            "bandwidth_mb_s": self.speed.bandwidth / 1e6,
            "service": self.speed.service,
            "shared_server": self.server is not None,
        }

    def write(self, path: Path) -> None:
        """Write the counts so far."""
        counters.write(path, self.counters.snapshot(), self.setting())

    @contextmanager
    def mounted(self, point: Path, runner: ProcessRunner) -> Iterator[ServedMount]:
        """Show it at a folder; raises UsageError and ChecksFailedError where that can't be."""
        mounting.check_places(self.source, point)
        queue = (
            ServerQueue.shared(self.speed, self.server)
            if self.server
            else ServerQueue.alone(self.speed)
        )
        root = open_root(self.source)
        files = PassThrough(root, self.profile, self.delay, queue, self.counters)
        with mounting.mounted(files, point, runner) as mount:
            yield mount

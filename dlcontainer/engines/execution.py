"""Where containers run: one engine on one host, with the one way to start it and the one ear."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines import capabilities
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.progress import Progress
from dlcontainer.system.runner import Runner


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """What every stage that runs containers works with; the same for every image.

    `capabilities` say which modes of the engine work for this user on this host.
    """

    engine: Apptainer
    capabilities: EngineCapabilities
    host: HostMachine
    runner: Runner
    cache: Path
    progress: Progress

    @property
    def build_mode(self) -> str:
        """The engine's mode for builds."""
        return self.capabilities.build_mode or "plain"

    @property
    def run_mode(self) -> str:
        """The engine's mode for programs in an image."""
        return self.capabilities.run_mode or "plain"


def prepare(
    engine: Apptainer, host: HostMachine, runner: Runner, cache: Path, progress: Progress
) -> Execution:
    """Find out which modes of an engine work here; raises EngineError where none does."""
    return Execution(
        engine=engine,
        capabilities=capabilities.require(cache, engine, host, runner),
        host=host,
        runner=runner,
        cache=cache,
        progress=progress,
    )

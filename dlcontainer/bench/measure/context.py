"""Everything a measurement needs: the same for every launch of a session."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import Trial
from dlcontainer.system.machine import Host
from dlcontainer.system.process import Runner
from dlcontainer.system.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Lab:
    """This host, its engine and the folders of a session."""

    engine: Apptainer
    trial: Trial
    host: Host
    runner: Runner
    cache: Path
    templates: tuple[Path, ...]
    progress: Progress
    # private to the session, removed at its end
    work: Path
    # Flags that let this site's accelerators into a container, as its users' wrappers give them.
    accelerators: tuple[str, ...] = ()

"""Everything a measurement needs: the same for every launch of a session."""

from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.engines.execution import Execution
from dlcontainer.planning.launch.here import HostSurroundings


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchContext:
    """With what a session is measured; `work` is private to it, and removed at its end."""

    execution: Execution
    templates: tuple[Path, ...]
    work: Path
    # Flags that let this site's accelerators into a container, as its users' wrappers give them.
    accelerators: tuple[str, ...] = ()
    # What else the site puts around an image, as far as it holds here.
    surroundings: HostSurroundings = field(default_factory=HostSurroundings)

"""What sessions measure: one file a probe here, and its probe_NAME.py inside images."""

from typing import TYPE_CHECKING

from dlcontainer.bench.probes.collectives import COLLECTIVES
from dlcontainer.bench.probes.convergence import CONVERGENCE
from dlcontainer.bench.probes.import_ import IMPORT
from dlcontainer.bench.probes.input_ import INPUT
from dlcontainer.bench.probes.kernels import KERNEL_TIMES
from dlcontainer.bench.probes.probe import Probe
from dlcontainer.bench.probes.threads import THREADS
from dlcontainer.bench.probes.train import TRAIN
from dlcontainer.bench.probes.transfers import TRANSFERS
from dlcontainer.bench.probes.variability import VARIABILITY
from dlcontainer.bench.samples.traits import Traits
from dlcontainer.errors import BenchDataError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series

# The only list of probes: commands, options, sessions and reports come from it.
PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        *(IMPORT, TRAIN, COLLECTIVES, INPUT, KERNEL_TIMES, THREADS, VARIABILITY),
        *(CONVERGENCE, TRANSFERS),
    )
}


def traits(series: "Series") -> Traits:
    """Return what the probe of a session says of it; raises BenchDataError for an unknown probe."""
    name = series.session.declared.probe
    probe = PROBES.get(name)
    if probe is None:
        raise BenchDataError(
            f"this session has the unknown probe {name!r}",
            where=str(series.path),
            next_step=f"use the dlcontainer that wrote the file; this version knows "
            f"{', '.join(PROBES)}",
        )
    return probe.traits(series)

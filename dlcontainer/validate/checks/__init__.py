"""The table of checks: a new one is a function and a line here."""

from collections.abc import Mapping

from dlcontainer.validate.checks import file, inside
from dlcontainer.validate.checks.check import CheckFunction
from dlcontainer.validate.checks.devices import devices
from dlcontainer.validate.checks.mpi import mpi
from dlcontainer.validate.checks.static_rules import files
from dlcontainer.validate.checks.verify import verify

# Made and reported in this order. Names are part of the output and of published checks: they stay.
CHECKS: Mapping[str, CheckFunction] = {
    "architecture": file.architecture,
    "record": file.record,
    "labels": file.labels,
    "site": file.site,
    "mpi": mpi,
    "files": files,
    "runs": inside.runs,
    "contained": inside.contained,
    "surroundings": inside.surroundings,
    "machine": inside.machine,
    "python": inside.python,
    "manifest": inside.manifest,
    "import": inside.imports,
    "pack": inside.pack,
    "host stays out": inside.host_stays_out,
    "no leftovers": inside.no_leftovers,
    "verify": verify,
    "devices": devices,
}
# Where one of these fails, those after it have nothing to look at.
ENDING = frozenset({"architecture", "runs"})

"""The table of static rules: a new one is a function and a line here."""

from collections.abc import Callable, Iterable, Mapping

from dlcontainer.validate.static import closure, symbol_versions
from dlcontainer.validate.static.cpu_level import cpu_level
from dlcontainer.validate.static.finding import RuleFinding
from dlcontainer.validate.static.gpu_code import gpu_code
from dlcontainer.validate.static.gpu_driver import gpu_driver
from dlcontainer.validate.static.leftovers import leftovers
from dlcontainer.validate.static.mpi_library import mpi_library
from dlcontainer.validate.static.questions import StaticQuestions

RuleFunction = Callable[[StaticQuestions], Iterable[RuleFinding]]

# Names are part of the output: they stay.
RULES: Mapping[str, RuleFunction] = {
    "architecture": closure.architecture,
    "machine": closure.machine,
    "damaged-file": closure.damaged,
    "missing-library": closure.missing_library,
    "symbol-version": symbol_versions.symbol_version,
    "host-library": symbol_versions.host_library,
    "cpu-level": cpu_level,
    "gpu-code": gpu_code,
    "gpu-driver": gpu_driver,
    "mpi-library": mpi_library,
    "leftovers": leftovers,
}
# Where one of these finds an error, those after it have nothing to say.
ENDING = frozenset({"architecture"})

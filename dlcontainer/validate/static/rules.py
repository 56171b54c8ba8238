"""The table of static rules: a new one is a function, a line and a summary here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleSummary:
    """What a rule asks, and what to do where the answer is no."""

    asks: str
    help: str


SUMMARIES: Mapping[str, RuleSummary] = {
    "architecture": RuleSummary(
        asks="The image is for the architecture of the site's nodes.",
        help="Take or build an image for the site's architecture.",
    ),
    "machine": RuleSummary(
        asks="Programs and modules are made for the site's machine.",
        help="Install the build for the site's architecture.",
    ),
    "damaged-file": RuleSummary(
        asks="Each program and library can be read whole.",
        help="Copy the image again, or install the file's package again.",
    ),
    "missing-library": RuleSummary(
        asks="The loader finds all libraries that programs and modules need.",
        help="Install the library, or name its folder in LD_LIBRARY_PATH or ld.so.conf. What is "
        "loaded by name when a program runs (dlopen) is not judged.",
    ),
    "symbol-version": RuleSummary(
        asks="Each library has the symbol versions that others need of it.",
        help="Build on the image's own distribution, or start from a newer base.",
    ),
    "host-library": RuleSummary(
        asks="What the host puts into the image works with its C and C++ libraries.",
        help="Build the image on a newer base; validate on a node of the site.",
    ),
    "cpu-level": RuleSummary(
        asks="Files need no more of x86-64 than the site's processor has.",
        help="Build for x86-64 alone. Code that is chosen when a program runs is not judged.",
    ),
    "gpu-code": RuleSummary(
        asks="GPU code of the image runs on the site's GPUs.",
        help="Take a build with native code for the site's accelerator.target.",
    ),
    "gpu-driver": RuleSummary(
        asks="The site's driver runs the CUDA or ROCm that files are linked to.",
        help="Take a build for an older CUDA or ROCm.",
    ),
    "mpi-library": RuleSummary(
        asks="Programs are linked to the MPI that the site swaps or launches.",
        help="Build with an MPI of the site's family.",
    ),
    "leftovers": RuleSummary(
        asks="The image has no needless rights, credentials, caches or folders of all users.",
        help="Remove them in the step that makes them; revoke credentials.",
    ),
}
# Their findings name files of the host.
OF_HOST = frozenset({"host-library"})
# Where one of these finds an error, those after it have nothing to say.
ENDING = frozenset({"architecture"})

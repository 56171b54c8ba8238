"""The table of static rules: a new one is a function and an entry here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dlcontainer.validate.static import closure, symbol_versions
from dlcontainer.validate.static.cpu_level import cpu_level
from dlcontainer.validate.static.fabric.fabric_plugin import fabric_plugin
from dlcontainer.validate.static.fabric.fabric_transport import fabric_transport
from dlcontainer.validate.static.fabric.launcher_pmi import launcher_pmi
from dlcontainer.validate.static.fabric.mpi_library import mpi_library
from dlcontainer.validate.static.fabric.single_copy import single_copy
from dlcontainer.validate.static.finding import RuleFinding
from dlcontainer.validate.static.gpu_code import gpu_code
from dlcontainer.validate.static.gpu_driver import gpu_driver
from dlcontainer.validate.static.leftovers import leftovers
from dlcontainer.validate.static.questions import StaticQuestions
from dlcontainer.validate.static.terms import redistribution_terms


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticRule:
    """What a rule asks, what to do where the answer is no, and the function that finds it."""

    find: Callable[[StaticQuestions], Iterable[RuleFinding]]
    asks: str
    help: str
    # Where it finds an error, the rules after it have nothing to say.
    ends: bool = False
    # Its findings name files of the host.
    names_host_files: bool = False


# Names are part of the output: they stay.
RULES: Mapping[str, StaticRule] = {
    "architecture": StaticRule(
        find=closure.architecture,
        asks="The image is for the architecture of the site's nodes.",
        help="Take or build an image for the site's architecture.",
        ends=True,
    ),
    "machine": StaticRule(
        find=closure.machine,
        asks="Programs and modules are made for the site's machine.",
        help="Install the build for the site's architecture.",
    ),
    "damaged-file": StaticRule(
        find=closure.damaged,
        asks="Each program and library can be read whole.",
        help="Copy the image again, or install the file's package again.",
    ),
    "missing-library": StaticRule(
        find=closure.missing_library,
        asks="The loader finds all libraries that programs and modules need.",
        help="Install the library, or name its folder in LD_LIBRARY_PATH or ld.so.conf. What is "
        "loaded by name when a program runs (dlopen) is not judged.",
    ),
    "symbol-version": StaticRule(
        find=symbol_versions.symbol_version,
        asks="Each library has the symbol versions that others need of it.",
        help="Build on the image's own distribution, or start from a newer base.",
    ),
    "host-library": StaticRule(
        find=symbol_versions.host_library,
        asks="What the host puts into the image works with its C and C++ libraries.",
        help="Build the image on a newer base; validate on a node of the site.",
        names_host_files=True,
    ),
    "cpu-level": StaticRule(
        find=cpu_level,
        asks="Files need no more of x86-64 than the site's processor has.",
        help="Build for x86-64 alone. Code that is chosen when a program runs is noted.",
    ),
    "gpu-code": StaticRule(
        find=gpu_code,
        asks="GPU code of the image runs on the site's GPUs.",
        help="Take a build with native code for the site's accelerator.target.",
    ),
    "gpu-driver": StaticRule(
        find=gpu_driver,
        asks="The site's driver runs the CUDA or ROCm that files are linked to.",
        help="Take a build for an older CUDA or ROCm.",
    ),
    "mpi-library": StaticRule(
        find=mpi_library,
        asks="Programs are linked to the MPI that the site swaps or launches.",
        help="Build with an MPI of the site's family.",
    ),
    "launcher-pmi": StaticRule(
        find=launcher_pmi,
        asks="The image's MPI speaks the PMI by which the site's srun starts ranks.",
        help="Take another of the site's forms, or an MPI that speaks its PMI.",
    ),
    "fabric-transport": StaticRule(
        find=fabric_transport,
        asks="The image's own MPI has what drives the site's fabric.",
        help="Build its MPI with the fabric's driver, or use the site's in its place.",
    ),
    "fabric-plugin": StaticRule(
        find=fabric_plugin,
        asks="The plug-in of NCCL or RCCL loads, and both know one version of their interface.",
        help="Build the plug-in for the image's NCCL and CUDA.",
    ),
    "single-copy": StaticRule(
        find=single_copy,
        asks="Ranks in user namespaces of their own do not copy from each other's memory.",
        help="Set the variables that switch it off, in the image or its jobs.",
    ),
    "leftovers": StaticRule(
        find=leftovers,
        asks="The image has no needless rights, credentials, caches or folders of all users.",
        help="Remove them in the step that makes them; revoke credentials.",
    ),
    "redistribution": StaticRule(
        find=redistribution_terms,
        asks="All that the image holds is free to pass on.",
        help="Ask the centre's licence officer before others get the image. No legal advice.",
    ),
}

"""What tells of a file's part in MPI, fabrics and dispatch: its name, needs, texts and exports.

Seen of NCCL 2.30 and 2.32, MPICH 4.0 and 5.0, Open MPI 4.1 and 5.0, Intel MPI 2021.18, libfabric
1.17 and 2.x, UCX 1.13 to 1.22; those of cxi, opx and gni are read in libfabric's sources.
"""

import mmap
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer.image.contents import elf_words
from dlcontainer.image.contents.elf import ElfObject
from dlcontainer.image.contents.elf_format import ElfForm

# OpenBLAS, by itself and as wheels bring it; what one built with DYNAMIC_ARCH exports.
BLAS = re.compile(r"lib(?:scipy_)?openblas\w*(?:-[\w.-]+)?\.so[\d.]*")
CHOOSES = "gotoblas_dynamic_init"
# What NCCL and RCCL look up in a plug-in, and what a plug-in exports.
LOOKED_UP = "ncclNetPlugin_v"
PLUGIN = re.compile(r"lib(?:nccl|rccl)-net[\w.-]*\.so[\d.]*")
# Frameworks may have NCCL linked into a library of their own.
_CCL = re.compile(
    r"lib[nr]ccl\.so[\d.]*|libtorch_(?:cuda|hip)\.so|libtensorflow\w*\.so[\d.]*"
    r"|_pywrap_tensorflow_internal\.so"
)
# Parts of an MPI: its library, its modules, libfabric with its providers, UCX, PMIx.
PART_OF_MPI = re.compile(
    r"(?:libmpi\w*|libmpich|libopen-(?:pal|rte)|libfabric|libuc[pt]|libuct_\w+|libpmix|libpmi2?)"
    r"(?:-[0-9a-f]+)?\.so[\d.]*|mca_\w+\.so|lib[\w.-]+-fi\.so"
)
PMIX, PMI2, PMI, WIRE = "PMIx_Init", "PMI2_Init", "PMI_Init", "PMI_FD"
COPIES, OFI, INTEL = "process_vm_readv", "fi_getinfo", "I_MPI_PMI_LIBRARY"
_OF_MPI = (PMIX, "OPAL_MCA_PMIX", PMI2, PMI, WIRE, COPIES, OFI, INTEL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transport:
    """A way over a fabric: file names that are its own, libraries that it needs, names of code."""

    files: re.Pattern[str]
    start: str
    needed: re.Pattern[str] | None = None


# By libfabric's names; verbs stands for UCX's transports over InfiniBand too.
TRANSPORTS: Mapping[str, Transport] = {
    "cxi": Transport(
        files=re.compile(r"libcxi-fi\.so"), needed=re.compile(r"libcxi\.so\.\d+"), start="cxip_"
    ),
    "verbs": Transport(
        files=re.compile(
            r"libverbs[\w.-]*-fi\.so|libmlx-fi\.so|libuct_ib(?:_mlx5)?\.so[\w.]*|mca_btl_openib\.so"
        ),
        needed=re.compile(r"libibverbs\.so\.1|libmlx5\.so\.1"),
        start="vrb_",
    ),
    "psm2": Transport(
        files=re.compile(r"libpsmx2-fi\.so|mca_mtl_psm2\.so"),
        needed=re.compile(r"libpsm2\.so\.2"),
        start="psmx2_",
    ),
    "opx": Transport(files=re.compile(r"libopx-fi\.so"), start="fi_opx_"),
    "efa": Transport(
        files=re.compile(r"libefa-fi\.so|libuct_ib_efa[\w.]*"),
        needed=re.compile(r"libefa\.so\.1"),
        start="efa_",
    ),
    "gni": Transport(
        files=re.compile(r"libgni-fi\.so|libuct_ugni[\w.]*"),
        needed=re.compile(r"libugni\.so\.0"),
        start="gnix_",
    ),
}
_STARTS = (*_OF_MPI, *(transport.start for transport in TRANSPORTS.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricSigns:
    """A file's texts and exports that tell of these."""

    words: frozenset[str] = frozenset()
    exports: frozenset[str] = frozenset()


def read(name: str, data: mmap.mmap, of: ElfForm) -> FabricSigns:
    """Read the signs of a file by its name; raises one of `elf_format.DAMAGE`."""
    if PLUGIN.fullmatch(name):
        return FabricSigns(exports=elf_words.exported(data, of, LOOKED_UP))
    starts = [LOOKED_UP] if _CCL.fullmatch(name) else []
    starts += _STARTS if PART_OF_MPI.fullmatch(name) else ()
    starts += [CHOOSES] if BLAS.fullmatch(name) else []
    if not starts:
        return FabricSigns()
    encoded = [start.encode() for start in starts]
    return FabricSigns(words=elf_words.words(data, of, encoded))


def transports(name: str, described: ElfObject, signs: FabricSigns) -> frozenset[str]:
    """Name the ways over a fabric that a file is made for; a provider's own file is for its own."""
    named = {key for key, transport in TRANSPORTS.items() if transport.files.fullmatch(name)}
    if named:
        return frozenset(named)
    return frozenset(
        key
        for key, transport in TRANSPORTS.items()
        if (transport.needed and any(map(transport.needed.fullmatch, described.needed)))
        or any(word.startswith(transport.start) for word in signs.words)
    )


def versions(names: frozenset[str]) -> frozenset[int]:
    """Return the versions of the plug-in's interface that texts or exports name."""
    numbers = (name.removeprefix(LOOKED_UP) for name in names if name.startswith(LOOKED_UP))
    return frozenset(int(number) for number in numbers if re.fullmatch(r"[0-9]{1,3}", number))

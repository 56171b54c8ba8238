"""Vendors' libraries, and what the texts of their licences say of passing them on. No legal advice.

Each text was read on 2026-11-27 in the wheels that `read_in` names. What has no text here is not
decided, and never free. Metadata may differ from the text: those of nvidia-nvshmem-cu12 3.3.20 name
BSD-3-Clause. A library that a program was linked to statically has no name to be seen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# The day on which the texts were read; a bill carries it.
READ_ON = "2026-11-27"

Verdict = Literal["free", "on conditions", "not listed", "not decided"]
# All of them have the same text.
_EULA_READ = "nvidia-cuda-runtime, -cublas 12.3 to 13.5, -cuda-nvcc-cu12 12.9.86"


@dataclass(frozen=True, kw_only=True, slots=True)
class VendorTerms:
    """What a licence says of passing a product on: its name, the section, in short, and its text.

    `packages` are patterns of names by kind, `any` for all kinds; `file` of a file's name.
    """

    product: str
    verdict: Verdict
    license: str = "no text of its licence was read"
    section: str = ""
    says: str = "ask the vendor, or the centre's licence officer"
    read_in: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    @property
    def text(self) -> str:
        """The terms in one line, with the text that they were read in."""
        section = f", {self.section}" if self.section else ""
        source = f" (read in {self.read_in})" if self.read_in else ""
        return f"{self.license}{section}: {self.says}{source}"

    def matches(self, kind: str, name: str) -> bool:
        """Return whether a package, by its name, holds the product."""
        patterns = (self.packages.get(kind, ""), self.packages.get("any", ""))
        return any(re.fullmatch(pattern, name) for pattern in patterns if pattern)


_SDK = "NVIDIA SDK licence with its supplement"
_PART = (
    "runtime .so files, as part of an application that adds to them and alone calls them; "
    "its own terms must protect them as these do"
)
_TOOLKIT = "CUDA Toolkit EULA"
_ISSL = "Intel Simplified Software License (October 2022)"
_SUFFIX = r"(-cu\d+)?"
_RELEASE = r"[0-9.]*(-\d+-\d+)?"
_LISTED = "cudart|cublas|cublaslt|nvblas|cufft|cufftw|curand|cusolver|cusparse|npp[a-z]*|nvjpeg"

# The first that matches counts.
TERMS = (
    VendorTerms(
        product="NVIDIA driver libraries",
        verdict="not listed",
        license=_TOOLKIT,
        section="2.6 Attachment A",
        says="libcuda and its JIT compiler only in Docker images that start from NVIDIA's and are "
        "passed on at Docker Hub or NGC; take the node's driver",
        read_in=_EULA_READ,
        packages={"deb": r"libcuda1|libnvidia-.+|nvidia-driver.*", "rpm": r"nvidia-driver.*"},
        file=r"libcuda\.so.*|libnvidia-(ml|ptxjitcompiler|fatbinaryloader|nvvm)\.so.*",
    ),
    VendorTerms(
        product="cuDNN",
        verdict="on conditions",
        license=f"{_SDK} for cuDNN (28 January 2020)",
        section="1.2 and supplement 2",
        says=_PART,
        read_in="nvidia-cudnn-cu12 8.9.7 to 9.28, -cu13 9.24 and 9.28",
        packages={
            "pypi": rf"nvidia-cudnn{_SUFFIX}",
            "conda": r"cudnn|libcudnn.*",
            "any": r"nvidia-cudnn|libcudnn\d+.*|cudnn\d+.*",
        },
        file=r"libcudnn\w*(-[0-9a-f]{8})?\.so.*",
    ),
    VendorTerms(
        product="NCCL",
        verdict="free",
        license="NCCL's licence, of three clauses as BSD has",
        says="keep notice and disclaimer, although the wheel's metadata call it proprietary",
        read_in="nvidia-nccl-cu12 2.19.3 to 2.32.3",
        packages={"pypi": rf"nvidia-nccl{_SUFFIX}", "conda": "nccl", "any": r"libnccl(2|-dev)?"},
    ),
    VendorTerms(
        product="CUDA libraries",
        verdict="on conditions",
        license=_TOOLKIT,
        section="1.1.2, 2.3 and 2.6 Attachment A",
        says="unmodified, as part of an application that adds to them and alone calls them; its "
        "own terms must protect them as these do",
        read_in=_EULA_READ,
        packages={
            "pypi": rf"nvidia-(cuda-(runtime|nvrtc|cupti)|{_LISTED}|nvvm){_SUFFIX}",
            "any": rf"lib({_LISTED}|nvrtc|nvvm|cupti|nvtoolsext){_RELEASE}"
            rf"|cuda-(cudart|nvrtc|cupti|nvtx){_RELEASE}",
        },
        file=rf"lib({_LISTED}|cublasLt|nvrtc(-builtins)?|nvvm|cupti|nvToolsExt)"
        r"(-[0-9a-f]{8})?\.so.*",
    ),
    VendorTerms(
        product="CUDA tools",
        verdict="not listed",
        license=_TOOLKIT,
        section="1.1.2 (4) and 2.6 Attachment A",
        says="for internal use: no tool is in the list of parts that may be passed on",
        read_in="nvidia-cuda-nvcc-cu12 12.9.86",
        packages={
            "pypi": rf"nvidia-cuda-(nvcc|crt){_SUFFIX}",
            "conda": r"cuda-(nvcc|compiler|toolkit).*",
            "any": r"cuda-(nvcc|compiler|toolkit|command-line-tools)-\d+-\d+|nvidia-cuda-toolkit",
        },
        file=r"ptxas(-blackwell)?|cicc|nvcc|nvdisasm|cuobjdump",
    ),
    VendorTerms(
        product="CUDA's nvJitLink, cuFile and NVSHMEM",
        verdict="not listed",
        license=_TOOLKIT,
        section="2.6 Attachment A",
        says="not in the list of parts that may be passed on",
        read_in="nvidia-cufile 1.11 to 1.15, -nvjitlink 12.3 to 13.5, -nvshmem 3.3 to 3.8",
        packages={
            "pypi": rf"nvidia-(cufile|nvjitlink|nvshmem){_SUFFIX}",
            "any": r"lib(nvjitlink|cufile|nvshmem).*",
        },
        file=r"lib(nvJitLink|cufile\w*|nvshmem\w*)\.so.*",
    ),
    VendorTerms(
        product="cuSPARSELt",
        verdict="on conditions",
        license=f"{_SDK} for cuSPARSELt (12 October 2020)",
        section="1.2 and supplement 2",
        says=_PART,
        read_in="nvidia-cusparselt-cu12 0.6.3 to 0.8.1",
        packages={"pypi": rf"nvidia-cusparselt{_SUFFIX}", "any": r"libcusparselt.*|cusparselt"},
        file=r"libcusparseLt\.so.*",
    ),
    VendorTerms(
        product="cuTENSOR",
        verdict="on conditions",
        license=f"{_SDK} for cuTENSOR (15 March 2019)",
        section="1.2 and supplement 2",
        says=_PART,
        read_in="cutensor-cu12 2.8.1",
        packages={"pypi": rf"cutensor{_SUFFIX}", "any": r"libcutensor.*|cutensor"},
        file=r"libcutensor(Mg)?\.so.*",
    ),
    VendorTerms(
        product="cuQuantum",
        verdict="on conditions",
        license="NVIDIA Software License for cuQuantum (18 August 2021)",
        section="1 and 2",
        says="under terms that protect it as these do, unmodified",
        read_in="custatevec-cu12 1.15.0",
        packages={"pypi": rf"custatevec{_SUFFIX}"},
        file=r"libcustatevec\.so.*",
    ),
    VendorTerms(
        product="nvCOMP",
        verdict="on conditions",
        license="NVIDIA SDK licence for nvCOMP (26 April 2022)",
        section="1.1 (ii) and 1.2",
        says="binaries and headers, as part of an application that adds to them and alone calls "
        "them",
        read_in="nvidia-nvcomp-cu12 6.0.0.12",
        packages={"pypi": rf"nvidia-nvcomp{_SUFFIX}"},
        file=r"libnvcomp\w*\.so.*",
    ),
    VendorTerms(
        product="Intel MKL, TBB, MPI and oneCCL",
        verdict="on conditions",
        license=_ISSL,
        section="Use and Redistribution",
        says="unmodified, with its notice and these terms",
        read_in="mkl 2026.2.0, tbb 2023.2.0, impi-rt 2021.19.0, oneccl 2022.2.0",
        packages={"pypi": r"mkl|tbb|impi-rt|oneccl", "conda": r"mkl|impi_rt"},
        file=r"libmkl_\w+\.so.*",
    ),
    VendorTerms(
        product="Intel compilers' runtime",
        verdict="on conditions",
        license="Intel EULA for Developer Tools (August 2024)",
        section="2.1.D",
        says="files of its redist.txt, as part of a product, under terms that forbid to reverse "
        "engineer them",
        read_in="intel-openmp 2026.2.0, dpcpp-cpp-rt 2026.2.0",
        packages={"pypi": r"intel-openmp|dpcpp-cpp-rt", "conda": r"intel-openmp|dpcpp-cpp-rt"},
    ),
    VendorTerms(
        product="TensorRT",
        verdict="not decided",
        packages={"pypi": r"tensorrt([-_].*)?", "any": r"libnvinfer.*|tensorrt.*"},
        file=r"libnvinfer\w*\.so.*",
    ),
    VendorTerms(
        product="NVIDIA HPC SDK",
        verdict="not decided",
        packages={"any": r"nvhpc.*"},
        file=r"libnvhpc\w*\.so.*",
    ),
    VendorTerms(
        product="Cray MPICH",
        verdict="not decided",
        packages={"rpm": r"cray-mpich.*"},
        file=r"libmpi_(cray|gnu_\d+|nvidia|amd|aocc)\.so.*",
    ),
    VendorTerms(
        product="Intel oneAPI packages",
        verdict="not decided",
        packages={"any": r"intel-oneapi-.*|intel-mkl.*|libmkl-.*"},
    ),
)
_FILES = tuple((re.compile(terms.file), terms) for terms in TERMS if terms.file)
_QUICK = re.compile(r"lib(cu|nv|npp|mkl|mpi_)|ptxas|cicc|nvcc|nvdisasm|cuobjdump")


def of_package(kind: str, name: str) -> VendorTerms | None:
    """Return the terms of a package's product, by its kind (deb, rpm, pypi, conda) and name."""
    plain = re.sub(r"[-_.]+", "-", name.lower()) if kind == "pypi" else name
    return next((terms for terms in TERMS if terms.matches(kind, plain)), None)


def of_file(path: str) -> VendorTerms | None:
    """Return the terms of a library or tool, by its file's name; stubs to link with are none."""
    folder, _, name = path.rpartition("/")
    if not _QUICK.match(name) or folder.endswith("/stubs"):
        return None
    return next((terms for pattern, terms in _FILES if pattern.fullmatch(name)), None)

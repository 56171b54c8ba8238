"""What may not be passed on: as the metadata of real wheels name their licences."""

import json
from dataclasses import replace

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import bill_file, sbom
from dlcontainer.image.contents import InstalledPackage, TreeContents
from dlcontainer.image.contents.model import Kind
from dlcontainer.image.licensing import redistribution, vendor_terms
from dlcontainer.image.licensing.package_license import PackageLicense
from tests.unit.image.test_sbom import CONTENTS, SUBJECT, rendered, validator

SECRET = PackageLicense(expression="LicenseRef-NVIDIA-Proprietary")


def package(
    name: str, license_: PackageLicense | None = None, kind: Kind = "pypi", section: str = ""
) -> InstalledPackage:
    details = (("section", section),) if section else ()
    return InstalledPackage(kind=kind, name=name, version="9", license=license_, details=details)


def named(name: str) -> PackageLicense:
    return PackageLicense(names=(name,))


def holding(*packages: InstalledPackage, files: tuple[str, ...] = ()) -> TreeContents:
    return replace(CONTENTS, packages=packages, vendor_files=files)


BSD = PackageLicense(expression="BSD-3-Clause")
PARTS = "CUDA's nvJitLink, cuFile and NVSHMEM"
OWN = named("NVIDIA Proprietary Software")
ISSL = named("Intel Simplified Software License")
TOOLS = named("Intel End User License Agreement for Developer Tools")


# Names and licences of the wheels that the table names, as their METADATA have them.
@pytest.mark.parametrize(
    ("held", "product", "verdict"),
    [
        (package("nvidia-cudnn-cu12", SECRET), "cuDNN", "on conditions"),
        (package("nvidia_cublas", SECRET), "CUDA libraries", "on conditions"),
        (package("nvidia-cuda-runtime-cu12", SECRET), "CUDA libraries", "on conditions"),
        (package("nvidia-nccl-cu12", SECRET), "NCCL", "free"),
        (package("nvidia-cufile-cu12", SECRET), PARTS, "not listed"),
        (package("nvidia-nvshmem-cu12", SECRET), PARTS, "not listed"),
        (package("nvidia-cusparselt-cu12", OWN), "cuSPARSELt", "on conditions"),
        # Its metadata name another licence than its text.
        (package("nvidia-nvshmem-cu12", BSD), PARTS, "not listed"),
        (package("mkl", ISSL), "Intel MKL, TBB, MPI and oneCCL", "on conditions"),
        (package("intel-openmp", TOOLS), "Intel compilers' runtime", "on conditions"),
        (package("nvidia-dali-cuda120", OWN), "nvidia-dali-cuda120", "not decided"),
        (package("a-tool", named("Other/Proprietary License")), "a-tool", "not decided"),
        (package("libcudnn9-cuda-12", kind="deb"), "cuDNN", "on conditions"),
        (package("libcublas-12-4", kind="deb"), "CUDA libraries", "on conditions"),
        (package("libcublas11", kind="deb"), "CUDA libraries", "on conditions"),
        (package("cuda-nvcc-12-4", kind="rpm"), "CUDA tools", "not listed"),
        (package("libnvidia-ml1", kind="deb"), "NVIDIA driver libraries", "not listed"),
        (package("unrar", kind="deb", section="non-free/utils"), "unrar", "not decided"),
        (package("intel-oneapi-mkl-2025.0", kind="deb"), "Intel oneAPI packages", "not decided"),
    ],
)
def test_packages(held: InstalledPackage, product: str, verdict: str) -> None:
    terms = redistribution.of_package(held)
    assert terms is not None
    assert (terms.product, terms.verdict) == (product, verdict)


@pytest.mark.parametrize(
    "held",
    [
        package("numpy", PackageLicense(expression="BSD-3-Clause")),
        package("nvidia-nvtx-cu12", PackageLicense(expression="Apache-2.0")),
        package("tbb", PackageLicense(expression="Apache-2.0"), kind="conda"),
        package("bash", kind="deb", section="shells"),
        package("made-here"),
        package("nvidia-cudnn-frontend", PackageLicense(expression="Apache-2.0 AND MIT")),
        package("libtbb12", PackageLicense(expression="LicenseRef-Debian-x"), kind="deb"),
    ],
)
def test_packages_that_are_free(held: InstalledPackage) -> None:
    assert redistribution.of_package(held) is None


@pytest.mark.parametrize(
    ("path", "product"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0", "cuDNN"),
        ("/opt/a/torch/lib/libcudnn_ops-0a1b2c3d.so.9", "cuDNN"),
        ("/opt/a/torch/lib/libcudart-d0da41ae.so.11.0", "CUDA libraries"),
        ("/usr/local/cuda/lib64/libcublasLt.so.12", "CUDA libraries"),
        ("/opt/a/triton/backends/nvidia/bin/ptxas", "CUDA tools"),
        ("/usr/lib/libcuda.so.550.54", "NVIDIA driver libraries"),
        ("/usr/local/cuda/lib64/stubs/libcuda.so", ""),
        ("/opt/intel/lib/libmkl_core.so.2", "Intel MKL, TBB, MPI and oneCCL"),
        ("/opt/cray/lib/libmpi_gnu_123.so.12", "Cray MPICH"),
        ("/usr/lib/libmpi.so.40", ""),
        ("/usr/lib/libnvidious.so", ""),
        ("/usr/include/cudnn.h", ""),
    ],
)
def test_files(path: str, product: str) -> None:
    terms = vendor_terms.of_file(path)
    assert (terms.product if terms else "") == product


def test_each_text_has_its_source() -> None:
    """A verdict but "not decided" names a licence, what it says, and where that was read."""
    for terms in vendor_terms.TERMS:
        assert bool(terms.read_in) == (terms.verdict != "not decided"), terms.product
        assert terms.license.startswith("no text ") != bool(terms.read_in)


def test_a_product_is_named_once() -> None:
    """By its packages; by its files where no package brought it."""
    files = ("/a/libcudnn.so.9", "/b/bin/ptxas", "/b/bin/nvdisasm")
    packages = (package("nvidia-cudnn-cu12", SECRET), package("nvidia-nccl-cu12", SECRET))
    held = holding(*packages, files=files)
    tools, cudnn = redistribution.findings(held)
    assert (tools.product, tools.files) == ("CUDA tools", files[1:])
    assert tools.holder == "/b/bin/ptxas and 1 more"
    assert (cudnn.holder, cudnn.files) == ("nvidia-cudnn-cu12 9", ())
    assert cudnn.text.startswith("cuDNN (nvidia-cudnn-cu12 9), on conditions: NVIDIA SDK licence")
    assert "supplement 2" in cudnn.text


def test_copies_in_other_packages() -> None:
    """Beside the vendor's own package: another one's folder has a copy, or a tool."""
    place = "/opt/t/lib/python3.11/site-packages"
    files = (f"{place}/nvidia/cu13/lib/libcudnn.so.9", f"{place}/torch/lib/libcudnn.so.9")
    (cudnn,) = redistribution.findings(holding(package("nvidia-cudnn-cu12", SECRET), files=files))
    assert (cudnn.packages, cudnn.files) == (("nvidia-cudnn-cu12 9",), files[1:])
    assert cudnn.holder == f"nvidia-cudnn-cu12 9, {place}/torch/lib/libcudnn.so.9"


def test_the_bill_tells_it() -> None:
    held = holding(package("nvidia-cudnn-cu12", SECRET), files=("/b/bin/ptxas",))
    text = sbom.render(SUBJECT, held)
    assert validator().validate_str(text) is None
    restricted = bill_file.restricted(text)
    assert restricted is not None
    tools, cudnn = restricted
    assert (tools.packages, cudnn.packages) == (("/b/bin/ptxas",), ("nvidia-cudnn-cu12 9",))
    assert [tools.text, cudnn.text] == [finding.text for finding in redistribution.findings(held)]
    assert bill_file.count(text) == 1  # a file is no package
    assert bill_file.restricted(sbom.render(SUBJECT, CONTENTS)) == []


def test_a_bill_that_can_not_tell() -> None:
    """Of an earlier dlcontainer, or of others: silence would read as "free"."""
    old = rendered()
    properties = old["metadata"]["component"]["properties"]
    old["metadata"]["component"]["properties"] = [
        one for one in properties if not one["name"].endswith(sbom.TERMS_READ)
    ]
    assert bill_file.restricted(json.dumps(old)) is None
    parts: tuple[object, ...] = (3, {"component": []}, {"component": {"properties": [3, {}]}})
    for metadata in parts:
        assert bill_file.restricted(json.dumps({**old, "metadata": metadata})) is None
    odd = rendered() | {"components": [3, {}, {"properties": 3}, {"properties": [{"name": 3}]}]}
    assert bill_file.restricted(json.dumps(odd)) == []
    with pytest.raises(ChecksFailedError):
        bill_file.restricted("[]")

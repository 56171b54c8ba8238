"""Faults planted among real files: NVIDIA's NCCL, an MPICH with its UCX and libfabric, a compiled
plug-in; `test_static_swaps` has the RPATH. The road of the unit tests, by real files.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.validate.static import static
from dlcontainer.validate.static.finding import StaticFinding
from tests import elves, unpacked
from tests.elves import Elf
from tests.fakes import RecordingRunner
from tests.integration import mpi_programs
from tests.integration.world import missing
from tests.values import site_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SLINGSHOT = {"kind": "slingshot", "model": "Slingshot-11", "remembered": ["kind", "model"]}
INFINIBAND = {"kind": "infiniband", "model": "HDR", "remembered": ["kind", "model"]}
OWN = {"family": "mpich", "mode": "container", "name": "the image's"}
FROM_IMAGE = {"plugin": "image", "remembered": ["plugin"]}
V100 = {**unpacked.NVIDIA, "model": "V100", "target": "sm_70"}


@pytest.fixture(scope="module")
def nccl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = mpi_programs.install(tmp_path_factory.mktemp("nccl") / "v", "nvidia-nccl-cu13==2.32.3")
    return next(folder.glob("lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2"))


@pytest.fixture(scope="module")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mpi_programs.install(tmp_path_factory.mktemp("mpich") / "v", "mpich==5.0.2")


def findings(root: Path, rule: str, **site: Any) -> list[StaticFinding]:
    where = {"TMPDIR": str(root.parent)}
    found = static.validate(root, site_of(**site).value, where, RecordingRunner(strict=True))
    return [one for one in found if one.rule == rule]


def plugin(place: Path, *versions: int) -> None:
    """Compile a plug-in that has some versions of NCCL's interface."""
    compiler = shutil.which("gcc")
    if compiler is None:
        missing("gcc (Debian's package gcc)")
    source = place.with_suffix(".c")
    source.write_text("".join(f"void *ncclNetPlugin_v{number}[19];\n" for number in versions))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", place, source], check=True)
    source.unlink()


def with_nccl(folder: Path, nccl: Path) -> Path:
    root = elves.write(folder / "image", unpacked.IMAGE)
    (root / unpacked.LIB.lstrip("/") / "libnccl.so.2").symlink_to("libnccl.so.2.32.3")
    (root / unpacked.LIB.lstrip("/") / "libnccl.so.2.32.3").hardlink_to(nccl)
    return root


def test_a_plugin_of_an_older_interface(nccl: Path, tmp_path: Path) -> None:
    root = with_nccl(tmp_path, nccl)
    place = root / unpacked.LIB.lstrip("/") / "libnccl-net.so"
    site = {"network": SLINGSHOT, "collectives": FROM_IMAGE, "accelerator": unpacked.NVIDIA}
    plugin(place, 4, 5)
    (one,) = findings(root, "fabric-plugin", **site)
    assert one.level == "error"
    wanted = re.search(r"looks up v(\d+)(?:, v\d+)*, v(\d+) of ncclNetPlugin", one.what)
    assert wanted, one
    plugin(place, int(wanted[1]))
    assert [one.level for one in findings(root, "fabric-plugin", **site)] == ["note"]
    plugin(place, int(wanted[1]), int(wanted[2]))
    assert findings(root, "fabric-plugin", **site) == []


def test_code_for_cuda_13_at_a_v100(nccl: Path, tmp_path: Path) -> None:
    (one,) = findings(with_nccl(tmp_path, nccl), "gpu-code", accelerator=V100)
    assert (one.level, "no GPU code for sm_70" in one.what) == ("error", True)


@pytest.fixture
def tree(mpich: Path, tmp_path: Path) -> Path:
    app = mpi_programs.compiled(tmp_path / "build/app", mpich, "libmpi.so.12")
    return mpi_programs.tree(tmp_path / "image", app, mpich / "lib")


def test_an_mpi_without_cxi_at_slingshot(tree: Path) -> None:
    """Its libfabric names cxi in a list, and has no code of it."""
    mpi = {**OWN, "remembered": list(OWN)}
    (one,) = findings(tree, "fabric-transport", network=SLINGSHOT, mpi=mpi)
    assert one.level == "warning"
    assert "without libfabric's cxi provider (it has efa, psm2, verbs)" in one.what
    assert findings(tree, "fabric-transport", network=INFINIBAND, mpi=mpi) == []


def test_a_library_that_is_missing(tree: Path) -> None:
    assert findings(tree, "missing-library") == []
    for path in tree.glob("opt/app/lib/**/libucs.so.0"):
        path.unlink()
    for path in tree.glob("usr/lib/**/libucs.so.0"):
        path.unlink()
    (one,) = findings(tree, "missing-library")
    assert "libucs.so.0, which the loader does not find" in one.what


def test_a_program_of_another_machine(tree: Path) -> None:
    place = tree / "opt/app/bin/app"
    data = bytearray(place.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    place.write_bytes(data)
    (one,) = findings(tree, "machine")
    assert "made for aarch64" in one.what


def test_a_host_s_library_that_is_too_new(mpich: Path, tmp_path: Path) -> None:
    libc = Elf(soname="libc.so.6", versions=("libc.so.6", "GLIBC_2.2.5", "GLIBC_2.12"))
    old = {f"{unpacked.LIB}/libc.so.6": libc, unpacked.PYTHON: Elf(needed=("libc.so.6",))}
    root = elves.write(tmp_path / "image", {**unpacked.IMAGE, **old})
    swap = {"family": "mpich", "mode": "swap", "name": "MPICH", "soname": "libmpi.so.12"}
    site = {**swap, "libraries": [f"{mpich}/lib/libmpi.so.12"]}
    (one,) = findings(root, "host-library", mpi={**site, "remembered": list(site)})
    assert (one.level, "has up to GLIBC_2.12" in one.what) == ("error", True)

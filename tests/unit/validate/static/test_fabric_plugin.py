"""NCCL's plug-in: the versions of its interface, what it needs, and the site's fabric."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.validate.static.finding import StaticFinding
from tests.elves import Elf, symbols, texts
from tests.unpacked import AMD, LIB, NVIDIA, PACKAGES, findings, lines, only

NCCL = f"{PACKAGES}/nvidia/nccl/lib/libnccl.so.2"
PLUGIN = f"{LIB}/libnccl-net.so"
SLINGSHOT: Any = {"kind": "slingshot", "model": "Slingshot-11", "remembered": ["kind", "model"]}
INFINIBAND: Any = {"kind": "infiniband", "model": "HDR", "remembered": ["kind", "model"]}
FROM_IMAGE: Any = {"plugin": "image", "remembered": ["plugin"]}


def found(folder: Path, files: Any, **site: Any) -> list[StaticFinding]:
    """Give the rule's findings at a site with GPUs."""
    told = findings(folder, files, **{"accelerator": NVIDIA, **site})
    return [finding for finding in told if finding.rule == "fabric-plugin"]


def nccl(*versions: int, **more: Any) -> Elf:
    looked_up = texts(*(f"ncclNetPlugin_v{version}" for version in versions))
    return Elf(soname="libnccl.so.2", sections=looked_up, **more)


def plugin(*versions: int, **more: Any) -> Elf:
    """Make a plug-in; it uses what it defines no more of than NCCL does."""
    exports = symbols(*(f"ncclNetPlugin_v{version}" for version in versions), used=["dlopen"])
    return Elf(soname="libnccl-net.so", sections=exports, **more)


@pytest.mark.parametrize(
    ("has", "site", "level"),
    [
        # As planted: a plug-in of NCCL 2.8's days beside NCCL 2.30.
        ((4, 5), {"network": SLINGSHOT, "collectives": FROM_IMAGE}, "error"),
        ((), {"network": SLINGSHOT, "collectives": FROM_IMAGE}, "error"),
        # Nobody counts on it: NCCL has InfiniBand of its own.
        ((4, 5), {"network": INFINIBAND}, "warning"),
        ((8, 9), {"network": SLINGSHOT, "collectives": FROM_IMAGE}, "note"),
        ((6, 12), {"network": SLINGSHOT, "collectives": FROM_IMAGE}, ""),
    ],
)
def test_versions_in_common(tmp_path: Path, has: Any, site: Any, level: str) -> None:
    files = {NCCL: nccl(*range(6, 13)), PLUGIN: plugin(*has)}
    told = found(tmp_path, files, **site)
    if not level:
        assert lines(told) == []
        return
    one = only(told)
    assert (one.rule, one.level, one.file) == ("fabric-plugin", level, PLUGIN)
    assert f"{NCCL} looks up v6, v7, v8, v9, v10, v11, v12 of ncclNetPlugin" in one.what


def test_an_image_without_nccl(tmp_path: Path) -> None:
    assert lines(found(tmp_path, {PLUGIN: plugin(4)}, network=SLINGSHOT)) == []


def test_nccl_inside_a_framework_s_own_library(tmp_path: Path) -> None:
    inside = Elf(soname="libtorch_cuda.so", sections=texts("ncclNetPlugin_v8"))
    path = f"{PACKAGES}/torch/lib/libtorch_cuda.so"
    told = found(tmp_path, {path: inside}, network=SLINGSHOT)
    assert (only(told).level, only(told).file) == ("warning", path)
    assert "neither the image nor the site has a plug-in for Slingshot-11" in only(told).what


def test_a_variable_that_insists_on_the_plugin(tmp_path: Path) -> None:
    files: Any = {
        NCCL: nccl(8),
        PLUGIN: plugin(4),
        "/.singularity.d/env/90-environment.sh": b'export NCCL_NET="AWS Libfabric"\n',
    }
    assert only(found(tmp_path, files, network=INFINIBAND)).level == "error"


@pytest.mark.parametrize(
    ("files", "what", "fix"),
    [
        (
            {
                PLUGIN: plugin(8, needed=("libcudart.so.12",)),
                f"{LIB}/libcudart.so.13": Elf(soname="libcudart.so.13"),
            },
            "needs libcudart.so.12, which the loader does not find; the image has libcudart.so.13",
            "build the plug-in for the image's CUDA",
        ),
        (
            {PLUGIN: plugin(8, needed=("libfabric.so.1",))},
            "needs libfabric.so.1, which the loader does not find",
            "install the package that has libfabric.so.1",
        ),
        (
            {
                PLUGIN: plugin(
                    8, needed=("libfabric.so.1",), needs={"libfabric.so.1": ["FABRIC_1.8"]}
                ),
                f"{LIB}/libfabric.so.1": Elf(soname="libfabric.so.1", versions=["FABRIC_1.5"]),
            },
            f"needs FABRIC_1.8, and {LIB}/libfabric.so.1 has no such version",
            "install a newer libfabric.so.1, or build the plug-in against this one",
        ),
    ],
)
def test_what_a_plugin_needs(tmp_path: Path, files: Any, what: str, fix: str) -> None:
    site: Any = {"network": SLINGSHOT, "collectives": FROM_IMAGE}
    one = only(found(tmp_path, {NCCL: nccl(8), **files}, **site))
    assert (one.rule, one.level, one.file) == ("fabric-plugin", "error", PLUGIN)
    assert what in one.what
    assert one.fix == fix


def test_what_the_framework_has_loaded_is_there(tmp_path: Path) -> None:
    """NCCL loads its plug-in where the CUDA runtime of PyTorch is loaded already."""
    cudart = f"{PACKAGES}/nvidia/cuda_runtime/lib/libcudart.so.12"
    torch = f"{PACKAGES}/torch/_C.cpython-311-x86_64-linux-gnu.so"
    files = {
        torch: Elf(
            needed=("libnccl.so.2", "libcudart.so.12"),
            rpath="$ORIGIN/../nvidia/nccl/lib:$ORIGIN/../nvidia/cuda_runtime/lib",
        ),
        NCCL: nccl(8),
        cudart: Elf(soname="libcudart.so.12"),
        PLUGIN: plugin(8, needed=("libcudart.so.12",)),
    }
    assert lines(found(tmp_path, files, network=INFINIBAND)) == []


@pytest.mark.parametrize(
    ("needed", "network", "over"),
    [
        ("libfabric.so.1", INFINIBAND, "libfabric"),
        ("libibverbs.so.1", SLINGSHOT, "InfiniBand verbs"),
        ("libibverbs.so.1", INFINIBAND, ""),
        ("libfabric.so.1", SLINGSHOT, ""),
    ],
)
def test_a_plugin_of_another_fabric(tmp_path: Path, needed: str, network: Any, over: str) -> None:
    files = {
        NCCL: nccl(8),
        PLUGIN: plugin(8, needed=(needed,)),
        f"{LIB}/{needed}": Elf(soname=needed),
    }
    told = found(tmp_path, files, network=network)
    if not over:
        assert lines(told) == []
        return
    assert only(told).level == "note"
    assert f"works over {over}; the site has {network['model']}" in only(told).what


@pytest.mark.parametrize(
    ("abi", "level"), [([4, 5], "error"), ([7], "note"), ([8], ""), (None, "not decided")]
)
def test_a_plugin_that_the_runtime_brings(tmp_path: Path, abi: Any, level: str) -> None:
    """By the site's facts: its file is nowhere here."""
    facts = {"plugin": "hook", **({"abi": abi} if abi else {})}
    site: Any = {"network": SLINGSHOT, "collectives": {**facts, "remembered": list(facts)}}
    told = found(tmp_path, {NCCL: nccl(7, 8)}, **site)
    assert [one.level for one in told] == ([level] if level else [])
    for one in told:
        assert "the runtime's plug-in" in one.what


def test_a_plugin_of_this_host(tmp_path: Path) -> None:
    """Its file is here: what it exports counts, and not what the site's file says."""
    library = tmp_path / "host" / "libnccl-net.so"
    library.parent.mkdir()
    library.write_bytes(plugin(5).data())
    facts = {"plugin": "host", "library": str(library), "abi": [8]}
    site: Any = {"network": SLINGSHOT, "collectives": {**facts, "remembered": list(facts)}}
    one = only(found(tmp_path, {NCCL: nccl(7, 8)}, **site))
    assert one.level == "error"
    assert one.what.startswith(f"the host's {library} has v5; ")
    library.write_bytes(b"\x7fELF" + bytes(10))
    assert lines(found(tmp_path / "torn", {NCCL: nccl(7, 8)}, **site)) == []


@pytest.mark.parametrize(
    ("has", "beside", "wrong"),
    [("13", False, True), ("12", False, False), ("13", True, False), ("", False, True)],
)
def test_the_cuda_of_a_plugin_of_this_host(
    tmp_path: Path, has: str, beside: bool, wrong: bool
) -> None:
    library = tmp_path / "host" / "libnccl-net.so"
    library.parent.mkdir()
    library.write_bytes(plugin(8, needed=("libcudart.so.12",)).data())
    if beside:
        (library.parent / "libcudart.so.12").touch()
    facts = {"plugin": "host", "library": str(library), "remembered": ["plugin", "library"]}
    files = {NCCL: nccl(8)}
    if has:
        files[f"{LIB}/libcudart.so.{has}"] = Elf(soname=f"libcudart.so.{has}")
    told = found(tmp_path, files, network=SLINGSHOT, collectives=facts)
    assert [finding.level for finding in told] == (["error"] if wrong else [])
    for finding in told:
        assert f"the host's {library} needs libcudart.so.12; the image has " in finding.what


def test_one_of_several_is_enough(tmp_path: Path) -> None:
    """As in images that bring plug-ins for several fabrics."""
    site: Any = {"network": SLINGSHOT, "collectives": FROM_IMAGE}
    files = {NCCL: nccl(8), PLUGIN: plugin(4), f"{LIB}/libnccl-net-aws.so": plugin(8)}
    one = only(found(tmp_path, files, **site))
    assert (one.level, one.file) == ("warning", PLUGIN)


def test_hundreds_of_plugins(tmp_path: Path) -> None:
    files: Any = {f"{LIB}/{number}/libnccl-net.so": plugin(4) for number in range(200)}
    files |= {f"{LIB}/{number}/libnccl.so.2": nccl(8) for number in range(200)}
    assert len(found(tmp_path, files, network=SLINGSHOT)) == 16 * 16


def test_amd_s(tmp_path: Path) -> None:
    rccl, net = "/opt/rocm/lib/librccl.so.1", "/opt/rocm/lib/librccl-net.so"
    files = {rccl: Elf(sections=texts("ncclNetPlugin_v8")), net: plugin(5)}
    site: Any = {"network": SLINGSHOT, "collectives": FROM_IMAGE, "accelerator": AMD}
    assert only(found(tmp_path / "amd", files, **site)).file == net
    # Its plug-in is nothing to NVIDIA's GPUs, or to a site without any.
    assert lines(found(tmp_path / "nvidia", files, network=SLINGSHOT)) == []
    assert lines(found(tmp_path / "none", files, network=SLINGSHOT, accelerator=None)) == []


@pytest.mark.parametrize("cut", [70, 200, 400, 600])
def test_a_torn_plugin(tmp_path: Path, cut: int) -> None:
    torn = plugin(8, needed=("libc.so.6",)).data()[:cut]
    told = found(tmp_path, {NCCL: nccl(8), PLUGIN: torn}, network=INFINIBAND)
    assert [finding.level for finding in told] in ([], ["warning"])

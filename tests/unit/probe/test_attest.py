"""What a process says of its node and its libraries."""

import io
import os
import re
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.samples import owners
from dlcontainer.system.machine import find_program
from tests.skips import skip


def elf(note: bytes, *, wide: bool, order: str) -> bytes:
    """Give an ELF file with one program header, of notes."""
    kind = (2 if wide else 1, 1 if order == "<" else 2)
    head = bytearray(64)
    head[:6] = b"\x7fELF" + bytes(kind)
    struct.pack_into(order + ("Q" if wide else "I"), head, 32 if wide else 28, 64)
    struct.pack_into(order + "HH", head, 54 if wide else 42, 56, 1)
    entry = bytearray(56)
    struct.pack_into(order + "I", entry, 0, 4)
    at = (8, 32) if wide else (4, 16)
    for place, value in zip(at, (120, len(note)), strict=True):
        struct.pack_into(order + ("Q" if wide else "I"), entry, place, value)
    return bytes(head) + bytes(entry) + note


def notes(order: str) -> bytes:
    def one(name: bytes, kind: int, text: bytes) -> bytes:
        padded = name.ljust(-(-len(name) // 4) * 4, b"\0")
        body = text.ljust(-(-len(text) // 4) * 4, b"\0")
        return struct.pack(order + "III", len(name), len(text), kind) + padded + body

    return one(b"GNU\0", 1, b"abi") + one(b"other\0", 3, b"no") + one(b"GNU\0", 3, bytes(range(20)))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_build_id_is_read(probe: Any, wide: bool, order: str) -> None:
    file = io.BytesIO(elf(notes(order), wide=wide, order=order))
    assert probe("attest_libraries").build_id(file) == bytes(range(20)).hex()


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"GROUP ( libc.so.6 )", os.urandom(300)])
def test_what_has_no_build_id_is_told_by_its_content(
    probe: Any, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(data)
    told = probe("attest_libraries").build(str(path))
    assert re.fullmatch(rf"{len(data)} bytes, [0-9a-f]{{16}}", told)
    path.write_bytes(data + b"x")
    assert probe("attest_libraries").build(str(path)) != told
    assert probe("attest_libraries").build(str(tmp_path / "none")) is None


@pytest.mark.usefixtures("real_processes")
def test_build_ids_are_those_that_readelf_reads(probe: Any) -> None:
    readelf = find_program("readelf", os.environ)
    if readelf is None:
        skip("no readelf: apt-get install binutils")
    found = probe("attest_libraries").facts()
    paths = probe("attest_libraries").mapped()
    name = next(name for name in found["system_library_builds"] if name.startswith("libc.so"))
    done = subprocess.run([readelf, "-n", paths[name]], capture_output=True, text=True, check=True)
    assert f"Build ID: {found['system_library_builds'][name]}" in done.stdout


def test_what_is_settled_must_match_and_what_passes_is_shown(probe: Any) -> None:
    facts = probe("attest_node").facts()
    for name in ("hostname", "clocks_now", "temperature"):
        assert name in facts
        assert owners.is_in(name, owners.PASSING)
    for name in ("numa.policy", "clocks.scaling_governor", "binding.local rank 0", "gpus"):
        assert owners.of(name) == "surroundings"
    assert owners.of("library_builds.libtorch") == "image"
    assert owners.is_in("system_library_builds.libc.so.6", owners.REBUILDS)
    assert set(facts["namespaces"].values()) <= {"the machine's", "another"}


def test_gpus_in_the_drivers_own_words(probe: Any) -> None:
    def put(value: Any) -> Any:
        def answer(*words: Any) -> int:
            words[-1]._obj.value = value
            return 0

        return answer

    def text(value: bytes) -> Any:
        def answer(_: Any, words: Any, __: int) -> int:
            words.value = value
            return 0

        return answer

    library = SimpleNamespace(
        nvmlDeviceGetCount_v2=put(1),
        nvmlDeviceGetHandleByIndex_v2=lambda index, device: 0,
        nvmlDeviceGetName=text(b"NVIDIA H200"),
        nvmlDeviceGetUUID=text(b"GPU-1"),
        nvmlDeviceGetMaxClockInfo=put(1980),
        nvmlDeviceGetEnforcedPowerLimit=put(700000),
        nvmlDeviceGetClockInfo=put(345),
        nvmlDeviceGetTemperature=lambda *_: 3,  # not supported
    )
    assert probe("attest_gpus")._asked(library) == {
        "gpus": [
            {
                "name": "NVIDIA H200",
                "max_clock_mhz": 1980,
                "max_memory_clock_mhz": 1980,
                "power_limit_mw": 700000,
            }
        ],
        "gpu_ids": ["GPU-1"],
        "gpus_now": [{"clock_mhz": 345, "temperature": None}],
    }


def test_how_ranks_talk_is_attested(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NET", "IB")
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/a/file")
    monkeypatch.setenv("UCX_TLS", "rc")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    found = probe("attest").stack()["environment"]
    assert (found["NCCL_NET"], found["UCX_TLS"]) == ("IB", "rc")
    assert not {"SECRET_TOKEN", "NCCL_DEBUG_FILE"} & found.keys()


def test_what_changes_speed_or_numbers_is_attested(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MKL_ENABLE_INSTRUCTIONS", "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE"):
        monkeypatch.setenv(name, "x")
        assert probe("attest").stack()["environment"][name] == "x"
        assert owners.of(f"environment.{name}") == "surroundings"


# `torch.__config__.show()` of PyTorch 2.13.0+cpu, shortened.
SHOWN = """\
PyTorch built with:
  - GCC 13.3
  - C++ Version: 202002
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
  - LAPACK is enabled (usually provided by MKL)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, USE_MKL=ON, USE_MKLDNN=ON,
"""


def test_pytorch_names_its_mkl_and_its_onednn(probe: Any) -> None:
    ask = probe("attest_frameworks")._torch_libraries
    found = ask(SHOWN)
    assert found["blas"] == "mkl"
    assert found["blas_library"].endswith("Version 2024.2-Product Build 20240605 for Intel(R) 64")
    assert found["onednn"].startswith("Intel(R) MKL-DNN v3.12.0 ")
    assert found["build_settings"].startswith("Build settings: BLAS_INFO=mkl")
    assert ask("") == {}

"""NCCL's own words, of many versions: which network a rank used, or that no line shows it."""

import importlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE
from tests.values import ROOT

FOLDER = ROOT / "tests/recorded/nccl"
NAMES = [path.stem for path in sorted(FOLDER.glob("*.log"))]


@cache
def cases() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "sources.json").read_text())
    return found


@pytest.fixture
def nccl_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    yield importlib.import_module("nccl_log")
    sys.modules.pop("nccl_log", None)


def test_each_recorded_log_has_a_source() -> None:
    assert set(NAMES) == set(cases())
    assert len(NAMES) >= 20
    assert all(case["source"] for case in cases().values())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_recorded_log_shows(nccl_log: Any, name: str) -> None:
    shown = nccl_log.parsed((FOLDER / f"{name}.log").read_text())
    says = cases()[name]["says"]
    assert {key: shown[key] for key in says} == says


@pytest.mark.parametrize("text", ["", "Epoch 1: loss 0.5\n", "NCCL version 2.18.5+cuda12.0\n"])
def test_a_log_without_a_line_shows_no_network(nccl_log: Any, text: str) -> None:
    assert nccl_log.parsed(text)["network"] is None


def test_ranks_that_differ_are_mixed(nccl_log: Any) -> None:
    text = "n1:7:9 [0] NCCL INFO Using network IB\nn2:7:9 [0] NCCL INFO Using network Socket\n"
    assert nccl_log.parsed(text)["networks"] == ["IB", "Socket"]
    assert nccl_log.parsed(text)["network"] == "mixed"


def test_the_way_that_data_went_outweighs_the_choice(nccl_log: Any) -> None:
    text = (
        "n1:7:9 [0] NCCL INFO Using network IB\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
    )
    assert nccl_log.parsed(text)["network"] == "socket"


def test_the_last_choice_of_a_process_holds(nccl_log: Any) -> None:
    text = (
        "n1:7:9 [0] NCCL INFO Using network IBext_v8\nn1:7:9 [0] NCCL INFO Using network Socket\n"
    )
    assert nccl_log.parsed(text)["networks"] == ["Socket"]


@pytest.mark.parametrize(
    ("providers", "kind"),
    [(["cxi"], "libfabric"), (["tcp;ofi_rxm"], "socket"), (["sockets"], "socket")],
)
def test_libfabric_without_a_fabric_is_a_socket(
    nccl_log: Any, providers: list[str], kind: str
) -> None:
    assert nccl_log.kind({"AWS Libfabric"}, providers=providers) == kind


def test_a_network_that_is_not_known_keeps_its_name(nccl_log: Any) -> None:
    assert nccl_log.kind({"GPUDirectTCPX_v7"}) == "GPUDirectTCPX_v7"


def test_the_way_between_gpus_in_nccls_own_words(nccl_log: Any) -> None:
    text = (
        "n1:7:9 [0] NCCL INFO Using network IB\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
        "n1:7:9 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[0] [receive] via NET/IB/0\n"
        "n1:7:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct\n"
    )
    shown = nccl_log.parsed(text)
    assert shown["channels"] == ["NET/IB", "P2P/CUMEM", "SHM/direct/direct"]
    assert shown["networks"] == ["IB"]

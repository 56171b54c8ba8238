"""Versions of PyTorch whose gloo gets a strategy wrong are refused by name."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("version", "strategy", "fault"),
    [
        ("2.7.1+cpu", "pp2", "the first step of a pipeline never ends over gloo"),
        ("2.8.0", "pp2", ""),
        ("2.8.0", "dp2xfsdp2", "fully_shard trains wrong weights over gloo"),
        ("2.9.0+cu126", "fsdp2", ""),
        ("2.7.1", "dp2xtp2", ""),
        ("2.13.0a0+gitabc", "fsdp2xpp2", ""),
    ],
)
def test_faults_of_gloo(probe: Any, version: str, strategy: str, fault: str) -> None:
    said = probe("parallel_torch").faulty(version, probe("parallel_axes").Axes(strategy))
    assert said.startswith(fault) if fault else said == ""
    assert (f"PyTorch {version};" in said) is bool(fault)

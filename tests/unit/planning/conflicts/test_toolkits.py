"""Toolkits against a site: the driver, the site's own newest, the architecture, the GPU."""

from pathlib import Path
from typing import Any

import pytest

from tests.misfits import GPU, doubted, refused, settle

PIN = {"versions": {"cuda": "0", "tool": "2.0"}, "stack": {"cuda": "{{ versions.cuda }}"}}


def gpu(**facts: Any) -> dict[str, Any]:
    return {"accelerator": {**GPU, **facts}}


@pytest.mark.parametrize(
    ("cuda", "driver", "needs"),
    [
        ("13.0", "575.51", "580"),
        ("12.6", "520.61.05", "525"),
        ("11.7.1", "450.79", "450.80.02"),
        ("11.0.3", "450.35.99", "450.36.06"),
        ("11.0.3", "440.33", "450.36.06"),
        ("10.2", "440.32", "440.33"),
        ("10.1.243", "410.48", "418.39"),
        ("9.0", "384.80", "384.81"),
    ],
)
def test_a_driver_that_is_too_old(tmp_path: Path, cuda: str, driver: str, needs: str) -> None:
    said = refused(tmp_path, gpu(driver=driver), stack={"cuda": cuda})
    needs = ".".join(str(int(part)) for part in needs.split("."))
    assert f"CUDA {cuda} needs driver {needs} or newer, the site has {driver}" in said
    assert "accelerator.driver" in said
    assert "docs.nvidia.com/deploy/cuda-compatibility" in said


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("13.1", "580.65.06"),
        ("12.9", "525.60.13"),  # minor-version compatibility: 12.9 on the driver of 12.0
        ("12.0", "580.105.08"),  # a newer driver runs all older toolkits
        ("11.8", "450.80.02"),
        ("11.0.3", "450.36.06"),
        ("10.2", "440.33.01"),
        ("9.0", "384.81"),
    ],
)
def test_a_driver_that_is_new_enough(tmp_path: Path, cuda: str, driver: str) -> None:
    assert doubted(tmp_path, gpu(driver=driver), stack={"cuda": cuda}) == []


@pytest.mark.parametrize(
    ("cuda", "driver", "said"),
    [
        ("11.0.3", "450", "driver 450 is not an exact version: CUDA 11.0.3 needs 450.36.6"),
        ("11.0.3", "450.36", "driver 450.36 is not an exact"),
        ("14.0", "580.65", "cannot compare driver"),
        ("12.6", "weird", "cannot compare driver"),
        ("weird", "580.65", "CUDA 'weird' was not checked"),
    ],
)
def test_what_can_not_be_compared_is_in_doubt(
    tmp_path: Path, cuda: str, driver: str, said: str
) -> None:
    (only,) = doubted(tmp_path, gpu(driver=driver), stack={"cuda": cuda})
    assert said in only


def test_without_a_driver_the_site_s_newest_decides_and_is_said_to(tmp_path: Path) -> None:
    said = refused(tmp_path, gpu(toolkit="11.7.1"), stack={"cuda": "11.8"})
    assert "accelerator.toolkit: CUDA 11.8 is newer than the site's newest, 11.7.1" in said
    assert "the driver is unknown, so the site's newest supported CUDA is the limit" in said
    for fine in ("11.7.1", "11.7.64", "11.0.3", "10.2"):
        (only,) = doubted(tmp_path, gpu(toolkit="11.7.1"), stack={"cuda": fine})
        assert only == (
            f"the driver is unknown: CUDA {fine} is checked only against the "
            "site's newest CUDA, 11.7.1"
        )


def test_a_known_driver_goes_before_the_site_s_newest(tmp_path: Path) -> None:
    site = gpu(toolkit="11.7.1", driver="450.80.02")
    assert doubted(tmp_path, site, stack={"cuda": "11.8"}) == []


def test_neither_driver_nor_toolkit_is_known(tmp_path: Path) -> None:
    (only,) = doubted(tmp_path, gpu(), stack={"cuda": "12.6"})
    assert only.startswith("the site's newest CUDA and the driver are unknown: cannot guarantee")
    assert settle(tmp_path, {}, stack={"cuda": "12.6"}).notes  # no GPU: it runs on processors


@pytest.mark.parametrize(
    ("vendor", "key", "name", "newest", "bad"),
    [("amd", "rocm", "ROCm", "6.4.2", "7.0"), ("intel", "oneapi", "oneAPI", "2025.2", "2025.3")],
)
def test_rocm_and_oneapi(
    tmp_path: Path, vendor: str, key: str, name: str, newest: str, bad: str
) -> None:
    # AMD's driver has a numbering of its own, so it is no measure of ROCm.
    site = gpu(vendor=vendor, toolkit=newest, driver="6.1")
    said = refused(tmp_path, site, stack={key: bad})
    assert f"{name} {bad} is newer than the site's newest, {newest}" in said
    assert "driver" not in said
    # At an AMD site the host's ROCm libraries enter, at one with Intel's accelerators none.
    glibc = {"os": {"distribution": "rocky", "release": "8", "glibc": "2.28"}}
    assert doubted(tmp_path, site | glibc, stack={key: newest}) == []


def test_the_last_cuda_for_power(tmp_path: Path) -> None:
    power = {"arch": "ppc64le", **gpu(driver="550.54.15")}
    said = refused(tmp_path, power, stack={"cuda": "12.5"})
    assert "CUDA 12.5 does not support ppc64le: 12.4 is the last release that does" in said
    assert "site.yaml:4:1: arch:" in said
    for fine in ("12.4", "12.4.1", "11.8"):
        assert doubted(tmp_path, power, stack={"cuda": fine}) == []
    assert doubted(tmp_path, {**power, "arch": "x86_64"}, stack={"cuda": "12.5"}) == []
    (only,) = doubted(tmp_path, power, stack={"cuda": "12"})
    assert only == ("CUDA 12 is not exact: it may be newer than 12.4, the last release for ppc64le")


@pytest.mark.parametrize(
    ("target", "fine", "bad"),
    [
        ("sm_70", "12.9.1", "13.0"),
        ("sm_61", "12.9", "13.0"),
        ("sm_37", "11.8", "12.0"),
        ("sm_30", "10.2", "11.0"),
    ],
)
def test_the_last_cuda_for_a_gpu(tmp_path: Path, target: str, fine: str, bad: str) -> None:
    site = gpu(driver="580.65.06", target=target)
    said = refused(tmp_path, site, stack={"cuda": bad})
    assert f"CUDA {bad} does not support {target} (a GPU)" in said
    assert "accelerator.target" in said
    assert doubted(tmp_path, site, stack={"cuda": fine}) == []
    turing = gpu(driver="580.65.06", target="sm_75")
    assert doubted(tmp_path, turing, stack={"cuda": bad}) == []


@pytest.mark.parametrize(
    ("site", "pin"),
    [
        ({"arch": "ppc64le", **gpu(driver="535.154.05")}, "12.4"),
        (gpu(driver="535.154.05"), "12.9"),
        (gpu(driver="470.57.02"), "11.8"),
        (gpu(driver="440.33.01"), "10.2"),
        (gpu(toolkit="11.7.1"), "11.7.1"),
        (gpu(driver="580.65.06", target="sm_70"), "12.9"),
        ({"arch": "ppc64le", **gpu(toolkit="11.0.3", target="sm_70")}, "11.0.3"),
    ],
)
def test_the_version_to_pin_goes(tmp_path: Path, site: dict[str, Any], pin: str) -> None:
    newer = {**PIN, "versions": {"cuda": "13.0", "tool": "2.0"}}
    said = refused(tmp_path, site, **newer)
    assert f"next: --set versions.cuda={pin}, or" in said
    pinned = {**PIN, "versions": {"cuda": pin, "tool": "2.0"}}
    assert settle(tmp_path, site, **pinned).recipe.stack.cuda == pin


def test_another_vendor_s_image(tmp_path: Path) -> None:
    said = refused(tmp_path, gpu(vendor="amd", toolkit="6.4"), stack={"cuda": "12.6"})
    assert "the image is built with CUDA, but the site's accelerators are amd's" in said
    assert "accelerator.vendor" in said
    # oneAPI is for processors too.
    assert doubted(tmp_path, gpu(driver="580"), stack={"oneapi": "2025.2"}) == []

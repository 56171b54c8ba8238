"""The rule of what may not be passed on, over an unpacked tree."""

from pathlib import Path

from dlcontainer.validate.static import static
from dlcontainer.validate.static.finding import StaticFinding
from tests.fakes import RecordingRunner
from tests.unit.image.contents.test_scan import SITE, dist_info, lay
from tests.values import site_of

CUDNN = "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.5.1.17\n"
CUDNN += "License: NVIDIA Proprietary Software\n"


def findings(root: Path) -> list[StaticFinding]:
    runner, where = RecordingRunner(strict=True), {"PATH": "/none", "TMPDIR": str(root.parent)}
    all_findings = static.validate(root, site_of().value, where, runner)
    return [finding for finding in all_findings if finding.rule == "redistribution"]


def test_packages_and_files(tmp_path: Path) -> None:
    files = dist_info("nvidia_cudnn_cu12", "9.5.1.17", METADATA=CUDNN)
    files |= dist_info("numpy", "2", METADATA="Name: numpy\nVersion: 2\nLicense: BSD-3-Clause\n")
    files |= {f"{SITE}/triton/bin/ptxas": "", f"{SITE}/tensorrt/libnvinfer.so.10": ""}
    unknown, tools, cudnn = findings(lay(tmp_path, files))
    assert [one.level for one in (unknown, tools, cudnn)] == ["not decided", "note", "note"]
    assert unknown.what == f"holds TensorRT ({SITE}/tensorrt/libnvinfer.so.10), not decided"
    assert (tools.file, cudnn.file) == (f"{SITE}/triton/bin/ptxas", "")
    assert cudnn.what == "holds cuDNN (nvidia-cudnn-cu12 9.5.1.17), on conditions"
    assert "supplement 2" in cudnn.why


def test_products_of_a_verdict_are_told_together(tmp_path: Path) -> None:
    files = dist_info("nvidia_cudnn_cu12", "9.5.1.17", METADATA=CUDNN)
    cublas = CUDNN.replace("cudnn", "cublas").replace("9.5.1.17", "12.4.5.8")
    files |= dist_info("nvidia_cublas_cu12", "12.4.5.8", METADATA=cublas)
    (told,) = findings(lay(tmp_path, files))
    assert told.what == "holds CUDA libraries, cuDNN, on conditions"
    assert "`dlcontainer inspect` has each" in told.why


def test_nothing_of_a_vendor(tmp_path: Path) -> None:
    assert findings(lay(tmp_path, {"/usr/lib/os-release": "ID=debian\n"})) == []

"""The kernels probe: shapes, the check before any time counts, what libraries say of themselves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, kernel_shapes, kernels
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples.rows import agreement, joining
from tests.unit.probe.test_probe import copied

# A framework of plain Python. FAULT plants what is wrong.
FRAMEWORK = """
import os
import time

import rows

FAULT = os.environ.get("FAULT", "")


class Kernels(object):
    framework = None

    def __init__(self, device, threads, precisions):
        assert (device, threads, precisions) == ("cpu", 2, ["bf16", "fp32"]), precisions

    def make(self, parameters):
        return Operation(parameters)

    def libraries(self, operations):
        return ["plain {}".format(one.parameters["kernel"]) for one in operations]

    def close(self):
        pass


class Operation(object):
    def __init__(self, parameters):
        self.parameters = parameters

    def check(self):
        if self.parameters["kernel"] == FAULT:
            raise rows.WrongError("1 of 5 values")
        return 5

    def timed(self, repeats):
        begin = time.perf_counter()
        while time.perf_counter() == begin:
            pass
        return [time.perf_counter() - begin] * repeats
"""
VALUES: dict[str, str | int | bool] = {
    "kernels": "gemm,copy",
    "precisions": "fp32,bf16",
    "quick": True,
    "rounds": 2,
    "elements": 64,
}
CELL = ProbeCell(values=VALUES, threads=2)


def launched(folder: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    code = copied(folder / "p")
    (code / "kernels_torch.py").write_text(FRAMEWORK)
    argv = [sys.executable, "-S", str(code), *PROBES["kernels"].words(CELL)]
    environment = {**os.environ, "FAULT": fault}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("real_processes")
def test_all_rows_are_measured_and_their_libraries_attested(tmp_path: Path) -> None:
    done = launched(tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    plan = PROBES["kernels"].rows(CELL)
    assert plan is not None
    found = joining.read(said["rows"])
    assert agreement.problem(plan, found) == ""
    assert [row.n for row in found] == [2 * kernels.repeats(row) for row in plan.rows]
    assert {row.checked for row in found} == {5}
    assert said["stack"]["kernel_libraries"] == {
        kernels.fact(row): f"plain {row['kernel']}" for row in plan.rows
    }
    stamps = said["stamps_ns"]
    assert stamps["import"] <= stamps["checked"] <= stamps["libraries"] <= stamps["rows"]


@pytest.mark.usefixtures("real_processes")
def test_a_wrong_value_ends_the_launch_before_any_time(tmp_path: Path) -> None:
    done = launched(tmp_path, "copy")
    assert done.returncode != 0
    assert "WrongError: 1 of 5 values" in done.stderr
    assert not done.stdout


def test_each_shape_is_one_that_the_probe_reads(probe: Any) -> None:
    read = probe("kernels_shapes").read
    for one in kernel_shapes.SHAPES:
        for kernel in one.kernels:
            sizes = read(kernel, one.shape)
            assert sizes == kernel_shapes.numbers({"shape": one.shape})
            if kernel.startswith("conv"):
                span = (sizes["kh"] - 1) * (sizes["dh"] + 1) + 1
                assert sizes["oh"] == (sizes["ih"] + 2 * sizes["ph"] - span) // sizes["sh"] + 1
    assert set(probe("kernels_shapes").LETTERS) == set(kernel_shapes.KERNELS)


@pytest.mark.parametrize("shape", ["", "m2n3", "m2n3k4x5", "m2 n3 k4", "n3m2k4", "m-2n3k4"])
def test_what_is_no_shape(probe: Any, shape: str) -> None:
    with pytest.raises(ValueError, match="is no shape of gemm"):
        probe("kernels_shapes").read("gemm", shape)


LOG = """\
before any row
dlc-row 0
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:blk,undef,src:f32,,,1x64x28x28,0.2
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32,0.19
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32,,,1x64x28x28,0.3
dlc-row 1
MKL_VERBOSE SGEMM(N,N,784,64,576,0x7ffc,0x3c8d,784) 439.98ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2
MKL_VERBOSE SGEMM(N,N,784,64,576,0x7ffd,0x3c8e,784) 12.1us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2
dlc-row 2
dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_f32,,,256x256:256x256,1.1
onednn_verbose,v1,primitive,create:cache_hit,cpu,matmul,brg:avx512_core,undef
onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_s8
onednn_verbose,v1,primitive,exec
dlc-row 3
"""


def test_what_libraries_print_is_read_row_by_row(probe: Any) -> None:
    log = probe("kernels_log")
    parts = log.parts(LOG)
    assert list(parts) == [0, 1, 2, 3]
    names = {number: log.libraries(text) for number, text in parts.items()}
    assert names == {
        0: ["oneDNN reorder", "oneDNN convolution jit:avx512_core"],
        1: ["oneMKL SGEMM"],
        2: ["oneDNN matmul gemm:jit", "oneDNN gemm_api"],
        3: [],
    }


def test_the_innermost_operation_is_the_kernel(probe: Any) -> None:
    def event(name: str, *children: Any) -> Any:
        return SimpleNamespace(name=name, cpu_children=children)

    log = probe("kernels_log")
    chain = event(
        "aten::conv2d",
        event("aten::_convolution", event("aten::_slow_conv2d_forward", event("aten::empty"))),
        event("cudaLaunchKernel"),
    )
    assert log.operations([chain, event("aten::view"), event("aten::add")]) == [
        "aten::_slow_conv2d_forward", "aten::add"
    ]  # fmt: skip
    assert log.said(["oneMKL SGEMM"], ["aten::mm"]) == "oneMKL SGEMM; aten::mm"
    assert log.said([], []) == "not known"


@pytest.mark.usefixtures("real_processes")
def test_what_c_libraries_write_is_taken_and_nothing_else_is_lost(tmp_path: Path) -> None:
    folder = copied(tmp_path / "p")
    program = (
        f"import ctypes, sys; sys.path.insert(0, {str(folder)!r}); import kernels_log\n"
        "print('first')\n"
        "with kernels_log.Captured() as captured:\n"
        "    captured.mark(3)\n"
        "    ctypes.CDLL(None).puts(b'by C')\n"
        "    print('by Python')\n"
        # Which of the two buffers is written first is the C library's choice.
        "print({number: sorted(text.splitlines())\n"
        "       for number, text in kernels_log.parts(captured.text).items()})\n"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["first", "{3: ['by C', 'by Python']}"]

"""`bench kernels`: what is counted by hand, which rows a session declares, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, kernel_shapes, kernels, processor
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.errors import ChecksFailedError, UsageError

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
FLAGS = ("fp64", "fp32", "bf16", "int8")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "precisions", lambda: FLAGS)
    monkeypatch.setattr(processor, "last_caches", lambda: 32 << 20)


def settled(**typed: Any) -> ProbeCell:
    values = PROBES["kernels"].values(typed, ParameterContext(contents=TORCH))
    return ProbeCell(values=values, threads=2)


def rows(cell: ProbeCell) -> list[dict[str, str | int]]:
    plan = PROBES["kernels"].rows(cell)
    assert plan is not None
    return [dict(row) for row in plan.rows]


# Counted by hand: multiplications and additions alike.
@pytest.mark.parametrize(
    ("kernel", "shape", "operations", "elements"),
    [
        ("gemm", "m2n3k4", 48, 2 * 4 + 4 * 3 + 2 * 3),
        # A 3x3 image, a 2x2 kernel: 4 places of 4 products, 3 -> 5 channels, two images.
        (
            "conv_forward",
            "g1mb2ic3ih3oc5oh2kh2sh1dh0ph0",
            2 * 2 * 5 * 4 * 3 * 4,
            2 * 3 * 9 + 2 * 5 * 4 + 5 * 3 * 4,
        ),
        # In two groups half of the channels meet.
        ("conv_data", "g2mb1ic4ih3oc6oh3kh1sh1dh0ph0", 2 * 6 * 9 * 2, 4 * 9 + 6 * 9 + 6 * 2),
        ("attention", "mb1h2l3d4", 2 * (2 * 2 * 3 * 3 * 4), 4 * 2 * 3 * 4),
        ("reduction", "m3n5", 3 * 4, 15 + 3),
        ("triad", "n7", 14, 21),
        ("copy", "n7", None, 14),
    ],
)
def test_operations_and_bytes_by_hand(
    kernel: str, shape: str, operations: float | None, elements: int
) -> None:
    row: dict[str, str | int] = {"kernel": kernel, "precision": "bf16", "shape": shape}
    assert kernel_shapes.operations(row) == operations
    assert kernel_shapes.least_bytes(row) == 2 * elements


def test_a_product_in_int8_has_a_result_of_four_bytes() -> None:
    row: dict[str, str | int] = {"kernel": "gemm", "precision": "int8", "shape": "m2n3k4"}
    assert kernel_shapes.least_bytes(row) == 2 * 4 + 4 * 3 + 4 * 2 * 3


@pytest.mark.parametrize(
    ("layer", "millions"),
    [
        # The papers' multiply-adds: 7 * 7 * 3 * 64 * 112 * 112, 3 * 3 * 64 * 64 * 56 * 56, ...
        ("ResNet-50 conv1", 118.013952),
        ("ResNet-50 conv2_x 3x3", 115.605504),
        ("ResNet-50 conv5_x 3x3", 115.605504),
        # 55 * 55 * 96 * 11 * 11 * 3, and 27 * 27 * 256 * 5 * 5 * 48 in two groups.
        ("CaffeNet conv1", 105.4152),
        ("CaffeNet conv2", 223.9488),
        ("GoogLeNet conv2", 346.816512),
    ],
)
def test_layers_have_the_multiply_adds_of_their_papers(layer: str, millions: float) -> None:
    (one,) = (shape for shape in kernel_shapes.SHAPES if shape.layer == layer)
    counted = kernel_shapes.operations({"kernel": one.kernels[0], "shape": one.shape})
    assert counted == pytest.approx(2e6 * millions)


def test_no_row_is_there_twice() -> None:
    own = rows(settled())
    keys = [kernels.fact(row) for row in own]
    # 8 products in 4 precisions, 15 layers in 3 directions and 2, 2 of attention, sums, 2 streams.
    assert len(set(keys)) == len(keys) == 8 * 4 + 15 * 3 * 2 + 2 * 2 + 2 * 3 + 2
    assert not [key for key in keys if "." in key]
    assert {row["precision"] for row in own} == set(FLAGS)
    assert {row["kernel"] for row in own} == set(kernel_shapes.KERNELS)
    quick = rows(settled(quick=True))
    # Both streams move as much: the small set has one, unless the other is asked for.
    assert {row["kernel"] for row in quick} == set(kernel_shapes.KERNELS) - {"copy"}
    assert len(quick) == 1 * 4 + 3 * 2 + 2 + 3 + 1
    assert {row["kernel"] for row in rows(settled(quick=True, kernels="copy"))} == {"copy"}
    assert all(row in own for row in quick)


def test_the_quick_set_is_small() -> None:
    cell = settled(quick=True)
    work = sum(
        3 * kernels.repeats(row) * (kernel_shapes.operations(row) or 0) for row in rows(cell)
    )
    # At 50e9 operations a second, one core's, in a second or two of each launch.
    assert work < 100e9


def test_a_missing_precision_is_left_out_and_named_or_refused() -> None:
    assert settled().values["left_out"] == "fp16"
    assert settled(precisions="fp32").values["left_out"] == ""
    with pytest.raises(UsageError, match="this processor has no fp16 arithmetic"):
        settled(precisions="fp32,fp16")
    on_gpu = settled(device="cuda").values
    assert on_gpu["precisions"] == "fp64,fp32,fp16"
    assert on_gpu["left_out"] == ""


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"kernels": "gemm,fft"}, "unknown value 'fft'"),
        ({"kernels": ""}, "unknown value ''"),
        ({"precisions": "fp8"}, "unknown value 'fp8'"),
        (
            {"kernels": "copy", "precisions": "bf16"},
            "none of these kernels is measured in these precisions",
        ),
    ],
)
def test_what_can_not_be_measured(typed: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settled(**typed)


def test_images_and_ranks_that_can_not() -> None:
    values = PROBES["kernels"].values
    with pytest.raises(UsageError, match="one process computes"):
        values({}, ParameterContext(contents=TORCH, ranks=2))
    none = ProbeSubject(image="x.sif", recipe="demo", modules=("tensorflow",))
    with pytest.raises(ChecksFailedError, match=r"x\.sif has no framework to compute with"):
        values({}, ParameterContext(contents=none))


@pytest.mark.parametrize(
    ("caches", "elements"),
    [(0, 1 << 25), (32 << 20, 1 << 25), (64 << 20, 1 << 26), (1 << 40, 1 << 28)],
)
def test_arrays_are_beyond_the_caches(
    monkeypatch: pytest.MonkeyPatch, caches: int, elements: int
) -> None:
    monkeypatch.setattr(processor, "last_caches", lambda: caches)
    assert rows(settled(kernels="copy"))[0]["shape"] == f"n{elements}"


def test_the_processor_says_which_precisions_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (tmp_path / "proc").mkdir()
    cpuinfo = tmp_path / "proc/cpuinfo"
    for flags, wanted in (
        ("flags\t\t: fpu avx512_bf16 avx512_vnni", ("fp64", "fp32", "bf16", "int8")),
        ("flags\t\t: fpu avx2 amx_fp16", ("fp64", "fp32", "fp16")),
        ("Features\t: fp asimd asimdhp asimddp bf16", processor.PRECISIONS),
        ("processor\t: 0", ("fp64", "fp32")),
    ):
        cpuinfo.write_text(f"processor : 0\n{flags}\n")
        assert processor.precisions(tmp_path) == wanted
    assert processor.precisions(tmp_path / "none") == ("fp64", "fp32")


def test_the_last_caches_of_all_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(4):
        for index, texts in enumerate(
            (
                ("1", "32K", str(cpu), "Data"),
                ("3", "32768K", "0-1" if cpu < 2 else "2-3", "Unified"),
            )
        ):
            folder = cpus / f"cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            names = ("level", "size", "shared_cpu_list", "type")
            for name, text in zip(names, texts, strict=True):
                (folder / name).write_text(f"{text}\n")
    assert processor.last_caches(tmp_path) == 64 << 20
    assert processor.last_caches(tmp_path / "none") == 0

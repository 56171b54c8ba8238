"""Operations of the real PyTorch, in an image and against its native twin: right, and by whom."""

import json
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.probes import PROBES, kernel_shapes, kernels, processor
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.bench.samples.series import Series
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.test_bench import environment_with, twin_packages
from tests.integration.truth import bench
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = pytest.mark.timeout(1800)

PYTHON = "/opt/pytorch/bin/python"
# The probe's check against kernels that are wrong by a little: each must be told.
WRONG = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import kernels_torch, rows
kernels = kernels_torch.Kernels("cpu", 1, [])
F = torch.nn.functional
def rounded(one, bits):
    step = 2.0 ** (torch.floor(torch.log2(one.abs().double())) - bits)
    return (torch.round(one.double() / step) * step).to(one.dtype)
def off_by_one(one):
    one.view(-1)[3] += 1
    return one
def tf32(a, b):
    return torch.mm(rounded(a, 10), rounded(b, 10))
conv = "g1mb1ic64ih14oc64oh14kh3sh1dh0ph1"
wrong = [
    ("gemm", "fp32", "m64n96k512", tf32),
    ("gemm", "fp64", "m64n96k512", lambda a, b: torch.mm(a.float(), b.float()).double()),
    ("gemm", "int8", "m64n96k64", lambda a, b: off_by_one(torch._int_mm(a, b))),
    ("conv_forward", "fp32", conv,
     lambda a, b: F.conv2d(rounded(a, 10), rounded(b, 10), padding=1)),
    ("attention", "fp32", "mb1h2l64d32",
     lambda q, k, v: F.scaled_dot_product_attention(q, k, rounded(v, 10))),
    ("reduction", "fp64", "m4n700", lambda a: a.float().sum(1).double()),
    ("copy", "fp32", "n99", lambda to, a: to.copy_(a * 1.0000002)),
    ("gemm", "bf16", "m64n96k512", lambda a, b: torch.mm(a, b) * float("nan")),
]
for kernel, precision, shape, call in wrong:
    row = {"kernel": kernel, "precision": precision, "shape": shape, "threads": 1}
    operation = kernels.make(row)
    assert operation.check() > 0
    operation.act = lambda: call(*operation.given)
    try:
        operation.check()
    except rows.WrongError as problem:
        print(problem)
    else:
        sys.exit("{} {}: a wrong result passed".format(kernel, precision))
"""


@pytest.fixture
def user(launching: World) -> World:
    return launching


def ran(spec: RunSpec, engine: Apptainer, world: World) -> str:
    argv, environment = engine.run_argv(spec), apptainer.environment(world.environ)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Those of one machine are not those of another: what every processor has.
@pytest.mark.long
@pytest.mark.parametrize("isa", ["", "SSE41"])
def test_an_image_s_operations_are_right_and_say_whose_they_are(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built, isa: str
) -> None:
    values: dict[str, str | int] = {"kernels": "gemm,conv_forward,copy", "precisions": "fp32"}
    more: dict[str, str | int] = {"quick": True, "rounds": 1, "elements": 1 << 20}
    cell = ProbeCell(values={**values, **more}, threads=1)
    environment = {"OMP_NUM_THREADS": "1"} | ({"DNNL_MAX_CPU_ISA": isa} if isa else {})
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, "-S", layout.PROBE, *PROBES["kernels"].words(cell)),
        mode=tried.run_mode or "plain",
        environment=environment,
    )
    body = json.loads(ran(spec, engine, world).splitlines()[-1])
    plan = PROBES["kernels"].rows(cell)
    assert plan is not None
    assert agreement.problem(plan, joining.read(body["rows"])) == ""
    libraries = body["stack"]["kernel_libraries"]
    assert set(libraries) == {kernels.fact(row) for row in plan.rows}
    (convolution,) = (text for name, text in libraries.items() if name.startswith("conv_forward"))
    assert "oneDNN convolution" in convolution
    assert convolution.endswith("aten::mkldnn_convolution")
    assert ("sse41" in convolution) == bool(isa)
    assert {text for name, text in libraries.items() if name.startswith("copy")} == {"aten::copy_"}


def test_a_wrong_kernel_is_told(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, "-c", WRONG, layout.PROBE),
        mode=tried.run_mode or "plain",
        environment={"OMP_NUM_THREADS": "1"},
    )
    said = ran(spec, engine, world).splitlines()
    assert len(said) == 8
    assert said[2].startswith("gemm int8 m64n96k64: 1 of 6,144 values are not those of fp64")


def session(user: World, built: Built, probe: str, output: Path, *more: object) -> Series:
    argv: list[object] = ["--site", "local", "--image", built.image, "-o", output, "--quick"]
    user.run("bench", probe, *map(str, (*argv, "--pairs", 1, *more)))
    return reader.read(output)


@pytest.mark.long
def test_native_and_container_are_measured_row_by_row(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    series = session(user, pytorch_image, "kernels", tmp_path / "x.jsonl")
    assert series.complete
    plan, work = series.session.declared.rows, series.session.declared.workload
    assert plan is not None
    assert work["precisions"] == ",".join(processor.precisions())
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert sample.phases.keys() >= {"import", "checked", "libraries", "rows"}
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    assert section is not None
    assert {row[-1] for row in section.rows} == {"the same"}
    page = tmp_path / "x.html"
    said = user.run("report", tmp_path / "x.jsonl", "--json", "-o", page)
    (body,) = json.loads(said.stdout)["sessions"]
    assert [row["parameters"] for row in body["rows"]] == [dict(row) for row in plan.rows]
    assert "Roofline, fp32, threads" in page.read_text()


@pytest.mark.long
def test_another_instruction_set_on_one_side_is_named(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    packages = twin_packages(user, pytorch_image, tmp_path)
    line = "import os; os.environ['DNNL_MAX_CPU_ISA'] = 'SSE41'"
    side = environment_with(tmp_path / "side", packages, line)
    more = ("--native", side, "--kernels", "conv_forward", "--precisions", "fp32")
    analysis = analyse(session(user, pytorch_image, "kernels", tmp_path / "x.jsonl", *more))
    assert analysis.verdict.word == "NOT COMPARABLE"
    reasons = "\n".join(analysis.verdict.reasons)
    # By the variable, whatever is asked, and by the library that ran.
    assert "environment.DNNL_MAX_CPU_ISA differs: native SSE41" in reasons
    assert "kernel_libraries.conv_forward fp32" in reasons
    section = analysis.traits.section
    assert section is not None
    (row,) = section.rows
    assert row[-1] == "DIFFERENT"
    assert "sse41" in row[-3]
    assert "sse41" not in row[-2]


# Chosen beforehand: no other kernel is looked at for a difference.
BACKWARD = ("--kernels", "conv_data", "--precisions", "fp32", "--quick", "--threads", 1)


@pytest.mark.long
def test_a_backward_kernel_that_the_image_s_environment_slows_is_slower(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    """PyTorch has no variable that switches oneDNN off: one that leaves it SSE 4.1 stands in."""
    slowed = user.build(
        "pytorch", tmp_path / "slowed", "--set", "environment.DNNL_MAX_CPU_ISA=SSE41"
    )
    side = environment_with(tmp_path / "side", twin_packages(user, pytorch_image, tmp_path))
    more = ("--native", side, "--question", "deployment", "--pairs", 8, *BACKWARD)
    found = bench(user, "kernels", slowed.image, tmp_path / "x.jsonl", *more)
    assert found.verdict.word == "SLOWER", found.verdict.reasons
    # The image's own: it refuses nothing, and the library that ran is named for each row.
    section = found.traits.section
    assert section is not None
    for row in section.rows:
        assert (row[0], row[-1]) == ("conv_data", "DIFFERENT")
        native, container = row[-3:-1]
        assert native != container
        assert all("oneDNN convolution" in library for library in (native, container))
        # With SSE 4.1 alone there is a convolution by products of matrices; none by AVX.
        assert "avx" not in container


@pytest.mark.long
def test_settings_of_threads_and_library(user: World, pytorch_image: Built, tmp_path: Path) -> None:
    more = ("--pairs", 2, "--counts", "1,2", "--rounds", 1)
    series = session(user, pytorch_image, "threads", tmp_path / "x.jsonl", *more)
    assert series.complete
    judged = analyse(series)
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    # That oneDNN was switched off is what the libraries themselves say.
    libraries = series.stacks[0].facts["kernel_libraries"]
    assert isinstance(libraries, dict)
    convolutions = {key: text for key, text in libraries.items() if key.startswith("conv_forward")}
    assert len(convolutions) == 4
    for name, text in convolutions.items():
        assert ("oneDNN convolution" in str(text)) == ("without oneDNN" not in name)
    section = judged.traits.section
    assert section is not None
    assert [row[0] for row in section.rows[:4]] == ["gemm", *kernel_shapes.CONVOLUTIONS]
    assert len(section.rows) == 8

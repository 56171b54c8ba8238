"""The shipped recipes beside PyTorch's: built, validated, measured; Horovod must average."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.probes.collectives import ABSENT, OPERATIONS
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from tests.integration.test_bench_ranks import raw
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

PLAIN = ("tensorflow", "mxnet")  # recipe, and the module that it trains with
HOROVOD = ("pytorch", "tensorflow")  # its variants

# As if Horovod had been loaded and nothing came of it: what TensorFlow with Keras 3 does for real.
NO_OPERATION = """\
import builtins, sys
real = builtins.__import__
def import_(name, *rest, **more):
    module = real(name, *rest, **more)
    for known in ("horovod.torch", "horovod.tensorflow.keras"):
        loaded = sys.modules.get(known)
        if hasattr(loaded, "DistributedOptimizer"):
            loaded.DistributedOptimizer = lambda optimizer, **more: optimizer
    return module
builtins.__import__ = import_
"""


@pytest.fixture(scope="module")
def patient(world: World) -> World:
    return replace(world, patience_s=3600)


@pytest.fixture(scope="module", params=PLAIN)
def plain(request: pytest.FixtureRequest, patient: World) -> tuple[str, Built]:
    name = str(request.param)
    return name, patient.build(name, patient.folder / f"{name} image")


@pytest.fixture(scope="module", params=HOROVOD)
def horovod(request: pytest.FixtureRequest, patient: World) -> Built:
    """Build, with a compiler: some ten minutes on two cores."""
    variant = str(request.param)
    output = patient.folder / f"horovod image over {variant}"
    return patient.build("horovod", output, "--variant", variant)


@pytest.fixture(scope="module")
def inside(world: World, engine: Apptainer, tried: EngineCapabilities) -> "Inside":
    return Inside(world, engine, str(tried.run_mode))


class Inside:
    """Runs commands in images, as `validate` does."""

    def __init__(self, world: World, engine: Apptainer, mode: str) -> None:
        self.world, self.engine, self.mode = world, engine, mode

    def run(
        self,
        built: Built,
        *argv: str,
        env: Mapping[str, str] | None = None,
        bind: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        spec = RunSpec(
            image=built.image,
            argv=argv,
            mode=self.mode,
            environment=env or {},
            binds=((bind, "/mnt"),) if bind else (),
        )
        return subprocess.run(
            self.engine.run_argv(spec),
            env=apptainer.environment(self.world.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )


def test_a_framework_is_valid(plain: tuple[str, Built], patient: World) -> None:
    name, built = plain
    checks = patient.checks(built.image)
    assert all(ok for ok, _ in checks.values())
    assert f"import {name}" in checks
    assert "30 training steps: loss_first" in checks["verify"][1]


def test_a_framework_computes_the_same_twice(plain: tuple[str, Built], inside: Inside) -> None:
    python = f"/opt/{plain[0]}/bin/python"
    said = [inside.run(plain[1], python, "/opt/dlcontainer/verify.py").stdout for _ in range(2)]
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


def test_a_framework_is_measured(plain: tuple[str, Built], patient: World, tmp_path: Path) -> None:
    name, built = plain
    base = ["--site", "local", "--image", str(built.image), "--pairs", "2", "--controls", "1"]
    for probe, more in (("import", []), ("train", ["--steps", "5", "--threads", "1"])):
        output = tmp_path / f"{probe}.jsonl"
        patient.run("bench", probe, *base, *more, "-o", output)
        series = reader.read(output)
        assert series.complete
        for stack in series.stacks:
            assert str(stack.facts["framework"]).startswith(f"{name} ")
        judged = analyse(series)
        # The same wheels on both sides: nothing forbids the comparison, two pairs decide nothing.
        assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
        if probe == "train":
            assert judged.losses is not None
            assert judged.losses.steps == 10
            assert series.session.declared.workload["framework"] == name


def test_horovod_averages(horovod: Built, patient: World) -> None:
    checks = patient.checks(horovod.image)
    assert all(ok for ok, _ in checks.values())
    assert "averages of 2 ranks" in checks["verify"][1]
    assert checks["import horovod"][1].startswith("0.28.1 ")


def test_horovod_that_does_not_average_is_refused(
    horovod: Built, inside: Inside, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_OPERATION)
    argv = ("/opt/horovod/bin/python", "/opt/dlcontainer/verify.py")
    done = inside.run(horovod, *argv, env={"PYTHONPATH": "/mnt"}, bind=tmp_path)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ok"] is False
    assert said["failed"].count("not averaged") == 2  # over MPI, and over Gloo
    assert said["gradient_off"] > 0.1
    assert said["ranks_apart"] > 0.01


def test_collectives_by_horovod(horovod: Built, launching: World, tmp_path: Path) -> None:
    """Messages that are longer than those of `verify` too: 4 MiB once hung in Open MPI."""
    patient, output = replace(launching, patience_s=3600), tmp_path / "x.jsonl"
    words: list[str | Path] = ["--site", "local", "--image", horovod.image, "--ranks", "2"]
    words += ["--backend", "horovod", "--arms", "unpacked,container"]
    words += ["--quick", "--pairs", "1", "--timeout", "300"]
    has_torch = any(each["name"] == "torch" for each in horovod.recorded()["python_packages"])
    done = patient.run("bench", "collectives", *words, "-o", output, code=0 if has_torch else 1)
    if not has_torch:
        assert "does not verify horovod and torch" in done.stderr
        return
    series = reader.read(output)
    plan = series.session.declared.rows
    assert plan is not None
    operations = {str(row["operation"]) for row in plan.rows}
    assert operations == set(OPERATIONS) - set(ABSENT["horovod"])
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        for rank in raw(sample):
            assert rank["transport"]["way"] == "mpi"


def test_horovod_leaves_no_compiler_and_no_debugging_names(horovod: Built, inside: Inside) -> None:
    tools = "for tool in g++ gcc cmake make ld; do command -v $tool; done; true"
    done = inside.run(horovod, "/bin/sh", "-c", tools)
    assert (done.returncode, done.stdout) == (0, "")
    libraries = "find /opt/horovod/lib -path '*/site-packages/horovod/*' -name '*.so' -size +8M"
    assert inside.run(horovod, "/bin/sh", "-c", libraries).stdout == ""
    needed = "command -v mpirun && command -v horovodrun && command -v ssh"
    assert inside.run(horovod, "/bin/sh", "-c", needed).returncode == 0


@pytest.mark.long
def test_stampede2_on_this_machine(
    world: World, engine: Apptainer, tried: EngineCapabilities, tmp_path: Path
) -> None:
    """Xeon Phi's image runs on every x86_64 with AVX2; what is set for it is in its environment."""
    done = world.run("build", "pytorch", "--site", "stampede2", "-o", tmp_path, "--json")
    image = Path(json.loads(done.stdout)["image"])
    assert image.name == "pytorch-2.13.0-stampede2-knl.sif"
    found = json.loads(world.run("validate", image, "--site", "stampede2", "--json").stdout)
    assert found["ok"] is True
    spec = RunSpec(image=image, argv=("env",), mode=str(tried.run_mode))
    inside = subprocess.run(
        engine.run_argv(spec),
        env=apptainer.environment(world.environ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    environment = dict(line.split("=", 1) for line in inside.splitlines() if "=" in line)
    assert environment["ATEN_CPU_CAPABILITY"] == "avx2"
    assert (environment["OMP_NUM_THREADS"], environment["KMP_BLOCKTIME"]) == ("66", "1")
    assert environment["KMP_AFFINITY"].startswith("granularity=fine,compact")

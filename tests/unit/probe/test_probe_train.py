"""The train probe: which framework, how steps are timed, what is attested of each."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes.train import FRAMEWORKS
from dlcontainer.config.resources import PROBE


class Stub:
    """A trainer that counts."""

    def __init__(self, clock: Any) -> None:
        self.clock, self.said = clock, list[object]()

    def step(self, number: int) -> None:
        self.said.append(number)

    def settle(self) -> None:
        self.said.append("idle")


def test_bench_knows_the_frameworks_that_the_probe_knows(probe: Any) -> None:
    assert probe("probe_train").FRAMEWORKS == FRAMEWORKS
    for name in FRAMEWORKS:
        methods = vars(probe(f"train_{name}").Trainer)
        assert {"step", "settle", "clock", "losses", "counts"} <= set(methods)


def test_torch_is_what_a_probe_without_a_word_trains(probe: Any) -> None:
    assert probe("probe_train").options([]).framework == "torch"
    with pytest.raises(SystemExit):
        probe("probe_train").options(["--framework", "caffe"])


def test_only_steady_steps_are_timed_and_the_device_is_idle_at_both_ends(probe: Any) -> None:
    probe_train = probe("probe_train")
    wanted = probe_train.options(["--steps", "4", "--warmup", "2"])
    trainer = Stub(probe_train.Clock)
    values, steps = probe_train.measure(trainer, wanted)
    assert trainer.said == [0, "idle", 1, "idle", 2, 3, 4, 5, "idle"]
    assert len(steps) == 4
    assert values["wall_s"] >= sum(steps)
    assert min(steps) <= values["step_p50_s"] <= values["step_p95_s"] <= max(steps)


@pytest.mark.parametrize(("share", "value"), [(0.5, 3), (0.95, 5), (0.0, 1), (1.0, 5), (0.2, 1)])
def test_quantile_is_one_of_the_values(probe: Any, share: float, value: int) -> None:
    assert probe("probe_train").quantile([5, 1, 4, 2, 3], share) == value


def test_the_networks_have_the_same_stages(probe: Any) -> None:
    assert probe("probe_train").stages(8) == ((8, 8, 1), (8, 16, 2), (16, 32, 2))


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("name", ["tensorflow", "mxnet"])
def test_a_device_that_is_not_known_to_work_is_refused(name: str) -> None:
    argv = [sys.executable, str(PROBE), "train", "--framework", name, "--device", "cuda"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "on the CPU only" in done.stderr


@pytest.mark.parametrize(
    ("text", "version"),
    [
        # As a node's /proc/driver/nvidia/version has it: the open module, and the closed one.
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release",
            "580.159.04",
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19", "535.104.05"),
        (None, None),
    ],
)
def test_torch_on_a_gpu_names_the_driver(
    probe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    version: str | None,
) -> None:
    fake: Any = ModuleType("torch")
    fake.__version__ = "2.99.0"
    fake.version = SimpleNamespace(cuda="13.0")
    fake.cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda number: f"GPU {number}",
        nccl=SimpleNamespace(version=lambda: (2, 28, 9)),
    )
    fake.backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91900))
    fake.get_num_threads = fake.get_num_interop_threads = lambda: 1
    fake.__config__ = SimpleNamespace(show=lambda: "")
    monkeypatch.setitem(sys.modules, "torch", fake)
    module = probe("attest_frameworks")
    if text is not None:
        (tmp_path / "version").write_text(text)
    monkeypatch.setattr(module, "DRIVER", str(tmp_path / "version"))
    found = module.facts(fake)
    assert (found["driver"], found["devices"], found["nccl"]) == (version, ["GPU 0"], "2.28.9")


def test_tensorflow_in_its_own_words(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = SimpleNamespace(
        get_intra_op_parallelism_threads=lambda: 3, get_inter_op_parallelism_threads=lambda: 0
    )
    flags = ["-I/where/it/stands/include", "--std=c++17"]
    fake: Any = ModuleType("tensorflow")
    fake.__version__ = "2.99.0"
    fake.config = SimpleNamespace(threading=threads)
    fake.version = SimpleNamespace(GIT_VERSION="v2.99-g1", COMPILER_VERSION="Clang 18")
    fake.test = SimpleNamespace(is_built_with_cuda=lambda: False)
    fake.sysconfig = SimpleNamespace(get_compile_flags=lambda: flags)
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    found = probe("attest_frameworks").facts(fake)
    assert found["framework"] == "tensorflow 2.99.0"
    assert (found["threads"], found["interop_threads"]) == (3, 0)
    # Where the headers lie differs between a host and an image, and is no part of the build.
    assert found["build_settings"] == "--std=c++17"
    assert found["mkldnn"] is None


def test_mxnet_in_its_own_words(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    features = [("BLAS_OPEN", True), ("MKLDNN", True), ("CUDA", False)]
    listed = [SimpleNamespace(name=name, enabled=on) for name, on in features]
    fake: Any = ModuleType("mxnet")
    fake.__version__ = "1.99.0"
    fake.runtime = SimpleNamespace(feature_list=lambda: listed)
    monkeypatch.setitem(sys.modules, "mxnet", fake)
    found = probe("attest_frameworks").facts(fake)
    assert found["framework"] == "mxnet 1.99.0"
    assert (found["blas"], found["mkldnn"], found["cuda"]) == ("BLAS_OPEN", True, False)


def test_another_module_and_horovod_beside_it(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = ModuleType("horovod")
    fake.__version__ = "0.99"
    monkeypatch.setitem(sys.modules, "horovod", fake)
    found = probe("attest_frameworks").facts(fake)
    assert (found["framework"], found["horovod"]) == ("horovod 0.99", "0.99")


def test_files_stand_in_one_folder_and_name_no_module_of_others(probe: Any) -> None:
    names = {path.stem for path in Path(PROBE).glob("*.py")}
    assert not names & {"torch", "tensorflow", "mxnet", "numpy", "keras", "frameworks"}

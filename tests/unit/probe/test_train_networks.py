"""The train probe's networks without a framework: its tables, its rules of a step, its refusals."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import processor
from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.config.resources import PROBE
from tests import optimizers_by_hand
from tests.networks_by_hand import BY_HAND


def test_the_session_knows_what_the_probe_trains(probe: Any) -> None:
    known = probe("train_options")
    assert known.RESIDUAL == choices.RESIDUAL
    assert {"torch": tuple(NETWORKS)} == known.WORKLOADS
    assert (known.PRECISIONS, known.OPTIMIZERS) == (choices.PRECISIONS, choices.OPTIMIZERS)
    assert set(probe("precision_torch").FLAGS) == set(choices.PRECISIONS) - {"fp32"}
    for name, flags in probe("precision_torch").FLAGS.items():
        assert flags == processor._FLAGS[name]


def test_both_tables_are_one(probe: Any) -> None:
    table = probe("workloads_torch").WORKLOADS
    assert tuple(table) == tuple(NETWORKS)
    for name, facts in table.items():
        one = NETWORKS[name]
        assert facts["kind"] == one.kind
        assert facts["parameters"] == one.parameters == BY_HAND[name]["cpu"].parameters
        for device in ("cpu", "cuda"):
            assert facts[device]["multiply_adds"] == one.multiply_adds[device]
            assert "x".join(map(str, facts[device]["shape"])) == one.shapes[device]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--workload", "vgg"), "--workload vgg: for torch there is residual, convnet"),
        (("--workload", "resnet50", "--framework", "mxnet"), "for mxnet there is residual"),
        (("--precision", "bf16", "--framework", "tensorflow"), "there is fp32 and sgd"),
        (("--optimizer", "lars", "--framework", "tensorflow"), "there is fp32 and sgd"),
        (("--workload", "resnet50", "--size", "32"), "--size, --width: those of resnet50"),
        (("--precision", "fp16", "--distributed", "horovod"), "not written for horovod"),
        (("--precision", "fp8"), "invalid choice"),
    ],
)
def test_what_is_refused(
    probe: Any, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    with pytest.raises(SystemExit):
        probe("train_options").options(words)
    assert says in capsys.readouterr().err


def test_the_usual_report_says_no_more_than_ever(probe: Any) -> None:
    known = probe("train_options")
    never = ["parallel", "micro_batches", "apart", "at", "script", "script_at", "gate", "axes"]
    never += known.INPUT
    assert known.unsaid(known.options([])) == ["workload", "optimizer", *never]
    assert known.unsaid(known.options(["--optimizer", "larc"])) == ["workload", *never]
    assert known.unsaid(known.options(["--workload", "convnet"])) == ["optimizer", *never]


def test_a_count_that_is_not_the_published_one_is_refused(probe: Any) -> None:
    workloads = probe("workloads_torch")
    published = {"parameters": 145578, "multiply_adds": 12354176}
    workloads.hold("convnet", dict(published), published)
    # Without its second convolution: 6,553,600 multiply-adds less.
    missing = {"parameters": 119946, "multiply_adds": 5800576}
    with pytest.raises(workloads.CountError, match="convnet: 5,800,576 multiply-adds, and the"):
        workloads.hold("convnet", missing, published)
    with pytest.raises(workloads.CountError, match="convnet: 145,577 parameters"):
        workloads.hold("convnet", dict(published, parameters=145577), published)


def test_ratios_by_hand(probe: Any) -> None:
    rules = probe("step_rules")
    # |w| = 5, |g| = 2: 0.001 * 5 / (2 + 0.1 * 5), and LARC's with 1e-8 below.
    assert rules.lars(5.0, 2.0, 0.001, 0.1) == pytest.approx(0.002, rel=1e-15)
    assert rules.larc(5.0, 2.0, 0.02, 0.1) == pytest.approx(0.1 / (2.5 + 1e-8), rel=1e-15)


def test_a_step_of_lars_and_larc_by_the_probe_s_ratios(probe: Any) -> None:
    rules = probe("step_rules")
    for name, rule in (("lars", rules.lars), ("larc", rules.larc)):
        own, truth = optimizers_by_hand.SETTINGS[name], optimizers_by_hand.golden(name)[0]
        weights, slopes = optimizers_by_hand.WEIGHTS[0], optimizers_by_hand.GRADIENTS[0][0]
        sizes = [optimizers_by_hand.length(one) for one in (weights, slopes)]
        ratio = rule(*sizes, own.trust, own.decay)
        rate = own.rate * ratio if name == "lars" else min(ratio, own.rate)
        stepped = [w - rate * (g + own.decay * w) for w, g in zip(weights, slopes, strict=True)]
        assert stepped == pytest.approx(truth[0], rel=1e-14)
        wrong = [w - own.rate * g for w, g in zip(weights, slopes, strict=True)]
        assert wrong != pytest.approx(truth[0], rel=1e-6)


def test_golden_steps_meet_every_case() -> None:
    own = optimizers_by_hand.SETTINGS["larc"]
    sizes = [
        (optimizers_by_hand.length(w), optimizers_by_hand.length(g))
        for w, g in zip(optimizers_by_hand.WEIGHTS, optimizers_by_hand.GRADIENTS[0], strict=True)
    ]
    local = [own.trust * w / (g + own.decay * w) for w, g in sizes if w]
    # LARC clips the first two at the rate, and not the third; then a layer of zeros.
    assert [one > own.rate for one in local] == [True, True, False]
    assert sizes[-1][0] == 0
    assert optimizers_by_hand.length(optimizers_by_hand.GRADIENTS[2][0]) == 0


def test_a_loss_is_scaled_until_it_overflows(probe: Any) -> None:
    scale = probe("step_rules").LossScale(scale=8.0, patience=3)
    seen = []
    for is_finite in (True, True, False, True, True, True, True):
        scale.follow(is_finite)
        seen.append(scale.scale)
    # An overflow halves it and begins the count again; three good steps double it.
    assert seen == [8, 8, 4, 4, 4, 8, 8]
    assert scale.skipped == 1


def test_a_processor_says_what_it_has(probe: Any, tmp_path: Path) -> None:
    precision = probe("precision_torch")
    (tmp_path / "cpuinfo").write_text("model name\t: x\nflags\t\t: fpu avx512_bf16 sse4_1\n")
    assert precision.flags(str(tmp_path / "cpuinfo")) == {"fpu", "avx512_bf16", "sse4_1"}
    assert precision.flags(str(tmp_path / "none")) == set()


@pytest.mark.parametrize(
    ("device", "name", "says"),
    [
        ("cpu", "fp32", ""),
        ("cpu", "bf16", ""),
        ("cpu", "fp16", "this processor has no arithmetic in it (amx_fp16, asimdhp, avx512_fp16)"),
        ("cuda", "fp16", ""),
        ("cuda", "bf16", "this GPU's compute capability is 7.0, it takes 8.0"),
    ],
)
def test_a_device_that_lacks_a_precision(
    probe: Any, monkeypatch: pytest.MonkeyPatch, device: str, name: str, says: str
) -> None:
    precision = probe("precision_torch")
    monkeypatch.setattr(precision, "flags", lambda: {"avx512_bf16"})
    cuda = SimpleNamespace(get_device_capability=lambda: (7, 0))
    torch = SimpleNamespace(__version__="2.99", autocast=object, cuda=cuda)
    assert precision.lacking(torch, name, device) == says
    old = SimpleNamespace(__version__="1.9")
    assert ("1.10 or newer" in precision.lacking(old, name, device)) == (name != "fp32")
    if says:
        with pytest.raises(SystemExit, match=f"--precision {name}: this "):
            precision.made(torch, name, device)


@pytest.mark.usefixtures("real_processes")
def test_an_unknown_network_ends_the_probe() -> None:
    argv = [sys.executable, str(PROBE), "train", "--workload", "resnet51"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "deeplabv3plus, transformer" in done.stderr
    assert not done.stdout

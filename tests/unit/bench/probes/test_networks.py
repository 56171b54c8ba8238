"""Published networks in `bench train`: what is declared, what is refused, what the report says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, processor
from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.report import json_report
from dlcontainer.bench.report.tables import session_tables
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.errors import BenchDataError, UsageError
from tests import benchseries, kernelseries, networks_by_hand, residents
from tests.benchseries import Plan
from tests.judging import analyse
from tests.networks_by_hand import BY_HAND

TRAIN = PROBES["train"]
TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "horovod"))
TENSORFLOW = ProbeSubject(image="x.sif", recipe="demo", modules=("tensorflow",))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "precisions", lambda: ("fp64", "fp32", "bf16", "int8"))


def settled(contents: ProbeSubject = TORCH, ranks: int = 0, **typed: Any) -> ProbeCell:
    setting = ParameterContext(contents=contents, ranks=ranks)
    return ProbeCell(values=TRAIN.values(typed, setting), threads=2, steps=3, ranks=ranks)


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_has_what_its_layers_have(name: str) -> None:
    one, by_hand = NETWORKS[name], BY_HAND[name]
    assert by_hand.keys() == one.multiply_adds.keys() == one.shapes.keys()
    for device, count in by_hand.items():
        assert one.parameters == count.parameters
        assert one.multiply_adds[device] == count.multiply_adds
    assert one.operations(7) == 42


def test_literature_that_prints_a_figure() -> None:
    # torchvision's documentation: num_params, and 0.71 and 4.09 GFLOPS (multiply-adds).
    assert BY_HAND["alexnet"]["cpu"].parameters == 61_100_840
    assert BY_HAND["alexnet"]["cpu"].multiply_adds == pytest.approx(0.71e9, rel=0.01)
    assert BY_HAND["resnet50"]["cpu"].parameters == 25_557_032
    assert BY_HAND["resnet50"]["cpu"].multiply_adds == pytest.approx(4.09e9, rel=0.001)
    # Szegedy et al.: 1.5 billion multiply-adds, no heads.
    assert networks_by_hand.googlenet_alone().multiply_adds == pytest.approx(1.5e9, rel=0.06)
    camvid = networks_by_hand.tiramisu(3, 11, 224 * 224)
    # Jegou et al.: 9.4 M, of CamVid. Their program (SimJeg/FC-DenseNet, summary) counts all values
    # that are kept, and so the running statistics.
    assert camvid.parameters == 9_322_091
    assert round((camvid.parameters + camvid.statistics) / 1e6, 1) == 9.4
    # PaLM (arXiv:2204.02311, appendix B): 6 N + 12 L H Q T operations a token, N without tables.
    tables = (8000 + 128) * 512
    norms_and_biases = 6 * (2 * 1024 + 3 * 512 + 512 + 2048 + 512) + 1024 + 8000
    weights = NETWORKS["transformer"].parameters - tables - norms_and_biases
    a_token = 6 * weights + 12 * 6 * 512 * 128
    operations = NETWORKS["transformer"].operations(BY_HAND["transformer"]["cpu"].multiply_adds)
    assert operations == 128 * a_token


def test_the_usual_session_is_declared_and_called_as_ever() -> None:
    cell = settled(device="cpu")
    assert dict(TRAIN.declared(cell)) == {
        "framework": "torch",
        "device": "cpu",
        "warmup_steps": 5,
        "seed": 20190617,
    }
    assert TRAIN.words(cell)[-2:] == ("--device", "cpu")
    # Named, it is the same session.
    same = settled(device="cpu", workload="residual", precision="fp32", optimizer="sgd")
    assert TRAIN.declared(same) == TRAIN.declared(cell)
    assert TRAIN.words(same) == TRAIN.words(cell)


def test_a_network_is_declared_with_its_counts() -> None:
    cell = settled(device="cpu", workload="resnet50", precision="bf16", optimizer="lars", batch=4)
    declared = TRAIN.declared(cell)
    assert declared["workload"] == "resnet50"
    assert (declared["precision"], declared["optimizer"], declared["batch"]) == ("bf16", "lars", 4)
    assert (declared["parameters"], declared["multiply_adds"]) == (25557032, 4089184256)
    words = " ".join(TRAIN.words(cell))
    assert "--workload resnet50 --precision bf16 --optimizer lars --batch 4" in words
    assert "peak" not in words
    # Which device it will be is found inside: both counts are declared.
    anywhere = TRAIN.declared(settled(workload="tiramisu"))
    assert anywhere["multiply_adds"] == [3_719_681_280, 357_089_402_880]


def test_a_session_that_goes_on_trains_the_same(tmp_path: Path) -> None:
    first = settled(device="cpu", workload="alexnet", optimizer="larc", batch=2, peak="15.7")
    plan = Plan(declared=TRAIN.declared(first), pairs=8)
    begun = reader.read(benchseries.write(tmp_path / "x.jsonl", plan)).session.declared
    setting = ParameterContext(contents=TORCH, begun=begun)
    again = ProbeCell(values=TRAIN.values({}, setting), threads=2, steps=3)
    assert TRAIN.declared(again) == TRAIN.declared(first)
    assert TRAIN.words(again) == TRAIN.words(first)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"workload": "resnet51"}, "--workload resnet51: unknown network"),
        ({"precision": "fp16", "device": "cpu"}, "this processor has no fp16 arithmetic"),
        ({"peak": "15"}, "--peak: the small network has no published number of operations"),
        ({"workload": "convnet", "peak": "0"}, "--peak 0: must be TFLOP/s of one device"),
        ({"workload": "convnet", "peak": "nan"}, "--peak nan: must be TFLOP/s"),
        ({"workload": "convnet", "peak": "/no/such"}, "neither a number nor a file"),
    ],
)
def test_what_cannot_be_trained(typed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        settled(**typed)
    assert caught.value.next_step


def test_the_names_that_are_known_are_listed() -> None:
    with pytest.raises(UsageError) as caught:
        settled(workload="vgg")
    assert caught.value.next_step == f"choose from: residual, {', '.join(NETWORKS)}"


@pytest.mark.parametrize(
    "typed", [{"workload": "resnet50"}, {"precision": "bf16"}, {"optimizer": "lars"}]
)
def test_a_framework_that_has_the_small_network_only(typed: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is available with tensorflow") as caught:
        settled(contents=TENSORFLOW, **typed)
    assert caught.value.why == "the other values need torch"


def test_a_scaled_loss_and_the_ways_of_ranks() -> None:
    with pytest.raises(UsageError, match="no loss scaling for horovod"):
        settled(ranks=2, precision="fp16")
    assert settled(ranks=2, precision="fp16", distributed="ddp").values["precision"] == "fp16"
    assert settled(ranks=2, precision="bf16").values["distributed"] == "horovod"


def test_precisions_of_a_gpu_are_its_own_to_refuse() -> None:
    assert settled(precision="fp16", device="cuda").values["precision"] == "fp16"
    assert settled(precision="fp16").values["precision"] == "fp16"


ATTESTED: dict[str, Json] = {
    "batch": 4,
    "parameters": 25_557_032,
    "multiply_adds": 4_089_184_256,
    "ranks": 1,
}


def written(path: Path, ranks: int = 1, **typed: Any) -> Any:
    cell = settled(device="cpu", workload="resnet50", **typed)
    work: dict[str, Json] = {"workload": {**ATTESTED, "ranks": ranks}}
    plan = Plan(
        declared={**TRAIN.declared(cell), "threads": 2},
        pairs=8,
        reference={**benchseries.FACTS, **work},
        candidate={**benchseries.INSIDE, **work},
        change=lambda one: replace(one, values=_counted(one)),
    )
    return analyse(reader.read(benchseries.write(path, plan)))


def _counted(sample: Sample) -> dict[str, Any]:
    rate = 10.0 if sample.arm == "native" else 8.0
    return {**sample.values, "counts": {"samples_per_s": rate, "max_rss_mb": 900.0}}


def test_operations_and_their_share_of_the_peak(tmp_path: Path) -> None:
    judged = written(tmp_path / "x.jsonl", peak="0.5", precision="bf16")
    section = judged.traits.section
    assert section.title == "ResNet-50: operations and memory"
    native, container = (dict(zip(section.head, row, strict=True)) for row in section.rows)
    # 10 samples a second of 6 * 4.089184256e9 operations, of a peak of 0.5e12.
    assert native["GFLOP/s"] == "245.4"
    assert native["MFU, %"] == "49.1"
    assert (container["samples/s"], container["MFU, %"]) == ("8", "39.3")
    assert (native["largest memory, MB"], native["GPU memory, MB"]) == ("900", "-")
    assert "MFU is of 0.5 TFLOP/s for each process (as given)" in section.note
    assert judged.traits.subject == "Training ResNet-50 in bf16"
    assert judged.traits.task == "training ResNet-50 in bf16"
    body: Any = json_report._section(section)
    assert body["rows"][0]["MFU, %"] == "49.1"
    assert "beside" not in body


def test_ranks_have_a_peak_each(tmp_path: Path) -> None:
    section = written(tmp_path / "x.jsonl", ranks=4, peak="0.5").traits.section
    assert dict(zip(section.head, section.rows[0], strict=True))["MFU, %"] == "12.3"


def test_without_a_peak_there_are_operations_and_no_share(tmp_path: Path) -> None:
    section = written(tmp_path / "x.jsonl").traits.section
    assert {dict(zip(section.head, row, strict=True))["MFU, %"] for row in section.rows} == {"-"}
    assert "MFU takes a peak, which this session was not given: --peak" in section.note


def test_the_small_network_has_no_such_table(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "x.jsonl", Plan(pairs=8))
    assert analyse(reader.read(path)).traits.section is None


def test_groups_have_both_tables(tmp_path: Path) -> None:
    path = residents.write(tmp_path / "x.jsonl", residents.Truth())
    series = reader.read(path)
    work: dict[str, Json] = {"workload": ATTESTED}
    named = replace(series.session.declared, workload={**series.session.declared.workload, **NAMED})
    stacks = tuple(replace(one, facts={**one.facts, **work}) for one in series.stacks)
    other = replace(series, session=replace(series.session, declared=named), stacks=stacks)
    section = TRAIN.traits(other).section
    assert section is not None
    assert section.title == "Processes of the groups"
    assert section.companion is not None
    assert section.companion.title == "ResNet-50: operations and memory"
    line = dict(zip(section.companion.head, section.companion.rows[0], strict=True))
    (first, *_) = [one for one in other.samples if one.arm == "native" and one.role == "pair"]
    turns = [turn for one in first.residents for turn in one.turns]
    about = 4 * sum(len(turn.steps_s) for turn in turns) / sum(turn.wall_s for turn in turns)
    assert float(line["samples/s"]) == pytest.approx(about, rel=0.1)
    body: Any = json_report._section(section)
    assert body["beside"]["title"] == section.companion.title
    names = [table.name for table in session_tables.open_tables(analyse(other))]
    assert names.index(section.companion.title) == names.index(section.title) + 1


NAMED: dict[str, Json] = {"workload": "resnet50"}


def test_a_peak_that_was_measured(tmp_path: Path) -> None:
    path = kernelseries.write(tmp_path / "kernels.jsonl", kernelseries.Plant())
    values = settled(workload="convnet", peak=str(path)).values
    assert values[choices.PEAK] == pytest.approx(kernelseries.GIGAFLOPS / 1e3, rel=0.05)
    assert str(values[choices.PEAK_OF]).startswith("gemm fp32 m")
    assert str(values[choices.PEAK_OF]).endswith("2 threads, kernels.jsonl")
    with pytest.raises(BenchDataError, match="measured no matrix product in bf16"):
        settled(workload="convnet", precision="bf16", peak=str(path))

"""Files of facts: what is taken, and what is refused with its place."""

import re
from pathlib import Path

import pytest

from dlcontainer.bench.study.advice import facts_file, facts_ground
from dlcontainer.bench.study.advice.facts_ground import MeasuringWords
from dlcontainer.errors import ConfigError
from tests import forecasts
from tests.forecasts import FACTS


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        facts_file.read(forecasts.write(folder, text))
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_figures_are_in_si_units_with_their_sources(tmp_path: Path) -> None:
    inputs = {one.key: one for one in facts_file.inputs(facts_file.read(forecasts.write(tmp_path)))}
    assert inputs["network.gradient_bytes"].low == 100e6
    assert inputs["machine.in_node.latency"].low == pytest.approx(1e-5)
    speed = inputs["machine.samples_per_s"]
    assert (speed.low, speed.high, speed.source) == (340, 380, "one GPU, 27 Nov")
    port = inputs["machine.between_nodes.bandwidth"]
    assert (port.choices, port.independent) == ((3e9, 12.5e9), "no")
    # What nobody stated is drawn too, and says so.
    overlap = inputs["machine.overlap"]
    assert (overlap.low, overlap.high, overlap.independent) == (0.3, 1.0, "assumed")
    assert "nobody" in overlap.source


def test_a_draw_becomes_a_machine(tmp_path: Path) -> None:
    ground = forecasts.source(tmp_path).ground
    drawn = {one.key: one.middle for one in ground.inputs}
    machine, network = ground.machine(drawn), ground.network(drawn)
    assert machine.flops_per_s / network.flops == pytest.approx(360)
    assert machine.in_node.second_per_byte == pytest.approx(1 / 40e9)
    assert (machine.ranks_per_node, machine.rendezvous, machine.algorithm) == (4, False, "ring")


def test_operations_and_their_rate(tmp_path: Path) -> None:
    flops = "flops: {value: 24, unit: GFLOP, source: s, independent: yes}"
    text = FACTS.replace("  name: a network", f"  name: a network\n  {flops}")
    text = re.sub(r"samples_per_s: \{[^}]*\}", "flops_per_s: {value: 12, unit: TFLOP/s, source: s, "
                  "independent: yes}", text)  # fmt: skip
    ground = forecasts.source(tmp_path, text).ground
    drawn = {one.key: one.middle for one in ground.inputs}
    assert ground.machine(drawn).flops_per_s / ground.network(drawn).flops == pytest.approx(500)


def test_an_unknown_algorithm_is_drawn(tmp_path: Path) -> None:
    ground = forecasts.source(
        tmp_path, FACTS.replace("algorithm: ring", "algorithm: unknown")
    ).ground
    algorithm = next(one for one in ground.inputs if one.key == "machine.algorithm")
    assert (algorithm.choices, algorithm.independent) == ((0.0, 1.0), "assumed")


HOSTILE = [
    ("value: 100,", "value: .nan,", "facts.yaml:4:20: network.gradient_bytes.value: expected"),
    ("value: 100,", "value: .inf,", "network.gradient_bytes.value: expected a number"),
    ("value: 100,", "value: -1,", "network.gradient_bytes.value: expected a number from 0"),
    ("value: 100,", "value: 1e300,", "expected a number from 0 to 1e+24"),
    ("value: 100,", 'value: "100",', "remove the quotes"),
    ("value: 100,", "value: [100],", "expected a number, got a list"),
    ("value: 100,", "", "give exactly one of value, range and choices"),
    ("value: 100,", "value: 100, range: [1, 2],", "give exactly one of value, range and choices"),
    ("value: 100,", "range: [2, 1],", "the lower one first"),
    ("value: 100,", "range: [1, 2, 3],", "a range has two numbers"),
    ("value: 100,", "choices: [1],", "choices are 2 to 20 different numbers"),
    ("value: 100,", "choices: [1, 1],", "choices are 2 to 20 different numbers"),
    ("unit: MB", "unit: GB/s", "network.gradient_bytes: unit: expected one of: B, kB, MB"),
    ("unit: MB", "unit: mb", "got 'mb'"),
    ("independent: yes}\nmachine", "independent: maybe}\nmachine", "'yes', 'no', 'assumed'"),
    ('source: "25 million parameters in fp32", ', "", "network.gradient_bytes.source: missing"),
    ("value: 4,", "value: 0,", "machine.ranks_per_node: must be above 0"),
    ("value: 4,", "value: 4.5,", "machine.ranks_per_node: expected a whole number"),
    ("value: 4,", "choices: [4, 8],", "expected one value"),
    ("value: 128,", "range: [1, 128],", "write them as choices"),
    ("range: [20, 60]", "range: [0, 60]", "machine.in_node.bandwidth: must be above 0"),
    ("device: gpu", "device: tpu", "one of: 'gpu', 'cpu'"),
    ("  device: gpu",
     "  overlap: {value: 120, unit: '%', source: s, independent: no}\n  device: gpu",
     "machine.overlap: more than the whole"),
    ("goal:", "goal:\n  strategies: [dp, tp]", "tp has no number of ranks"),
    ("goal:", "goal:\n  strategies: [zz2]", "unknown term 'zz2'"),
    ("goal:", "goal:\n  strategies: [tp2]", "layers is missing: tp2 divides or sends it"),
    ("goal:", "goal:\n  efficiency: 1.5", "goal.efficiency: "),
    ("schema: dlcontainer/facts/1", "schema: dlcontainer/facts/2", "schema: "),
    ("  name: a network", "  nmae: a network", "network.nmae: unknown key; did you mean 'name'?"),
    ("  in_node:", "  in_noode:", "did you mean 'in_node'?"),
    ("goal:", "goal: &a\n  x: *a", "facts.yaml:"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), HOSTILE)
def test_what_is_wrong_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert FACTS.count(old) >= 1
    text = refused(tmp_path, FACTS.replace(old, new, 1))
    assert words in text
    assert re.search(r"facts\.yaml:[0-9]+:[0-9]+: ", text)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = refused(tmp_path, FACTS.replace("unit: MB", "unit: m").replace("unit: us", "unit: h"))
    assert len(text.splitlines()) == 3


def test_a_speed_is_given_once(tmp_path: Path) -> None:
    missing = re.sub(r"  samples_per_s: .*\n", "", FACTS)
    assert "give either flops_per_s or samples_per_s" in refused(tmp_path, missing)
    alone = FACTS.replace("samples_per_s:", "flops_per_s:").replace("samples/s", "GFLOP/s")
    assert "flops is missing" in refused(tmp_path, alone)


def test_a_node_of_several_ranks_has_a_link(tmp_path: Path) -> None:
    text = re.sub(r"  in_node:\n.*\n.*\n", "", FACTS)
    assert "in_node is missing" in refused(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "\t",
        "a: " * 60,
        "{" * 200,
        "- " * 100,
        "x: &a [*a]",
        "\x00",
        "schema: 1\nschema: 2",
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    assert "facts.yaml" in refused(tmp_path, text)


def test_a_file_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        facts_file.read(tmp_path / "nothing.yaml")


def test_the_digest_is_of_what_is_stated_not_of_its_form(tmp_path: Path) -> None:
    first = forecasts.source(tmp_path).ground.subject.digest
    assert forecasts.source(tmp_path, f"# a remark\n{FACTS}").ground.subject.digest == first
    assert forecasts.source(tmp_path, FACTS.replace("340", "341")).ground.subject.digest != first


def test_each_input_has_the_command_that_tells_it(tmp_path: Path) -> None:
    given = facts_ground.commands(
        MeasuringWords(origin="facts.yaml", site="lumi", image="", network="", more="8,16")
    )
    assert given["machine.between_nodes"].endswith("--image IMAGE --ranks 2 --nodes 2")
    assert set(given) >= {"network", "machine", ""}

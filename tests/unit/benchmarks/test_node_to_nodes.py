"""Two nodes from one: the table is read, a world of the form is forecast, another one is not."""

import pytest

from benchmarks import node_to_nodes
from benchmarks.node_to_nodes import CLUSTERS, IMAGE, LANGUAGE, TableSet

HEADER = "| Benchmark | Framework | Cluster | GPUs | Date | Img/sec |\n|---|---|---|---|---|---|\n"


def table(*rows: tuple[str, str, int, float | str], date: str = "2024-01-01") -> str:
    return HEADER + "".join(
        f"| {name} | PyTorch 9 | {cluster} | {devices} | {date} | {rate} |\n"
        for name, cluster, devices, rate in rows
    )


def of_the_form(kind: str, cluster: str, share: float, one: float) -> TableSet:
    # A node that loses a tenth; two nodes as the form has them.
    devices = CLUSTERS[cluster].devices
    whole = TableSet(
        name=f"{kind} {cluster} {one}",
        kind=kind,
        cluster=cluster,
        one=one,
        node=0.9 * devices * one,
        nodes=1.0,
    )
    two = node_to_nodes.forecast(whole, share)
    nodes = 2 * devices * one * two
    return TableSet(
        name=whole.name, kind=kind, cluster=cluster, one=one, node=whole.node, nodes=nodes
    )


def test_a_set_has_one_gpu_a_node_and_two() -> None:
    text = table(
        ("DDP", "puhti", 1, 100.0),
        ("DDP", "puhti", 2, 190.0),
        ("DDP", "puhti", 4, 360.0),
        ("DDP", "puhti", 8, 640.0),
        ("run_clm, synthetic", "lumi", 1, 10.0),
        ("run_clm, synthetic", "lumi", 8, 60.0),
        ("run_clm, synthetic", "lumi", 16, "ERROR"),
        ("DDP", "elsewhere", 1, 100.0),
    )
    (only,) = node_to_nodes.sets(text)
    assert (only.kind, only.in_a_node, only.in_two) == (IMAGE, 0.9, 0.8)


def test_two_dates_are_two_sets() -> None:
    rows = [("run_clm, synthetic", "mahti", n, 10.0 * n) for n in (1, 4, 8)]
    both = node_to_nodes.sets(table(*rows) + table(*rows, date="2025-01-01"))
    assert [one.kind for one in both] == [LANGUAGE, LANGUAGE]


@pytest.mark.parametrize("kind", [IMAGE, LANGUAGE])
def test_a_world_of_the_form_is_forecast_by_the_other_sets(kind: str) -> None:
    rates = (600.0, 900.0) if kind == IMAGE else (20.0, 45.0)
    made = [
        of_the_form(kind, cluster, 0.07, rate) for cluster in ("puhti", "mahti") for rate in rates
    ]
    for one in made:
        share = node_to_nodes.fitted([other for other in made if other is not one])
        assert node_to_nodes.forecast(one, share) == pytest.approx(one.in_two, abs=1e-3)


def test_a_fixed_global_batch_loses_twice_what_a_node_lost() -> None:
    # 1 / 0.9 - 1 of a step's work is lost in a node; two nodes halve the work and keep that.
    lossless = of_the_form(LANGUAGE, "mahti", 1.0, 1.0)
    assert lossless.in_two == pytest.approx(1 / (1 + 2 * (1 / 0.9 - 1)), abs=2e-3)
    weak = of_the_form(IMAGE, "mahti", 1.0, 1.0)
    assert weak.in_two == pytest.approx(0.9, abs=2e-3)


def test_the_report_says_both_errors() -> None:
    made = [of_the_form(LANGUAGE, "mahti", 0.2, rate) for rate in (20.0, 45.0)]
    off = TableSet(name="off", kind=LANGUAGE, cluster="puhti", one=20.0, node=72.0, nodes=40.0)
    lines = list(node_to_nodes.report([*made, off], LANGUAGE))
    assert lines[0] == "language model: 3 sets"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "as in the node",
        "step model, the set left out",
        "step model, the cluster left out",
    ]
    assert "worst 65.0" in lines[1]

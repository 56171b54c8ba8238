import math

import pytest

from dlcontainer.lab.storm.alternatives import (
    StagingCost,
    StormCase,
    curve,
    launches_to_pay,
    nodes_to_pay,
    rows,
)
from dlcontainer.lab.storm.storm_model import ImportLoad, ServerModel, StormJob

SYSTEM = ServerModel(
    latency_s=0.001, rate=1000, read_s=0.001, client_mb_s=100, target_mb_s=200, stripes=2
)
TREE = ImportLoad(shared_operations=3000, own_operations=0, read_waits=0, mb=0, cpu_s=1.0)
IMAGE = ImportLoad(
    shared_operations=3, own_operations=0, read_waits=100, mb=50, cpu_s=1.0, start_s=0.5
)
LOCAL = ImportLoad(
    shared_operations=0, own_operations=0, read_waits=0, mb=0, cpu_s=1.0, start_s=0.5
)
CASE = StormCase(
    loads={"tree": TREE, "image per node": IMAGE, "staged": LOCAL},
    staging=StagingCost(mb=1000, network_mb_s=1000),
    system=SYSTEM,
)


def job(nodes: int) -> StormJob:
    return StormJob(nodes=nodes, ranks=1, cores=1)


def test_staging_copies_or_broadcasts() -> None:
    staging = StagingCost(mb=1000, network_mb_s=1000)
    # Alone: 100 MB/s of one client; 16 nodes: 400 MB/s of two stripes.
    assert staging.copy_s(SYSTEM, 1) == pytest.approx(10)
    assert staging.copy_s(SYSTEM, 16) == pytest.approx(40)
    assert staging.broadcast_s(SYSTEM, 16) == pytest.approx(10 + 4)
    assert staging.best(SYSTEM, 1)[0] == "copy"
    name, seconds = staging.best(SYSTEM, 16)
    assert (name, round(seconds, 6)) == ("broadcast", 14.0)
    assert StagingCost(mb=1).broadcast_s(SYSTEM, 4) == math.inf


def test_staging_is_inside() -> None:
    by = {row.way: row for row in rows(CASE, job(16))}
    assert by["staged"].seconds == pytest.approx(1.5 + 14)
    assert by["image per node"].staging is None
    assert list(by) == ["tree", "image per node", "staged"]


def test_break_even_in_nodes_is_where_it_turns() -> None:
    turn = nodes_to_pay(CASE, job(1), "staged")
    assert turn is not None
    assert turn > 1
    for nodes, better in ((turn - 1, False), (turn, True)):
        by = {row.way: row.seconds for row in rows(CASE, job(nodes))}
        assert (by["staged"] < by["tree"]) is better


def test_break_even_in_launches() -> None:
    found = rows(CASE, job(1))
    # A tree launch takes 1 + 3000 x 2 ms = 7 s, a staged one 1.5 s, staging 10 s.
    assert launches_to_pay(found) == math.ceil(10 / 5.5)


def test_what_never_pays() -> None:
    idle = ImportLoad(shared_operations=0, own_operations=0, read_waits=0, mb=0, cpu_s=1.0)
    case = StormCase(loads={"tree": idle, "staged": LOCAL}, staging=CASE.staging, system=SYSTEM)
    assert nodes_to_pay(case, job(1), "staged") is None
    assert launches_to_pay(rows(case, job(4))) is None
    assert nodes_to_pay(case, job(1), "image per node") is None
    assert launches_to_pay([]) is None


def test_the_curve_reaches_beyond_the_job() -> None:
    points = curve(CASE, job(8))
    assert [point["nodes"] for point in points] == [1, 2, 4, 8, 16, 32]
    trees = [point["tree"] for point in points]
    assert trees == sorted(trees)

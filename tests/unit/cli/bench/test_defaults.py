"""The options of a session, settled: as typed, as declared before, or the default."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.launcher import RankOptions
from dlcontainer.bench.samples.records import SessionDeclaration
from dlcontainer.bench.samples.schedule import DEFAULT_LOOKS, DEFAULT_TRIPLES, Schedule
from dlcontainer.cli.bench import defaults
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import UsageError
from tests import benchseries
from tests.values import site_of

IMAGE = BenchImage(
    image=Path("/images/demo.sif"),
    recipe="demo",
    sha256="",
    digest="",
    prefix="/opt/demo",
    python="/opt/demo/bin/python",
    modules=("torch",),
    environment={},
)


def typed(**options: Any) -> SessionOptions:
    return SessionOptions(site="local", image=IMAGE.image, **options)


def declared(**changes: Any) -> SessionDeclaration:
    return replace(benchseries.session(benchseries.Plan()).declared, **changes)


def test_the_default_schedule() -> None:
    schedule = defaults.schedule(typed(seed=7), None, joins=True)
    longest = DEFAULT_LOOKS[-1]
    assert schedule == Schedule(looks=DEFAULT_LOOKS, seed=7, controls=longest, joiners=longest)
    assert (schedule.longest, schedule.unit, schedule.fewest) == (32, "pairs", 8)


def test_three_arms_are_triples() -> None:
    arms = "native,unpacked,container"
    schedule = defaults.schedule(typed(arms=arms, controls="6,12"), None, joins=False)
    assert schedule.looks == DEFAULT_TRIPLES
    assert (schedule.controls, schedule.candidate_controls, schedule.joiners) == (6, 12, 0)
    assert (schedule.unit, schedule.fewest) == ("triples", 12)
    stages = schedule.stages(with_joiners=True)
    assert [sum(group.series == "triple" for group in stage) for stage in stages] == [12, 6, 18]


def test_only_a_container_is_joined() -> None:
    schedule = defaults.schedule(typed(arms="native,unpacked"), None, joins=True)
    assert schedule.joiners == 0


def test_a_schedule_without_joiners() -> None:
    schedule = Schedule(looks=(8,), seed=1, joiners=8)
    for with_joiners in (True, False):
        (stage,) = schedule.stages(with_joiners=with_joiners)
        assert sum(group.series == "joiner" for group in stage) == 8 * with_joiners


def test_a_session_goes_on_as_it_was_declared() -> None:
    before = declared(looks=(12, 20), control_pairs=5, candidate_control_pairs=4, seed=3)
    schedule = defaults.schedule(typed(), before, joins=False)
    assert (schedule.looks, schedule.seed) == ((12, 20), 3)
    assert (schedule.controls, schedule.candidate_controls) == (5, 4)
    again = defaults.schedule(typed(pairs=8, seed=0, controls="2"), before, joins=False)
    assert (again.looks, again.seed, again.controls) == ((8,), 0, 2)


def test_a_quick_session_is_one_look_without_controls() -> None:
    schedule = defaults.schedule(typed(values={"quick": True}), None, joins=False)
    assert (schedule.looks, schedule.controls) == ((8,), 0)
    more = typed(values={"quick": True}, pairs=16, controls="4")
    schedule = defaults.schedule(more, None, joins=False)
    assert (schedule.looks, schedule.controls) == ((16,), 4)
    three = typed(values={"quick": True}, arms="native,unpacked,container")
    assert defaults.schedule(three, None, joins=False).looks == (12,)


@pytest.mark.parametrize("busy", [0.0, 2.0])
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_one_look_is_for_a_busy_machine_and_a_session_that_begins(
    busy: float, asked: bool, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = outlook.MachineLoad(load_1min=9.0, busy_cores=busy)
    monkeypatch.setattr(outlook, "load", lambda: seen)
    given = typed(one_look_if_busy=asked)
    wanted = defaults.schedule(given, None, joins=True)
    before: Any = object() if begun else None
    schedule, why = defaults.for_load(given, wanted, before, 2)
    if busy and asked and not begun:
        assert schedule.looks == wanted.looks[:1]
        assert "too busy to decide" in str(why)
    else:
        assert (schedule, why) == (wanted, None)


def test_a_new_seed_is_drawn_where_none_is_given() -> None:
    assert defaults.seed(typed(), None) != defaults.seed(typed(), None)
    assert defaults.seed(typed(), 4) == 4
    assert defaults.seed(typed(seed=0), 4) == 0


def test_the_file_of_samples(tmp_path: Path) -> None:
    named = defaults.output(typed(), IMAGE, "scale")
    assert re.fullmatch(r"demo-scale-\d{8}T\d{6}\.jsonl", named.name)
    assert named.is_absolute()
    asked = tmp_path / "a.jsonl"
    assert defaults.output(typed(target=asked), IMAGE, "import") == asked
    assert defaults.output(typed(resume=asked), IMAGE, "import") == asked


def test_ranks_are_those_typed_or_declared() -> None:
    assert defaults.ranks_of(typed(), None) is None
    ranks = defaults.ranks_of(typed(ranks=4, launcher="mpirun --map-by core"), None)
    assert ranks == RankOptions(ranks=4, words=("mpirun", "--map-by", "core"))
    before = declared(workload={"ranks": 6, "nodes": 2, "launcher": ["srun"], "start": "storm"})
    ranks = defaults.ranks_of(typed(), before)
    assert ranks == RankOptions(ranks=6, nodes=2, words=("srun",), start="storm", settled=True)


def test_ranks_that_are_not_counted() -> None:
    with pytest.raises(UsageError, match="require --ranks"):
        defaults.ranks_of(typed(nodes=2), None)


def test_the_cores_of_a_rank_at_a_site() -> None:
    forms = {"usual": {"summary": "4 a node", "launcher": ["srun"], "ranks_per_node": 4}}
    site = site_of(cpu={"model": "x", "cores": 48}, scheduler={"kind": "slurm", "forms": forms})
    assert defaults.rank_share(site.value) == 12
    assert defaults.rank_share(site_of(cpu={"model": "x", "cores": 48}).value) == 1
    forms["usual"] |= {"ranks_per_node": 64}
    many = site_of(cpu={"model": "x", "cores": 48}, scheduler={"kind": "slurm", "forms": forms})
    assert defaults.rank_share(many.value) == 1
    unsaid = site_of(scheduler={"kind": "slurm", "forms": forms}, cpu=None)
    assert defaults.rank_share(unsaid.value) == 1

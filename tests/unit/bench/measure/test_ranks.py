"""What ranks leave behind becomes one outcome; whoever is missing is named."""

import json
import platform
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis import nodes
from dlcontainer.bench.measure import launcher, outlook, ranked_launch, ranks
from dlcontainer.bench.measure.launch import LaunchCommand, LaunchOutcome
from dlcontainer.bench.measure.launcher import RankOptions
from dlcontainer.bench.measure.ranks import RankGroup, RankLaunch
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import AttestedStack
from dlcontainer.bench.samples.vocabulary import ArmPair
from dlcontainer.errors import BenchDataError, UsageError
from dlcontainer.sites.facts import LaunchForm, Scheduler
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError
from tests.fakes import RecordingRunner, completed

SIDES = ArmPair(reference="native", candidate="container")
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
GROUP = RankGroup(launcher=("mpirun", "-n", "3"), ranks=3, per_node=3, environment={})


def body(rank: int, ready: float, node: str = "n1", **changes: Any) -> dict[str, Any]:
    said = {
        "schema": "dlcontainer/probe/1",
        "probe": "import",
        "error": None,
        "module": "torch",
        "stamps_ns": {
            "launcher": START + SECOND // 10,
            "inside": START + SECOND // 5,
            "python": START + SECOND // 2,
            "barrier": None,
            "import": START + int(ready * SECOND),
        },
        "values": {"import_cpu_s": ready / 2},
        "counts": {"max_rss_mb": 100 + rank},
        "affinity": [rank],
        "place": {"rank": rank, "size": 3, "local_rank": rank, "node": node},
        "stack": {"python": "3.11.2"} if rank == 0 else None,
    }
    return {**said, **changes}


@pytest.fixture
def gathering(tmp_path: Path) -> RankLaunch:
    folder = tmp_path / "launch"
    folder.mkdir()
    return RankLaunch(rank_group=GROUP, folder=folder, patience_s=60, meet=1, master=2, token="t")


def leave(gathering: RankLaunch, *bodies: dict[str, Any]) -> None:
    for said in bodies:
        path = gathering.folder / f"rank-{said['place']['rank']:05d}.json"
        path.write_text(json.dumps(said))


def performed(gathering: RankLaunch, answer: Any = None, probe: str = "import") -> LaunchOutcome:
    answer = answer or completed("mpirun", stdout=f"dlc-start {START}\nmixed\n")
    started = LaunchCommand(argv=("mpirun",), environment={}, probe=PROBES[probe])
    return ranked_launch.perform(started, gathering, RecordingRunner([answer]), 60)


def test_the_last_rank_settles_the_time(gathering: RankLaunch) -> None:
    leave(gathering, body(0, 1.0), body(1, 3.0), body(2, 2.0))
    outcome = performed(gathering)
    assert (outcome.status, outcome.values["wall_s"]) == ("ok", 3.0)
    assert outcome.phases == pytest.approx(
        {"launcher": 0.1, "runtime": 0.1, "python": 0.3, "import": 2.5}
    )
    assert outcome.counts["max_rss_mb"] == 102
    assert [rank["values"]["wall_s"] for rank in outcome.ranks] == [1.0, 3.0, 2.0]  # type: ignore[call-overload,index]
    binding = {"local rank 0": [0], "local rank 1": [1], "local rank 2": [2]}
    assert outcome.nodes == {"n1": {"python": "3.11.2", "binding": binding}}
    assert not gathering.folder.exists()


def test_ranks_that_train_are_averaged_and_counted_together(gathering: RankLaunch) -> None:
    def trained(rank: int, wall: float, losses: list[float]) -> dict[str, Any]:
        # 32 samples each, whatever the time.
        more: dict[str, Any] = {
            "counts": {"samples_per_s": 32 / wall},
            "losses": losses,
            "steps_s": [wall],
        }
        return body(rank, 1.0, probe="train", values={"wall_s": wall}, **more)

    leave(
        gathering,
        trained(0, 2.0, [3.0, 1.0]),
        trained(1, 4.0, [1.0, 0.5]),
        trained(2, 1.0, [2.0, 0.0]),
    )
    outcome = performed(gathering, probe="train")
    assert outcome.values["wall_s"] == 4.0
    assert outcome.counts["samples_per_s"] == pytest.approx(96 / 4)
    assert outcome.losses == (2.0, 0.5)
    assert outcome.steps_s == (4.0,)


def test_a_rank_that_died_is_named_with_its_last_words(gathering: RankLaunch) -> None:
    waited = body(0, 1.0, error="RanksError: waiting for rank 1: it is gone")
    leave(gathering, waited)
    (gathering.folder / "rank-00001.err").write_text("first\nSegmentation fault\n")
    (gathering.folder / "rank-00001.exit").write_text("139\n")
    (gathering.folder / "rank-00002.err").write_text("")
    outcome = performed(gathering, CommandFailedError(completed("mpirun", code=139)))
    assert outcome.status == "failed"
    first, second, _ = outcome.reason.split("; ")[0:3]
    assert first == "2 of 3 ranks gave no result"
    assert second == "rank 1: exit code 139 (SIGSEGV)"
    assert outcome.reason.endswith("rank 0: RanksError: waiting for rank 1: it is gone")
    assert outcome.stderr == ("rank 1: first", "rank 1: Segmentation fault")
    assert [rank["exit_code"] for rank in outcome.ranks] == [None, 139, None]


def test_a_hanging_rank_is_named(gathering: RankLaunch) -> None:
    leave(gathering, body(0, 1.0), body(2, 1.0))
    (gathering.folder / "rank-00001.err").write_text("")
    outcome = performed(gathering, CommandTimeoutError(completed("mpirun", code=-9), 60))
    assert outcome.status == "timeout"
    assert outcome.reason == (
        "no end within 60 s: ended; 1 of 3 ranks gave no result; rank 1: it gave no result"
    )


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ([], "the launcher started none of the 3 ranks: it ended"),
        ([body(0, 1.0)], "2 of 3 ranks gave no result; never begun: 1, 2"),
        ([body(0, 1.0), body(1, 1.0), body(2, 1.0, error="X: y")], "rank 2: X: y"),
        (
            [body(0, 1.0, stack=None), body(1, 1.0), body(2, 1.0)],
            "the ranks' results are not whole: ValueError('no attestation from n1')",
        ),
    ],
    ids=["none", "one", "an error", "no stack"],
)
def test_what_is_not_whole_is_no_measurement(
    gathering: RankLaunch, left: list[dict[str, Any]], reason: str
) -> None:
    leave(gathering, *left)
    outcome = performed(gathering)
    assert (outcome.status, outcome.reason) == ("failed", reason)


def test_a_result_that_is_cut_is_none(gathering: RankLaunch) -> None:
    leave(gathering, body(0, 1.0), body(1, 1.0), body(2, 1.0))
    path = gathering.folder / "rank-00001.json"
    path.write_text(path.read_text()[:40])
    assert "rank 1: it gave no result" in performed(gathering).reason


def test_a_gathering_has_ports_and_a_folder_of_its_own(tmp_path: Path) -> None:
    one, other = (ranks.gather(GROUP, tmp_path, 5.5) for _ in range(2))
    assert one.folder != other.folder
    assert one.token != other.token
    assert len({one.meet, one.master}) == 2
    handed = one.handed(one.inside)
    assert handed["DLC_RANKS_RESULTS"] == f"/mnt/{one.folder.name}"
    assert (handed["DLC_RANKS"], handed["DLC_RANKS_PATIENCE"]) == ("3", "6")


FORM = LaunchForm.model_construct(
    summary="a form",
    launcher=("/bin/sh", "-N{nodes}", "-n{ranks}", "-p{ranks_per_node}", "$WHERE"),
    ranks_per_node=9,
)
JOB = {"SLURM_JOB_ID": "7", "WHERE": "here", "PATH": "/bin", "SECRET": "x", "NCCL_NET": "IB"}


def scheduler(**forms: LaunchForm) -> Scheduler:
    return Scheduler.model_construct(forms=forms, launcher=())


def test_the_sites_form_is_filled_in() -> None:
    found = launcher.rank_group(RankOptions(ranks=8, nodes=2), scheduler(a=FORM), JOB)
    assert found.launcher == ("/bin/sh", "-N2", "-n8", "-p4", "here")
    assert (found.per_node, found.nodes) == (4, 2)
    assert found.environment == {"SLURM_JOB_ID": "7", "PATH": "/bin", "NCCL_NET": "IB"}
    assert found.host != "127.0.0.1"


@pytest.mark.parametrize(
    ("environ", "host"),
    [
        # Who holds a job on a login node is on none of its nodes.
        ({"SLURM_JOB_NODELIST": "nid[001-004,007]"}, "nid001"),
        ({"SLURM_JOB_NODELIST": "n3,n[5-6]"}, "n3"),
        ({"SLURM_JOB_NODELIST": "nid[001-004]", "SLURMD_NODENAME": "nid001"}, platform.node()),
        ({"SLURM_JOB_NODELIST": "unknown[1-2]"}, platform.node()),
        ({}, platform.node()),
    ],
)
def test_rank_0_is_found_on_the_first_node(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], host: str
) -> None:
    def known(name: str, port: None) -> None:
        if name == "unknown1":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", known)
    asked = RankOptions(ranks=8, nodes=2)
    assert launcher.rank_group(asked, scheduler(a=FORM), {**JOB, **environ}).host == host


def test_on_several_nodes_an_image_knows_the_hosts_names(tmp_path: Path) -> None:
    several = replace(GROUP, nodes=3, per_node=1)
    names = (Path("/etc/hosts"), "/etc/hosts")
    assert names in ranks.gather(several, tmp_path, 5.5).binds
    assert names not in ranks.gather(GROUP, tmp_path, 5.5).binds


@pytest.mark.parametrize(
    ("asked", "environ", "says"),
    [
        (RankOptions(ranks=8, nodes=2), {"WHERE": "here"}, "not in a batch job"),
        (RankOptions(ranks=8, per_node=3), JOB, "--nodes 1 does not match 8 ranks at 3 per node"),
        (RankOptions(ranks=8, form="b"), JOB, "no such form"),
        (RankOptions(ranks=8), {}, r"\$WHERE is not set"),
        (
            RankOptions(ranks=8, words=("no-such-launcher",)),
            JOB,
            "launcher no-such-launcher not found",
        ),
    ],
)
def test_what_can_not_be_started_is_refused(asked: RankOptions, environ: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        launcher.rank_group(asked, scheduler(a=FORM), environ)


def test_a_launcher_that_is_known_is_told_the_counts(tmp_path: Path) -> None:
    for name in ("mpirun", "srun", "ibrun"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": str(tmp_path), "SLURM_JOB_ID": "7"}

    def words(name: str, nodes: int) -> tuple[str, ...]:
        asked = RankOptions(ranks=4, nodes=nodes, words=(name,))
        return launcher.rank_group(asked, scheduler(), environ).launcher

    assert words("mpirun", 1) == ("mpirun", "-n", "4")
    assert words("mpirun", 2) == ("mpirun", "-n", "4", "--map-by", "ppr:2:node")
    assert words("srun", 2) == ("srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2")
    assert words("ibrun", 1) == ("ibrun",)
    settled = RankOptions(ranks=4, words=("mpirun", "-n", "4"), settled=True)
    assert launcher.rank_group(settled, scheduler(), environ).launcher == ("mpirun", "-n", "4")


def stack(arm: Any, node: str, **facts: Any) -> AttestedStack:
    return AttestedStack(arm=arm, node=node, facts={"python": "3.11.2", "hostname": node, **facts})


def test_nodes_are_compared_one_by_one_and_with_each_other() -> None:
    gpus = {"n1": ["A100"], "n2": ["A100"], "n3": ["H100"]}
    ours = [stack("native", node, devices=devices) for node, devices in gpus.items()]
    theirs = [stack("container", node, devices=devices) for node, devices in gpus.items()]
    theirs[1] = stack("container", "n2", devices=["A100"], python="3.11.3")
    found = {item.name: item for item in nodes.differences("overhead", ours, theirs)}
    assert found["python on n2"].values == ("3.11.2", "3.11.3")
    assert found["devices"].nodes == ("n1", "n3")
    assert found["devices"].refuses
    # A node's name is its own, and so is a difference between sides that one node alone has.
    assert set(found) == {"python on n2", "devices", "python"}
    texts = comparable.refusals(list(found.values()), SIDES, ())
    assert 'devices differs between nodes: n1 ["A100"], n3 ["H100"]' in texts


def test_sides_on_other_nodes_are_refused() -> None:
    found = nodes.differences("deployment", [stack("native", "n1")], [stack("container", "n2")])
    assert [(item.name, item.values, item.refuses) for item in found] == [
        ("nodes", ("n1", "n2"), True)
    ]


@pytest.mark.parametrize(("cpus", "status"), [(None, "ok"), (1, "ok"), (2, "failed")])
def test_a_launch_on_fewer_cpus_than_asked_for_is_refused(
    gathering: RankLaunch, cpus: int | None, status: str
) -> None:
    gathering = replace(gathering, rank_group=replace(GROUP, cpus=cpus))
    leave(gathering, body(0, 1.0, affinity=[0, 1]), body(1, 3.0), body(2, 2.0))
    outcome = performed(gathering)
    assert outcome.status == status
    if status == "failed":
        assert outcome.reason.startswith("rank 1 on n1 may use 1 of the 2 CPUs that the job asked")


def test_a_task_on_fewer_cpus_than_asked_for_measures_nothing() -> None:
    task = {"SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "2"}
    outlook.require_cpus(task, allowed=[4, 5])
    outlook.require_cpus({"SLURM_CPUS_PER_TASK": "2"}, allowed=[4])
    with pytest.raises(
        BenchDataError, match="only 1 of the 2 CPUs per task that this job requested"
    ):
        outlook.require_cpus(task, allowed=[4])

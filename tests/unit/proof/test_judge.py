"""A proof held against its site and its image: each finding in each of its states."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.image.record import Record
from dlcontainer.proof import proof
from dlcontainer.proof.judge import ProofCase, ProofFinding, judge
from tests.unit.proof.cases import GPUS, PLAN, content, gpu_site, image, rank, write
from tests.values import CONTENT, site_of


def judged(
    folder: Path, site: Any = None, record: Record | None = None, **changes: Any
) -> dict[str, ProofFinding]:
    read = proof.read(write(folder / proof.FILE, content(**changes)))
    case = ProofCase(proof=read, site=site or gpu_site(), record=record)
    return {finding.name: finding for finding in judge(case)}


def changed(**changes: Any) -> list[dict[str, Any]]:
    """Give all ranks, each with these changes."""
    return [rank(number, **changes) for number in range(2 * GPUS)]


def recorded(digest: str = PLAN, sha256: str = "cd" * 32) -> Record:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": sha256, "size": 1},
        "digest": digest,
        "content": CONTENT,
    }
    return Record.model_validate_json(json.dumps(body))


def test_a_good_proof(tmp_path: Path) -> None:
    found = judged(tmp_path, record=recorded())
    assert {finding.state for finding in found.values()} == {"ok", "seen"}
    assert found["ranks"].detail == "8 of 8 ranks on n1; n2"
    assert found["devices"].detail == "4 a node, each trained as the CPU does: NVIDIA A100"
    assert found["network"].detail == "libfabric: NCCL named AWS Libfabric, from GPU memory"
    assert found["bandwidth"].detail.startswith("40.00 GB/s at 256 MiB")
    assert found["mounts"].detail == "1 for a node's ranks (fuse.squashfuse_ll)"
    assert found["import time"].detail == "9.0 s on the last rank, 2.0 s on the first"


def test_a_proof_of_another_image(tmp_path: Path) -> None:
    found = judged(tmp_path, record=recorded("ef" * 32))["image"]
    assert (found.state, "the image of plan efefefefefef" in found.detail) == ("failed", True)


def test_a_proof_of_another_file_of_the_same_plan(tmp_path: Path) -> None:
    named = {"image": image(sha256="cd" * 32)}
    assert judged(tmp_path, record=recorded(), **named)["image"].state == "ok"
    found = judged(tmp_path, record=recorded(sha256="01" * 32), **named)["image"]
    assert (found.state, "its SHA-256 differs" in found.detail) == ("failed", True)


def test_a_proof_of_another_site(tmp_path: Path) -> None:
    found = judged(tmp_path, image=image(site="elsewhere"))["site"]
    assert (found.state, found.detail.startswith("the image is for elsewhere")) == ("failed", True)


def test_a_run_by_path_is_of_no_image_and_no_site(tmp_path: Path) -> None:
    found = judged(tmp_path, image=None)
    assert {found[name].state for name in ("image", "site")} == {"not tried"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ranks": [rank(0)]}, "1 of 8 ranks came"),
        ({"ranks": [rank(0)] * 8}, "8 of 8 ranks came"),
        ({"ranks": changed(error="RuntimeError: x")}, "rank 0: RuntimeError: x"),
        (
            {"asked": 1, "ranks": [rank(0)], "job": {"SLURM_STEP_NUM_TASKS": "8"}},
            "the scheduler started 8 tasks, and each knew of 1 ranks",
        ),
    ],
)
def test_ranks_that_did_not_all_come(tmp_path: Path, changes: Any, says: str) -> None:
    found = judged(tmp_path, **changes)["ranks"]
    assert found.state == "failed"
    assert says in found.detail


def hidden(count: int, **variables: str) -> list[dict[str, Any]]:
    devices = {**rank(1)["devices"], "count": count, "variables": variables}
    return [rank(number, devices=devices, device="GPU-0") for number in range(2 * GPUS)]


def test_devices_that_the_scheduler_hides_are_named_with_its_variable(tmp_path: Path) -> None:
    found = judged(tmp_path, ranks=hidden(1, CUDA_VISIBLE_DEVICES="0"))["devices"]
    assert found.state == "failed"
    assert "n1: 1 of 4 devices that the site promises; the node's driver has 4" in found.detail
    assert "hidden by CUDA_VISIBLE_DEVICES=0" in found.detail


def test_devices_that_are_missing_without_a_variable(tmp_path: Path) -> None:
    found = judged(tmp_path, ranks=hidden(3))["devices"]
    assert "the job asked for too few, or the engine's flag --nv is missing" in found.detail


def test_each_rank_may_see_its_own_device_alone(tmp_path: Path) -> None:
    ranks = []
    for number in range(2 * GPUS):
        own = rank(number)
        own["devices"] = {**own["devices"], "count": 1, "devices": own["devices"]["devices"][:1]}
        ranks.append(own)
    assert judged(tmp_path, ranks=ranks)["devices"].state == "ok"


def test_a_device_that_failed_is_named(tmp_path: Path) -> None:
    ranks = changed()
    ranks[5]["devices"] = {**ranks[5]["devices"], "state": "failed", "detail": "device 1: losses"}
    found = judged(tmp_path, ranks=ranks)["devices"]
    assert (found.state, found.detail) == ("failed", "rank 5 on n2: device 1: losses")


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("exclusive process", "is in exclusive process mode and takes one process"),
        ("default", "NCCL takes one rank a device"),
    ],
)
def test_several_ranks_on_one_device(tmp_path: Path, mode: str, says: str) -> None:
    ranks = changed(device="GPU-0", modes=[{"uuid": "GPU-0", "mode": mode}])
    found = judged(tmp_path, ranks=ranks)["device a rank"]
    assert found.state == "failed"
    assert "ranks 0, 1, 2, 3 on n1 have device GPU-0 between them" in found.detail
    assert says in found.detail


def network(name: str | None, *words: str) -> dict[str, Any]:
    return {"nccl": {"network": name, "networks": list(words)}}


def test_sockets_where_the_site_has_a_fabric_fail(tmp_path: Path) -> None:
    found = judged(tmp_path, ranks=changed(**network("socket", "Socket")))["network"]
    assert found.state == "failed"
    assert "ranks 0, 1, 2 and 5 more used TCP sockets" in found.detail
    assert "HPE Slingshot 11" in found.detail


def test_one_rank_over_sockets_is_enough(tmp_path: Path) -> None:
    ranks = changed()
    ranks[6].update(network("socket", "Socket"))
    found = judged(tmp_path, ranks=ranks)["network"]
    assert (found.state, found.detail[:6]) == ("failed", "rank 6")


def test_sockets_where_the_site_says_tcp_are_not_tried(tmp_path: Path) -> None:
    site = gpu_site(collectives={"plugin": "none", "interface": "hsn", "remembered": ["plugin"]})
    found = judged(tmp_path, site, ranks=changed(**network("socket", "Socket")))
    assert found["network"].state == "not tried"
    assert "as the site says: TCP on hsn: nothing at this site brings" in found["network"].detail


def test_the_plug_in_is_named_once(tmp_path: Path) -> None:
    found = judged(tmp_path)["plug-in"]
    assert (found.state, found.detail) == (
        "seen",
        "AWS Libfabric (v8, v9) of /opt/ofi/lib/libnccl-net.so; NCCL asks for v6 to v8",
    )


def test_a_plug_in_that_the_site_brings_and_no_rank_finds(tmp_path: Path) -> None:
    found = judged(tmp_path, ranks=changed(plugin=None))["plug-in"]
    assert found.state == "failed"
    assert "none is found, and the site says: plugin: hook" in found.detail
    for facts in (
        {"plugin": "own"},
        {"plugin": "image"},
        {"plugin": "hook", "without_mpi": True},
    ):
        site = gpu_site(collectives={**facts, "remembered": list(facts)})
        assert "plug-in" not in judged(tmp_path, site, ranks=changed(plugin=None))


@pytest.mark.parametrize(("abi", "state"), [([8, 9], "seen"), ([9, 10], "failed")])
def test_another_plug_in_than_the_site_says(tmp_path: Path, abi: list[int], state: str) -> None:
    site = gpu_site(collectives={"plugin": "hook", "abi": abi, "remembered": ["plugin", "abi"]})
    found = judged(tmp_path, site)["plug-in"]
    assert found.state == state
    if state == "failed":
        assert "another plug-in than the site's, which has v9, v10" in found.detail


def test_sockets_over_ethernet_are_what_there_is(tmp_path: Path) -> None:
    lan = {"kind": "ethernet", "model": "10 GbE", "remembered": ["kind", "model"]}
    site = gpu_site(network=lan)
    found = judged(tmp_path, site, ranks=changed(**network("socket", "Socket")))["network"]
    assert found.state == "ok"


@pytest.mark.parametrize("said", [network(None), {"nccl": None}])
def test_a_log_without_a_line_is_not_shown_and_never_ok(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    found = judged(tmp_path, ranks=changed(**said))["network"]
    assert found.state == "not shown"


def test_within_one_node_nothing_is_said_of_the_network(tmp_path: Path) -> None:
    ranks = [rank(number, **network("socket", "Socket")) for number in range(GPUS)]
    for one in ranks:
        one["collective"] = {**one["collective"], "size": GPUS}
    found = judged(tmp_path, asked=GPUS, ranks=ranks, job={})
    assert {found[name].state for name in ("network", "bandwidth")} == {"not tried"}
    assert found["sums"].state == "ok"


def test_bandwidth_below_the_sites_floor(tmp_path: Path) -> None:
    slow = {**rank(0)["collective"], "bandwidth": [{"bytes": 1 << 28, "seconds": 1, "busbw": 0.4}]}
    ranks = changed()
    ranks[3]["collective"] = slow
    found = judged(tmp_path, ranks=ranks)["bandwidth"]
    assert found.state == "failed"
    assert found.detail.startswith(
        "0.40 GB/s at 256 MiB, the slowest rank; less than the site's 20"
    )


def test_without_a_floor_bandwidth_is_only_shown(tmp_path: Path) -> None:
    fabric = {"kind": "slingshot", "model": "S", "remembered": ["kind", "model"]}
    found = judged(tmp_path, gpu_site(network=fabric))["bandwidth"]
    assert (found.state, "network.busbw_min" in found.detail) == ("not tried", True)


@pytest.mark.parametrize("wrong", [{"off": 3.0}, {"size": 1}, {"off": "nan"}])
def test_sums_that_are_wrong(tmp_path: Path, wrong: dict[str, Any]) -> None:
    ranks = changed()
    ranks[2]["collective"] = {**ranks[2]["collective"], **wrong}
    found = judged(tmp_path, ranks=ranks)["sums"]
    assert (found.state, found.detail.startswith("rank 2: a sum over")) == ("failed", True)


def test_a_rank_without_a_group_is_not_shown(tmp_path: Path) -> None:
    ranks = changed()
    ranks[2]["collective"] = None
    assert judged(tmp_path, ranks=ranks)["sums"].state == "not shown"


def test_mounts_of_each_rank_are_counted(tmp_path: Path) -> None:
    ranks = changed()
    ranks[1]["mount"] = {"device": "0:53", "kind": "fuse.squashfuse_ll"}
    assert judged(tmp_path, ranks=ranks)["mounts"].detail.startswith("1 to 2 for a node's ranks")
    own = [{**one, "mount": {"device": f"0:{one['rank']}", "kind": "overlay"}} for one in ranks]
    assert judged(tmp_path, ranks=own)["mounts"].state == "not tried"
    joined = [{**one, "mount": {"device": "0:1", "kind": "overlay"}} for one in ranks]
    assert judged(tmp_path, ranks=joined)["mounts"].detail == "1 for a node's ranks (overlay)"


def test_a_site_of_cpus_is_asked_for_no_device(tmp_path: Path) -> None:
    ranks = changed(device=None, devices=None, present=None, modes=None)
    found = judged(tmp_path, site_of().value, ranks=ranks)
    assert not {"devices", "device a rank"} & set(found)
    silent = judged(tmp_path, site_of().value, ranks=[{**one, "nccl": None} for one in ranks])
    assert silent["network"].state == "not tried"


@pytest.mark.parametrize(
    ("cpus", "asked", "state", "says"),
    [
        (16, 16, "ok", "16 for each rank or more, as the job asked"),
        (32, 16, "ok", "32 for each rank or more"),
        (16, None, "seen", "nothing told how many the job asked for"),
        (1, 16, "failed", "ranks 0, 1, 2 and 5 more: 1 on n1 of the 16 that the job asked for"),
    ],
)
def test_the_cpus_of_ranks(
    tmp_path: Path, cpus: int, asked: int | None, state: str, says: str
) -> None:
    found = judged(tmp_path, ranks=changed(cpus=cpus, cpus_asked=asked))["CPUs"]
    assert found.state == state
    assert says in found.detail


def test_one_rank_with_fewer_cpus_is_enough(tmp_path: Path) -> None:
    ranks = changed(cpus=16, cpus_asked=16)
    ranks[5]["cpus"] = 2
    found = judged(tmp_path, ranks=ranks)["CPUs"]
    assert (found.state, found.detail[:16]) == ("failed", "rank 5: 2 on n2 ")


def test_a_proof_of_an_earlier_release_says_nothing_of_cpus(tmp_path: Path) -> None:
    assert "CPUs" not in judged(tmp_path)


def without_framework(**changes: Any) -> list[dict[str, Any]]:
    group = {"backend": None, "why": "no group of ranks for a framework that is not known"}
    return changed(device=None, devices=None, nccl=None, collective=group, **changes)


def test_an_image_without_a_known_framework_is_not_tried(tmp_path: Path) -> None:
    """JAX, NumPy, MPI alone: nobody asked for a device, so none is missing."""
    found = judged(tmp_path, framework=None, ranks=without_framework())
    assert (found["devices"].state, found["devices"].detail) == (
        "not tried",
        "no framework here that devices are tried with; the node's driver has 4",
    )
    assert found["network"].state == "not tried"
    assert not {"failed", "not shown"} & {finding.state for finding in found.values()}


def test_a_framework_that_sees_no_device_fails_where_the_site_promises_some(tmp_path: Path) -> None:
    nothing = {"state": "not tried", "detail": "torch sees no device", "count": 0}
    found = judged(tmp_path, ranks=changed(device=None, devices=nothing))["devices"]
    assert found.state == "failed"
    assert "0 of 4 devices that the site promises" in found.detail


def test_ranks_that_ended_before_their_devices_show_none(tmp_path: Path) -> None:
    found = judged(tmp_path, ranks=changed(device=None, devices=None, error="no libc"))
    assert found["ranks"].state == "failed"
    assert found["devices"].state == "not shown"
    assert found["devices"].detail.startswith("no rank came as far as its devices")


@pytest.mark.parametrize(
    ("stack", "state"), [({}, "not tried"), ({"cuda": "12.8", "gpu_targets": ["sm_80"]}, "failed")]
)
def test_an_image_for_cpus_is_asked_for_no_device(
    tmp_path: Path, stack: dict[str, Any], state: str
) -> None:
    body = json.loads(recorded().model_dump_json(by_alias=True))
    body["content"]["recipe"]["stack"] = stack
    record = Record.model_validate_json(json.dumps(body))
    nothing = {"state": "not tried", "detail": "torch sees no device", "count": 0}
    group = {"backend": "gloo", "why": None, "size": 2 * GPUS, "off": 0.0}
    ranks = changed(device=None, devices=nothing, nccl=None, collective=group)
    found = judged(tmp_path, record=record, ranks=ranks)
    assert found["devices"].state == state
    assert found["network"].state == ("not tried" if state == "not tried" else "not shown")

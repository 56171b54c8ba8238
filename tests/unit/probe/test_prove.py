"""A job's proof: ranks by the launcher's variables, met for real, merged and written once."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE
from dlcontainer.proof import proof
from tests.unit.probe.test_probe import copied, oldest

# A framework of nothing: what is tried is the proof around it.
FRAMEWORK = """
__version__ = "1.0"
"""
DEVICES = """
import os


class Devices(object):
    def names(self):
        return ["GPU A"] * int(os.environ.get("FAKE_GPUS", "0"))

    def losses(self, index, steps):
        if index is not None and os.environ.get("FAKE_BROKEN") == os.environ.get("RANK"):
            raise RuntimeError("an illegal memory access was encountered")
        return [1.0 / (step + 1) for step in range(steps)]
"""
GROUP = """
import os


def own_device(index, shown):
    return os.environ.get("FAKE_DEVICE", "GPU-%d" % index) if os.environ.get("FAKE_GPUS") else None


def backend():
    return "nccl" if os.environ.get("FAKE_GPUS") else "gloo"


def library():
    return "2.27.5"


class Group(object):
    def __init__(self, place, backend, patience):
        self.backend, self.size = backend, int(os.environ.get("FAKE_SIZE", place.size))
        assert os.environ["MASTER_PORT"].isdigit() and os.environ["MASTER_ADDR"]
        if os.environ.get("FAKE_DIES") == os.environ.get("RANK"):
            os._exit(9)
        with open(os.environ["NCCL_DEBUG_FILE"], "w") as file:
            if os.environ["NCCL_DEBUG"] == "INFO":
                file.write("n1:7:9 [0] NCCL INFO Using network IB\\n")
            if os.environ.get("FAKE_REFUSES"):
                file.write("n1:7:9 [0] init.cc:497 NCCL WARN Cuda failure 'out of memory'\\n")
        if os.environ.get("FAKE_REFUSES"):
            raise RuntimeError("NCCL error")

    def off(self):
        return 0.0

    def bandwidth(self):
        return [{"bytes": 1 << 20, "seconds": 0.5, "algbw": 1.0, "busbw": 1.0}]

    def close(self):
        pass
"""


@pytest.fixture
def probe_prove(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(PROBE)
    before = set(sys.modules)
    yield importlib.import_module("probe_prove")
    for name in set(sys.modules) - before:
        sys.modules.pop(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Copy the probe, with a framework that answers as the environment says."""
    there = copied(tmp_path / "probe")
    (there / "devices_torch.py").write_text(DEVICES)
    (there / "prove_torch.py").write_text(GROUP)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "torch.py").write_text(FRAMEWORK)
    return there


def launch(folder: Path, size: int, only: range | None = None, **environ: str) -> list[Any]:
    """Start ranks as torchrun does; give how each ended."""
    common = {
        "PATH": os.defpath,
        "PYTHONPATH": str(folder.parent / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        **environ,
    }
    minutes = environ.get("MINUTES", "1")
    argv = [oldest(), str(folder), "prove", "--out", str(folder.parent / "out")]
    started = [
        subprocess.Popen(
            [*argv, "--minutes", minutes],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in only or range(size)
    ]
    return [(one.communicate(timeout=120)[0], one.returncode) for one in started]


def written(folder: Path) -> proof.Proof:
    return proof.read(folder.parent / "out")


@pytest.mark.usefixtures("real_processes")
def test_three_ranks_meet_and_leave_one_proof(folder: Path) -> None:
    # A site's own setting would leave nothing to read.
    ended = launch(folder, 3, FAKE_GPUS="3", NCCL_DEBUG="WARN")
    assert [code for _, code in ended] == [0, 0, 0], ended
    found = written(folder)
    assert [rank.rank for rank in found.content.ranks] == [0, 1, 2]
    assert (found.content.asked, found.content.faults) == (3, ())
    # The first of a node tries all its devices, each other one its own.
    tried = [len(rank.devices.devices) for rank in found.content.ranks if rank.devices]
    assert tried == [3, 1, 1]
    assert {rank.nccl.network for rank in found.content.ranks if rank.nccl} == {"ib"}
    assert all(rank.mount and rank.import_s is not None for rank in found.content.ranks)
    assert found.content.image is None
    assert "proof: 3 of 3 ranks, nodes: 1" in ended[0][0]
    left = sorted(path.name for path in (folder.parent / "out").iterdir())
    assert left == ["proof.json", *(f"rank-0000{rank}.nccl" for rank in range(3))]


@pytest.mark.usefixtures("real_processes")
def test_a_rank_tells_its_cpus_and_what_was_asked_for(folder: Path) -> None:
    launch(folder, 1, SLURM_CPUS_PER_TASK="3", SLURM_RESTART_COUNT="2")
    content = written(folder).content
    [found] = content.ranks
    assert (found.cpus, found.cpus_asked) == (len(os.sched_getaffinity(0)), 3)
    assert content.job == {"SLURM_RESTART_COUNT": "2"}


@pytest.mark.usefixtures("real_processes")
def test_ranks_of_a_job_whose_id_is_no_text_meet(folder: Path) -> None:
    ended = launch(folder, 2, FLUX_JOB_ID="ƒM7/\udcff\n")
    assert [code for _, code in ended] == [0, 0], ended
    assert written(folder).content.job == {"FLUX_JOB_ID": "ƒM7/\\xff\n"}


@pytest.mark.usefixtures("real_processes")
def test_a_proof_is_not_written_over(folder: Path) -> None:
    launch(folder, 1)
    first = written(folder).digest
    (said, code), *_ = launch(folder, 1)
    assert (code, written(folder).digest) == (1, first)
    assert "it is there already" in said
    assert "a launcher of another MPI" in said


@pytest.mark.usefixtures("real_processes")
def test_a_rank_with_a_broken_device_is_named_and_nobody_waits_for_it(folder: Path) -> None:
    ended = launch(folder, 2, FAKE_GPUS="2", FAKE_BROKEN="1")
    assert [code for _, code in ended] == [1, 1]
    faults = written(folder).content.faults
    assert any("rank 1: device 1 (GPU A): RuntimeError: an illegal memory" in one for one in faults)
    assert any("ranks did not meet: rank 1 failed before" in one for one in faults)


@pytest.mark.usefixtures("real_processes")
def test_a_rank_that_dies_leaves_a_proof_of_that(folder: Path) -> None:
    ended = launch(folder, 2, FAKE_GPUS="2", FAKE_DIES="1")
    assert [code for _, code in ended] == [1, 9]
    assert "1 of 2 ranks came" in written(folder).content.faults


@pytest.mark.usefixtures("real_processes")
def test_a_rank_that_never_comes_is_not_waited_for_for_ever(folder: Path) -> None:
    ended = launch(folder, 2, only=range(1), MINUTES="0.05")
    assert [code for _, code in ended] == [1]
    assert "1 of 2 ranks came" in written(folder).content.faults


@pytest.mark.usefixtures("real_processes")
def test_a_folder_that_rank_0_does_not_share_says_so(folder: Path) -> None:
    ended = launch(folder, 2, only=range(1, 2), MINUTES="0.05")
    assert [code for _, code in ended] == [1]
    assert not (folder.parent / "out" / "proof.json").exists()


@pytest.mark.usefixtures("real_processes")
def test_ranks_with_one_device_between_them_meet_without_nccl(folder: Path) -> None:
    launch(folder, 2, FAKE_GPUS="1", FAKE_DEVICE="GPU-x")
    ranks = written(folder).content.ranks
    assert {rank.collective.backend for rank in ranks if rank.collective} == {"gloo"}
    assert all(
        rank.collective and "have device GPU-x between them" in str(rank.collective.why)
        for rank in ranks
    )


@pytest.mark.usefixtures("real_processes")
def test_a_group_that_fails_leaves_nccls_warnings(folder: Path) -> None:
    (_, code), *_ = launch(folder, 1, FAKE_GPUS="1", FAKE_REFUSES="1")
    body = json.loads((folder.parent / "out" / "proof.json").read_text())
    [rank] = body["content"]["ranks"]
    assert (code, rank["error"]) == (1, "RuntimeError: NCCL error")
    assert rank["nccl"]["warnings"] == ["Cuda failure 'out of memory'"]


@pytest.mark.usefixtures("real_processes")
def test_a_group_of_another_size_is_a_fault(folder: Path) -> None:
    ended = launch(folder, 2, FAKE_SIZE="1")
    assert [code for _, code in ended] == [1, 1]
    assert "a sum over 1 of 2 ranks" in written(folder).content.faults[0]


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, (0, 1, 0)),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (5, 8, 1)),
        # One torchrun a node, started by srun: torchrun's own are the ranks.
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "SLURM_PROCID": "1",
             "SLURM_NTASKS": "2"},
            (5, 8, 1),
        ),
        ({"SLURM_PROCID": "6", "SLURM_NTASKS": "8", "SLURM_LOCALID": "2"}, (6, 8, 2)),
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "3"}, (3, 4, 3)),
        # Of a size alone nothing follows.
        ({"WORLD_SIZE": "8"}, (0, 1, 0)),
    ],
)  # fmt: skip
def test_a_rank_finds_its_place(
    probe_prove: Any, environ: dict[str, str], place: tuple[int, int, int]
) -> None:
    found = probe_prove.prove_place.place(environ)
    assert (found.rank, found.size, found.local_rank) == place


def test_a_rank_beyond_the_size_is_refused(probe_prove: Any) -> None:
    with pytest.raises(probe_prove.prove_place.ranks.RanksError, match="RANK=2"):
        probe_prove.prove_place.place({"RANK": "2", "WORLD_SIZE": "2"})


def test_probe_and_host_take_the_same_digest(probe_prove: Any) -> None:
    content = {"b": [1, 2.5, None, "ü"], "a": {"x": True}}
    assert probe_prove.canonical(content) == proof.canonical(content)
    assert (
        probe_prove.digest(content) == hashlib.sha256(proof.canonical(content).encode()).hexdigest()
    )


def test_what_is_no_number_is_written_as_text(probe_prove: Any) -> None:
    assert json.loads(probe_prove.canonical([float("nan"), float("inf"), 1.5])) == [
        "nan",
        "inf",
        1.5,
    ]


def test_an_image_is_named_by_its_manifest(probe_prove: Any, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    content = {
        "recipe": {"name": "pytorch", "version": "2.9.1"},
        "site": "delta",
        "epoch": None,
        "node_type": "a100x4",
    }
    path.write_text(json.dumps({"digest": "ab" * 32, "content": content}))
    found = probe_prove.image("cd" * 32, str(path))
    assert (found["plan"], found["sha256"]) == ("ab" * 32, "cd" * 32)
    assert (found["site"], found["node_type"]) == ("delta", "a100x4")
    assert probe_prove.image(None, str(tmp_path / "none.json")) is None


def test_without_a_known_framework_the_images_own_proof_is_run(
    probe_prove: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "verify.py"
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"verify": str(script)}))
    script.write_text("print('answer 42')\n")
    probe_prove._verified(str(manifest))
    assert capsys.readouterr().out == "answer 42\n"
    script.write_text("raise SystemExit(1)\n")
    with pytest.raises(RuntimeError, match="the image's own proof ended with 1"):
        probe_prove._verified(str(manifest))
    with pytest.raises(RuntimeError, match="no framework here"):
        probe_prove._verified(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("framework", "package", "has_group"),
    [
        ("torch", "torch", True),
        ("tensorflow", "horovod", True),
        ("tensorflow", "tensorflow", False),
        ("mxnet", "mxnet", False),
        (None, "torch", False),
    ],
)
def test_which_framework_has_a_group(
    probe_prove: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    framework: str | None,
    package: str,
    has_group: bool,
) -> None:
    (tmp_path / f"{package}.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()
    assert probe_prove.has_group(framework) is has_group


class Cuda:
    """PyTorch's view of a node's devices."""

    def __init__(self, count: int, uuids: list[str] | None = None) -> None:
        self.count, self.uuids = count, uuids

    def is_available(self) -> bool:
        return self.count > 0

    def device_count(self) -> int:
        return self.count

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(**({"uuid": self.uuids[index]} if self.uuids else {}))


@pytest.mark.usefixtures("probe_prove")
@pytest.mark.parametrize(
    ("cuda", "shown", "name"),
    [
        (Cuda(0), None, None),
        (Cuda(4, ["a", "b", "c", "d"]), None, "b"),
        (Cuda(1, ["a"]), None, "a"),
        # An older PyTorch, one device a rank by a cgroup: the driver shows that one.
        (Cuda(1), [{"uuid": "GPU-7", "mode": None}], "GPU-7"),
        # One device by a variable: the driver shows all, and nothing tells which it is.
        (Cuda(1), [{"uuid": "GPU-7", "mode": None}] * 4, None),
        (Cuda(4), None, "1"),
    ],
)
def test_a_device_is_named_only_by_what_tells_it_apart(
    monkeypatch: pytest.MonkeyPatch, cuda: Cuda, shown: Any, name: str | None
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert importlib.import_module("prove_torch").own_device(5, shown) == name


@pytest.mark.usefixtures("probe_prove")
def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    # PERFORMANCE.md of nccl-tests: busbw = algbw * 2 * (n - 1) / n.
    found = importlib.import_module("prove_figures").figures(8_000_000_000, 2.0, 4)
    assert (found["algbw"], found["busbw"]) == (4.0, 6.0)

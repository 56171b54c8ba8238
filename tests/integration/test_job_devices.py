"""Each rank looks at its node's GPUs before its engine starts, by the host's own tool."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import LSF, RANK_WORDS, Machine, plan_at

NVIDIA = {"vendor": "nvidia", "model": "A100", "per_node": 4}
AMD = {"vendor": "amd", "model": "MI250X", "per_node": 8}
DEFAULT, EXCLUSIVE = "Default\n", "Exclusive_Process\n"
# Recorded words of a node with two devices, as far as they are read.
ROCM_SMI = "".join(
    f"GPU[{number}]\t\t: Device Name: AMD Instinct\nGPU[{number}]\t\t: GPU ID: 0x7408\n"
    for number in range(2)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node whose rank says what stops it; nothing where it starts."""

    words: list[str]
    tools: Path

    def says(self, tool: str = "", text: str = "", code: int = 0, **environ: str) -> str:
        for old in self.tools.iterdir():
            old.unlink()
        if tool:
            path = self.tools / tool
            path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
            path.chmod(0o755)
        done = subprocess.run(
            [*self.words, "/bin/echo", "started"],
            env={
                "PATH": f"{self.tools}:/usr/bin:/bin",
                "SLURM_PROCID": "0",
                "SLURM_LOCALID": "0",
                "SLURM_NTASKS": "4",
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) in ((0, "started\n"), (3, "")), done.stderr
        return done.stderr if done.returncode else ""


def node(
    folder: Path, gpu: dict[str, Any], launcher: list[str], ranks: int, *words: str, **environ: str
) -> Node:
    """Render a job for a site with such a form, and give what its ranks run."""
    form = {"summary": "a form", "launcher": launcher, "ranks_per_node": ranks}
    scheduler = {"kind": "slurm", "launcher": ["srun"], "forms": {"a": form}}
    plan = plan_at(folder / "r", accelerator=gpu, scheduler=scheduler)
    machine = Machine.made(folder / "m")
    machine.image(plan)
    (folder / "tools").mkdir()
    rank = machine.job(plan, *(words or ("mine",)), SLURM_NNODES="1", **environ).rank
    # This machine may have such a device or not, whatever the site says.
    shown = [
        word.replace("/dev/nvidiactl", "/dev/null").replace("/dev/kfd", "/dev/null")
        for word in rank
    ]
    return Node(words=shown, tools=folder / "tools")


SRUN = ["srun", "-n{ranks}", "--gpus-per-node=4"]


@pytest.mark.parametrize(
    ("said", "environ", "says"),
    [
        (4 * DEFAULT, {}, ""),
        (4 * DEFAULT, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, ""),
        (4 * EXCLUSIVE, {}, ""),
        ("[N/A]\n" * 4, {}, ""),
        (2 * DEFAULT, {}, "can use 2 GPUs of the 4 that this form of job gives it (nvidia-smi: D"),
        (
            4 * DEFAULT,
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            "2 GPUs of the 4 that this form of job gives",
        ),
        (4 * DEFAULT, {"CUDA_VISIBLE_DEVICES": ""}, "0 GPUs of the 4"),
        (4 * DEFAULT, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "(CUDA_VISIBLE_DEVICES=NoDevFiles)"),
        (3 * DEFAULT + "Prohibited\n", {}, "can use 3 GPUs of the 4"),
        # Submitted with fewer than the script asks for: that is the promise then.
        (2 * DEFAULT, {"SLURM_GPUS_ON_NODE": "2"}, ""),
        (1 * DEFAULT, {"SLURM_GPUS_ON_NODE": "2"}, "can use 1 GPUs of the 2"),
        (2 * DEFAULT, {"SLURM_GPUS_ON_NODE": "0"}, "can use 2 GPUs of the 4"),
        (2 * DEFAULT, {"SLURM_GPUS_ON_NODE": "many"}, "can use 2 GPUs of the 4"),
    ],
)
def test_fewer_than_promised(tmp_path: Path, said: str, environ: dict[str, str], says: str) -> None:
    found = node(tmp_path, NVIDIA, SRUN, 4).says("nvidia-smi", said, 0, **environ)
    assert says in found
    assert bool(says) == bool(found)
    assert not says or "DLCONTAINER_GPUS=0 starts without this check" in found


def test_the_tool_finds_none_or_is_missing_or_broken(tmp_path: Path) -> None:
    own = node(tmp_path, NVIDIA, SRUN, 4)
    assert "can use 0 GPUs of the 4" in own.says("nvidia-smi", "No devices were found\n", 6)
    assert own.says("nvidia-smi", "couldn't communicate with the driver\n", 9) == ""
    assert own.says() == ""
    # Without the tool a variable still tells.
    assert "(CUDA_VISIBLE_DEVICES=0)" in own.says(CUDA_VISIBLE_DEVICES="0")


def test_a_node_without_devices(tmp_path: Path) -> None:
    own = node(tmp_path, NVIDIA, SRUN, 4)
    bare = Node(
        words=[word.replace("/dev/null", "/dev/no-x") for word in own.words], tools=own.tools
    )
    assert "can use 0 GPUs of the 4" in bare.says()
    # One rank says it for its node, and all of them end.
    done = subprocess.run(
        [*bare.words, "/bin/true"],
        env={"SLURM_PROCID": "1", "SLURM_LOCALID": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")


def test_exclusive_gpus_take_one_rank_each(tmp_path: Path) -> None:
    own = node(tmp_path, NVIDIA, SRUN, 16)
    assert own.says("nvidia-smi", 4 * DEFAULT) == ""
    found = own.says("nvidia-smi", 4 * EXCLUSIVE)
    assert "16 ranks share 4 GPUs, which take one process each (compute mode Exclusive" in found
    assert own.says("nvidia-smi", 4 * EXCLUSIVE, CUDA_MPS_PIPE_DIRECTORY="/run/mps") == ""


@pytest.mark.parametrize(
    "launcher", [["srun", "-n{ranks}", "--gpus-per-task=1"], ["srun", "--gpus-per-task", "1"]]
)
def test_a_rank_with_a_gpu_of_its_own(tmp_path: Path, launcher: list[str]) -> None:
    own = node(tmp_path, NVIDIA, launcher, 4)
    assert own.words[RANK_WORDS - 1] == "1:1"
    assert own.says("nvidia-smi", EXCLUSIVE, CUDA_VISIBLE_DEVICES="0") == ""
    assert "can use 0 GPUs of the 1" in own.says("nvidia-smi", "", 6)


@pytest.mark.parametrize(
    ("words", "gives"),
    [
        (["-r1", "-g6", "-a6"], "6:6"),
        (["-r6", "-a1", "-g1"], "1:1"),
        (["-r", "4", "-g", "1"], "1:1"),
    ],
)
def test_what_jsrun_gives_a_rank(tmp_path: Path, words: list[str], gives: str) -> None:
    form = {"summary": "a form", "launcher": ["jsrun", *words], "ranks_per_node": 6}
    scheduler = {**LSF["scheduler"], "forms": {"a": form}}
    plan = plan_at(
        tmp_path / "r", accelerator={**NVIDIA, "per_node": 6}, scheduler=scheduler, jobs={}
    )
    machine = Machine.made(tmp_path / "m")
    machine.image(plan)
    hosts = tmp_path / "hosts"
    hosts.write_text("batch1\na1\n")
    assert machine.job(plan, "mine", LSB_DJOB_HOSTFILE=str(hosts), LSB_JOBID="7").gpus == gives


def test_amds_devices(tmp_path: Path) -> None:
    own = node(tmp_path, AMD, ["srun", "-n{ranks}", "--gpus-per-node=8"], 8)
    assert "can use 2 GPUs of the 8" in own.says("rocm-smi", ROCM_SMI)
    assert own.says("rocm-smi", "another release speaks otherwise\n") == ""
    assert "(ROCR_VISIBLE_DEVICES=0,1,2)" in own.says(ROCR_VISIBLE_DEVICES="0,1,2")


def test_a_proof_and_who_asks_not_to_look(tmp_path: Path) -> None:
    form = {"summary": "a form", "launcher": SRUN, "ranks_per_node": 4}
    scheduler = {"kind": "slurm", "launcher": ["srun"], "forms": {"a": form}}
    plan = plan_at(tmp_path / "r", accelerator=NVIDIA, scheduler=scheduler)
    machine = Machine.made(tmp_path / "m")
    machine.image(plan)
    proof = machine.job(plan, SLURM_NNODES="1")
    assert proof.gpus == "4:4:note"
    words = [word.replace("/dev/nvidiactl", "/dev/no-x") for word in proof.rank]
    done = subprocess.run(
        [*words, "/bin/true"],
        env={"SLURM_PROCID": "0", "PATH": "/bin"},
        capture_output=True,
        check=True,
    )
    assert b"can use 0 GPUs of the 4" in done.stderr
    assert "SLURM_KILL_BAD_EXIT" not in proof.environment
    mine = machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_GPUS="0")
    assert (mine.gpus, mine.environment["SLURM_KILL_BAD_EXIT"]) == ("", "1")
    assert machine.job(plan, "mine", SLURM_NNODES="1", DLCONTAINER_GPUS="x").code == 3
    without = plan_at(tmp_path / "s", scheduler=scheduler)
    machine.image(without)
    assert machine.job(without, "mine", SLURM_NNODES="1").gpus == ""

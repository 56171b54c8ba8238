"""Nodes for tests, as `collect.py` reports them.

Real text where it is public: /proc/driver/nvidia/version of the open and of the closed module
(nix-community/nixGL issue 186), an MI300X's properties (a fixture that several projects share:
device_id 29857, gfx_target_version 90402). The rest is made in the kernel's form.
"""

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlcontainer.detection import asking, evidence, node_report
from dlcontainer.detection.evidence import NodeEvidence, NodeProcess, ProgramAnswer
from dlcontainer.detection.fact import FactValue, NodeFact

FLAGS_V2 = "fpu cx8 cmov mmx fxsr sse sse2 syscall pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
FLAGS_V3 = f"{FLAGS_V2} avx f16c abm fma avx2 bmi1 bmi2 movbe xsave"
FLAGS_V4 = f"{FLAGS_V3} avx512f avx512dq avx512cd avx512bw avx512vl"
OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  "
    "(dvs-builder@U16-A24-9-2)  Thu Oct 10 12:15:00 UTC 2024\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)
CLOSED_MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
)
QUERY = "nvidia-smi --query-gpu=name,compute_cap,memory.total --format=csv,noheader,nounits"
SINFO = "sinfo --noheader --format=%P|%a|%l|%D|%c|%m|%G"
MI300X = (
    "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version 90402\n"
    "vendor_id 4098\ndevice_id 29857\nlocation_id 18176\nnum_xcc 8\n"
)


def collector() -> Any:
    """Load the program that runs on nodes."""
    spec = importlib.util.spec_from_file_location("collect", asking.COLLECT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def planted(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a root."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def topology(sockets: int, cores: int, threads: int) -> dict[str, str]:
    """Write the kernel's topology: the second threads of all cores come last."""
    texts, count = {}, sockets * cores
    for cpu in range(count * threads):
        base = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        core = cpu % count
        texts[f"{base}/physical_package_id"] = f"{core // cores}\n"
        siblings = ",".join(str(core + count * thread) for thread in range(threads))
        texts[f"{base}/thread_siblings_list"] = f"{siblings}\n"
    return texts


def answer(out: str, code: int = 0) -> ProgramAnswer:
    return ProgramAnswer(code=code, out=out)


BASE = NodeEvidence(
    files={
        "/etc/os-release": 'NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\n',
        "/proc/cpuinfo": "vendor_id\t: AuthenticAMD\n"
        "model name\t: AMD EPYC 9654 96-Core Processor\n"
        f"flags\t\t: {FLAGS_V4}\n",
        "/proc/meminfo": "MemTotal:       791384164 kB\nMemFree: 1 kB\n",
        "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
        "home:/vol /home nfs4 rw 0 0\n1@tcp:/scr /lus/scratch lustre rw 0 0\n",
        "/sys/devices/system/node/online": "0-1\n",
        "/proc/sys/user/max_user_namespaces": "3092347\n",
        "/sys/bus/pci/devices/0000:00:00.0/class": "0x060000\n",
        **topology(2, 4, 2),
    },
    folders={"/": ("bin", "home", "lus", "scratch", "usr"), "/sys/class/net": ("lo",)},
    programs={
        "sbatch": "/usr/bin/sbatch",
        "srun": "/usr/bin/srun",
        "apptainer": "/usr/bin/apptainer",
    },
    answers={
        "sinfo --version": answer("slurm 23.11.6\n"),
        SINFO: answer(
            "gpu*|up|2-00:00:00|24|16|772000|gpu:h100:4\ncpu|up|infinite|96|16|772000|(null)\n"
        ),
        "apptainer --version": answer("apptainer version 1.3.6-1.el9\n"),
        "ldconfig -p": answer(
            "2 libs found in cache\n\tlibmpi.so.40 (libc6,x86-64) => /opt/ompi/lib/libmpi.so.40\n"
            "\tlibz.so.1 (libc6,x86-64) => /lib64/libz.so.1\n"
        ),
        "mpirun --version": answer("mpirun (Open MPI) 5.0.5\n\nReport bugs to …\n"),
        "ucx_info -v": answer(
            "# Library version: 1.17.0\n# Library path: /usr/lib64/libucs.so.0\n"
        ),
        "fi_info --version": answer("fi_info: 2.1.0\nlibfabric: 2.1.0\nlibfabric api: 2.1\n"),
    },
    variables={
        "HOME": "/home/ada",
        "SCRATCH": "/lus/scratch/ada",
        "MODULEPATH": "/sw/modules:/sw/more",
        "LMOD_VERSION": "8.7.37",
        "LOADEDMODULES": "gcc/13.2:openmpi/5.0.5",
    },
    disks={"/tmp": (200_000, 150_000), "/dev/shm": (395_000, 395_000)},
    process=NodeProcess(
        host="nid001",
        machine="x86_64",
        kernel="5.14.0-427.13.1.el9_4.x86_64",
        libc="glibc 2.34",
        page=4096,
        affinity=16,
        umask=0o027,
        uid=1000,
        python="3.9.18",
        memlock=-1,
        nofile=1024,
        fuse=True,
        namespace_error=0,
        subuid=False,
    ),
)


def having(
    files: Mapping[str, str] | None = None,
    answers: Mapping[str, ProgramAnswer] | None = None,
    links: Mapping[str, str] | None = None,
    folders: Mapping[str, tuple[str, ...]] | None = None,
    base: NodeEvidence = BASE,
) -> NodeEvidence:
    """Return the usual node with more on it."""
    return replace(
        base,
        files={**base.files, **(files or {})},
        answers={**base.answers, **(answers or {})},
        links={**base.links, **(links or {})},
        folders={**base.folders, **(folders or {})},
    )


H100 = having(
    {
        "/proc/driver/nvidia/version": OPEN_MODULE,
        **{
            f"/proc/driver/nvidia/gpus/0000:{number}0:00.0/information": "Model: \t\t NVIDIA H100\n"
            for number in range(4)
        },
        **{
            f"/sys/class/infiniband/mlx5_{number}/{name}": text
            for number in range(2)
            for name, text in {
                "hca_type": "MT4129\n",
                "ports/1/state": "4: ACTIVE\n",
                "ports/1/rate": "400 Gb/sec (4X NDR)\n",
                "ports/1/link_layer": "InfiniBand\n",
            }.items()
        },
    },
    {
        QUERY: answer("NVIDIA H100 80GB HBM3, 9.0, 81559\n" * 4),
        "nvidia-smi": answer(
            "| NVIDIA-SMI 565.57.01   Driver Version: 565.57.01   CUDA Version: 12.7 |\n"
        ),
    },
    {f"/sys/class/infiniband/mlx5_{number}/device/driver": "mlx5_core" for number in range(2)},
    {"/sys/class/infiniband": ("mlx5_0", "mlx5_1")},
)
MI300 = having(
    {
        "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 96\nsimd_count 0\n",
        **{
            f"/sys/class/kfd/kfd/topology/nodes/{number}/properties": MI300X
            for number in range(2, 10)
        },
        **{
            f"/sys/class/kfd/kfd/topology/nodes/{number}/mem_banks/0/properties": "heap_type 1\n"
            "size_in_bytes 206141652992\n"
            for number in range(2, 10)
        },
        "/sys/module/amdgpu/version": "6.10.5\n",
    },
    folders={"/sys/class/cxi": ("cxi0", "cxi1", "cxi2", "cxi3")},
)
# A node of which a user sees nothing but a C library: a bare container.
BARE = NodeEvidence(process=replace(BASE.process, libc=None, fuse=False, namespace_error=1))


def values(found: NodeEvidence) -> dict[str, FactValue | None]:
    """Return the values of a node's facts, by name."""
    return {fact.name: fact.value for fact in node_report.facts(found)}


def facts(found: NodeEvidence) -> dict[str, NodeFact]:
    return {fact.name: fact for fact in node_report.facts(found)}


def printed(found: Mapping[str, object]) -> str:
    """Write what a job's log holds of a node."""
    return f"some words of the site\n{evidence.MARK}{json.dumps(found)}\n"


def without_programs() -> dict[str, str]:
    return {**os.environ, "PATH": "/no/such"}

"""A node's facts, read out of what was collected on it: known with their source, or unknown."""

from dataclasses import replace

import pytest

from dlcontainer.detection.evidence import CxxLibrary, ProgramAnswer
from tests.unit.detection.machines import (
    BARE,
    BASE,
    CLOSED_MODULE,
    FLAGS_V2,
    FLAGS_V3,
    H100,
    MI300,
    OPEN_MODULE,
    QUERY,
    answer,
    facts,
    having,
    topology,
    values,
)


def test_a_node_with_nvidias() -> None:
    seen = values(H100)
    assert {key: seen[f"accelerator.{key}"] for key in ("vendor", "model", "per_node")} == {
        "vendor": "nvidia",
        "model": "H100 80GB HBM3",
        "per_node": 4,
    }
    assert seen["accelerator.target"] == "sm_90"
    assert seen["accelerator.memory_gb"] == 80
    assert (seen["accelerator.driver"], seen["accelerator.toolkit"]) == ("565.57.01", "12.7")
    assert seen["network.kind"] == "infiniband"
    assert seen["network.model"] == "2 x MT4129, 400 Gb/sec (4X NDR)"


def test_a_node_with_amds() -> None:
    seen = values(MI300)
    assert seen["accelerator.vendor"] == "amd"
    assert seen["accelerator.per_node"] == 8
    assert seen["accelerator.target"] == "gfx942"
    assert seen["accelerator.memory_gb"] == 192
    assert seen["accelerator.driver"] == "6.10.5"
    # The kernel names no model: the device's number is all that it says.
    assert seen["accelerator.model"] == "PCI device 0x74a1"
    assert seen["network.kind"] == "slingshot"


@pytest.mark.parametrize(
    ("number", "target"),
    [("90010", "gfx90a"), ("90402", "gfx942"), ("100300", "gfx1030"), ("110501", "gfx1151")],
)
def test_an_amd_target(number: str, target: str) -> None:
    path = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    node = having({path: f"simd_count 440\ngfx_target_version {number}\n"})
    assert values(node)["accelerator.target"] == target


@pytest.mark.parametrize(
    ("text", "driver"), [(OPEN_MODULE, "565.57.01"), (CLOSED_MODULE, "535.104.05")]
)
def test_the_driver_without_nvidia_smi(text: str, driver: str) -> None:
    node = having(
        {
            "/proc/driver/nvidia/version": text,
            "/proc/driver/nvidia/gpus/0/information": "Model: \t\t NVIDIA A100-SXM4-40GB\n",
        }
    )
    seen = facts(node)
    assert seen["accelerator.driver"].value == driver
    assert seen["accelerator.model"].value == "A100-SXM4-40GB"
    # Nothing is guessed of a model's name.
    assert seen["accelerator.target"].value is None
    assert seen["accelerator.target"].why == "nvidia-smi: no nvidia-smi on PATH"


def test_gpus_of_two_models() -> None:
    mixed = having(
        {"/proc/driver/nvidia/version": OPEN_MODULE},
        {QUERY: answer("NVIDIA A100-PCIE-40GB, 8.0, 40960\nTesla V100-PCIE-32GB, 7.0, 32768\n")},
    )
    seen = facts(mixed)
    assert seen["accelerator.per_node"].value == 2
    assert seen["accelerator.model"].value is None
    assert "A100-PCIE-40GB, Tesla V100-PCIE-32GB" in str(seen["accelerator.model"].why)


def test_a_gpu_without_a_driver_is_named_by_pci() -> None:
    base = "/sys/bus/pci/devices/0000:29:00.0"
    node = having(
        {f"{base}/class": "0x038000", f"{base}/vendor": "0x8086", f"{base}/device": "0x0bd5"}
    )
    seen = facts(node)
    assert seen["accelerator.vendor"].value == "intel"
    assert seen["accelerator.model"].value == "PCI device 0x0bd5"
    # Ranks see tiles, and PCI counts none.
    assert seen["accelerator.per_node"].value is None
    assert seen["accelerator.driver"].value is None


def test_no_accelerator_is_a_fact_where_pci_is_seen() -> None:
    assert values(BASE)["accelerator.per_node"] == 0
    assert facts(BARE)["accelerator.per_node"].why == "the kernel shows no PCI devices"


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (FLAGS_V2, "x86-64-v2"),
        (FLAGS_V3, "x86-64-v3"),
        (FLAGS_V3.replace(" movbe", ""), "x86-64-v2"),
        ("sse sse2", None),
    ],
)
def test_the_level_of_a_processor(flags: str, level: str | None) -> None:
    seen = values(having({"/proc/cpuinfo": f"flags : {flags}\n"}))
    assert seen["cpu.isa_level"] == seen["cpu.target"] == level


def test_cores_of_two_sockets_with_threads() -> None:
    seen = values(BASE)
    names = ("sockets", "cores", "threads_per_core", "numa_domains")
    assert [seen[f"cpu.{name}"] for name in names] == [2, 8, 2, 2]
    files = {name: text for name, text in BASE.files.items() if "/cpu/" not in name}
    assert values(replace(BASE, files=files))["cpu.cores"] is None
    power = values(replace(BASE, files={**files, **topology(2, 20, 4)}))
    assert (power["cpu.cores"], power["cpu.threads_per_core"]) == (40, 4)


@pytest.mark.parametrize(
    ("machine", "info", "model", "target"),
    [
        ("ppc64le", "cpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported", "power9"),
        ("aarch64", "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "neoverse-v2", "neoverse-v2"),
        (
            "aarch64",
            "CPU implementer\t: 0x99\nCPU part\t: 0x1\n",
            "implementer 0x99, part 0x1",
            None,
        ),
    ],
)
def test_processors_of_others(machine: str, info: str, model: str, target: str | None) -> None:
    node = replace(having({"/proc/cpuinfo": info}), process=replace(BASE.process, machine=machine))
    seen = values(node)
    assert (seen["cpu.model"], seen["cpu.target"], seen["cpu.isa_level"]) == (model, target, None)


def test_system_software() -> None:
    seen = values(
        replace(BASE, libstdcxx=CxxLibrary(path="/x", versions=("3.4.9", "3.4.30", "3.4.29")))
    )
    assert seen["os.distribution"] == "rocky"
    assert seen["os.release"] == "9.4"
    assert seen["os.glibc"] == "2.34"
    assert seen["os.glibcxx"] == "3.4.30"
    assert (seen["limits.umask"], seen["limits.memlock"]) == ("0027", "unlimited")
    assert values(BARE)["os.glibc"] is None


def test_slurm_and_its_partitions() -> None:
    seen = values(BASE)
    assert (seen["scheduler.kind"], seen["scheduler.version"]) == ("slurm", "23.11.6")
    assert seen["scheduler.default_partition"] == "gpu"
    assert seen["scheduler.partitions"] == (
        "gpu: up, 24 nodes of 16 CPUs, 772000 MB, limit 2-00:00:00, gpu:h100:4",
        "cpu: up, 96 nodes of 16 CPUs, 772000 MB, limit infinite",
    )


@pytest.mark.parametrize(
    ("command", "out", "kind", "version"),
    [
        (
            "qstat --version",
            "pbs_version = 2022.1.3.20230218110004\n",
            "pbs",
            "2022.1.3.20230218110004",
        ),
        ("qstat -help", "SGE 8.1.9\nusage: qstat [options]\n", "gridengine", "8.1.9"),
        ("bsub -V", "IBM Spectrum LSF Standard 10.1.0.13, Apr 15 2022\n", "lsf", "10.1.0.13"),
    ],
)
def test_other_schedulers(command: str, out: str, kind: str, version: str) -> None:
    answers = {name: said for name, said in BASE.answers.items() if not name.startswith("sinfo")}
    programs = {"qsub": "/usr/bin/qsub", "bsub": "/usr/bin/bsub"}
    seen = values(replace(BASE, programs=programs, answers={**answers, command: answer(out)}))
    assert (seen["scheduler.kind"], seen["scheduler.version"]) == (kind, version)


def test_no_scheduler_answers() -> None:
    answers = {**BASE.answers, "sinfo --version": ProgramAnswer(error="no answer within 10 s")}
    # Its programs are there: a site without a scheduler would be invented.
    assert values(replace(BASE, answers=answers))["scheduler.kind"] is None
    programs = {name: path for name, path in BASE.programs.items() if name != "sbatch"}
    assert values(replace(BASE, programs=programs))["scheduler.kind"] == "none"


@pytest.mark.parametrize(
    ("driver", "layer", "kind"),
    [
        ("mlx5_core", "InfiniBand", "infiniband"),
        ("hfi1", "InfiniBand", "omni-path"),
        ("efa", "Unspecified", "other"),
        ("mlx5_core", "Ethernet", "ethernet"),
    ],
)
def test_fabrics_by_their_drivers(driver: str, layer: str, kind: str) -> None:
    base = "/sys/class/infiniband/d0"
    files = {f"{base}/ports/1/state": "4: ACTIVE", f"{base}/ports/1/link_layer": layer}
    node = having(files, links={f"{base}/device/driver": driver})
    assert values(node)["network.kind"] == kind
    down = having({**files, f"{base}/ports/1/state": "1: DOWN"})
    assert values(down)["network.kind"] is None


def test_ethernet_is_no_guess() -> None:
    up = {"/sys/class/net/eth0/operstate": "up\n", "/sys/class/net/eth0/speed": "25000\n"}
    names = {"/sys/class/net": ("eth0", "lo")}
    card = having(up, links={"/sys/class/net/eth0/device/driver": "ice"}, folders=names)
    assert values(card)["network.kind"] == "ethernet"
    assert "25000 Mb/s" in str(values(card)["network.model"])
    assert values(having(up, folders=names))["network.kind"] is None  # a container's


def test_mpi_modules_and_stacks() -> None:
    node = having(folders={"/sw/modules": ("cuda", "gcc", "openmpi"), "/sw/more": ("ucx",)})
    seen = values(node)
    assert seen["mpi.name"] == "Open MPI 5.0.5"
    assert seen["mpi.libraries"] == ("libmpi.so.40",)
    assert (seen["network.ucx"], seen["network.libfabric"]) == ("1.17.0", "2.1.0")
    assert (seen["modules.kind"], seen["modules.version"]) == ("lmod", "8.7.37")
    assert seen["modules.loaded"] == ("openmpi/5.0.5",)
    assert seen["modules.offered"] == ("cuda", "openmpi", "ucx")


def test_engines_and_rights() -> None:
    seen = values(BASE)
    assert seen["engine.apptainer"] == "1.3.6-1.el9"
    assert seen["engine.setuid"] is False
    assert seen["engine.user_namespaces"] is True
    assert facts(BASE)["engine.podman"].why == "no podman on PATH"
    bare = values(BARE)
    assert bare["engine.user_namespaces"] is False
    assert bare["engine.user_namespaces_error"] == "EPERM (Operation not permitted)"
    assert facts(BARE)["engine.setuid"].value is None


def test_file_systems() -> None:
    seen = values(BASE)
    assert seen["filesystems.shared"] == ("/home (nfs4)", "/lus/scratch (lustre)")
    assert (seen["filesystems.home"], seen["filesystems.home_mount"]) == ("nfs4", "/home")
    assert seen["filesystems.scratch_mount"] == "/lus/scratch"
    assert seen["filesystems.scratch_candidates"] == ("/lus/scratch/ada ($SCRATCH)", "/scratch")
    assert (seen["filesystems.tmp"], seen["filesystems.shm"]) == ("ext4", "tmpfs")


def test_each_fact_says_how_and_each_unknown_one_why() -> None:
    for node in (BASE, BARE, H100, MI300):
        named = facts(node)
        assert len(named) >= 60
        assert [fact.name for fact in named.values() if not fact.how] == []
        assert [
            fact.name for fact in named.values() if (fact.value is None) != bool(fact.why)
        ] == []


def test_of_a_bare_node_nothing_is_invented() -> None:
    known = {name for name, value in values(BARE).items() if value not in (None, ())}
    assert known == {
        "arch",
        "cpu.allowed",
        "engine.fuse",
        "engine.subordinate_ids",
        "engine.user_namespaces",
        "engine.user_namespaces_error",
        "host",
        "limits.memlock",
        "limits.nofile",
        "limits.umask",
        "memory.page_bytes",
        "os.cgroup_v2",
        "os.kernel",
        "os.python",
        "scheduler.kind",
    }

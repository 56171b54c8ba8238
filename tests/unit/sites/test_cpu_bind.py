"""`cpu_bind: near` of a form: its launcher's words follow from the site's facts, or say why not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.errors import ConfigError
from dlcontainer.formats import texts
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.sites import binding
from dlcontainer.sites.facts import Cpu
from dlcontainer.sites.site import SiteTarget
from tests.unit.sites.test_loading import load as load_file
from tests.unit.sites.test_shipped_today import load
from tests.values import SITE, TEMPLATES, shipped_plan, site_of, write_yaml

GPU = {"vendor": "nvidia", "model": "A100", "per_node": 4, "near": [3, 2, 1, 0]}
CPU = {"model": "EPYC", "cores": 64}
PPN = ["mpiexec", "-n", "{ranks}", "-ppn", "{ranks_per_node}"]


def words(
    launcher: list[str] | None = None,
    *,
    gpu: dict[str, Any] | None = None,
    form: dict[str, Any] | None = None,
    scheduler: dict[str, Any] | None = None,
    **site: Any,
) -> tuple[str, ...]:
    """Return the words that are derived for a form, behind its own."""
    own = launcher or ["srun"]
    written = {"summary": "f", "launcher": own, "ranks_per_node": 4, "cpu_bind": "near"}
    around = {"kind": "slurm", "whole_nodes": True, **(scheduler or {})}
    selected = site_of(
        accelerator={**GPU, **(gpu or {})},
        scheduler={**around, "forms": {"a": {**written, **(form or {})}}},
        **{"cpu": CPU, **site},
    )
    binding.require_near(selected)
    derived = binding.settle(selected).scheduler.forms["a"].launcher
    assert derived[: len(own)] == tuple(own)
    return derived[len(own) :]


def refused(*args: Any, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        words(*args, **changes)
    assert caught.value.next_step
    return str(caught.value)


def test_a_domain_for_each_device_is_named_itself() -> None:
    assert words() == ("--cpu-bind=map_ldom:3,2,1,0",)
    assert words(cpu=None) == ("--cpu-bind=map_ldom:3,2,1,0",)


def test_devices_of_one_domain_share_its_cores_in_their_order() -> None:
    cpu = {**CPU, "cores": 8, "cores_per_domain": 4}
    assert words(gpu={"near": [1, 1, 0, 0]}, cpu=cpu) == ("--cpu-bind=mask_cpu:30,c0,3,c",)
    # In any order of devices; what is left of a domain is nobody's.
    cpu = {**CPU, "cores": 10, "cores_per_domain": 5}
    assert words(gpu={"near": [1, 0, 1, 0]}, cpu=cpu) == ("--cpu-bind=mask_cpu:60,3,180,c",)


def test_reserved_cores_are_left_out_and_the_rest_is_divided() -> None:
    cpu = {**CPU, "cores": 6, "cores_per_domain": 2, "reserved": [0, 4], "threads_per_core": 2}
    # The first thread of each core alone.
    assert words(cpu=cpu) == ("--cpu-bind=mask_cpu:c0,20,c,2",)


def test_pals_takes_lists_of_cores() -> None:
    pbs = {"kind": "pbs"}
    cpu = {**CPU, "cores": 12, "cores_per_domain": 4, "reserved": [1, 8, 10, 11]}
    derived = words(PPN, scheduler=pbs, cpu=cpu)
    assert derived == ("--cpu-bind", "list:12-15:9:4-7:0,2-3")


@pytest.mark.parametrize(
    ("lines", "facts", "whole"),
    [
        (["#SBATCH --exclusive"], {}, True),
        (["#SBATCH --exclusive=user"], {}, False),
        (["#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=16"], {}, True),
        (["#SBATCH --ntasks-per-node=4", "#SBATCH -c 16"], {"threads_per_core": 2}, False),
        (["#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=8"], {}, False),
        (["#SBATCH --gpus-per-node=4"], {}, False),
    ],
)
def test_masks_are_for_whole_nodes(lines: list[str], facts: dict[str, int], whole: bool) -> None:
    scheduler = {"whole_nodes": False, "directives": lines}
    if whole:
        assert words(scheduler=scheduler, cpu={**CPU, **facts})
        return
    said = refused(scheduler=scheduler, cpu={**CPU, **facts})
    assert "form a: cpu_bind: near: nothing says that jobs have their nodes for themselves" in said
    assert "scheduler.whole_nodes: true" in said


@pytest.mark.parametrize("place", ["scatter:excl", "exclhost"])
def test_pbs_gives_whole_nodes_by_their_place(place: str) -> None:
    lines = [f"#PBS -l select=2 -l place={place}"]
    scheduler = {"kind": "pbs", "whole_nodes": False, "directives": lines}
    cpu = {**CPU, "cores": 8, "cores_per_domain": 2}
    assert words(PPN, scheduler=scheduler, cpu=cpu) == ("--cpu-bind", "list:6-7:4-5:2-3:0-1")
    assert "whole" in refused(PPN, scheduler={**scheduler, "directives": ["#PBS -l place=pack"]})


@pytest.mark.parametrize("launcher", ["jsrun", "ibrun", "aprun", "mpirun", "/opt/own/start"])
def test_a_launcher_that_nobody_described_is_refused(launcher: str) -> None:
    said = refused([launcher])
    assert f"form a: cpu_bind: near: how {launcher} binds ranks to cores is not known" in said
    assert "write the launcher's own words" in said


def test_an_mpiexec_without_pbs_is_not_taken_for_pals() -> None:
    assert "how mpiexec binds ranks to cores is not known with scheduler.kind: slurm" in (
        refused(PPN)
    )


@pytest.mark.parametrize(
    ("launcher", "scheduler"),
    [
        (["srun", "--cpu-bind=map_ldom:3,2,1,0"], {}),
        (["srun", "--cpu-bind", "cores"], {}),
        (["srun", "--cpu_bind=none"], {}),
        (["srun", "--hint=nomultithread"], {}),
        ([*PPN, "--cpu-bind", "depth"], {"kind": "pbs"}),
        ([*PPN, "--cpu-bind=list:0-7"], {"kind": "pbs"}),
    ],
)
def test_words_that_say_it_too_are_refused(launcher: list[str], scheduler: dict[str, Any]) -> None:
    said = refused(launcher, scheduler=scheduler, cpu={**CPU, "cores_per_domain": 16})
    assert "excludes cpu_bind: near (" in said
    assert "both say on which cores ranks run" in said


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpu": {"near": []}}, "nothing says which NUMA domain is beside which device"),
        ({"form": {"ranks_per_node": 8}}, "its launcher starts 8 ranks on a node of 4 devices"),
        (
            {"form": {"inside": "torchrun"}},
            "its launcher starts one process on a node of 4 devices",
        ),
        (
            {"jobs": {"inside": {"ROCR_VISIBLE_DEVICES": "3,2,1,0"}}},
            "the site's jobs set ROCR_VISIBLE_DEVICES",
        ),
        ({"gpu": {"near": [1, 1, 0, 0]}}, "nothing says which cores are in which NUMA domain"),
        ({"gpu": {"near": [1, 1, 0, 0]}, "cpu": None}, "nothing says which cores are in which"),
        ({"cpu": {**CPU, "reserved": [0]}}, "nothing says which cores are in which NUMA domain"),
        (
            {"gpu": {"near": [0, 0, 0, 0]}, "cpu": {**CPU, "cores_per_domain": 2}},
            "NUMA domain 0 has fewer cores than devices",
        ),
        (
            {
                "gpu": {"near": [0, 0, 0, 0]},
                "cpu": {**CPU, "cores_per_domain": 32, "threads_per_core": 4},
                "arch": "ppc64le",
            },
            "on ppc64le a core's number is not that of its first hardware thread",
        ),
    ],
)
def test_what_does_not_follow_from_the_facts_is_said(changes: dict[str, Any], says: str) -> None:
    assert f"form a: cpu_bind: near: {says}" in refused(**changes)


def test_devices_in_their_own_order_are_no_other_order() -> None:
    assert words(jobs={"inside": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}})


FORMS = {"a": {"summary": "f", "launcher": ["srun"], "ranks_per_node": 4, "cpu_bind": "near"}}
WRITTEN = {
    **SITE,
    "source": "s",
    "sources": {"s": "a page"},
    "cpu": CPU,
    "accelerator": GPU,
    "scheduler": {"kind": "slurm", "whole_nodes": True, "forms": FORMS},
}


@pytest.mark.parametrize(
    ("group", "facts", "key", "says"),
    [
        ("accelerator", {"near": [3, 2, 1]}, "accelerator", "'near' has 3 domains"),
        ("accelerator", {"near": [3, 2, 1, 0, 0]}, "accelerator", "'near' has 5 domains"),
        ("accelerator", {"near": [3, 2, 1, -1]}, "accelerator.near[3]", "greater than or equal"),
        ("accelerator", {"near": [3, 2, 1, 256]}, "accelerator.near[3]", "less than or equal"),
        ("accelerator", {"near": [3, 2, 1, "x"]}, "accelerator.near[3]", "whole number"),
        ("accelerator", {"per_node": None}, "accelerator", "per_node"),
        ("cpu", {"cores_per_domain": 0}, "cpu.cores_per_domain", "greater than 0"),
        ("cpu", {"cores_per_domain": 10**9}, "cpu.cores_per_domain", "less than or equal"),
        ("cpu", {"cores_per_domain": 24}, "cpu", "not a multiple of 'cores_per_domain': 24"),
        ("cpu", {"cores_per_domain": 32}, "near", "NUMA domain 3 has no cores"),
        ("cpu", {"reserved": [67]}, "cpu", "'reserved' names core 67"),
        ("cpu", {"reserved": [1, 1]}, "cpu", "'reserved' names a core twice"),
        ("cpu", {"reserved": [-1]}, "cpu.reserved[0]", "greater than or equal"),
        ("cpu", {"reserved": [10**9]}, "cpu.reserved[0]", "less than or equal"),
        ("scheduler", {"forms": {"a": {**FORMS["a"], "cpu_bind": "far"}}}, "cpu_bind", "near"),
    ],
)
def test_bad_facts_are_named_with_their_place(
    tmp_path: Path, group: str, facts: dict[str, Any], key: str, says: str
) -> None:
    merged = {
        name: value for name, value in {**WRITTEN[group], **facts}.items() if value is not None
    }
    path = write_yaml(tmp_path / "demo.yaml", {**WRITTEN, group: merged})
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    text = str(caught.value)
    assert "demo.yaml:" in text
    assert key in text
    assert says in text


@pytest.mark.parametrize(
    ("launcher", "scheduler", "says"),
    [
        (["srun", "--cpu-bind=mask_cpu:ffff,f0000"], "slurm", "NUMA domains 0 1 0 1"),
        (["srun", "--cpu-bind=map_cpu:48,32,17,31"], "slurm", "NUMA domains 3 2 1 1"),
        (["srun", "--cpu-bind=mask_cpu=0xff00000000000"], "slurm", "NUMA domains 2+3 2+3"),
        ([*PPN, "--cpu-bind", "list:0-15:16-31:32-47:48-63"], "pbs", "NUMA domains 0 1 2 3"),
        ([*PPN, "--cpu-bind=verbose,list:48:32:17:15,17"], "pbs", "NUMA domains 3 2 1 0+1"),
        ([*PPN, "-d", "16", "--cpu-bind", "depth"], "pbs", "NUMA domains 0 1 2 3"),
        ([*PPN, "--depth=8", "--cpu-bind=depth"], "pbs", "NUMA domains 0 0 1 1"),
    ],
)
def test_own_words_far_from_their_gpus_are_refused(
    launcher: list[str], scheduler: str, says: str
) -> None:
    cpu = {**CPU, "cores_per_domain": 16, "threads_per_core": 2}
    said = refused(launcher, scheduler={"kind": scheduler}, form={"cpu_bind": None}, cpu=cpu)
    assert f"form a: ranks run on {says}" in said
    assert "but their GPUs are near 3 2 1 0" in said
    assert "write cpu_bind: near in place of the launcher's own words" in said


@pytest.mark.parametrize(
    ("launcher", "scheduler"),
    [
        (["srun", "--cpu-bind=mask_cpu:ff000000000000,ff00000000,ff0000,ff"], "slurm"),
        # Second threads too.
        (["srun", "--cpu-bind=map_cpu:112,96,80,64"], "slurm"),
        ([*PPN, "--cpu-bind", "list:48-63,112-127:32-47:16-31:0-15"], "pbs"),
        # How PALS places another number of ranks is not described; nor a list of the shell's.
        ([*PPN, "--cpu-bind", "list:0-7"], "pbs"),
        ([*PPN, "--cpu-bind", "$LIST"], "pbs"),
        ([*PPN, "--cpu-bind", "list:a:b:c:d"], "pbs"),
        ([*PPN, "--cpu-bind", "list:0-999999999:1:2:3"], "pbs"),
        (["srun", "--cpu-bind=mask_cpu:$MASKS"], "slurm"),
        (PPN, "pbs"),
    ],
)
def test_own_words_near_them_are_taken(launcher: list[str], scheduler: str) -> None:
    cpu = {**CPU, "cores_per_domain": 16, "threads_per_core": 2}
    assert words(launcher, scheduler={"kind": scheduler}, form={"cpu_bind": None}, cpu=cpu) == ()


@pytest.mark.parametrize(
    ("launcher", "scheduler"),
    [
        (["srun", "--cpu-bind=map_cpu:128"], "slurm"),
        ([*PPN, "--cpu-bind", "list:0:1:2:128"], "pbs"),
    ],
)
def test_cpus_that_the_node_does_not_have_are_refused(launcher: list[str], scheduler: str) -> None:
    cpu = {**CPU, "cores_per_domain": 16, "threads_per_core": 2}
    said = refused(launcher, scheduler={"kind": scheduler}, form={"cpu_bind": None}, cpu=cpu)
    assert "ranks are bound to CPU 128, but a node has 128 CPUs, from 0 on" in said


def test_derived_ranks_are_near_too(tmp_path: Path) -> None:
    site = {**WRITTEN, "scheduler": {"kind": "slurm", "launcher": ["srun"]}}
    derived = load_file(write_yaml(tmp_path / "demo.yaml", site)).value.scheduler.forms["gpu"]
    # The lines ask for all cores: 4 tasks of 16.
    assert derived.launcher[-1] == "--cpu-bind=map_ldom:3,2,1,0"
    ascending = {**site, "accelerator": {**GPU, "near": [0, 1, 2, 3]}}
    derived = load_file(write_yaml(tmp_path / "demo.yaml", ascending)).value.scheduler.forms["gpu"]
    assert derived.launcher[-1] == "--cpus-per-task=16"


DOCUMENTED = {
    # LUMI-AI-Guide@a7e3387 05-multi-gpu-and-node; lumi-userguide@b1968f5 distribution-binding.md.
    ("lumi", "", "gcd"): (
        "--cpu-bind=mask_cpu:fe000000000000,fe00000000000000,fe0000,fe000000,"
        "fe,fe00,fe00000000,fe0000000000"
    ),
    # argonne-lcf/user-guides@0dc8699 docs/polaris/running-jobs/using-gpus.md.
    ("polaris", "", "gpu"): "--cpu-bind list:24-31:16-23:8-15:0-7",
    # argonne-lcf/user-guides@7d04a3f docs/aurora/running-jobs-aurora.md.
    ("aurora", "", "bound"): (
        "--cpu-bind list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100"
    ),
    ("perlmutter", "", "gpu"): "--cpu-bind=map_ldom:3,2,1,0",
    ("delta", "a100x4", "node"): "--cpu-bind=map_ldom:3,2,1,0",
    ("delta", "a40x4", "gpu"): "--cpu-bind=map_ldom:3,2,1,0",
}


@pytest.mark.parametrize("place", DOCUMENTED, ids=lambda place: "-".join(filter(None, place)))
def test_the_words_of_shipped_sites_are_those_of_their_centres(place: tuple[str, str, str]) -> None:
    name, node_type, form = place
    site = load(name, SiteTarget(node_type=node_type or None))
    assert " ".join(site.scheduler.forms[form].launcher).endswith(f" {DOCUMENTED[place]}")
    plan = shipped_plan(f"{name}:{node_type}" if node_type else name, "pytorch")
    job = texts.text(plan, "job", [TEMPLATES]).replace("\\\n", " ")
    assert DOCUMENTED[place] in " ".join(job.split())


@given(
    size=st.integers(1, 40),
    near=st.lists(st.integers(0, 7), min_size=1, max_size=16),
    reserved=st.frozensets(st.integers(0, 319), max_size=40),
)
def test_every_rank_has_cores_of_its_own_in_its_domain(
    size: int, near: list[int], reserved: frozenset[int]
) -> None:
    held = tuple(sorted(core for core in reserved if core < 8 * size - 1))
    cpu = Cpu(model="x", cores=8 * size - len(held), cores_per_domain=size, reserved=held)
    shares = binding.shares(cpu, near)
    cores = [core for share in shares for core in share]
    assert len(cores) == len({*cores} - {*held})
    assert all(core // size == near[rank] for rank, share in enumerate(shares) for core in share)
    if all(shares):
        # Launchers are told just these.
        for batch, launcher in (("slurm", "srun"), ("pbs", "mpiexec")):
            spelled = SCHEDULERS[batch].cpu_bindings[launcher]
            placed = spelled.read([launcher, *spelled.by_cores(shares)], len(near))
            assert placed.cpus == tuple(map(tuple, shares))

"""Shipped sites that run today: what their files promise about ranks, GPUs and the host's MPI."""

import itertools
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
import yaml

from dlcontainer.image import layout
from dlcontainer.sites.facts import Accelerator, LaunchForm, Mpi
from dlcontainer.sites.site import USUAL, Site, SiteTarget
from tests.values import ROOT, shipped_site

SITES = (
    *("alps", "aurora", "delta", "frontier", "jupiter"),
    *("leonardo", "lumi", "perlmutter", "polaris"),
    *("isambard-ai", "jean-zay", "marenostrum5", "roihu"),
)
# A user's project there is part of the login, and the centre's examples name no account.
WITHOUT_ACCOUNT = {"isambard-ai"}
# How each vendor's devices come into a container: the runtimes' switches, and the annotation of
# the Container Engine's plug-in.
DEVICE_FLAGS = {
    "nvidia": {"--nv", "--gpu", "com.hooks.aws_ofi_nccl.enabled=true"},
    "amd": {"--rocm"},
    "intel": set[str](),
}
# Source: docs.nvidia.com/deploy/cuda-compatibility, minor-version compatibility.
OLDEST_DRIVER = {12: 525, 13: 580}


def variants() -> Iterator[tuple[str, SiteTarget]]:
    for name in SITES:
        site = shipped_site(name).value
        pairs = itertools.product(site.node_types or [None], site.epochs or [None])
        yield from ((name, SiteTarget(node_type=node, epoch=epoch)) for node, epoch in pairs)


VARIANTS = list(variants())
each_variant = pytest.mark.parametrize(
    ("name", "target"), VARIANTS, ids=[f"{n}-{t.node_type}-{t.epoch}" for n, t in VARIANTS]
)


def load(name: str, target: SiteTarget = USUAL) -> Site:
    return shipped_site(name, target).value


def mpi_of(site: Site) -> Mpi:
    assert site.mpi is not None
    return site.mpi


def accelerator_of(site: Site) -> Accelerator:
    assert site.accelerator is not None
    return site.accelerator


def usual_form(site: Site) -> LaunchForm:
    return next(iter(site.scheduler.forms.values()))


def option(form: LaunchForm, name: str) -> str:
    """Give the value of a launcher's option that stands in the word after it."""
    return form.launcher[form.launcher.index(name) + 1]


@pytest.mark.parametrize("name", SITES)
def test_the_file_says_who_ran_it_and_uses_its_sources(name: str) -> None:
    text = (ROOT / "site-configs" / f"{name}.yaml").read_text()
    assert "# Never run by us on this machine" in text.split("schema:")[0]
    site = load(name)
    assert (site.name, site.status) == (name, "active")
    written = yaml.safe_load(text)
    listed = written.pop("sources")
    used = set(re.findall(r"[\w-]+", " ".join(re.findall(r"'sources': \[([^]]*)]", str(written)))))
    assert used == set(listed)


@each_variant
def test_what_is_not_known_is_said(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    said = " ".join(site.unknown)
    if site.os is None or site.os.glibc is None or "glibc" in site.os.remembered:
        assert "glibc" in said
    if site.accelerator is not None and site.accelerator.driver is None:
        assert "driver" in said
    if mpi_of(site).mode == "container" and name != "alps":
        assert "MPI" in said


@each_variant
def test_a_job_script_has_its_head_and_a_way_to_place_ranks(name: str, target: SiteTarget) -> None:
    scheduler = load(name, target).scheduler
    marker = {"slurm": "#SBATCH ", "pbs": "#PBS "}[scheduler.kind]
    assert all(line.startswith(marker) for line in scheduler.directives)
    account = re.search(r"(-A |--account=)(ABC123|project_)", "\n".join(scheduler.directives))
    assert (account is None) == (name in WITHOUT_ACCOUNT)
    assert scheduler.forms
    for form in scheduler.forms.values():
        assert form.launcher[: len(scheduler.launcher)] == scheduler.launcher
        words = " ".join(form.launcher)
        assert "{ranks}" in words or "{ranks_per_node}" in words or "per-node" in words


@each_variant
def test_the_usual_form_gives_each_device_a_rank(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    assert site.cpu is not None
    form = usual_form(site)
    if site.accelerator is not None:
        assert form.ranks_per_node == site.accelerator.per_node
    given = re.search(r"(?:-c|--cpus-per-task=|--depth=)(\d+)", " ".join(form.launcher))
    if given:
        threads = site.cpu.cores * site.cpu.threads_per_core
        assert form.ranks_per_node * int(given[1]) <= threads


@each_variant
def test_devices_come_into_the_container_where_there_are_any(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    flags = set(site.jobs.flags)
    here = site.accelerator.vendor if site.accelerator else None
    for vendor, known in DEVICE_FLAGS.items():
        wanted = vendor == here and bool(known) and site.engine.without_gpu_flag is None
        assert bool(flags & known) == wanted


@each_variant
def test_the_hosts_mpi_is_of_the_images_family(name: str, target: SiteTarget) -> None:
    mpi = mpi_of(load(name, target))
    if mpi.mode != "swap":
        assert mpi.soname is None
        return
    # The members of the MPICH ABI share this name: mpich.org/abi
    assert (mpi.family, mpi.soname) == ("mpich", "libmpi.so.12")
    # Something must lead the loader to it: a path, or a switch of the runtime that sets one.
    assert mpi.library_path or {"--mpi", "--cuda-mpi"} & set(mpi.flags)


@each_variant
def test_what_the_loader_shall_find_is_bound(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    mpi = mpi_of(site)
    targets = {bind.rpartition(":")[2].rstrip("/") for bind in (*mpi.binds, *site.jobs.binds)}
    for path in (*mpi.library_path, *mpi.inside.values()):
        if path.startswith(("/opt/cray", "/host")):
            parents = {
                str(parent) for parent in (PurePosixPath(path), *PurePosixPath(path).parents)
            }
            assert parents & targets, path
    for library in mpi.preload:
        assert str(PurePosixPath(library).parent) in mpi.library_path


@each_variant
def test_no_bind_hides_what_the_image_carries(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    for bind in (*site.jobs.binds, *mpi_of(site).binds):
        # Recipes have their prefix in /opt, beside the image's proof.
        assert bind.rpartition(":")[2].rstrip("/") not in {
            "",
            "/opt",
            layout.FOLDER,
            "/usr",
            "/etc",
        }


@each_variant
def test_nothing_is_asked_for_that_would_stop_the_start(name: str, target: SiteTarget) -> None:
    site = load(name, target)
    mpi = mpi_of(site)
    surroundings = (site.environment, site.jobs.environment, site.jobs.inside)
    merged = {key for one in (*surroundings, mpi.environment, mpi.inside) for key in one}
    # NCCL stops where NCCL_NET names a plug-in that is not there; who brings one sets it.
    assert not merged & {"NCCL_NET", "NCCL_NET_PLUGIN"}
    # Cray MPICH stops where GPU support is asked for and its GTL library is not loaded.
    if "MPICH_GPU_SUPPORT_ENABLED" in merged:
        assert any("libmpi_gtl" in library for library in mpi.preload)


@pytest.mark.parametrize("epoch", ["cpe-24.11", "cpe-25.09", "cpe-26.03"])
def test_frontier_loads_one_documented_set_of_modules(epoch: str) -> None:
    site = load("frontier", SiteTarget(epoch=epoch))
    mpi = mpi_of(site)
    assert site.jobs.modules == ("reset",)
    assert mpi.modules == (
        f"load cpe/{epoch.removeprefix('cpe-')}",
        f"load rocm/{accelerator_of(site).toolkit}",
        f"load cray-mpich-abi/{mpi.version}",
    )
    injected = {PurePosixPath(path).name for path in mpi.libraries}
    assert {"libcxi.so.1", "libxpmem.so.0", "libjson-c.so.5", "libnl-3.so.200"} <= injected
    order = [*map(mpi.library_path.index, ("/opt/rocm/lib", "$CRAY_LD_LIBRARY_PATH"))]
    assert mpi.library_path[0] == "$CRAY_MPICH_ROOTDIR/gtl/lib"
    assert order == sorted(order)
    assert {"${PWD}", "/opt/cray", "/var/spool/slurmd", "/usr/share/libdrm"} == {
        *mpi.binds,
        *site.jobs.binds,
    }


def test_frontier_is_the_newer_set_unless_asked() -> None:
    assert mpi_of(load("frontier")).version == "9.0.1"


@pytest.mark.parametrize("epoch", ["2024-09", "2026-01"])
def test_lumi_keeps_ranks_off_the_cores_of_the_system(epoch: str) -> None:
    form = usual_form(load("lumi", SiteTarget(epoch=epoch)))
    words = next(word for word in form.launcher if word.startswith("--cpu-bind=mask_cpu:"))
    masks = [int(mask, 16) for mask in words.partition(":")[2].split(",")]
    assert len(masks) == form.ranks_per_node
    assert all(left & right == 0 for left, right in itertools.combinations(masks, 2))
    first_of_each_l3 = sum(1 << core for core in range(0, 64, 8))
    assert not any(mask & first_of_each_l3 for mask in masks)
    # One GCD's cores share an L3 region.
    assert all(len({bit // 8 for bit in range(64) if mask >> bit & 1}) == 1 for mask in masks)


def test_lumi_takes_the_abi_library_of_the_module_it_loads() -> None:
    mpi = mpi_of(load("lumi", SiteTarget(epoch="2024-09")))
    assert mpi.modules == (f"load cray-mpich-abi/{mpi.version}",)
    assert f"{mpi.root}/lib-abi-mpich" in mpi.library_path


def test_aurora_binds_each_rank_to_a_tile_and_spares_the_systems_cores() -> None:
    site = load("aurora")
    form = site.scheduler.forms["bound"]
    cores: list[int] = []
    for part in option(form, "--cpu-bind").removeprefix("list:").split(":"):
        first, last = map(int, part.split("-"))
        cores += range(first, last + 1)
    tiles = option(form, "--gpu-bind").removeprefix("list:").split(":")
    assert len(cores) == len(set(cores)) == 12 * 8
    assert not {0, 52} & set(cores)
    assert len(set(tiles)) == form.ranks_per_node == accelerator_of(site).per_node


def test_aurora_promises_tcp_only() -> None:
    site = load("aurora")
    words = " ".join(usual_form(site).launcher)
    assert "I_MPI_OFI_PROVIDER tcp" in words
    assert mpi_of(site).mode == "container"
    assert mpi_of(site).inside["I_MPI_PMI_LIBRARY"] in mpi_of(site).binds[0]


def test_the_epochs_of_polaris_follow_each_other_and_fit_their_drivers() -> None:
    epochs = load("polaris").epochs
    spans = sorted((epoch.since or "", epoch.until or "9999") for epoch in epochs.values())
    assert all(until < since for (_, until), (since, _) in itertools.pairwise(spans))
    assert spans[-1][1] == "9999"
    for name in epochs:
        accelerator = accelerator_of(load("polaris", SiteTarget(epoch=name)))
        assert accelerator.driver is not None
        assert accelerator.toolkit is not None
        oldest = OLDEST_DRIVER[int(accelerator.toolkit.split(".")[0])]
        assert int(accelerator.driver.split(".")[0]) >= oldest


def test_polaris_always_runs_with_fakeroot_today() -> None:
    site = load("polaris")
    assert site.epoch == max(site.epochs, key=lambda name: site.epochs[name].since or "")
    assert {"--fakeroot", "--nv"} <= set(site.jobs.flags)
    assert mpi_of(site).modules == ("load cray-mpich-abi",)
    assert "/var/run/palsd/" in mpi_of(site).binds


@pytest.mark.parametrize(("node_type", "switch"), [("gpu", "--cuda-mpi"), ("cpu", "--mpi")])
def test_perlmutter_swaps_by_one_switch_of_podman_hpc(node_type: str, switch: str) -> None:
    site = load("perlmutter", SiteTarget(node_type=node_type))
    assert site.engine.runtime == "podman-hpc"
    # They exclude each other, and Podman takes --network once.
    assert mpi_of(site).flags == (switch,)
    assert not any(flag.startswith("--network") for flag in site.jobs.flags)


def test_alps_images_ask_for_the_driver() -> None:
    site = load("alps")
    assert (site.arch, site.engine.runtime) == ("aarch64", "container-engine")
    # Without it the Container Engine leaves the driver's libraries out.
    assert site.environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    # The runtime's flags are annotations of the environment's file.
    for flag in (*site.jobs.flags, *mpi_of(site).flags):
        assert re.fullmatch(r"com\.hooks\.[a-z_.]+=[\w-]+", flag)
    assert "--mpi=pmi2" in usual_form(site).launcher


@pytest.mark.parametrize(
    ("name", "node_type", "partition"),
    [
        ("delta", "a100x4", "gpuA100x4"),
        ("delta", "a40x4", "gpuA40x4"),
        ("delta", "a100x8", "gpuA100x8"),
        ("delta", "h200x8", "gpuH200x8"),
        ("delta", "cpu", "cpu"),
        ("leonardo", "booster", "boost_usr_prod"),
        ("leonardo", "dcgp", "dcgp_usr_prod"),
        ("marenostrum5", "acc", "acc"),
        ("marenostrum5", "gpp", "gpp"),
        ("roihu", "cpu", "medium"),
        ("roihu", "gpu", "gputest"),
    ],
)
def test_node_types_have_partitions_of_their_own(name: str, node_type: str, partition: str) -> None:
    lines = load(name, SiteTarget(node_type=node_type)).scheduler.directives
    assert [line for line in lines if "--partition" in line] == [f"#SBATCH --partition={partition}"]


@pytest.mark.parametrize(("node_type", "arch"), [("gpu", "aarch64"), ("cpu", "x86_64")])
def test_the_two_halves_of_roihu_have_architectures_of_their_own(node_type: str, arch: str) -> None:
    assert load("roihu", SiteTarget(node_type=node_type)).arch == arch


def test_jean_zay_says_where_images_start_from() -> None:
    site = load("jean-zay")
    assert any("$SINGULARITY_ALLOWED_DIR" in line for line in site.unknown)
    # A copy beside that folder would not start.
    assert site.jobs.staging.how == "none"
    assert site.jobs.modules[:2] == ("purge", "load arch/h100")


def test_marenostrum5_tells_srun_the_cores_of_a_rank_again() -> None:
    for node_type in ("acc", "gpp"):
        scheduler = load("marenostrum5", SiteTarget(node_type=node_type)).scheduler
        (asked,) = re.findall(r"--cpus-per-task=\d+", "\n".join(scheduler.directives))
        assert all(asked in form.launcher for form in scheduler.forms.values())


def test_isambard_ai_starts_images_with_open_mpi_by_pmi2_and_promises_tcp_only() -> None:
    site = load("isambard-ai")
    (form,) = (form for form in site.scheduler.forms.values() if form.mpi == "openmpi")
    assert "--mpi=pmi2" in form.launcher
    assert site.jobs.inside == {"NCCL_SOCKET_IFNAME": "hsn"}
    assert any("TCP on hsn only" in line for line in site.unknown)

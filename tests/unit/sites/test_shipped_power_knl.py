"""The shipped sites with POWER9 and Xeon Phi, TACC's and the generic one: what must hold."""

import re
from itertools import product

import pytest

from dlcontainer.sites.site import Site, SiteTarget
from tests.values import shipped_site

POWER9 = ("summit", "ascent", "lassen", "longhorn")
KNL = ("stampede2", "theta", "cori-knl")
REAL = (*POWER9, *KNL, "frontera", "stampede3", "vista")
SITES = (*REAL, "generic-slurm")
SONAMES = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40", "spectrum": "libmpi_ibm.so.3"}
# What starts a line of the job script's head.
SIGILS = {"slurm": "#SBATCH", "lsf": "#BSUB", "cobalt": "#COBALT"}


def site(name: str, node_type: str | None = None, epoch: str | None = None) -> Site:
    return shipped_site(name, SiteTarget(node_type=node_type, epoch=epoch)).value


def every(name: str) -> list[Site]:
    """Give a site in all its epochs and node types."""
    usual = site(name)
    epochs: list[str | None] = [*usual.epochs] or [None]
    node_types: list[str | None] = [*usual.node_types] or [None]
    return [site(name, node_type, epoch) for epoch, node_type in product(epochs, node_types)]


def option(lines: tuple[str, ...], name: str) -> str | None:
    """Give the value of an option in the lines of a job script's head."""
    found = re.findall(rf"(?m)^#\w+ {name}[ =](\S+)", "\n".join(lines))
    assert len(found) <= 1, f"{name} stands there twice"
    return found[0] if found else None


@pytest.mark.parametrize("name", SITES)
def test_each_loads_in_all_its_epochs_and_node_types(name: str) -> None:
    for one in every(name):
        assert one.name == name
        assert one.unknown, "nobody knows all of a machine"
        assert one.default_recipe == "pytorch"
        assert one.cpu is not None
        assert one.cpu.target
        assert one.filesystems


@pytest.mark.parametrize("name", REAL)
def test_real_sites_name_where_their_facts_stand(name: str) -> None:
    for one in every(name):
        assert one.sources
        for path, group in one.groups():
            if not group.sources:
                left = group.model_fields_set - {"sources", "remembered", *group.remembered}
                assert left <= {"forms"}, f"{path}: nobody says {sorted(left)}"


def test_the_generic_site_claims_nothing() -> None:
    for one in every("generic-slurm"):
        assert one.status == "example"
        assert not one.sources
        assert not any(group.sources for _, group in one.groups())


@pytest.mark.parametrize(
    ("name", "status", "arch"),
    [
        ("summit", "decommissioned", "ppc64le"),
        ("stampede2", "decommissioned", "x86_64"),
        ("ascent", "archive", "ppc64le"),
        ("lassen", "archive", "ppc64le"),
        ("longhorn", "archive", "ppc64le"),
        ("theta", "archive", "x86_64"),
        ("cori-knl", "archive", "x86_64"),
        ("frontera", "active", "x86_64"),
        ("stampede3", "active", "x86_64"),
        ("vista", "active", "aarch64"),
    ],
)
def test_what_is_gone_and_what_runs(name: str, status: str, arch: str) -> None:
    assert (site(name).status, site(name).arch) == (status, arch)


@pytest.mark.parametrize("name", SITES)
def test_a_library_of_the_family_is_named(name: str) -> None:
    for one in every(name):
        assert one.mpi is not None
        assert one.mpi.soname == SONAMES[one.mpi.family]
        if one.mpi.mode == "swap":
            # The host's library comes by the library path, or by a module of the runtime.
            assert one.mpi.library_path or one.mpi.flags
        if one.mpi.mode == "compile":
            assert one.mpi.root is not None
            assert any(bind.startswith(one.mpi.root) for bind in one.mpi.binds)


@pytest.mark.parametrize("name", SITES)
def test_heads_are_the_schedulers_and_charge_nobody(name: str) -> None:
    for one in every(name):
        lines = one.scheduler.directives
        assert all(line.startswith(f"{SIGILS[one.scheduler.kind]} -") for line in lines)
        account = {"lsf": "-[PG]"}.get(one.scheduler.kind, "-A")
        assert option(lines, account) == "ABC123"


@pytest.mark.parametrize("name", ["stampede2", "stampede3", "longhorn", "frontera", "vista"])
def test_heads_at_tacc_keep_its_rules(name: str) -> None:
    for one in every(name):
        head = one.scheduler.directives
        nodes, ranks = option(head, "-N"), option(head, "-n")
        each = option(head, "--ntasks-per-node")
        assert nodes
        assert (ranks is None) != (each is None)
        assert option(head, "-p")
        assert option(head, "-t")
        assert not re.search(r"--(mem|array|export|gres|gpus-per-task)\b|-a ", "\n".join(head))
        # ibrun reads ranks and nodes from the head: it must say what the form says.
        forms = list(one.scheduler.forms.values())
        form = forms[0]
        assert form.launcher == ("ibrun",)
        # A script that is rendered for torchrun counts one a node.
        assert [more.inside for more in forms[1:]] == ["torchrun"] * (len(forms) - 1)
        assert int(ranks or int(each or 0) * int(nodes)) == int(nodes) * form.ranks_per_node


@pytest.mark.parametrize("name", SITES)
def test_gpu_nodes_are_shown_their_gpus(name: str) -> None:
    for one in every(name):
        assert ("--nv" in one.jobs.flags) == (one.accelerator is not None)


@pytest.mark.parametrize("epoch", ["2021", "2024"])
def test_summit_places_six_ranks_a_node_in_both_forms(epoch: str) -> None:
    forms = site("summit", epoch=epoch).scheduler.forms
    assert list(forms) == ["node", "gpu", "gpu-aware"]
    assert forms["gpu-aware"].launcher[2:] == forms["node"].launcher[1:]
    sets: dict[str, int] = {}
    per_set: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for name, form in forms.items():
        words = " ".join(form.launcher)
        assert form.ranks_per_node == 6
        for flag, store in (("r", sets), ("a", per_set), ("g", gpus)):
            found = re.search(rf"-{flag}(\d+)", words)
            assert found is not None
            store[name] = int(found[1])
        # A rank keeps the seven cores that are its share of 42.
        assert form.launcher[-1] == "-bpacked:7"
        assert sets[name] * per_set[name] == 6
        assert sets[name] * gpus[name] == 6
    assert (gpus["node"], gpus["gpu"]) == (6, 1)
    # -n counts resource sets.
    assert "{nodes}" in forms["node"].launcher
    assert "{ranks}" in forms["gpu"].launcher


@pytest.mark.parametrize(
    ("epoch", "cuda", "mpi", "runtime", "scratch"),
    [
        ("2021", "11.0.3", "10.4.0.3", "singularity", "/gpfs/alpine"),
        ("2024", "11.7.1", "10.4.0.6", "apptainer", "/gpfs/alpine2"),
    ],
)
def test_summits_epochs_hold_one_stack_each(
    epoch: str, cuda: str, mpi: str, runtime: str, scratch: str
) -> None:
    one = site("summit", epoch=epoch)
    assert one.accelerator is not None
    assert one.mpi is not None
    assert (one.accelerator.toolkit, one.mpi.version, one.engine.runtime) == (cuda, mpi, runtime)
    assert f"load cuda/{cuda}" in one.jobs.modules
    assert one.mpi.modules[0].startswith(f"load spectrum-mpi/{mpi}-")
    assert scratch in {system.path for system in one.filesystems}
    (script,) = one.mpi.scripts
    assert script.startswith(f"{scratch}/")
    assert script.endswith("/requiredmpilibs.source")


def test_summits_epochs_follow_each_other() -> None:
    one = site("summit")
    assert one.epoch == "2024"
    assert one.epochs["2021"].until == one.epochs["2024"].since
    assert one.epochs["2024"].until == "2024-11-15"


def test_summits_way_to_an_image_and_to_mpi_in_it() -> None:
    one = site("summit")
    assert one.mpi is not None
    assert one.engine.route == ("podman", "docker-archive", "apptainer")
    assert (one.mpi.family, one.mpi.mode, one.mpi.root) == ("spectrum", "compile", "$MPI_ROOT")
    assert one.mpi.binds == (
        "$MPI_ROOT:$MPI_ROOT",
        "/autofs/nccs-svm1_home1",
        "/autofs/nccs-svm1_home1:/ccs/home",
    )
    # jsrun breaks with it.
    assert "TMPDIR" not in {**one.jobs.environment, **one.jobs.inside, **one.environment}


def test_summit_says_what_it_cannot_promise() -> None:
    said = " ".join(site("summit").unknown)
    for fact in ("driver", "kernel", "Apptainer", "requiredmpilibs.source"):
        assert fact in said
    accelerator, os = site("summit").accelerator, site("summit").os
    assert accelerator is not None
    assert accelerator.driver is None
    assert os is not None
    assert os.kernel is None


def test_ascent_is_summit_elsewhere() -> None:
    ascent, summit = site("ascent"), site("summit")
    assert ascent.cpu == summit.cpu
    assert ascent.scheduler.forms == summit.scheduler.forms
    assert list(ascent.epochs) == ["2022"]
    assert ascent.mpi is not None
    # Another enclave: neither Summit's homes nor its file systems are there.
    text = ascent.model_dump_json(include={"filesystems", "mpi", "jobs"})
    assert "alpine" not in text
    assert "nccs-svm1" not in text
    assert "/ccs/" not in text


@pytest.mark.parametrize(
    ("node_type", "queue", "target", "cores", "threads", "fast"),
    [
        ("knl", "normal", "knl", 68, "66", "cache"),
        ("knl-flat", "flat-quadrant", "knl", 68, "66", "flat"),
        ("skx", "skx-normal", "skylake-avx512", 48, "46", None),
        ("icx", "icx-normal", "icelake-server", 80, "78", None),
    ],
)
def test_stampede2s_nodes(
    node_type: str, queue: str, target: str, cores: int, threads: str, fast: str | None
) -> None:
    one = site("stampede2", node_type)
    assert one.cpu is not None
    assert one.memory is not None
    assert option(one.scheduler.directives, "-p") == queue
    assert (one.cpu.target, one.cpu.cores, one.memory.fast_mode) == (target, cores, fast)
    # In the image, and in the job, whose host sets 1.
    assert one.environment["OMP_NUM_THREADS"] == threads
    assert one.jobs.environment["OMP_NUM_THREADS"] == threads
    assert {"KMP_AFFINITY", "KMP_BLOCKTIME"} <= one.environment.keys()
    assert one.jobs.prefix == (("numactl", "--preferred=1") if fast == "flat" else ())


def test_stampede2_runs_the_images_own_mpi_over_omni_path() -> None:
    for one in every("stampede2"):
        assert one.mpi is not None
        assert one.network is not None
        assert (one.mpi.mode, one.mpi.family) == ("container", "mpich")
        assert one.network.kind == "omni-path"
        from_host = (*one.mpi.binds, *one.mpi.libraries, *one.mpi.preload, *one.mpi.library_path)
        assert not from_host
        assert one.jobs.modules[-1] == "unload xalt"
        # Right for MVAPICH2, wrong for Intel MPI: nobody knows which one an image has.
        assert "PSM2_KASSIST_MODE" not in {**one.mpi.inside, **one.mpi.environment}
    assert site("stampede2").node_type == "knl"


@pytest.mark.parametrize("name", KNL)
def test_knl_takes_pytorchs_avx2_path(name: str) -> None:
    for one in every(name):
        assert one.cpu is not None
        is_knl = one.cpu.target == "knl"
        assert (one.environment.get("ATEN_CPU_CAPABILITY") == "avx2") == is_knl
        assert int(one.environment["OMP_NUM_THREADS"]) <= one.cpu.cores


def test_theta_puts_crays_libraries_first() -> None:
    one = site("theta")
    assert one.mpi is not None
    assert one.mpi.modules == ("swap cray-mpich cray-mpich-abi",)
    assert one.mpi.library_path[:2] == ("$CRAY_LD_LIBRARY_PATH", "$LD_LIBRARY_PATH")
    assert one.mpi.binds == ("/opt", "/etc/alternatives")
    assert one.scheduler.kind == "cobalt"


def test_cori_takes_images_by_name() -> None:
    one = site("cori-knl")
    assert one.engine.runtime == "shifter"
    assert (option(one.scheduler.directives, "--image") or "").startswith("docker:")
    assert option(one.scheduler.directives, "-C") == "knl,quad,cache"


def test_power9_sites_are_volta_and_stay_below_its_last_toolkits() -> None:
    for name in POWER9:
        for one in every(name):
            assert one.accelerator is not None
            assert one.accelerator.target == "sm_70"
            toolkit = one.accelerator.toolkit
            # The last CUDA for ppc64le is 12.4.
            assert toolkit is None or tuple(map(int, toolkit.split(".")[:2])) <= (12, 4)

"""What surrounds an image at a site: the same for a plan and for a record, each flag once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.templating import Literal
from dlcontainer.errors import ConfigError
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.surroundings import ImageFacts
from dlcontainer.sites.site import Site
from tests.jobs import SWAP
from tests.values import SITE, TRIAL, folder_of, plan_of, shipped_site, site_of

GPU = {"model": "X", "per_node": 4}
MPI = ImageFacts(uses_mpi=True)


def at(**site: Any) -> Site:
    return site_of(SITE, **site).value


def flags(runtime: str = "apptainer", vendor: str | None = None, *given: str) -> tuple[str, ...]:
    more = {"accelerator": {"vendor": vendor, **GPU}} if vendor else {}
    site = at(engine={"runtime": runtime}, jobs={"flags": list(given)}, **more)
    return surroundings.of(site, ImageFacts()).flags


@pytest.mark.parametrize(
    ("runtime", "vendor", "given", "flag"),
    [
        ("apptainer", "nvidia", (), ("--nv",)),
        ("singularity", "amd", (), ("--rocm",)),
        ("apptainer", "intel", (), ()),
        ("apptainer", None, (), ()),
        ("apptainer", "nvidia", ("--nvccli",), ("--nvccli",)),
        ("apptainer", "nvidia", ("--fakeroot", "--nv"), ("--fakeroot", "--nv")),
        ("apptainer", "amd", ("--pwd", "/x"), ("--rocm", "--pwd", "/x")),
        ("podman-hpc", "nvidia", (), ("--gpu",)),
        ("podman-hpc", "nvidia", ("--gpu", "--nccl"), ("--gpu", "--nccl")),
        ("podman-hpc", "amd", ("--device", "/dev/kfd"), ("--device", "/dev/kfd")),
        (
            "podman-hpc",
            "nvidia",
            ("--device=nvidia.com/gpu=all",),
            ("--device=nvidia.com/gpu=all",),
        ),
        ("shifter", "nvidia", (), ()),
        ("container-engine", "nvidia", (), ()),
    ],
)
def test_the_gpu_flag_follows_from_the_accelerator(
    runtime: str, vendor: str | None, given: tuple[str, ...], flag: tuple[str, ...]
) -> None:
    assert flags(runtime, vendor, *given) == flag


def test_a_flag_that_mpi_s_flags_say_is_not_said_twice() -> None:
    mpi = {**SWAP, "flags": ["--gpu", "--cuda-mpi"]}
    site = at(engine={"runtime": "podman-hpc"}, accelerator={"vendor": "nvidia", **GPU}, mpi=mpi)
    assert surroundings.of(site, MPI).flags == ("--gpu", "--cuda-mpi")
    assert surroundings.of(site, MPI).gpu == ("--gpu",)


def test_the_engine_of_this_host_is_for_this_host_alone(tmp_path: Path) -> None:
    local = shipped_site("local")
    here = surroundings.of(local.value, ImageFacts(), TRIAL)
    assert (here.program, here.flags) == (TRIAL.program, ("--userns",))
    assert surroundings.of(local.value, ImageFacts(), replace(TRIAL, run_mode="plain")).flags == ()
    for site, trial in ((local.value, None), (at(), TRIAL)):
        other = surroundings.of(site, ImageFacts(), trial)
        assert (other.program, other.flags) == ("apptainer", ())
    plan = plan_of(folder_of(tmp_path), site=local, trial=replace(TRIAL, run_mode="unpacked"))
    assert surroundings.of_plan(plan).flags == ("--userns", "--unsquash")
    assert surroundings.of_plan(plan_of(folder_of(tmp_path), site=local)).flags == ()


def test_the_mode_that_a_site_states() -> None:
    site = at(engine={"run_mode": "userns"}, jobs={"flags": ["--fakeroot"]})
    assert surroundings.of(site, ImageFacts(), replace(TRIAL, run_mode="plain")).flags == (
        "--userns",
        "--fakeroot",
    )
    with pytest.raises(ConfigError, match="only Apptainer and Singularity have 'run_mode'"):
        at(engine={"run_mode": "userns", "runtime": "shifter"})


def test_an_image_without_mpi_gets_the_jobs_facts_alone() -> None:
    jobs = {"binds": ["/scratch"], "inside": {"A": "1"}, "environment": {"B": "2"}}
    site = at(jobs=jobs, mpi=SWAP)
    bare, swapped = surroundings.of(site, ImageFacts()), surroundings.of(site, MPI)
    assert (bare.binds, bare.libraries, bare.preload) == (("/scratch",), (), ())
    assert (bare.inside, bare.environment) == ({"A": "1"}, {"B": "2"})
    assert swapped.binds == ("/scratch", "/opt/cray", "$PWD")
    assert swapped.inside == {"A": "1", "NCCL_NET": "AWS Libfabric"}
    assert {"PYTHONPATH", "PYTHONHOME", "LD_PRELOAD"} <= set(swapped.unset)


def test_the_image_s_own_list_of_libraries_stays_behind_the_site_s() -> None:
    own = {"LD_LIBRARY_PATH": "/own/$ORIGIN"}
    found = surroundings.of(at(mpi=SWAP), ImageFacts(uses_mpi=True, environment=own)).library_path
    assert found[-1] == "/own/$ORIGIN"
    assert isinstance(found[-1], Literal)


def test_a_plan_and_its_record_have_the_same_surroundings(tmp_path: Path) -> None:
    stack = {"mpi": {"family": "mpich", "name": "M"}}
    site = site_of(SITE, mpi=SWAP, accelerator={"vendor": "amd", **GPU})
    plan = plan_of(folder_of(tmp_path, stack=stack), site=site, cpu=True)
    image = ImageFacts(uses_mpi=True, environment=plan.environment)
    assert surroundings.of_plan(plan) == surroundings.of(plan.site, image)


def test_an_images_own_mpi_copies_from_no_other_rank() -> None:
    """Ranks have user namespaces of their own, where large messages would hang."""
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"
    own = {"family": "openmpi", "also": ["mpich"], "mode": "container", "name": "the image's"}
    site = at(mpi=own)
    assert surroundings.of(site, MPI).inside == {
        name: "none", "UCX_POSIX_USE_PROC_LINK": "n", "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    }  # fmt: skip
    assert name not in surroundings.of(site, replace(MPI, environment={name: "emulated"})).inside
    assert surroundings.of(at(mpi=own, jobs={"inside": {name: "cma"}}), MPI).inside[name] == "cma"
    assert name not in surroundings.of(at(mpi=own, jobs={"environment": {name: "cma"}}), MPI).inside
    # No MPI in the image, the host's MPI in its place, a runtime whose ranks share a namespace.
    assert surroundings.of(site, ImageFacts()).inside == {}
    assert name not in surroundings.of(at(mpi={**SWAP, "family": "openmpi"}), MPI).inside
    assert surroundings.of(at(mpi=own, engine={"runtime": "podman-hpc"}), MPI).inside == {}

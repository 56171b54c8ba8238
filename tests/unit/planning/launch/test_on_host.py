"""Surroundings on this host: filled in, and left out by name where a fact does not hold."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.image.record import ImageContent
from dlcontainer.planning.launch import on_host
from dlcontainer.planning.launch.here import HostSurroundings
from dlcontainer.planning.launch.on_host import UnsetError
from dlcontainer.planning.launch.surroundings import ImageFacts
from tests.jobs import SWAP
from tests.values import CONTENT, SITE, site_of

MPI = ImageFacts(uses_mpi=True, environment={"LD_LIBRARY_PATH": "/opt/own/lib"})
LOADED = {"CRAY": "/opt/cray/9", "CRAY_VERSION": "9.0", "PWD": "/work/a"}
FILES = ("/opt/cray", "/work/a", "/usr/lib64/libcxi.so.1", "/opt/cray/9/lib/libnl.so")
JOBS: dict[str, Any] = {
    "binds": ["/scratch:/data:ro", "$PROJECT"],
    "flags": ["--workdir", "$PROJECT", "--nv"],
    "inside": {"NCCL_SOCKET_IFNAME": "hsn0", "PATH": "/opt/x/bin", "WHERE": "$PROJECT"},
    "environment": {"FI_CXI_ATS": "0"},
}
KEYED = {**SWAP, "version_variable": "CRAY_VERSION", "known_versions": ["9.0"]}


def here(
    environ: dict[str, str],
    files: Iterable[str],
    image: ImageFacts | None = None,
    **site: Any,
) -> HostSurroundings:
    known = {Path(name) for name in files}
    wanted = site_of(SITE, **site).value
    return on_host.here(wanted, image or ImageFacts(), environ, known.__contains__)


def test_a_site_without_facts_adds_nothing() -> None:
    assert here({}, ()) == HostSurroundings(facts=dict.fromkeys(here({}, ()).facts, ()))
    assert here({}, ()).declared() == {}
    assert here({}, ()).words == ()


def test_facts_are_filled_in() -> None:
    found = here({"PROJECT": "/p/x"}, ["/scratch", "/p/x"], jobs=JOBS)
    # --nv is left to this node's devices.
    assert found.words == ("--workdir", "/p/x", "--bind", "/scratch:/data:ro", "--bind", "/p/x")
    assert found.targets == ("/data", "/p/x")
    assert found.environment == {"FI_CXI_ATS": "0"}
    assert found.inside == {"FI_CXI_ATS": "0", "NCCL_SOCKET_IFNAME": "hsn0", "WHERE": "/p/x"}
    # On the host this would lead elsewhere.
    assert found.image_paths == {"PATH": "/opt/x/bin"}
    assert found.left_out == ()


def test_a_fact_that_does_not_hold_is_left_out_by_name() -> None:
    found = here({}, (), jobs=JOBS)
    assert found.words == ()
    assert found.inside == {"FI_CXI_ATS": "0", "NCCL_SOCKET_IFNAME": "hsn0"}
    assert found.left_out == (
        "WHERE: $PROJECT is empty or not set",
        "flags: $PROJECT is empty or not set",
        "bind /scratch:/data:ro: there is no /scratch on this host",
        "bind $PROJECT: $PROJECT is empty or not set",
    )


def test_file_systems_are_shown_where_this_host_has_them() -> None:
    given = [
        {"path": path, "kind": "nfs", "purpose": purpose}
        for path, purpose in (
            *(("/scratch", "scratch"), ("/away", "project"), ("/home", "home")),
            *(("/tmp", "node-local"), ("/mine", "scratch")),
        )
    ]
    there = ["/scratch", "/home", "/tmp", "/mine"]
    found = here({}, there, filesystems=given, jobs={"binds": ["/mine"]})
    assert (found.binds, found.left_out) == (("/mine", "/scratch"), ())


def test_the_declaration_says_the_site_s_words_and_not_this_user_s() -> None:
    found = here({"PROJECT": "/p/x"}, ["/scratch", "/p/x"], jobs=JOBS)
    assert found.declared() == {
        "flags": ("--workdir", "$PROJECT"),
        "binds": ("/scratch:/data:ro", "$PROJECT"),
        "variables": (
            "FI_CXI_ATS=0",
            "NCCL_SOCKET_IFNAME=hsn0",
            "PATH=/opt/x/bin",
            "WHERE=$PROJECT",
        ),
    }
    assert here({}, ["/scratch"], jobs=JOBS).declared()["left out"]


def test_flags_of_another_runtime_are_none_of_apptainer_s() -> None:
    given = {"flags": ["--nccl"], "binds": ["/scratch"]}
    found = here({}, ["/scratch"], engine={"runtime": "podman-hpc"}, jobs=given)
    assert found.words == ("--bind", "/scratch")


def test_a_path_that_no_engine_can_bind() -> None:
    found = here({"PROJECT": "/p,x"}, ["/p,x"], jobs={"binds": ["$PROJECT"]})
    assert (found.words, len(found.left_out)) == ((), 1)


def test_the_host_s_mpi_where_its_module_is_loaded() -> None:
    found = here(LOADED, FILES, MPI, mpi=KEYED)
    assert found.mpi == "Cray MPICH"
    assert found.declared()["mpi"] == ("Cray MPICH",)
    assert found.binds == ("/opt/cray", "/work/a")
    libraries = "/usr/lib64/libcxi.so.1,/opt/cray/9/lib/libnl.so"
    assert found.environment["APPTAINER_CONTAINLIBS"] == libraries
    assert found.environment["MPICH_GPU"] == "1"
    assert found.inside["NCCL_NET"] == "AWS Libfabric"
    # Its own folders, those of a variable that the site sets, the image's; never the host's list.
    folders = "/opt/cray/9/gtl:/opt/rocm/lib:/opt/cray/9/lib/x:/opt/own/lib"
    assert found.image_paths == {
        "LD_PRELOAD": "/opt/cray/9/gtl.so",
        "LD_LIBRARY_PATH": folders,
    }
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("environ", "image", "why"),
    [
        # A login node; an image without MPI; asked for by hand.
        ({}, MPI, None),
        (LOADED, None, None),
        ({**LOADED, "DLCONTAINER_MPI": "own"}, MPI, None),
        (
            {**LOADED, "CRAY_VERSION": "8.1"},
            MPI,
            "$CRAY_VERSION is 8.1, and the site config knows 9.0",
        ),
        ({**LOADED, "CRAY": ""}, MPI, "$CRAY is empty or not set"),
        (
            {**LOADED, "CRAY": "/opt/cray/10"},
            MPI,
            "there is no /opt/cray/10/lib/libnl.so on this host",
        ),
    ],
)
def test_the_image_s_own_mpi_elsewhere(
    environ: dict[str, str], image: ImageFacts | None, why: str | None
) -> None:
    found = here(environ, FILES, image, mpi=KEYED)
    assert (found.mpi, found.words, found.environment) == (None, (), {})
    assert found.left_out == ((f"the host's Cray MPICH: {why}",) if why else ())


def test_without_a_variable_of_its_own_the_host_s_mpi_is_a_job_s() -> None:
    assert here(LOADED, FILES, MPI, mpi=SWAP).mpi is None
    assert here({**LOADED, "SLURM_JOB_ID": "7"}, FILES, MPI, mpi=SWAP).mpi == "Cray MPICH"


def test_a_script_of_the_job_s_shell_keeps_the_host_s_mpi_out() -> None:
    found = here(LOADED, FILES, MPI, mpi={**KEYED, "scripts": ["/opt/ibm/mpi.sh"]})
    assert found.mpi is None
    assert found.left_out == ("the host's Cray MPICH: only a job's shell reads /opt/ibm/mpi.sh",)


def test_words_that_the_engine_refuses() -> None:
    found = here({}, ["/scratch"], jobs={"binds": ["/scratch"]}).refused("no such flag")
    assert (found.words, found.left_out) == ((), ("--bind /scratch: no such flag",))


def test_a_record_tells_whether_its_image_uses_mpi() -> None:
    recipe = {**CONTENT["recipe"], "stack": {"mpi": {"family": "mpich"}}}
    written = ImageContent.model_validate(CONTENT, strict=False)
    assert on_host.facts_of(written) == ImageFacts()
    written = ImageContent.model_validate({**CONTENT, "recipe": recipe}, strict=False)
    assert on_host.facts_of(written).uses_mpi


def test_a_text_is_filled_in_as_a_shell_does() -> None:
    assert on_host.fill("${A}/$B$LD_LIBRARY_PATH", {"A": "/a", "B": "b"}) == "/a/b"
    with pytest.raises(UnsetError, match=r"^C$"):
        on_host.fill("$C", {"C": ""})

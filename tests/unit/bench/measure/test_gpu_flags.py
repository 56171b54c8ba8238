"""The container's arms let the site's accelerators in, as its wrappers and its jobs do."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.measure.arms import ContainerArm, Workload
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.probes.import_ import IMPORT, cell
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.errors import ConfigError
from dlcontainer.sites import gpu_flags, gpu_jobs
from dlcontainer.sites.facts import Accelerator, Jobs
from dlcontainer.sites.site import Site
from tests.benchrunner import ProbeRunner
from tests.values import execution_of, site_of

NVIDIA = Path("/dev/nvidiactl")
AMD = Path("/dev/kfd")


def of(vendor: str | None, *given: str) -> Site:
    own = {"vendor": vendor, "model": "X", "per_node": 4}
    found = Accelerator.model_validate(own) if vendor else None
    return site_of().value.model_copy(update={"accelerator": found, "jobs": Jobs(flags=given)})


@pytest.mark.parametrize(
    ("site", "device", "found"),
    [
        (of(None), NVIDIA, ()),
        (of("nvidia"), NVIDIA, ("--nv",)),
        (of("nvidia"), AMD, ()),
        (of("amd"), AMD, ("--rocm",)),
        (of("intel"), NVIDIA, ()),
        # Ranks may begin elsewhere than here: what the jobs say holds without a device.
        (of("nvidia", "--nv"), None, ("--nv",)),
        (of("nvidia", "--nv"), NVIDIA, ("--nv",)),
        (of("nvidia", "--nvccli"), NVIDIA, ("--nvccli",)),
        # What is no accelerator's is the job script's.
        (of("amd", "--rocm", "--pwd", "/x"), AMD, ("--rocm",)),
    ],
)
def test_flags(site: Site, device: Path | None, found: tuple[str, ...]) -> None:
    assert gpu_flags.here(site, lambda path: path == device) == found


def test_a_site_may_say_why_there_is_none() -> None:
    site = site_of(
        accelerator={"vendor": "amd", "model": "X", "per_node": 4},
        engine={"without_gpu_flag": "as the centre's jobs"},
        scheduler={"kind": "slurm"},
    )
    gpu_flags.require_fit(site)
    assert gpu_flags.flags(site.value) == ()
    assert "flag for GPUs: as the centre's jobs" in gpu_jobs.notes(site.value)[0]
    both = site_of(
        accelerator={"vendor": "amd", "model": "X", "per_node": 4},
        engine={"without_gpu_flag": "as the centre's jobs"},
        jobs={"flags": ["--rocm"]},
    )
    with pytest.raises(ConfigError, match=r"--rocm contradicts .*: engine.without_gpu_flag"):
        gpu_flags.require_fit(both)


def context(tmp_path: Path) -> BenchContext:
    execution = execution_of(tmp_path, ProbeRunner())
    return BenchContext(execution=execution, templates=(), work=tmp_path)


@pytest.mark.parametrize("image", ["x.sif", "folder"])
def test_both_of_the_container_s_arms_get_them(tmp_path: Path, image: str) -> None:
    work = Workload(probe=IMPORT, cell=cell("torch", threads=1), environment={})
    (tmp_path / "folder").mkdir()
    argvs = []
    for flags in ((), ("--nv",)):
        here = replace(context(tmp_path), accelerators=flags)
        side = ContainerArm(context=here, image=tmp_path / image, python="/opt/x/bin/python")
        argvs.append(list(side.launch(work).argv))
    without, given = argvs
    place = given.index("--nv")
    assert given[:place] + given[place + 1 :] == without
    assert given.index("exec") < place < given.index("--cleanenv")


def test_a_shared_mount_gets_them_when_it_is_made() -> None:
    spec = RunSpec(image=Path("x.sif"), argv=(), mode="userns", accelerators=("--rocm",))
    argv = Apptainer(program=Path("/bin/apptainer")).start_argv(spec, "name")
    assert argv[argv.index("start") :][:3] == ["start", "--userns", "--rocm"]

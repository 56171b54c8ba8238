"""The job script's text, the EDF beside it, the build script, and what is refused."""

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import build_context, standing_alone, texts
from dlcontainer.planning.plan import Plan
from tests.jobs import plan_at
from tests.values import TEMPLATES

FORM = {"summary": "f", "launcher": ["srun"], "ranks_per_node": 1}
FORMS = {"first": FORM, "second": FORM}
STAGED = {"how": "sbcast", "to": "/tmp"}
LSF_FORM = {"kind": "lsf", "forms": {"a": {**FORM, "launcher": ["jsrun"]}}}
TACC_FORM = {"kind": "slurm", "forms": {"a": {**FORM, "launcher": ["ibrun"]}}}
CE: dict[str, Any] = {"engine": {"runtime": "container-engine"}}
ROUTE = {"engine": {"route": ["podman", "docker-archive", "apptainer"]}}
COMPILED = {"family": "spectrum", "mode": "compile", "name": "Spectrum", "root": "$MPI_ROOT"}


def job(plan: Plan, launch: str | None = None) -> str:
    return texts.text(plan, "job", [TEMPLATES], launch)


def test_directives_come_before_all_else(tmp_path: Path) -> None:
    directives = ["#SBATCH -A ABC123", '#BSUB -alloc_flags "a b"']
    plan = plan_at(tmp_path, scheduler={"kind": "slurm", "directives": directives})
    lines = job(plan).splitlines()
    assert lines[:3] == ["#!/bin/bash", *directives]
    options = "--account, --partition, --time, --nodes"
    assert f"# Edit the lines above, or render it with {options}." in lines


def test_a_jobs_resources_come_from_the_site_and_follow_the_form(tmp_path: Path) -> None:
    forms = {"gpu": {**FORM, "ranks_per_node": 4}, "torchrun": {**FORM, "inside": "torchrun"}}
    scheduler = {
        "kind": "slurm",
        "directives": ["#SBATCH -A X", "#SBATCH -N 2 -n 2"],
        "resources": {"account": "me", "time": "90"},
        "forms": forms,
    }
    recipe = {"exposes": ["python", "torchrun"]}
    plan = plan_at(tmp_path, recipe=recipe, scheduler=scheduler)
    lines = ["#SBATCH -A me", "#SBATCH -N 2 -n 8", "#SBATCH --time=01:30:00"]
    assert job(plan).splitlines()[1:4] == lines
    assert job(plan, "torchrun").splitlines()[2] == "#SBATCH -N 2 -n 2"


def test_the_head_says_where_it_comes_from(tmp_path: Path) -> None:
    scheduler = {"kind": "lsf", "forms": FORMS, "sources": ["guide"]}
    plan = plan_at(
        tmp_path,
        scheduler=scheduler,
        sources={"guide": "centre/docs@1 guide.rst", "other": "not used"},
        unknown=["the driver: no promise", "its age"],
        status="decommissioned",
    )
    text = job(plan)
    for line in (
        "# source: centre/docs@1 guide.rst",
        "# Not known, so not promised (why: dlcontainer site show demo): the driver; its age",
        "# The machine is decommissioned: rendered for the record.",
        "# Ways to place ranks: first, second. Another than first: DLCONTAINER_FORM=NAME bsub",
        f"# plan: sha256:{plan.digest}",
    ):
        assert f"\n{line}" in text
    assert "not used" not in text


def test_the_head_names_what_can_be_left_out(tmp_path: Path) -> None:
    staged = plan_at(
        tmp_path, scheduler={"kind": "slurm", "forms": FORMS}, jobs={"staging": STAGED}
    )
    line = "# Without a copy of the image in /tmp: DLCONTAINER_STAGE=0 sbatch job.sh\n"
    assert line in job(staged)
    kept = plan_at(tmp_path, scheduler={"kind": "pbs"}, modules={"keep_mounted": 60})
    line = "# Without one mount for a node's ranks: qsub -v DLCONTAINER_KEEP=0 job.sh\n"
    assert line in job(kept)


def test_the_usual_form(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, scheduler={"kind": "slurm", "forms": FORMS})
    assert "dlc_form=${DLCONTAINER_FORM:-first}" in job(plan)
    assert "dlc_form=${DLCONTAINER_FORM:-second}" in job(plan, "second")
    with pytest.raises(ConfigError, match=r"--form: no form 'secnd' .*; did you mean 'second'\?"):
        job(plan, "secnd")
    with pytest.raises(ConfigError, match="remove --form: the site has no forms"):
        job(plan_at(tmp_path), "first")


@pytest.mark.parametrize(
    ("stack", "usual"),
    [({}, "pmi2"), ({"family": "mpich"}, "pmi2"), ({"family": "openmpi"}, "pmix")],
)
def test_the_usual_form_is_for_the_images_mpi(
    tmp_path: Path, stack: dict[str, str], usual: str
) -> None:
    forms = {"pmi2": {**FORM, "mpi": "mpich"}, "pmix": {**FORM, "mpi": "openmpi"}}
    mpi = {"family": "mpich", "also": ["openmpi"], "mode": "container", "name": "the image's"}
    recipe = {"stack": {"mpi": {**stack, "name": "an MPI"}} if stack else {}}
    scheduler = {"kind": "slurm", "forms": forms}
    plan = plan_at(tmp_path, recipe=recipe, scheduler=scheduler, mpi=mpi)
    assert f"dlc_form=${{DLCONTAINER_FORM:-{usual}}}" in job(plan)
    assert f"dlc_form=${{DLCONTAINER_FORM:-{'pmi2'}}}" in job(plan, "pmi2")


def test_no_line_is_long_without_need(tmp_path: Path) -> None:
    binds = [f"/a/folder/of/the/site/number/{number}" for number in range(40)]
    text = job(plan_at(tmp_path, jobs={"binds": binds}))
    assert text.count("--bind /a/folder") == 40
    assert max(len(line) for line in text.splitlines() if "--bind" in line) <= 100


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ({"jobs": {"environment": {"dlc_nodes": "1"}}}, "site demo: a job can't set dlc_nodes"),
        ({**CE, "jobs": {"flags": ["--nv"]}}, "'--nv' is not an annotation"),
        ({**CE, "jobs": {"staging": STAGED}}, "container-engine has no image file to copy"),
        ({"scheduler": LSF_FORM, "jobs": {"staging": STAGED}}, "only Slurm has sbcast"),
        (
            {"scheduler": TACC_FORM, "jobs": {"staging": {"how": "copy", "to": "/tmp"}}},
            "cannot start one process on each node with ibrun",
        ),
        (
            {"scheduler": LSF_FORM, "jobs": {"rendezvous": {"interface": "ib0"}}},
            "the job script cannot read the first node's interface",
        ),
        ({**CE, "jobs": {"flags": ["com.hooks"]}}, "'com.hooks' is not an annotation"),
        (
            {
                "engine": {"runtime": "shifter"},
                "mpi": {"family": "mpich", "mode": "swap", "name": "M", "libraries": ["/a.so"]},
            },
            "mpi.libraries: shifter cannot add single libraries to images",
        ),
    ],
)
def test_what_no_job_script_can_do(tmp_path: Path, site: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        job(plan_at(tmp_path, **site))


def test_the_edf(tmp_path: Path) -> None:
    jobs = {
        "binds": ["$SCRATCH", "/a b:/c"],
        "inside": {"NCCL_NET": "AWS Libfabric", "Q": 'a"b\\c', "LD_LIBRARY_PATH": "/jobs"},
        "flags": ["com.hooks.cxi.enabled=true", "com.odd key.x=$USER = y"],
    }
    mpi = {"family": "mpich", "mode": "swap", "name": "M", "preload": ["/g.so", "$A/h.so"]}
    mpi["library_path"] = ["$A/lib", "$LD_LIBRARY_PATH"]
    plan = plan_at(tmp_path, **CE, jobs=jobs, mpi=mpi)
    [(name, text)] = texts.beside(plan, "job", [TEMPLATES]).items()
    assert name == "demo-1.0-demo.toml"
    found = tomllib.loads(text)
    assert found["image"] == "${PWD}/demo-1.0-demo.sqsh"
    assert found["mounts"] == ["${SCRATCH}:${SCRATCH}", "/a b:/c", "${PWD}:${PWD}"]
    assert found["env"] == {
        "NCCL_NET": "AWS Libfabric",
        "Q": 'a"b\\c',
        "LD_PRELOAD": "/g.so:${A}/h.so",
        "LD_LIBRARY_PATH": "${A}/lib:${LD_LIBRARY_PATH:-}:/jobs",
    }
    hooks = {"hooks": {"cxi": {"enabled": "true"}}, "odd key": {"x": "${USER} = y"}}
    assert found["annotations"] == {"com": hooks}
    bare = texts.beside(plan_at(tmp_path, **CE), "job", [TEMPLATES])[name]
    assert tomllib.loads(bare)["mounts"] == ["${PWD}:${PWD}"]
    assert set(tomllib.loads(bare)) == {"image", "mounts", "workdir"}


def test_annotations_that_contradict_each_other(tmp_path: Path) -> None:
    mpi = {"family": "mpich", "mode": "swap", "name": "M", "flags": ["a.b=mpi"]}
    plan = plan_at(tmp_path, **CE, jobs={"flags": ["a.b=jobs"]}, mpi=mpi)
    [text] = texts.beside(plan, "job", [TEMPLATES]).values()
    assert tomllib.loads(text)["annotations"] == {"a": {"b": "mpi"}}
    plan = plan_at(tmp_path, **CE, jobs={"flags": ["a=1", "a.b=2"]})
    with pytest.raises(ConfigError, match="cannot write its annotations to an EDF"):
        texts.beside(plan, "job", [TEMPLATES])


@pytest.mark.parametrize("target", ["it's new/", "my job.sh"])
def test_what_lies_beside_a_job_script(tmp_path: Path, target: str) -> None:
    plan = plan_at(tmp_path, **CE)
    (tmp_path / "out").mkdir()
    beside = texts.beside(plan, "job", [TEMPLATES])
    written = build_context.write(plan, "job", "text\n", f"{tmp_path}/out/{target}", beside)
    assert {path.name for path in written.parent.iterdir()} - {"it's new"} == {
        written.name,
        "demo-1.0-demo.toml",
    }
    assert written.stat().st_mode & stat.S_IXUSR


def test_a_build_script_lies_beside_its_dockerfile(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **ROUTE)
    beside = texts.beside(plan, "route", [TEMPLATES])
    written = {"route.sh": "text\n", **beside}
    standing_alone.write(plan, written, tmp_path / "out", [TEMPLATES])
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"route.sh", "Dockerfile", "files", "README.txt"}
    assert (tmp_path / "out/route.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "out/Dockerfile").stat().st_mode & stat.S_IXUSR
    assert beside["Dockerfile"] == texts.text(plan, "dockerfile", [TEMPLATES])


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ((), "cannot write a build script for site demo: a definition file is enough"),
        (
            ("podman", "by hand"),
            "cannot write a build script for site demo: its route is podman, by hand",
        ),
    ],
)
def test_sites_without_a_build_script(tmp_path: Path, route: Any, message: str) -> None:
    plan = plan_at(tmp_path, engine={"route": list(route)})
    assert "route" not in texts.formats_of(plan)
    with pytest.raises(ConfigError, match=message):
        texts.text(plan, "route", [TEMPLATES])


@pytest.mark.parametrize("form", ["apptainer", "dockerfile"])
def test_texts_say_that_the_hosts_mpi_is_bound_while_they_build(
    tmp_path: Path, form: texts.Format
) -> None:
    line = "# compiled against the site's Spectrum: build with $MPI_ROOT bound\n"
    how = "# how, at the site: dlcontainer render --format route -o FOLDER/\n"
    plan = plan_at(tmp_path, mpi=COMPILED, **ROUTE)
    assert line + how in texts.text(plan, form, [TEMPLATES])
    without = texts.text(plan_at(tmp_path, mpi=COMPILED), form, [TEMPLATES])
    assert (line in without, how in without) == (True, False)
    unused = plan_at(tmp_path, recipe={"stack": {}}, mpi=COMPILED)
    assert line not in texts.text(unused, form, [TEMPLATES])


def test_images_of_oci_engines_have_names_that_those_take(tmp_path: Path) -> None:
    recipe = {"version": "2.13.0+cpu"}
    text = job(plan_at(tmp_path, recipe=recipe, engine={"runtime": "podman-hpc"}))
    assert "dlc_image=${DLCONTAINER_IMAGE:-demo:2.13.0-cpu-demo}\n" in text


def test_a_mount_is_kept_for_a_while_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 10 seconds, or 0"):
        plan_at(tmp_path / "short", modules={"keep_mounted": 5})
    assert "DLCONTAINER_KEEP" not in job(plan_at(tmp_path / "none", modules={"keep_mounted": 0}))

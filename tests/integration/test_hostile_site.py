"""A site with hostile text in every field: refused, or inert in all that is rendered and run."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from dlcontainer.errors import ConfigError
from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan
from dlcontainer.publish.modulefiles import FallbackPrograms, ModuleRelease, wrappers
from dlcontainer.sites.engine import Runtime
from dlcontainer.sites.site import Site
from tests.jobs import BASH, Machine, plan_at
from tests.values import HOSTILE, TEMPLATES, site_of

# Where no '$' but a variable's is taken; a variable's value is hostile too.
HOST_TEXTS = (*(text for text in HOSTILE if "$" not in text), "$EVIL", "a'${EVIL};`touch CANARY`")
EVIL = {"EVIL": "$(touch CANARY)`touch CANARY`'\"; touch CANARY; \\", "SLURM_NNODES": "2"}
KINDS = ("slurm", "lsf", "pbs", "cobalt", "none")


def hostile(line: str, host: str, runtime: str, *, kind: str = "slurm") -> dict[str, Any]:
    """Put a Line's text and a HostText's into every field of a site that takes one."""
    around = {
        "environment": {"HOSTILE_A": host},
        "inside": {"HOSTILE_B": host, "LD_PRELOAD": host},
        "binds": [host, f"{host}:/x"],
        "flags": [f"x.y {host}={host}" if runtime == "container-engine" else host],
        "modules": [line, f"load {line}"],
        "sources": ["s"],
    }
    # One libraries' list only where the runtime has one.
    lists = ("preload", "library_path") + (
        ("libraries",) if runtime in ("apptainer", "singularity") else ()
    )
    mpi: dict[str, Any] = {
        **around,
        **{key: [host, host] for key in lists},
        "family": "mpich",
        "mode": "compile",
        "name": line,
        "soname": line,
        "root": host,
        "version": "1",
    }
    jobs: dict[str, Any] = {"flags_without_mpi": around["flags"]}
    if runtime in ("apptainer", "singularity"):  # the others have no image file to copy
        jobs["staging"] = {"how": "copy", "to": host, "usual": False}
    engine = {"runtime": runtime, "module": line, "route": ["podman"], "sources": ["s"]}
    if runtime == "singularity":  # the others have a flag
        engine["without_gpu_flag"] = line
    form = {"summary": line, "launcher": ["srun", host], "ranks_per_node": 2, "sources": ["s"]}
    # A variable's name in a path is refused: nothing would fill it in.
    path = re.sub(r"\$(?=[A-Za-z_{])", "", f"/{line}")
    return {
        "summary": line,
        "sources": {"s": line},
        "source": "s",
        "unknown": [line],
        "status": "decommissioned",
        "os": {"distribution": "a", "release": line, "kernel": line},
        "cpu": {"model": line, "cores": 1, "cores_per_domain": 1, "reserved": [1]},
        "accelerator": {"vendor": "nvidia", "model": line, "per_node": 1, "near": [0]},
        "network": {"kind": "ethernet", "model": line},
        "collectives": {"plugin": "hook", "environment": {"HOSTILE_D": host}},
        "environment": {"HOSTILE_C": line.replace("$", "$$")},
        "jobs": {**around, "prefix": ["numactl", line], **jobs},
        "mpi": mpi,
        "scheduler": {
            "kind": kind,
            "directives": [f"#SBATCH {line}"],
            "launcher": ["srun", host],
            "forms": {"a": form, "b": {**form, "launcher": ["srun", "{nodes}", host]}},
            "sources": ["s"],
        },
        "engine": engine,
        "filesystems": [
            {"path": path, "kind": line, "purpose": "scratch", "user_folder": "/s/${EVIL}"},
        ],
        "modules": {
            "kind": "lmod",
            "root": path,
            "submissions": [line],
            "after_publish": [line],
            "usage": ["logger", "-t", line],
            "stripe": ["lfs", "setstripe", line],
            "keep_days": 40,
            "longest_job_days": 30,
            "release_days": 365,
        },
    }


def fields(model: type[BaseModel]) -> set[str]:
    return {name.removesuffix("_") for name in model.model_fields}


def test_no_field_of_a_site_is_forgotten() -> None:
    made = hostile("a", "a", "apptainer")
    # Names and closed lists; other files'; how a build gets out, whose signatures count and what is
    # known of vulnerabilities, which are in no text.
    elsewhere = {
        *("schema", "name", "extends", "facts", "node_types", "node_type", "epochs", "epoch"),
        *("arch", "memory", "routing", "default_recipe", "base", "images", "recipes", "trust"),
        "vulnerabilities",
    }
    assert fields(Site) == set(made) | elsewhere
    site = site_of(**made).value
    unsaid = {"remembered", "sources"}
    assert site.mpi
    # Of types that take no such text.
    typed = {"rendezvous", "warning", "requeue"}
    assert site.jobs.model_fields_set | unsaid | typed == fields(type(site.jobs))
    typed = {"scripts", "also", "version_variable", "known_versions"}
    assert site.mpi.model_fields_set | unsaid | typed == fields(type(site.mpi))
    typed = {"resources", "parallel_environment", "whole_nodes"}
    assert site.scheduler.model_fields_set | unsaid | typed == fields(type(site.scheduler))


def run_quietly(machine: Machine, shell: str, script: str) -> str:
    done = subprocess.run(
        [shell, "-c", script, "sh"],
        cwd=machine.here,
        env={
            "PATH": f"{machine.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(machine.folder),
            **EVIL,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (script, done.stderr)
    return done.stdout


def check_image_texts(plan: Plan, machine: Machine, line: str) -> None:
    """Run what the image's texts would run, but for the steps themselves."""
    try:
        definition = texts.text(plan, "apptainer", [TEMPLATES])
    except ConfigError:
        assert line == "%post"
        return
    head, rest = definition.split("\n%files\n", 1)
    head, _, setup = head.partition("\n\n%setup\n")
    head, _, before = head.partition("\n\n%pre\n")
    # Both run on the building host.
    assert before
    assert line not in before + setup
    assert all(one.startswith(("# ", "Bootstrap: ", "From: ")) for one in head.splitlines())
    sections = dict(part.split("\n", 1) for part in rest.split("\n%")[1:])
    shown = run_quietly(machine, "/bin/sh", sections["environment"] + '\nprintf %s "$HOSTILE_C"')
    assert shown == line
    run_quietly(machine, "/bin/sh", f"set -n\n{sections['post']}")
    run_quietly(machine, "/bin/sh", sections["runscript"].replace('exec "$@"', ":"))
    dockerfile = texts.text(plan, "dockerfile", [TEMPLATES])
    for one in dockerfile.splitlines():
        assert one.split(" ")[0] in {
            *("#", "FROM", "ARG", "LABEL", "ENV", "COPY", "RUN", "&&", "CMD", ""),
        }


def check_wrapper(plan: Plan, machine: Machine) -> None:
    release = ModuleRelease(
        name="demo",
        version="1.0",
        summary=plan.site.summary,
        homepage=None,
        license=None,
        commands=("python",),
        prefix="/opt/demo",
        digest="0",
        sha256="0",
        offset=4096,
    )
    scripts = wrappers(release, plan.site, FallbackPrograms(engine=Path("/no/such")), [TEMPLATES])
    # They stop where they find no image; what comes after is read too.
    for script in scripts.values():
        run_quietly(machine, "/bin/sh", f"set -n\n{script}")
    lines = scripts["python"].split("\n")
    [folders] = [part for part in lines if part.startswith("dlc_folders=")][:1]
    run_quietly(machine, "/bin/sh", folders)


def check_edf(plan: Plan) -> None:
    for name, text in texts.beside(plan, "job", [TEMPLATES]).items():
        if name.endswith(".toml"):
            found = tomllib.loads(text)
            assert set(found) == {"image", "mounts", "workdir", "env", "annotations"}


def check(tmp_path: Path, line: str, host: str, runtime: str, kind: str) -> None:
    """Render a hostile site in every form, run each text, and look for what must not be there."""
    machine = Machine.made(tmp_path / "m")
    plan = plan_at(tmp_path, **hostile(line, host, runtime, kind=kind))
    suffix = ".toml" if runtime == "container-engine" else ".sif"
    image = machine.image(plan, suffix) if runtime != "shifter" else "docker:a/b"
    hosts = machine.folder / "hosts"
    hosts.write_text("$(touch CANARY)\n`touch CANARY`\n")
    lists = {name: str(hosts) for name in ("LSB_DJOB_HOSTFILE", "PBS_NODEFILE", "PE_HOSTFILE")}
    environ = {**EVIL, **lists, "COBALT_JOBSIZE": "2", "NHOSTS": "2"}
    for form in ("a", "b"):
        ran = machine.job(plan, launch=form, DLCONTAINER_IMAGE=image, **environ)
        assert ran.code == 0, ran.err
        value = host.replace("${EVIL}", EVIL["EVIL"]).replace("$EVIL", EVIL["EVIL"])
        launched = ran.launched
        assert launched[0] == "srun"
        assert value in launched
        assert line in launched
        assert ran.environment["HOSTILE_A"] == value
        assert ran.modules[1] == " ".join(f"load {line}".split())
        if runtime in ("apptainer", "singularity"):  # the copy's folder is the hostile text
            staged = machine.job(
                plan, launch=form, DLCONTAINER_IMAGE=image, DLCONTAINER_STAGE="1", **environ
            )
            copied = [word for call in staged.calls for word in call if word.startswith(value)]
            assert any(word.startswith(f"{value}/dlcontainer-") for word in copied), staged.err
    check_edf(plan)
    run_route(plan, machine)
    check_image_texts(plan, machine, line)
    check_wrapper(plan, machine)
    assert not [path for path in tmp_path.rglob("*") if "CANARY" in path.name]


def run_route(plan: Plan, machine: Machine) -> None:
    script = machine.folder / "route.sh"
    script.write_text(texts.text(plan, "route", [TEMPLATES]))
    (machine.folder / "Dockerfile").touch()
    ran = machine.run(script.read_text(), **EVIL)
    assert ran.code == 0, ran.err
    assert ran.launched[:3] == ["podman", "build", "--net=host"]


@pytest.mark.parametrize("runtime", get_args(Runtime))
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_stay_text(tmp_path: Path, number: int, runtime: str) -> None:
    host = HOST_TEXTS[number % len(HOST_TEXTS)]
    check(tmp_path, HOSTILE[number], host, runtime, KINDS[number % len(KINDS)])


TEXT = st.text(alphabet=st.sampled_from("a'\"\\$`(){}%#;&|<> =é~*!-[]"), min_size=1, max_size=10)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(line=TEXT, host=TEXT, runtime=st.sampled_from(get_args(Runtime)))
def test_any_text_is_refused_or_arrives(
    tmp_path_factory: pytest.TempPathFactory, line: str, host: str, runtime: str
) -> None:
    try:
        site_of(**hostile(line, host, runtime))
    except ConfigError:
        return
    machine = Machine.made(tmp_path_factory.mktemp("any") / "m")
    try:
        plan = plan_at(machine.folder, **hostile(line, host, runtime))
        text = texts.text(plan, "job", [TEMPLATES])
    except ConfigError:
        return
    script = machine.folder / "job.sh"
    script.write_text(text)
    done = subprocess.run([BASH, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), text


@pytest.mark.parametrize("line", ["a\nb", "\x1b[2J", "", " ", "a\u2028b"])
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(ConfigError):
        site_of(**hostile(line, "a", "apptainer"))


@pytest.mark.parametrize("text", ["$(a)", "$", "a$", "${A", "${A-b}", "$1", "$$", "`a`\n"])
def test_a_dollar_that_is_no_variables_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        site_of(**hostile("a", text, "apptainer"))


def test_a_directive_is_a_comment() -> None:
    with pytest.raises(ConfigError, match=r"a directive must be a comment \(#\) of the job script"):
        site_of(scheduler={"kind": "slurm", "directives": ["touch CANARY"]})


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_setting_of_the_image_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"image\.pack"):
        plan_at(tmp_path, recipes={"demo": {"image": {"pack": text}}})
    with pytest.raises(ConfigError, match=r"image\.compression"):
        plan_at(tmp_path, recipes={"demo": {"image": {"compression": text}}})

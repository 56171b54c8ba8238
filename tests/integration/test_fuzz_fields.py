"""Any text in any field of a site or a recipe: refused with its place, or inert in every text."""

import ast
import json
import random
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlcontainer.errors import ConfigError, DlcontainerError, MisfitError
from dlcontainer.formats import reframe, texts
from dlcontainer.planning.plan import Plan
from dlcontainer.publish import launch_files, modulefiles
from dlcontainer.publish.kernelspec import Kernel, KernelModule
from dlcontainer.publish.modulefiles import FallbackPrograms, ModuleRelease
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, Site
from tests.fuzz import fields
from tests.integration.test_hostile_site import EVIL, hostile
from tests.jobs import Machine
from tests.skips import skip
from tests.values import HOST, TEMPLATES, folder_of, plan_of, write_yaml

RUNTIMES = ("apptainer", "singularity", "podman-hpc", "container-engine")
SECTIONS = {"files", "post", "environment", "runscript", "labels", "help", "test", "setup", "pre"}
INSTRUCTIONS = {"#", "FROM", "ARG", "LABEL", "ENV", "COPY", "RUN", "&&", "CMD", "", "WORKDIR"}
PLACE = re.compile(r"[^\n]*\.yaml:\d+:\d+: ")
QUIETLY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
# A modulefile with everything that it calls doing nothing; what runs a program is Tcl's and Lua's.
TCL = "proc unknown args {}\nsource [lindex $argv 0]\n"
LUA = "setmetatable(_G, {__index = function() return function() end end})\ndofile(arg[1])\n"
SH = 'for text; do /bin/sh -n "$text" || exit 1; done'


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A payload at a leaf of one of the two models."""

    kind: str
    leaf: fields.Path
    payload: str
    runtime: str


def cases() -> list[Case]:
    """Give all of them, in one mixed order that is always the same."""
    models: dict[str, type[Site | Recipe]] = {"site": Site, "recipe": Recipe}
    every = [
        Case(kind=kind, leaf=leaf, payload=payload, runtime=RUNTIMES[number % len(RUNTIMES)])
        for kind, model in models.items()
        for leaf in sorted(set(fields.leaves(model)) - fields.ELSEWHERE, key=str)
        for number, payload in enumerate(fields.PAYLOADS)
    ]
    random.Random(15).shuffle(every)
    return every


@pytest.mark.parametrize("kind", ["site", "recipe"])
def test_no_leaf_of_a_model_is_forgotten(kind: str) -> None:
    leaves = {case.leaf for case in cases() if case.kind == kind}
    assert len(leaves) > 40
    assert [leaf for leaf in leaves if not fields.put(data_of(kind), leaf, "x")] == []


def data_of(kind: str, runtime: str = "apptainer") -> dict[str, Any]:
    return fields.recipe() if kind == "recipe" else fields.site(hostile("a b", "$HOME/x", runtime))


def settled(case: Case | None, folder: Path) -> Plan:
    """Settle the plan of a case from files, as the command line does."""
    runtime = case.runtime if case else "apptainer"
    site, recipe = data_of("site", runtime), data_of("recipe")
    if case:
        # Where there is no such place: a runtime without libraries, or without a file to copy.
        fields.put(site if case.kind == "site" else recipe, case.leaf, case.payload)
    path = write_yaml(folder / "site" / "demo.yaml", site)
    loaded = loading.load(
        path,
        files=loading.SiteFiles(display=str, find=lambda name: path.with_name(f"{name}.yaml")),
        overrides=None,
        host=HOST,
        target=USUAL,
    )
    return plan_of(folder_of(folder, **recipe), site=loaded)


def check_refusal(error: DlcontainerError, case: Case) -> None:
    assert isinstance(error, ConfigError | MisfitError), case
    text = str(error)
    assert PLACE.match(text), (case.leaf, text)
    assert len(text) < 3000, case.leaf


def check(case: Case | None, folder: Path) -> bool:
    """Render all texts of a case and run what runs; tell whether it was accepted."""
    try:
        plan = settled(case, folder)
        made = {form: texts.text(plan, form, [TEMPLATES]) for form in texts.formats_of(plan)}
        more = texts.beside(plan, "job", [TEMPLATES])
    except DlcontainerError as error:
        refusal = error
    else:
        run_all(plan, made, more, folder)
        return True
    assert case is not None, refusal
    check_refusal(refusal, case)
    return False


def run_all(plan: Plan, made: dict[texts.Format, str], more: dict[str, str], folder: Path) -> None:
    check_image_texts(made)
    for name, text in more.items():
        assert not name.endswith(".toml") or tomllib.loads(text)
    check_kernel_and_reframe(plan)
    machine = Machine.made(folder / "m")
    try:
        run_scripts(plan, machine, made)
        run_modulefiles(plan, machine)
    finally:
        assert not list(folder.rglob("*CANARY*"))


def check_image_texts(made: dict[texts.Format, str]) -> None:
    heads = [line[1:] for line in made["apptainer"].splitlines() if line.startswith("%")]
    assert len(heads) == len(set(heads)), heads
    assert set(heads) <= SECTIONS, heads
    for line in made["dockerfile"].splitlines():
        assert line.split(" ")[0] in INSTRUCTIONS, line


def check_kernel_and_reframe(plan: Plan) -> None:
    module = KernelModule(name=plan.name, folder=Path("/sw") / plan.name)
    assert json.loads(Kernel(module=module, venv=None).text())["language"] == "python"
    tree = ast.parse(reframe.settings([plan.site], [TEMPLATES]))
    calls = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert calls == []


def run_scripts(plan: Plan, machine: Machine, made: dict[texts.Format, str]) -> None:
    """Run the job script with launchers that only note; the others are parsed."""
    release = release_of(plan)
    launches = launch_files.texts({"": plan.site}, release, [TEMPLATES])
    wrappers = modulefiles.wrappers(
        release, plan.site, FallbackPrograms(engine=Path("/no/such")), [TEMPLATES]
    )
    named = {**{f"{form}.sh": made[form] for form in made if form in ("native", "route")}}
    paths = []
    for number, text in enumerate([*named.values(), *launches.values(), *wrappers.values()]):
        paths.append(machine.folder / f"text-{number}")
        paths[-1].write_text(text)
    run(machine, "/bin/sh", "-c", SH, "sh", *map(str, paths))
    parsed = machine.folder / "parsed.sh"
    parsed.write_text(made["job"])
    run(machine, "/bin/bash", "-n", str(parsed))
    image = machine.image(plan) if plan.site.engine.runtime != "container-engine" else "a.sqsh"
    machine.run(made["job"], DLCONTAINER_IMAGE=image, **EVIL)


def run_modulefiles(plan: Plan, machine: Machine) -> None:
    lua, tcl = modulefiles.modulefiles(release_of(plan), Path("/sw/demo"), [TEMPLATES])
    for name, text, program, body in (("m.lua", lua, "lua", LUA), ("m.tcl", tcl, "tclsh", TCL)):
        (machine.folder / name).write_text(text)
        (machine.folder / f"run-{name}").write_text(body)
        run(machine, program, str(machine.folder / f"run-{name}"), str(machine.folder / name))


def release_of(plan: Plan) -> ModuleRelease:
    recipe = plan.recipe
    return ModuleRelease(
        name=recipe.name,
        version=recipe.version,
        summary=recipe.summary,
        homepage=recipe.homepage,
        license=recipe.license,
        commands=recipe.exposes,
        prefix=recipe.prefix,
        digest="0",
        sha256="0" * 64,
        offset=4096,
        environment=plan.environment,
    )


def run(machine: Machine, *argv: str) -> None:
    env: dict[str, Any] = {"PATH": "/usr/bin:/bin", "HOME": str(machine.folder), **EVIL}
    try:
        done = subprocess.run(
            argv, cwd=machine.here, env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        skip(f"no {argv[0]}: apt-get install lua5.3 tcl")
    assert (done.returncode, done.stderr) == (0, ""), argv


def test_the_base_of_all_cases_is_accepted(tmp_path: Path) -> None:
    assert check(None, tmp_path)


def fuzz(parent: pytest.TempPathFactory, examples: int) -> None:
    accepted: set[Case] = set()
    every = cases()

    @settings(max_examples=examples, derandomize=True, database=None, suppress_health_check=QUIETLY)
    @given(number=st.integers(0, len(every) - 1))
    def one(number: int) -> None:
        case = every[number]
        if check(case, parent.mktemp("case")):
            accepted.add(case)

    one()
    # Neither all nor none is: both ways were tried.
    assert 0 < len(accepted) < examples


def test_a_sample(tmp_path_factory: pytest.TempPathFactory) -> None:
    fuzz(tmp_path_factory, 25)


@pytest.mark.long
def test_thousands(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Road: test_a_sample."""
    fuzz(tmp_path_factory, 1500)

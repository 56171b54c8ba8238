"""Values for tests: a recorded host, a small recipe, and plans of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dlcontainer import config
from dlcontainer.config import Document, SelectedDocument, resources
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.execution import Execution
from dlcontainer.planning import plan
from dlcontainer.planning.matrix import Combination
from dlcontainer.planning.plan import Plan, PlanContext
from dlcontainer.recipes import extends, recipe
from dlcontainer.recipes.extends import RecipeFinder, WrittenRecipe
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, Site, SiteTarget, targets
from dlcontainer.system.machine import HostMachine
from tests.fakes import Quiet

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.system.runner import Runner

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
RECORDED = ROOT / "tests" / "recorded"
GOLDEN = ROOT / "tests" / "golden"

# A Debian 12 machine, as `read_host` found it.
HOST = HostMachine(
    arch="x86_64",
    distribution="debian",
    release="bookworm",
    glibc="2.36",
    kernel="6.1.0-18-amd64",
    cpu_model="AMD EPYC 7763 64-Core Processor",
    cores=8,
    memory_mb=32_000,
    uid=1000,
    user="ada",
    home=Path("/home/ada"),
    environ={},
)
TRIAL = EngineCapabilities(
    key="key",
    program="/opt/engine/bin/apptainer",
    version="apptainer version 1.4.5",
    build_mode="plain",
    run_mode="userns",
    takes_squash=True,
    failures={},
)
SITE: Mapping[str, Any] = {
    "schema": 1,
    "name": "demo",
    "summary": "A machine for tests",
    "arch": "x86_64",
    "default_recipe": "demo",
}
RECIPE: Mapping[str, Any] = {
    "schema": 1,
    "name": "demo",
    "version": "1.0",
    "summary": "A recipe for tests",
    "base": {"distribution": "debian", "release": "bookworm"},
    "prefix": "/opt/demo",
    "versions": {"tool": "2.0"},
    "steps": [{"name": "system", "os_packages": ["python3"]}],
    "exposes": ["python"],
    "verify": {"script": "verify.py", "imports": {"tool": "{{ versions.tool }}"}},
}
# What a record must say of the plan.
CONTENT: Mapping[str, Any] = {
    "site": "demo",
    "recipe": {
        "name": "demo",
        "version": "1.0",
        "summary": "A recipe for tests",
        "prefix": "/opt/demo",
        "exposes": ["python"],
        "verify": {"imports": {"tool": "2.0"}},
    },
    "environment": {},
}
IMAGE_BASE = {"image": f"docker://registry.example.org/base/os@sha256:{'ab' * 32}"}
TAGGED_BASE = {"image": "docker://registry.example.org/base/os:8.9"}
# Values that do harm wherever one layer of quoting is missing.
HOSTILE = (
    "a'; touch CANARY; '",
    'a"; touch CANARY; "',
    "$(touch CANARY)",
    "`touch CANARY`",
    "; touch CANARY #",
    "${IFS}&& touch CANARY",
    "back\\slash\\",
    "!history $HOME ~ * ? [a]",
    "%post",
    "ünïcode ' and \" 空",
)


@cache
def recorded(name: str) -> str:
    """Read a recorded answer, once a test run."""
    return (RECORDED / name).read_text()


def host(**changes: Any) -> HostMachine:
    """Give the recorded host with some facts changed."""
    return replace(HOST, **changes)


def execution_of(folder: Path, runner: "Runner", **changes: Any) -> Execution:
    """Give an engine that works on the recorded host, its cache below a folder."""
    usual = Execution(
        engine=Apptainer(program=Path("/bin/apptainer")),
        capabilities=TRIAL,
        host=HOST,
        runner=runner,
        cache=folder / "cache",
        progress=Quiet(),
    )
    return replace(usual, **changes)


def write_yaml(path: Path, data: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True))
    return path


def folder_of(parent: Path, **changes: Any) -> Path:
    """Make a folder with a recipe (`RECIPE` with changes) and its verify.py."""
    folder = parent / "it's a recipe"
    write_yaml(folder / "recipe.yaml", {**RECIPE, **changes})
    (folder / "verify.py").write_text("print('{}')\n")
    return folder


def site_of(
    data: Mapping[str, Any] = SITE, *, on: HostMachine = HOST, **changes: Any
) -> SelectedDocument[Site]:
    """Give a site of plain data, as `siteconfig.load` would."""
    written = config.from_data({**data, **changes}, layer="site")
    return SelectedDocument(value=config.validate(written, Site), document=written)


def read_recipe(folder: Path) -> WrittenRecipe:
    """Read the recipe of a folder over what it extends, by folders beside it."""

    def display(path: Path) -> str:
        return path.name if path.parent == folder else f"{path.parent.name}/{path.name}"

    finder = RecipeFinder(find=lambda name: folder.parent / name / "recipe.yaml", display=display)
    return extends.read(folder / "recipe.yaml", finder)


def plan_of(
    folder: Path,
    *,
    site: SelectedDocument[Site] | None = None,
    changes: Sequence[Document] = (),
    on: HostMachine = HOST,
    trial: EngineCapabilities | None = None,
    templates: Mapping[str, str] | None = None,
    probe: tuple[Path, ...] = (),
    asked: str | None = None,
    cpu: bool = False,
) -> Plan:
    """Settle the recipe of a folder for a site."""
    return plan.resolve(
        site=site or site_of(),
        recipe=read_recipe(folder),
        changes=changes,
        setting=PlanContext(host=on, trial=trial, templates=templates or {}, probe=probe),
        variant=asked,
        cpu=cpu,
    )


def shipped_site(
    name: str, target: SiteTarget = USUAL, *, on: HostMachine = HOST
) -> SelectedDocument[Site]:
    path = ROOT / "site-configs" / f"{name}.yaml"
    return loading.load(
        path,
        files=loading.SiteFiles(
            display=lambda path: path.name, find=lambda other: path.with_name(f"{other}.yaml")
        ),
        overrides=None,
        host=on,
        target=target,
    )


def shipped_plan(
    site: str,
    recipe: str | None = None,
    variant: str | None = None,
    *,
    cpu: bool = False,
    on: HostMachine = HOST,
) -> Plan:
    """Settle a shipped recipe for a shipped site, as the command line would."""
    return _world(on).plan(recipe, site, variant=variant, cpu=cpu)


def shipped_matrix(*, on: HostMachine = HOST) -> list[Combination]:
    """Settle every shipped recipe for every shipped site, as `plan --all` would."""
    return list(_world(on).matrix(None, None))


def shipped_sites(*, on: HostMachine = HOST) -> Iterator[tuple[str, Site]]:
    """Load every shipped site, the archive's too, for each of its epochs and node types."""
    for path in sorted((ROOT / "site-configs").rglob("*.yaml")):
        for target in targets(shipped_site(path.stem, on=on).value):
            yield target.named(path.stem), shipped_site(path.stem, target, on=on).value


def shipped_variants() -> Iterator[tuple[str, Any]]:
    """Read every variant of every shipped recipe, as it is written."""
    for path in sorted((ROOT / "recipes").glob("*/recipe.yaml")):
        written: Any = recipe.read(path, display=path.name).data.get("variants", {})
        for name, data in sorted(written.items()):
            yield f"{path.parent.name}:{name}", data


def _world(on: HostMachine) -> "CliContext":
    from dlcontainer.cli.context import CliContext

    # No user's folder, no engine: nothing but what is shipped, on the recorded machine.
    environ = {"XDG_CONFIG_HOME": "/no/such/config", "XDG_CACHE_HOME": "/no/such/cache"}
    world = CliContext(environ={**environ, "PATH": "/no/such"})
    world.__dict__["host"] = on
    world.__dict__["resources"] = resources.locate(None, package=ROOT / "dlcontainer")
    world.__dict__["setting"] = replace(world.setting, trial=None, today=None)
    return world

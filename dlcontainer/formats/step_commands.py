"""Steps as shell commands, quoted once, for all formats."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import (
    byte_code,
    conda_commands,
    pack_commands,
    package_managers,
    slim_commands,
)
from dlcontainer.formats.upstream_variables import settings_in, upstream_setting
from dlcontainer.image import layout
from dlcontainer.image.layout import upstream_variable
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.distributions import MANAGERS, Manager
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.steps import PythonPackages, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandBlock:
    """The commands of one step: each entry stands alone under `set -e`."""

    name: str
    number: int
    total: int
    commands: tuple[Text, ...]
    # A snippet may span lines, hold comments and here-documents: it can't be chained with `&&`.
    is_script: bool


def image_blocks(plan: Plan) -> list[CommandBlock]:
    """Return the work of all steps inside the image, with the cleaning up as the last block."""
    prefix = Text(quote(plan.recipe.prefix))
    work = [
        (step.name, _image_commands(plan.recipe, step, prefix), step.shell is not None)
        for step in plan.recipe.steps
        if step.os_packages or step.python_packages or step.conda_packages or step.shell
    ]
    work += _slim(plan.recipe, prefix, Text(slim_commands.REPORT))
    if plan.has_pack:
        work.append((pack_commands.STEP, pack_commands.commands(plan), False))
    if plan.recipe.mount_points:
        points = " ".join(quote(point) for point in plan.recipe.mount_points)
        work.append(("mount-points", [Text(f"mkdir -p {points}")], False))
    work.append(("clean", package_managers.cleaning(plan.recipe.base.manager), False))
    return _numbered(work)


def native_blocks(plan: Plan) -> list[CommandBlock]:
    """Return the work of the native twin: the same wheels; OS packages are checked, not
    installed.
    """
    prefix = Text('"$prefix"')
    work = []
    for step in plan.recipe.steps:
        if step.python_packages or step.conda_packages or (step.shell and step.native):
            commands = _step_commands(plan.recipe, step, prefix)
            work.append((step.name, commands, step.shell is not None))
    work += _slim(plan.recipe, prefix, Text(f'"$prefix/{slim_commands.REPORT_NAME}"'))
    work += [_native_proof(proof.recipe) for proof in plan.recipe.verify.before]
    return _numbered(work)


def _slim(recipe: Recipe, prefix: Text, report: Text) -> list[tuple[str, list[Text], bool]]:
    if not recipe.slim:
        return []
    return [(slim_commands.STEP, slim_commands.commands(recipe.slim, prefix, report), True)]


def _native_proof(recipe: str) -> tuple[str, list[Text], bool]:
    """Return the proof of a parent recipe as work, where its script is beside the text."""
    script = f'"$dlc_here/{layout.proof_name(recipe)}"'
    return (
        f"verify-{recipe}",
        [Text(f'[ ! -r {script} ] || "$prefix/bin/python" {script}')],
        False,
    )


def native_left_out(plan: Plan) -> list[str]:
    """Name the steps that the native twin does not run."""
    return [step.name for step in plan.recipe.steps if step.shell and not step.native]


def _numbered(work: Sequence[tuple[str, Sequence[Text], bool]]) -> list[CommandBlock]:
    return [
        CommandBlock(
            name=name, number=i, total=len(work), commands=tuple(commands), is_script=is_script
        )
        for i, (name, commands, is_script) in enumerate(work, start=1)
    ]


def _image_commands(recipe: Recipe, step: Step, prefix: Text) -> list[Text]:
    """Return a step's commands inside the image: what it needs to build comes and goes with it."""
    commands = _step_commands(recipe, step, prefix)
    if step.shell:
        commands = [Text(f"prefix={prefix}"), *commands]  # the native script has it already
    if not step.build_packages:
        return commands
    if _manager(recipe, step) != "apt":
        raise ConfigError(
            f"step {step.name!r}: build_packages need apt",
            next_step="use os_packages in place of build_packages; the image then keeps the "
            "packages",
        )
    listed = "dpkg-query -W -f '${binary:Package}\\n'"
    return [
        # By name, not with --auto-remove: the base's own packages are none of this step's business.
        Text(f"dlc_before=$({listed})"),
        *package_managers.install("apt", step.build_packages),
        # A shell of its own, so that the snippet can't change what is removed.
        Text("("),
        *commands,
        Text(")"),
        Text(f'{listed} | grep -vxF "$dlc_before" | xargs apt-get purge --yes'),
    ]


def _step_commands(recipe: Recipe, step: Step, prefix: Text) -> list[Text]:
    if step.os_packages:
        return package_managers.install(_manager(recipe, step), step.os_packages)
    if step.python_packages:
        return _pip_commands(recipe, step.python_packages, prefix)
    if step.conda_packages:
        return conda_commands.commands(recipe, step.conda_packages, prefix)
    snippet = (step.shell or "").rstrip("\n")
    return [*settings_in(recipe, snippet), Text(snippet)]


def _manager(recipe: Recipe, step: Step) -> Manager:
    manager = recipe.base.manager
    if manager is None:
        raise ConfigError(
            f"step {step.name!r}: the distribution of its OS packages is unknown",
            why=f"nothing states the distribution of {recipe.base.title}",
            next_step=f"set base.system.distribution to one of: {', '.join(sorted(MANAGERS))}",
        )
    return manager


def _pip_commands(recipe: Recipe, step: PythonPackages, prefix: Text) -> list[Text]:
    is_first = step is next(
        one.python_packages for one in recipe.steps if one.python_packages is not None
    )
    compiled = byte_code.all_files if is_first else byte_code.new_files
    python = Text(f"{prefix}/bin/python")
    lines = [Text(f"[ -x {python} ] || {quote(recipe.interpreter)} -m venv {prefix}")]
    extra = ""
    if step.upstream:
        variable = upstream_variable(step.upstream)
        lines.append(upstream_setting(recipe, step.upstream))
        extra = f' ${{{variable}:+--extra-index-url "${variable}"}}'
    pinned = " ".join(quote(package) for package in step.packages)
    lines += [
        Text(
            f"{python} -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all:"
            f"{extra} {pinned}"
        ),
        Text(f"{python} -m pip check"),
        compiled(python, Text(f"{prefix}/lib")),
    ]
    return lines

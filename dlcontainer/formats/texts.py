"""The formats: Plan -> text. A dict literal is the registry."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

from dlcontainer.config import templating
from dlcontainer.formats import apptainer, build_script, dockerfile, edf, job, native, runtimes
from dlcontainer.planning.plan import Plan

Format = Literal["apptainer", "dockerfile", "native", "job", "route"]
FORMATS: tuple[Format, ...] = get_args(Format)

_VALUES: Mapping[Format, tuple[str, Callable[[Plan], Mapping[str, object]]]] = {
    "apptainer": (apptainer.TEMPLATE, apptainer.values),
    "dockerfile": (dockerfile.TEMPLATE, dockerfile.values),
    "native": (native.TEMPLATE, native.values),
    "job": (job.TEMPLATE, job.values),
    "route": (build_script.TEMPLATE, build_script.values),
}
FILE_NAMES: Mapping[Format, str] = {
    "apptainer": "apptainer.def",
    "dockerfile": "Dockerfile",
    "native": "native.sh",
    "job": "job.sh",
    "route": "route.sh",
}


def text(plan: Plan, form: Format, template_folders: list[Path], launch: str | None = None) -> str:
    """Render a plan as text: the same plan and templates give the same bytes.

    `launch` names the usual way to place ranks in a job script; ConfigError where there is none
    of that name.
    """
    template, values = _VALUES[form]
    given = values(plan) if launch is None else job.values(plan, launch)
    return templating.render_template(template_folders, template, given)


def beside(plan: Plan, form: Format, template_folders: list[Path]) -> dict[str, str]:
    """Give the texts that a text names: file's name -> text."""
    if form == "job" and plan.site.engine.runtime == "container-engine":
        return {runtimes.edf_name(plan): edf.text(plan)}
    if form == "route":
        return {FILE_NAMES["dockerfile"]: text(plan, "dockerfile", template_folders)}
    return {}


def formats_of(plan: Plan) -> list[Format]:
    """List the formats that a plan can be rendered in."""
    without = {
        "native": plan.recipe.base.image is not None,  # no host has an image's libraries
        "route": not build_script.is_script(plan),
    }
    return [form for form in FORMATS if not without.get(form)]

"""The formats: Plan -> text. A dict literal is the registry."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from dlcontainer.config import templating
from dlcontainer.planning.plan import Plan

Format = Literal["apptainer", "dockerfile", "native", "job", "route"]
FORMATS: tuple[Format, ...] = get_args(Format)

# The module of each, with its TEMPLATE and its `values`: read when such a text is asked for.
_MODULES: Mapping[Format, str] = {
    "apptainer": "apptainer",
    "dockerfile": "dockerfile",
    "native": "native",
    "job": "job",
    "route": "build_script",
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
    module = _module(form)
    shown = module.values(plan) if launch is None else _module("job").values(plan, launch)
    return templating.render_template(template_folders, module.TEMPLATE, shown)


def _module(form: Format) -> Any:
    return importlib.import_module(f"dlcontainer.formats.{_MODULES[form]}")


def beside(plan: Plan, form: Format, template_folders: list[Path]) -> dict[str, str]:
    """Return the texts that a text names: file's name -> text."""
    if form == "job" and plan.site.engine.runtime == "container-engine":
        from dlcontainer.formats import edf, runtimes

        return {runtimes.edf_name(plan): edf.text(plan)}
    if form == "route":
        return {FILE_NAMES["dockerfile"]: text(plan, "dockerfile", template_folders)}
    return {}


def formats_of(plan: Plan) -> list[Format]:
    """List the formats that a plan can be rendered in."""
    from dlcontainer.formats import build_script, job_forms

    without = {
        "native": plan.recipe.base.image is not None,  # no host has an image's libraries
        "route": not build_script.is_script(plan),
        "job": not job_forms.has_way(plan),
    }
    return [form for form in FORMATS if not without.get(form)]

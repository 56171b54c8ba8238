"""The formats: Plan -> text. A dict literal is the registry."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

from dlcontainer import render
from dlcontainer.formats import apptainer, dockerfile, native
from dlcontainer.plan import Plan

Format = Literal["apptainer", "dockerfile", "native"]
FORMATS: tuple[Format, ...] = get_args(Format)

_VALUES: Mapping[Format, tuple[str, Callable[[Plan], Mapping[str, object]]]] = {
    "apptainer": (apptainer.TEMPLATE, apptainer.values),
    "dockerfile": (dockerfile.TEMPLATE, dockerfile.values),
    "native": (native.TEMPLATE, native.values),
}
FILE_NAMES: Mapping[Format, str] = {
    "apptainer": "apptainer.def",
    "dockerfile": "Dockerfile",
    "native": "native.sh",
}


def text(plan: Plan, form: Format, template_folders: list[Path]) -> str:
    """Render a plan as text: the same plan and templates give the same bytes."""
    template, values = _VALUES[form]
    return render.render_template(template_folders, template, values(plan))


def formats_of(plan: Plan) -> list[Format]:
    """List the formats that a plan can be rendered in: no twin stands on an image's libraries."""
    return [form for form in FORMATS if not (form == "native" and plan.recipe.base.image)]

"""The Python pins of a plan, each with its place."""

import re
from dataclasses import dataclass

from dlcontainer.errors import Mark
from dlcontainer.planning.plan import Plan

_STEP_NAME = re.compile(r"steps\[(\d+)\]\.name")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedPin:
    """A pinned package (`torch==2.13.0+cpu`), its place as `file:line`, and its step's name."""

    package: str
    origin: str
    step: str


def of_plan(plan: Plan) -> tuple[PlannedPin, ...]:
    """List the Python packages that a plan pins, in the order of its steps.

    A package that a later step pins again is there twice: the later one holds.
    """
    numbers = {
        value: int(match[1])
        for key, value, _ in plan.origins
        if (match := _STEP_NAME.fullmatch(key))
    }
    origins = {key: origin for key, _, origin in plan.origins}
    planned = []
    for step in plan.recipe.steps:
        packages = step.python_packages.packages if step.python_packages else ()
        key = f"steps[{numbers[step.name]}].python_packages.packages"
        for at, package in enumerate(packages):
            place = origins[f"{key}[{at}]"].where
            line = f"{place.file}:{place.line}" if isinstance(place, Mark) else place
            planned.append(PlannedPin(package=package, origin=line, step=step.name))
    return tuple(planned)

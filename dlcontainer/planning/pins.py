"""The Python pins of a plan with their places, and those that a recipe changes of one below it."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.config import Document, ValueOrigin
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.recipes import pins
from dlcontainer.recipes.recipe import Recipe

if TYPE_CHECKING:
    from dlcontainer.planning.plan import Plan

_STEP_NAME = re.compile(r"steps\[(\d+)\]\.name")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedPin:
    """A pinned package (`torch==2.13.0+cpu`), its place as `file:line`, and its step's name."""

    package: str
    origin: str
    step: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    """A pin, and the earlier one of the same package that another recipe has."""

    before: str
    after: str
    was: ValueOrigin
    now: ValueOrigin

    @property
    def name(self) -> str:
        return pins.name(self.after)

    @property
    def versions(self) -> str:
        return f"{pins.version(self.before)} -> {pins.version(self.after)}"


def of_plan(plan: "Plan") -> tuple[PlannedPin, ...]:
    """List the Python packages that a plan pins, in the order of its steps.

    A package that a later step pins again is there twice: the later one holds.
    """
    numbers = {
        value: int(match[1])
        for key, value, _ in plan.origins
        if (match := _STEP_NAME.fullmatch(key))
    }
    origins = {key: origin for key, _, origin in plan.origins}
    found = []
    for step in plan.recipe.steps:
        packages = step.python_packages.packages if step.python_packages else ()
        key = f"steps[{numbers[step.name]}].python_packages.packages"
        for at, package in enumerate(packages):
            place = origins[f"{key}[{at}]"].where
            line = f"{place.file}:{place.line}" if isinstance(place, Mark) else place
            found.append(PlannedPin(package=package, origin=line, step=step.name))
    return tuple(found)


def notes(recipe: Recipe, settled: Document) -> list[str]:
    """Return a note for each pin that a recipe changes of one that it extends.

    `settled` has each value's origin. Raises ConfigError, with both places, where the recipe does
    not list the change in `changed_pins`, or where its proof still wants the version from before.
    """
    found = []
    for change in _changes(recipe, settled):
        _require_listed(change, recipe, settled)
        _require_imported(change, recipe, settled)
        found.append(
            f"{change.name} {change.versions}, changed by this recipe ({change.now.where}; before: "
            f"{change.was.where})"
        )
    return found


def _changes(recipe: Recipe, settled: Document) -> list[_Change]:
    steps = settled.data.get("steps")
    listed = steps if isinstance(steps, list) else []
    numbers = {step["name"]: number for number, step in enumerate(listed)}
    last: dict[str, tuple[str, ValueOrigin]] = {}
    changes = []
    for step in recipe.steps:
        packages = step.python_packages.packages if step.python_packages else ()
        path = ("steps", numbers[step.name], "python_packages", "packages")
        for at, pin in enumerate(packages):
            origin = settled.origin((*path, at))
            before, was = last.get(pins.name(pin), (pin, origin))
            last[pins.name(pin)] = (pin, origin)
            if was.layer != origin.layer and pins.version(before) != pins.version(pin):
                changes.append(_Change(before=before, after=pin, was=was, now=origin))
    return changes


def _require_listed(change: _Change, recipe: Recipe, settled: Document) -> None:
    names = [
        pins.name(name)
        for at, name in enumerate(recipe.changed_pins)
        if settled.origin(("changed_pins", at)).layer == change.now.layer
    ]
    if change.name not in names:
        raise ConfigError(
            f"{change.after}: another version than {change.before} of a recipe below",
            where=change.now.where,
            why=f"{change.before} stands at {change.was.where}, and its packages were tried with "
            "that",
            next_step=f"remove the pin, or list the change: `changed_pins: [{change.name}]`",
        )


def _require_imported(change: _Change, recipe: Recipe, settled: Document) -> None:
    """Refuse a changed pin whose module must still have the version from before."""
    after, before = pins.version(change.after), pins.version(change.before)
    for module, version in recipe.verify.imports.items():
        if pins.name(module) == change.name and version == before != after:
            raise ConfigError(
                f"verify.imports.{module}: {version}, but the image gets {change.after}",
                where=settled.origin(("verify", "imports", module)).where,
                why=f"{change.after} stands at {change.now.where}",
                next_step=f"write in this recipe's verify: `imports: {{{module}: {after}}}`",
            )

"""Pins that a recipe changes of one that it extends: listed and noted, or refused. Pure."""

from dataclasses import dataclass

from dlcontainer.config import Document, ValueOrigin
from dlcontainer.errors import ConfigError
from dlcontainer.recipes import pin_words
from dlcontainer.recipes.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    """A pin, and the earlier one of the same package that another recipe has."""

    before: str
    after: str
    was: ValueOrigin
    now: ValueOrigin

    @property
    def name(self) -> str:
        return pin_words.name(self.after)

    @property
    def versions(self) -> str:
        return f"{pin_words.version(self.before)} -> {pin_words.version(self.after)}"


def notes(recipe: Recipe, settled: Document) -> list[str]:
    """Return a note for each pin that a recipe changes of one that it extends.

    `settled` has each value's origin. Raises ConfigError, with both places, where the recipe does
    not list the change in `changed_pins`, or where its proof still wants the version from before.
    """
    lines = []
    for change in _changes(recipe, settled):
        _require_listed(change, recipe, settled)
        _require_imported(change, recipe, settled)
        lines.append(
            f"{change.name} {change.versions}, changed by this recipe ({change.now.where}; before: "
            f"{change.was.where})"
        )
    return lines


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
            before, was = last.get(pin_words.name(pin), (pin, origin))
            last[pin_words.name(pin)] = (pin, origin)
            if was.layer != origin.layer and pin_words.version(before) != pin_words.version(pin):
                changes.append(_Change(before=before, after=pin, was=was, now=origin))
    return changes


def _require_listed(change: _Change, recipe: Recipe, settled: Document) -> None:
    names = [
        pin_words.name(name)
        for at, name in enumerate(recipe.changed_pins)
        if settled.origin(("changed_pins", at)).layer == change.now.layer
    ]
    if change.name not in names:
        raise ConfigError(
            f"{change.after}: another version than {change.before} of a parent recipe",
            where=change.now.where,
            why=f"{change.before} stands at {change.was.where}, and its packages were tried with "
            "that",
            next_step=f"remove the pin, or list the change: `changed_pins: [{change.name}]`",
        )


def _require_imported(change: _Change, recipe: Recipe, settled: Document) -> None:
    """Refuse a changed pin whose module must still have the version from before."""
    after, before = pin_words.version(change.after), pin_words.version(change.before)
    for module, version in recipe.verify.imports.items():
        if pin_words.name(module) == change.name and version == before != after:
            raise ConfigError(
                f"verify.imports.{module}: {version}, but the image gets {change.after}",
                where=settled.origin(("verify", "imports", module)).where,
                why=f"{change.after} stands at {change.now.where}",
                next_step=f"write in this recipe's verify: `imports: {{{module}: {after}}}`",
            )

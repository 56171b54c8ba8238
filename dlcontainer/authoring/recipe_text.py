"""The recipe.yaml of packages of one's own: on another recipe, or on a plain Python base."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dlcontainer import __version__
from dlcontainer.authoring import verify_text
from dlcontainer.authoring.own_pins import OwnPins, PinException
from dlcontainer.recipes.distributions import Distribution

NAME = "recipe.yaml"
# How the first line begins: by it a folder is known as one that may be made again.
HEAD = "# Made by dlcontainer"
_WIDTH = 100
_SHORT = frozenset({"base", "changed_pins", "exposes", "variants", "verify", "wishes"})
_MOST_SUMMARY = 72
# What a pinned wheel takes in an image, roughly, beside the parent recipe.
_MB_EACH, _LEAST_MB = 60, 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainBase:
    """A distribution with Python, for a recipe that extends none."""

    distribution: str
    release: str

    @staticmethod
    def of(distribution: Distribution) -> "PlainBase":
        """Return the base of a distribution's release."""
        return PlainBase(distribution=distribution.name, release=distribution.release)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageParts:
    """What a foreign file asks for beside Python packages: steps by name, variables, comments."""

    os_packages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: Mapping[str, str] = field(default_factory=dict)
    comments: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeDraft:
    """All that is written into a recipe.

    `wishes` are requirements (PEP 508); `imports` versions by module, and `variant_imports` those
    of a variant that differ; `changed` names pins of the parent recipe that its own list changes;
    `refused` has the reason by variant; `made_of` says of what and for which sites.
    """

    name: str
    version: str | None
    below: str | PlainBase
    made_of: str
    wishes: Sequence[str]
    step: str
    pins: OwnPins
    upstream: str | None
    modules: Sequence[str]
    imports: Mapping[str, str]
    variant_imports: Mapping[str, Mapping[str, str]]
    changed: Sequence[str]
    refused: Mapping[str, str]
    image: ImageParts = ImageParts()
    space_mb: int = _LEAST_MB


def text(draft: RecipeDraft) -> str:
    """Return the text of recipe.yaml."""
    body = _extending(draft) if isinstance(draft.below, str) else _plain(draft, draft.below)
    keys = {key: part for key, part in body.items() if part not in ([], {})}
    plain = {key: part for key, part in keys.items() if not isinstance(part, list | dict)}
    parts = [_dumped({key: part}) for key, part in keys.items() if key not in plain]
    head = f"{HEAD} {__version__} {draft.made_of}\n"
    head += "# How a recipe is written: docs/image/add-a-recipe.md\n"
    head += "".join(f"# {_one_line(comment)}\n" for comment in draft.image.comments)
    return "\n".join([head + _dumped(plain), *parts])


def space_mb(below: int, pins: OwnPins) -> int:
    """Estimate the disk space that a build needs, MB, from that of the parent recipe."""
    return max(below, _LEAST_MB) + _MB_EACH * len(pins.common)


def _extending(draft: RecipeDraft) -> dict[str, object]:
    return {
        "schema": 1,
        "name": draft.name,
        **({"version": draft.version} if draft.version else {}),
        "summary": _summary(draft),
        "extends": draft.below,
        "space_mb": draft.space_mb,
        "wishes": list(draft.wishes),
        "changed_pins": list(draft.changed),
        "environment": dict(draft.image.environment),
        "steps": _steps(draft),
        "verify": _verify(draft),
        "variants": _variants(draft),
    }


def _plain(draft: RecipeDraft, base: PlainBase) -> dict[str, object]:
    system = {"name": "system", "os_packages": ["python3", "python3-venv", "ca-certificates"]}
    return {
        "schema": 1,
        "name": draft.name,
        "version": draft.version or "1",
        "summary": _summary(draft),
        "space_mb": draft.space_mb,
        "wishes": list(draft.wishes),
        "base": {"distribution": base.distribution, "release": base.release},
        "prefix": f"/opt/{draft.name}",
        "exposes": ["python", "python3"],
        "environment": dict(draft.image.environment),
        "steps": [system, *_steps(draft)],
        "verify": _verify(draft),
    }


def _summary(draft: RecipeDraft) -> str:
    names = [canonicalize_name(Requirement(wish).name) for wish in draft.wishes]
    names = [name for name in names if name in draft.pins.common] or names
    below = PurePath(draft.below).name if isinstance(draft.below, str) else "Python"
    line = f"{below} with {', '.join(names)}" if names else below
    return line if len(line) <= _MOST_SUMMARY else f"{line[: _MOST_SUMMARY - 2].rstrip(' ,')} …"


def _steps(draft: RecipeDraft) -> list[dict[str, object]]:
    image = draft.image
    steps: list[dict[str, object]] = [
        {"name": name, "os_packages": list(names)} for name, names in image.os_packages.items()
    ]
    if draft.pins.common:
        packages: dict[str, object] = {"packages": _listed(draft.pins.common)}
        if draft.upstream:
            packages["upstream"] = draft.upstream
        steps.append({"name": draft.step, "python_packages": packages})
    steps += [{"name": name, "shell": text} for name, text in image.shell.items()]
    return steps


def _one_line(text: str) -> str:
    """Return a comment's text: nothing in it ends the line."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _verify(draft: RecipeDraft) -> dict[str, object]:
    # A recipe that extends another has that one's proof already.
    wants_script = draft.modules or not isinstance(draft.below, str)
    verify: dict[str, object] = {"script": verify_text.NAME} if wants_script else {}
    if draft.imports:
        verify["imports"] = dict(sorted(draft.imports.items()))
    return verify


def _variants(draft: RecipeDraft) -> dict[str, object]:
    variants: dict[str, object] = {}
    for name in [*draft.pins.exceptions, *draft.variant_imports]:
        exception: dict[str, object] = {}
        if name in draft.pins.exceptions:
            changes = _exception(draft.pins.exceptions[name])
            exception["steps"] = {draft.step: changes}
        if draft.variant_imports.get(name):
            exception["imports"] = dict(sorted(draft.variant_imports[name].items()))
        variants[name] = exception
    return variants | {name: {"refused": why} for name, why in draft.refused.items()}


def _exception(pins: PinException) -> dict[str, list[str]]:
    changes = {
        "replace": _listed(pins.replace),
        "add": _listed(pins.add),
        "remove": sorted(pins.remove),
    }
    return {key: names for key, names in changes.items() if names}


def _listed(pins: Mapping[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def _dumped(part: Mapping[str, object]) -> str:
    # What is short stands in one line; pins a line each, as people write and compare them.
    style = None if part.keys() & _SHORT else False
    return yaml.dump(
        part,
        Dumper=_IndentingDumper,
        sort_keys=False,
        width=_WIDTH,
        allow_unicode=True,
        default_flow_style=style,
    )


class _IndentingDumper(yaml.SafeDumper):
    """Lists stand further in than their key, as in the recipes that people write."""

    def represent_text(self, text: str) -> yaml.Node:
        """Write a text of several lines as it is read, in a block."""
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def increase_indent(self, flow: bool = False, *_: bool, **__: bool) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, indentless=False)


_IndentingDumper.add_representer(str, _IndentingDumper.represent_text)

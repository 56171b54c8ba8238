"""Why a step comes from the cache, or why not: against the inputs of the build before. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep

# What a build notes of its steps, for the next one to compare with: name -> inputs.
Inputs = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheReason:
    """One step: whether its result is taken from the cache, and why."""

    step: BuildStep
    cached: bool
    why: str


def inputs_of(todo: Sequence[BuildStep], root: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Note what the keys are made of: each step's inputs; without a name, what the first has."""
    return {"": dict(root), **{step.name: dict(step.inputs) for step in todo}}


def explain(
    todo: Sequence[BuildStep],
    kept: Sequence[CachedStep | None],
    root: Mapping[str, str],
    before: Inputs | None,
) -> list[CacheReason]:
    """Return for each step whether it is taken from the cache, and why another is not.

    `kept` is each step's result where one may be used; `before` the inputs of the last build.
    """
    reached = max((number for number, step in enumerate(kept, start=1) if step), default=0)
    changed = _changed_root(root, before)
    reasons = []
    for step, result in zip(todo, kept, strict=True):
        if step.number <= reached:
            why = _kept(result) if result else f"part of the result of '{todo[reached - 1].name}'"
            reasons.append(CacheReason(step=step, cached=True, why=why))
            continue
        reason = _changed(step, before)
        if changed is None and reason is not None:
            changed = f"the step '{step.name}' before it changed"
            reasons.append(CacheReason(step=step, cached=False, why=reason))
            continue
        why = changed or "not in the cache: it was quick, pruned, damaged, or never finished"
        reasons.append(CacheReason(step=step, cached=False, why=why))
    return reasons


def _kept(result: CachedStep) -> str:
    return f"made {result.made_at} by {result.maker}, {result.size / 1e6:.0f} MB"


def _changed_root(root: Mapping[str, str], before: Inputs | None) -> str | None:
    if before is None:
        return "never built here before"
    old = before.get("", {})
    differing = [key for key in root if old.get(key) != root[key]]
    return f"{' and '.join(differing)} changed since the previous build" if differing else None


def _changed(step: BuildStep, before: Inputs | None) -> str | None:
    old = (before or {}).get(step.name)
    if old is None:
        return "new in the recipe"
    if old.get("script") != step.inputs["script"]:
        return "its commands changed"
    differing = sorted(
        name for name in {*old, *step.inputs} if old.get(name) != step.inputs.get(name)
    )
    return f"changed: {', '.join(differing)}" if differing else None

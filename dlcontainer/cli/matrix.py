"""`plan --all` and `render --all`: the whole matrix, and its unsupported combinations."""

from typing import TYPE_CHECKING

from dlcontainer.cli import output, wrong_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.matrix import Combination
    from dlcontainer.planning.plan import Plan


def plan_all(
    world: "CliContext",
    recipe: str | None,
    site: str | None,
    *,
    cpu: bool,
    as_json: bool,
    every: bool,
) -> None:
    """Print a line a supported combination; of one site, or with `every`, the others too."""
    combinations = list(world.matrix(recipe, site, cpu=cpu))
    if as_json:
        output.emit(
            "matrix", {"combinations": [_body(combination) for combination in combinations]}
        )
    else:
        output.say(table(combinations, every=every, explained=every or site is not None))
    _raise_errors(combinations)


def table(combinations: "Iterable[Combination]", *, every: bool, explained: bool) -> str:
    """Set the combinations in a table, with the unsupported ones below it, or their number."""
    rows, reasons = [], []
    for combination in combinations:
        if combination.plan is not None:
            cells = _row(combination.plan)
            rows.append((combination.target, combination.recipe, *(cells if every else cells[:2])))
        elif combination.reason is not None:
            reasons.append(
                (
                    combination.target,
                    combination.recipe,
                    combination.kind or "",
                    _one_line(combination.reason),
                )
            )
    head = ("target", "recipe", "version", "variant", "kind", "base", "digest")
    text = output.table(rows, head=head if every else head[:4])
    if reasons and explained:
        why = ("target", "recipe", "kind", "why it is unsupported")
        text += "\n\n" + output.table(reasons, head=why)
    elif reasons:
        text += (
            f"\n\n{len(reasons)} combinations are unsupported. For the reasons:"
            "\n  dlcontainer plan --all --site SITE"
        )
    return text


def render_all(
    world: "CliContext",
    recipe: str | None,
    site: str | None,
    folder: "Path",
    *,
    cpu: bool,
    as_json: bool,
) -> None:
    """Write the texts of every combination that makes sense, a folder each."""
    from dlcontainer.formats import output_folder as folders

    combinations = list(world.matrix(recipe, site, cpu=cpu))
    plans = {
        combination.plan.name: combination.plan
        for combination in combinations
        if combination.plan is not None
    }
    templates = world.resources.template_folders()
    with folders.writing(folder) as aside:
        for name, plan in sorted(plans.items()):
            folders.write(plan, aside / name, templates)
    left_out = [
        combination
        for combination in combinations
        if combination.plan is None and combination.error is None
    ]
    if as_json:
        body = [_body(combination) for combination in combinations]
        output.emit("render-all", {"folder": str(folder), "combinations": body})
    else:
        output.say(
            f"wrote {len(plans)} plans to {folder}; {len(left_out)} combinations "
            "are unsupported (`dlcontainer plan --all` shows why)"
        )
    _raise_errors(combinations)


def _row(plan: "Plan") -> tuple[str, str, str, str, str]:
    base = plan.recipe.base
    choice = plan.choice
    return (
        plan.recipe.version,
        choice.name if choice else "-",
        choice.kind if choice else "-",
        base.image or f"{base.distribution} {base.release}",
        plan.digest[:12],
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _body(combination: "Combination") -> dict[str, object]:
    body: dict[str, object] = {
        "target": combination.target,
        "recipe": combination.recipe,
        "kind": combination.kind,
    }
    if combination.plan is not None:
        version, variant, _, base, _ = _row(combination.plan)
        name, digest = combination.plan.name, combination.plan.digest
        body |= {"plan": name, "version": version, "variant": variant}
        body |= {"base": base, "digest": digest}
    if combination.reason is not None:
        body["reason"] = _one_line(combination.reason)
    if combination.error is not None:
        body["error"] = str(combination.error)
    return body


def _raise_errors(combinations: "Iterable[Combination]") -> None:
    wrong_files.raise_all(
        combination.error for combination in combinations if combination.error is not None
    )

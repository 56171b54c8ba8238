"""The plan of the parent recipe at each site: the best variant that packages can be added to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dlcontainer import config
from dlcontainer.authoring import parent_pins
from dlcontainer.errors import MisfitError
from dlcontainer.planning.plan import Plan
from dlcontainer.planning.refusals import OR
from dlcontainer.recipes.extends import WrittenRecipe

# Settles a recipe as written at one site; raises MisfitError where they contradict each other.
Settle = Callable[[WrittenRecipe], Plan]


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePlan:
    """The parent recipe, settled at a site as it was typed.

    `refused` has the variants that were better there and take no packages, each with its reason.
    """

    site: str
    plan: Plan
    refused: Mapping[str, str]

    @property
    def variant(self) -> str | None:
        """The variant that was chosen; None for a recipe without any."""
        return self.plan.choice.name if self.plan.choice else None


def settle(site: str, written: WrittenRecipe, settle_at: Settle) -> SitePlan:
    """Settle a recipe at a site, passing over variants that take no packages.

    Raises MisfitError where none is left: at a site with accelerators also where only one without
    device code is.
    """
    refused: dict[str, str] = {}
    while True:
        try:
            plan = settle_at(_without(written, refused))
        except MisfitError as error:
            raise _told(error, refused) if refused else error from None
        why = parent_pins.unseen(plan)
        if why is None:
            return SitePlan(site=site, plan=plan, refused=refused)
        if plan.choice is None or not plan.choice.passed_over:
            title = f"recipe {plan.recipe.name}"
            title += f", variant {plan.choice.name}," if plan.choice else ""
            raise MisfitError(
                f"{title} takes no further Python packages at site {site}",
                why=f"{why}{_listed(refused)}",
                next_step="extend another recipe: --extends RECIPE",
            )
        refused[plan.choice.name] = why


def _without(written: WrittenRecipe, refused: Mapping[str, str]) -> WrittenRecipe:
    variants = config.subtree(written.document, ("variants",))
    if variants is None or not refused:
        return written
    for name in refused:
        variants = config.without(variants, name)
    return replace(written, document=config.replaced(written.document, {("variants",): variants}))


def _told(error: MisfitError, refused: Mapping[str, str]) -> MisfitError:
    return MisfitError(
        error.what,
        where=error.where,
        why=f"{error.why or ''}{_listed(refused)}".removeprefix("; "),
        next_step=OR.join(
            filter(None, (error.next_step, "extend another recipe: --extends RECIPE"))
        ),
    )


def _listed(refused: Mapping[str, str]) -> str:
    return "".join(f"; variant {name} is not taken: {why}" for name, why in refused.items())

"""What a foreign file asks for beside Python packages, as steps of a recipe and as its comments."""

from collections.abc import Sequence

from dlcontainer.authoring import parent_pins
from dlcontainer.authoring.foreign.image_words import ImageWords
from dlcontainer.authoring.own_pins import SitePins
from dlcontainer.authoring.recipe_text import ImageParts
from dlcontainer.errors import MisfitError


def in_place(image: ImageWords, below: str | None, chosen: Sequence[SitePins]) -> str:
    """Say what stands in the place of a file's base, which is never fetched."""
    if below is None:
        facts = chosen[0].at.plan.recipe.base.facts
        system = f" on {facts.distribution} {facts.release}" if facts else ""
        stands = f"Python{system}"
    else:
        stands = f"the recipe {below}"
    targets = [(site.at.site, parent_pins.target_of(site.at.plan)) for site in chosen]
    pythons = ", ".join(f"Python {target.python} at {site}" for site, target in targets if target)
    return f"in place of the base {image.base.image}: {stands} ({pythons})"


def parts(image: ImageWords | None, below: str | None, chosen: Sequence[SitePins]) -> ImageParts:
    """Return the steps, variables and comments of a recipe.

    Raises MisfitError for apt's packages at a site whose base has another package manager.
    """
    if image is None:
        return ImageParts()
    for site in chosen:
        manager = site.at.plan.recipe.base.manager
        if image.os_packages and manager != "apt":
            raise MisfitError(
                f"{image.base.origin.rpartition(':')[0]} names packages of apt, and the base at "
                f"site {site.at.site} has {manager or 'no known package manager'}",
                next_step="remove the apt lines, or choose another recipe: --extends RECIPE",
            )
    taken = {step.name for site in chosen for step in site.at.plan.recipe.steps}
    return ImageParts(
        os_packages={_free("os-packages", taken): image.os_packages} if image.os_packages else {},
        environment=image.environment,
        shell={_free("kept-shell", taken): image.shell} if image.shell else {},
        comments=[in_place(image, below, chosen), *map(str, image.untaken)],
    )


def _free(name: str, taken: set[str]) -> str:
    return next(n for n in (name, f"own-{name}", f"more-{name}") if n not in taken)

"""A plain Python base, for packages that ask for no framework or for several."""

from packaging.specifiers import SpecifierSet

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve.wishes import WishList
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.distributions import DISTRIBUTIONS, Distribution

# As the shipped recipes: Debian first, and the release that most of them have.
_ORDER = (("debian", "bookworm"), ("ubuntu", "noble"), ("debian", "trixie"), ("ubuntu", "jammy"))


def draft(
    name: str,
    python: str | None,
    distribution: tuple[str, str] | None = None,
    where: str | None = None,
) -> Document:
    """Return a recipe of Python alone: the first base whose Python a file's own bound allows.

    A distribution and its release that the file names stand before the others; `where` is the
    place of the bound.

    Raises MisfitError where no base has such a Python.
    """
    chosen = _of_python(python, distribution, where)
    body = {
        "schema": 1,
        "name": name,
        "version": "1",
        "summary": "Python",
        "base": {"distribution": chosen.name, "release": chosen.release},
        "prefix": f"/opt/{name}",
        "exposes": ["python"],
        "steps": [{"name": "system", "os_packages": ["python3"]}],
        "verify": {"script": "verify.py"},
    }
    return config.from_data(body, layer="recipe")


def of_plan(plan: Plan) -> Distribution:
    """Return the distribution that a settled plain recipe starts from.

    Raises MisfitError where a site puts an image of another one in its place.
    """
    facts = plan.recipe.base.facts
    distribution = DISTRIBUTIONS.get((facts.distribution, facts.release)) if facts else None
    if distribution is None:
        raise MisfitError(
            f"no plain Python base at site {plan.site.name}: it has {plan.recipe.base.title}",
            next_step="extend a recipe: --extends RECIPE",
        )
    return distribution


def require_python(wishes: WishList, plan: Plan) -> None:
    """Refuse a file whose bound on Python the site's own choice of a base excludes.

    A site may say which release all its bases are; `facts: host` says this machine's. Raises
    MisfitError.
    """
    base = of_plan(plan)
    if _takes(wishes.python, base):
        return
    fitting = [DISTRIBUTIONS[key] for key in _ORDER if _takes(wishes.python, DISTRIBUTIONS[key])]
    same = [other for other in fitting if other.name == base.name] or fitting
    raise MisfitError(
        f"this file wants Python {wishes.python}, site {plan.site.name} has {base.name} "
        f"{base.release} as the base of its images, whose Python is {base.python}",
        where=wishes.python_at or str(wishes.path),
        next_step="write a site of your own that extends it, with "
        f"base: {{distribution: {same[0].name}, release: {same[0].release}}} "
        f"(Python {same[0].python}), or relax the file's bound",
    )


def _takes(python: str | None, distribution: Distribution) -> bool:
    allowed = SpecifierSet(python or "")
    # A bound such as >=3.11.4 means the release, whose own patch level is newer by far.
    return any(allowed.contains(f"{distribution.python}.{patch}") for patch in (0, 99))


def _of_python(
    python: str | None, first: tuple[str, str] | None, where: str | None
) -> Distribution:
    for key in ((first,) if first in DISTRIBUTIONS else ()) + _ORDER:
        if _takes(python, DISTRIBUTIONS[key]):
            return DISTRIBUTIONS[key]
    pythons = ", ".join(sorted(DISTRIBUTIONS[key].python for key in _ORDER))
    raise MisfitError(
        f"no base has a Python that the file allows ({python})",
        where=where,
        why=f"the bases have {pythons}",
        next_step="relax the file's bound on Python, or extend a recipe: --extends RECIPE",
    )

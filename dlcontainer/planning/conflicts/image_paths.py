"""Variables that lead programs of an image past what is in it. Pure."""

from collections.abc import Iterator

from dlcontainer.config import KeyPath
from dlcontainer.planning.conflicts.model import Contradiction, FactConflict
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

SOURCE = "Python's 'Command line and environment': PYTHONPATH, PYTHONHOME; ld.so(8)"
_WHY = {
    "PYTHONPATH": "its folders come before the image's packages, which were checked "
    "(Python's 'Command line and environment')",
    "PYTHONHOME": "Python looks there for its own library, and not in the image's "
    "(Python's 'Command line and environment')",
    "LD_LIBRARY_PATH": "its folders come before those of the image's libraries (ld.so(8): before "
    "RUNPATH)",
}
_FIX = {
    "LD_LIBRARY_PATH": "remove it; name host libraries in mpi.library_path and mpi.libraries",
}
_TAKE_OUT = (
    "remove the variable; install further packages in a recipe's step, or in a user's own "
    "environment"
)


def of_site(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    """Refuse a site that hides every image's own packages, or its libraries.

    In `jobs.inside` and `mpi.inside` two are left to the site: by LD_LIBRARY_PATH host libraries
    may be meant, by PYTHONPATH modules of the site's own (docs/centre/add-a-site.md).
    """
    groups: tuple[tuple[KeyPath, dict[str, str], tuple[str, ...]], ...] = (
        (("environment",), site.environment, tuple(_WHY)),
        (("jobs", "inside"), site.jobs.inside, ("PYTHONHOME",)),
        (("mpi", "inside"), site.mpi.inside if site.mpi else {}, ("PYTHONHOME",)),
    )
    for path, environment, names in groups:
        for name in names:
            if name in environment:
                yield Contradiction(
                    what=f"{name}={environment[name]} hides the image's files at {recipe.prefix}",
                    why=_WHY[name],
                    in_site=(*path, name),
                    in_recipe=("prefix",),
                    way_out=_FIX.get(name, _TAKE_OUT),
                )


def home_of_recipe(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse a PYTHONHOME in an image: its Python has a prefix of its own."""
    for path, value in _set(recipe, "PYTHONHOME"):
        yield FactConflict(
            what=f"PYTHONHOME={value} differs from the image's own Python at {recipe.prefix}",
            why=_WHY["PYTHONHOME"],
            first=path,
            second=("prefix",),
            way_out="remove the variable: the environment at prefix finds its own library",
        )


def path_of_recipe(recipe: Recipe) -> Iterator[FactConflict]:
    """Note a PYTHONPATH in an image: a folder of its own may be meant."""
    for path, value in _set(recipe, "PYTHONPATH"):
        yield FactConflict(
            what=f"PYTHONPATH={value} comes before the image's packages at {recipe.prefix}",
            why=_WHY["PYTHONPATH"],
            first=path,
            second=("prefix",),
            way_out="use a .pth file in its site-packages: it adds a folder after the "
            "image's packages",
        )


def _set(recipe: Recipe, name: str) -> Iterator[tuple[KeyPath, str]]:
    if name in recipe.environment:
        yield ("environment", name), recipe.environment[name]
    for index, step in enumerate(recipe.steps):
        if name in step.environment:
            yield ("steps", index, "environment", name), step.environment[name]

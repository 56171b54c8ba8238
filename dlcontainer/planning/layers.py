"""The layers of a recipe, one over the other; its templates and conditions. Pure."""

from collections.abc import Mapping, Sequence

from dlcontainer import config
from dlcontainer.config import Document, KeyPath, SelectedDocument, ValueOrigin, templating
from dlcontainer.errors import ConfigError
from dlcontainer.planning import base_kind, image_variables, versions
from dlcontainer.planning.choice import VariantChoice
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.recipes.recipe import OVERRIDABLE, WHOLE_RECIPE, Recipe
from dlcontainer.sites.site import Site

# The lowest of the layers: default < recipe < variant < site < user's overrides < --set.
DEFAULTS: Mapping[str, object] = {"environment": {"LANG": "C.UTF-8"}}

# What templates are made of, and what no template may change.
NOT_EXPANDED = ("versions", "base", "prefix", "name", "variant", "extends", "wishes")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def over(
    site: SelectedDocument[Site], names: Sequence[str], changes: Sequence[Document]
) -> list[Document]:
    """List what lies over a recipe, the lowest first: the site's changes and the user's.

    `names` are those of the recipes that it extends, the lowest first, and its own. Raises
    ConfigError where a layer changes what only a recipe may say.
    """
    of_site = (config.subtree(site.document, ("recipes", name)) for name in names)
    above = [*(part for part in of_site if part), *changes]
    for change in above:
        _only_overridable(change)
    return above


def layers(
    site: SelectedDocument[Site],
    recipe: Document,
    above: Sequence[Document],
    choice: VariantChoice | None,
) -> Document:
    """Lay all layers of a recipe over each other: default < recipe < variant < site < changes."""
    lower = _varied(recipe, choice)
    layers = [config.from_data(DEFAULTS, layer="default"), lower]
    for key in ("base", "environment"):
        part = config.subtree(site.document, (key,))
        if key == "base" and "image" in _mapping(lower.data.get("base")):
            continue  # the site's is for what starts from a distribution
        if key == "base" and part is not None and _is_unknown_host(part):
            # A host of a distribution that no base is made of: the recipe's own serves.
            part = config.without(config.without(part, "distribution"), "release")
        if key == "base" and not _serves(site.document, recipe, choice):
            continue
        if part is not None:
            layers.append(config.nest(part, key))
    layers += [config.without(change, "variant") for change in above]
    return base_kind.settle(_one_base(layers), site)


def _is_unknown_host(part: Document) -> bool:
    """Return whether a base is this host's own release, and one of which nothing is known."""
    named = (str(part.data.get("distribution")), str(part.data.get("release")))
    of_host = part.origin(("distribution",)).layer == "host"
    return of_host and named not in DISTRIBUTIONS


def _serves(site: Document, recipe: Document, choice: VariantChoice | None) -> bool:
    """Return whether a machine's own release can be the base; what a file of the site says is."""
    base = config.subtree(site, ("base",))
    if choice is None or base is None or site.origin(("base", "release")).layer != "host":
        return True
    variant = config.subtree(recipe, ("variants", choice.name))
    pythons = variant.data.get("pythons", ()) if variant else ()
    distribution = DISTRIBUTIONS.get((str(base.data["distribution"]), str(base.data["release"])))
    if not pythons or distribution is None:
        return True
    # Another distribution's base needs sources that this machine's may not have.
    base_document = config.subtree(recipe, ("variants", choice.name, "changes", "base"))
    if base_document is None or base_document.data.get("distribution") != distribution.name:
        return True
    return distribution.python in _listed(pythons)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _varied(recipe: Document, choice: VariantChoice | None) -> Document:
    """Lay the chosen variant's changes over the recipe."""
    plain = config.without(recipe, "variants")
    if choice is None:
        return plain
    changes = config.subtree(recipe, ("variants", choice.name, "changes"))
    for key in WHOLE_RECIPE:
        if changes and key in changes.data:
            raise ConfigError(
                f"variants.{choice.name}.changes.{key}: a variant cannot change this key, "
                "which belongs to the whole recipe",
                where=changes.origin((key,)).where,
            )
    base = changes.data.get("base") if changes else None
    if isinstance(base, dict) and ("image" in base or "distribution" in base):
        # A base is one choice: an image takes a distribution's place and the other way round.
        plain = config.without(plain, "base")
    chosen = config.from_data({"variant": choice.name}, layer="variant")
    return config.merge(plain, changes or chosen, chosen)


def _only_overridable(change: Document) -> None:
    for key in change.data:
        if key not in OVERRIDABLE:
            raise ConfigError(
                f"{key}: a site cannot override this key{config.suggest(key, OVERRIDABLE)}",
                where=change.origin((key,)).where,
                why=f"only {', '.join(OVERRIDABLE)} of a recipe may be overridden",
                next_step="copy the recipe to your own folder, and change the copy",
            )


def _one_base(layers: Sequence[Document]) -> Document:
    # A base is one choice: an image replaces a distribution and the other way round. What a layer
    # below says of its image (digest, source, system) is not said of another.
    merged = config.merge()
    for layer in layers:
        new, old = layer.data.get("base"), merged.data.get("base")
        if isinstance(new, dict) and isinstance(old, dict) and _replaces(new, old):
            merged = config.without(merged, "base")
        merged = config.merge(merged, layer)
    return merged


def _replaces(new: Mapping[str, object], old: Mapping[str, object]) -> bool:
    return "image" in new or ("image" in old and "distribution" in new)


def _values(data: Mapping[str, object], site: Site) -> dict[str, object]:
    # A site's accelerator is always there to ask for: {{ site.accelerator }} is none without one.
    return {
        "site": site.model_dump(mode="json", exclude={"images", "recipes", "routing"}),
        "recipe": {"name": data.get("name")},
        "base": data.get("base"),
        "versions": data.get("versions", {}),
        "releases": {
            name: versions.release(str(version))
            for name, version in _mapping(data.get("versions")).items()
        },
        "variant": data.get("variant"),
        "prefix": data.get("prefix"),
    }


def expand(merged: Document, site: Site) -> Document:
    """Expand the templates in a recipe's texts; raises ConfigError with the place."""
    values = _values(merged.data, site)

    def one(path: KeyPath, text: str, origin: ValueOrigin) -> str:
        # Of a step itself, not of its environment, whose variables may have any name.
        of_step = path[2] if len(path) == 3 and path[0] == "steps" else None
        if path[0] in NOT_EXPANDED or of_step == "when":
            return text
        return templating.expand(text, values, where=origin.where, shell=of_step == "shell")

    return config.map_text(merged, one)


def apply_conditions(
    recipe: Recipe, site: Site, settled: Document
) -> tuple[Recipe, dict[str, str]]:
    """Keep the steps whose condition holds; return the environment of the image beside them.

    Raises ConfigError with the place of a variable that is not a recipe's to set.
    """
    values = _values(recipe.model_dump(mode="json"), site)
    steps = []
    environment: dict[str, str] = {}
    for index, step in enumerate(recipe.steps):
        path = ("steps", index, "environment")
        variables = image_variables.settled(step.environment, settled, path, recipe.prefix)
        if step.when is not None:
            where = settled.origin(("steps", index, "when")).where
            if not templating.holds(step.when, values, where=where):
                continue
        # The condition is settled: what is left does not depend on it any more.
        steps.append(step.model_copy(update={"when": None}))
        environment |= variables
    environment |= image_variables.settled(
        recipe.environment, settled, ("environment",), recipe.prefix
    )
    return recipe.model_copy(update={"steps": tuple(steps)}), environment

"""Upstreams in shell commands: variables with defaults, which a build's routing may change."""

from dlcontainer.config.templating import Text, quote
from dlcontainer.image.layout import upstream_variable
from dlcontainer.recipes.recipe import Recipe


def upstream_setting(recipe: Recipe, name: str) -> Text:
    """Return the command that sets an upstream's variable, unless the routing did."""
    return Text(f': "${{{upstream_variable(name)}={quote(recipe.upstreams[name].url)}}}"')


def settings_in(recipe: Recipe, snippet: str) -> list[Text]:
    """Return the commands that set the upstreams that a snippet names."""
    return [
        upstream_setting(recipe, name)
        for name in recipe.upstreams
        if f"${upstream_variable(name)}" in snippet or f"${{{upstream_variable(name)}" in snippet
    ]

"""Conda packages as shell commands: one environment, made by a micromamba that does not stay."""

from dlcontainer.config.templating import Text, quote
from dlcontainer.formats.upstream_variables import upstream_setting
from dlcontainer.image.layout import upstream_variable
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.steps import CondaPackages


def commands(recipe: Recipe, step: CondaPackages, prefix: Text) -> list[Text]:
    """Return the commands that make the environment at the prefix.

    Only the channels named are asked, in their order; no configuration of the base's counts.
    """
    tool = recipe.upstreams[step.tool]
    archive = Text('"$dlc_conda/tool.tar.bz2"')
    channels = " ".join(f'--channel "${upstream_variable(name)}"' for name in step.channels)
    packages = " ".join(quote(package) for package in step.packages)
    return [
        *(upstream_setting(recipe, name) for name in (step.tool, *step.channels)),
        Text("dlc_conda=$(mktemp -d)"),
        Text(
            "curl --fail --silent --show-error --location"
            f' --output {archive} "${upstream_variable(step.tool)}"'
        ),
        # Not by a pipe: of that, only the last command counts under `set -e`.
        Text(f"printf '%s  %s\\n' {tool.sha256} {archive} > \"$dlc_conda/sums\""),
        Text('sha256sum --check --strict "$dlc_conda/sums"'),
        Text(f'tar -xjf {archive} -C "$dlc_conda" bin/micromamba'),
        Text(
            'MAMBA_ROOT_PREFIX="$dlc_conda/root" "$dlc_conda/bin/micromamba" create --yes --no-rc'
            f" --prefix {prefix} --override-channels {channels} {packages}"
        ),
        Text('rm -rf "$dlc_conda"'),
    ]

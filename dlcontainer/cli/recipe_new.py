"""`dlcontainer recipe new`: a recipe of one's own from a file of packages."""

from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import adopt, completion, options, output, own_recipes


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME[/VERSION]",
            help="Name of the recipe to make. Default version: the framework's.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="FILE",
            help="requirements*.txt, pyproject.toml, pylock.toml, uv.lock, environment.yml; a "
            "Dockerfile or a definition file (*.def).",
        ),
    ],
    sites: Annotated[
        list[str] | None,
        typer.Option(
            "--site",
            "-s",
            metavar="SITE",
            help=f"{options.SITE_HELP} Repeatable. Default: local.",
            autocompletion=completion.sites,
        ),
    ] = None,
    extends: own_recipes.Extends = None,
    group: own_recipes.Group = None,
    extra: own_recipes.Extra = None,
    allow_change: own_recipes.AllowChange = None,
    keep_shell: own_recipes.KeepShell = False,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    target: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="New folder for the recipe. Default: NAME below your own recipes.",
        ),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make a recipe from your own file of packages or of an image, for one site or several."""
    from dlcontainer.authoring import recipe_folder
    from dlcontainer.cli.context import PlanWords, here

    world = here()
    own_name = name.partition("/")[0]
    own_recipes.require_name(own_name)
    _, version = adopt.names(name, "NAME")
    folder = (target or world.user_folder / "recipes" / own_name).absolute()
    if target is None:
        own_recipes.require_unused(world, own_name)
    recipe_folder.require_free(folder)
    console = output.Console(verbose=verbose, events=as_json)

    file_options = own_recipes.FileOptions(
        file=file,
        name=own_name,
        version=version,
        sites=tuple(dict.fromkeys(sites or ["local"])),
        packages=own_recipes.PackageOptions(
            extends=extends,
            groups=group or (),
            extras=extra or (),
            may_change=allow_change or (),
            keeps_shell=keep_shell,
        ),
    )
    recipe = own_recipes.make(world, file_options, PlanWords(variant=variant, cpu=cpu), console)
    recipe_folder.write_new(folder, recipe.files, console.runner(world.environ), console.note)
    if as_json:
        output.emit("recipe-new", {"folder": str(folder), **own_recipes.facts(recipe)})
        return
    own_recipes.say_notes(recipe, console)
    console.end(f"done: {own_recipes.summary(recipe)}")
    output.copied(str(folder))

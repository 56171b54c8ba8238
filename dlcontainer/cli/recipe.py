"""`dlcontainer recipe`: known recipes; one, resolved; the schema for editors."""

from typing import Annotated

import typer

from dlcontainer.cli import (
    command_list,
    completion,
    found_files,
    options,
    output,
    wrong_files,
)
from dlcontainer.cli.app import App

app = App(help="Recipes: the software in an image.")
app.add(*command_list.RECIPE)


@app.command("list")
def list_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """List the known recipes."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ConfigError

    world = here()
    versions: dict[str, list[str]] = {}
    wrong: list[ConfigError] = []
    for combination in world.matrix(None, "local"):
        if combination.plan is not None:
            versions.setdefault(combination.recipe, []).append(combination.plan.recipe.version)
        elif combination.error is not None:
            wrong.append(combination.error)
    rows = []
    for name in world.resources.names("recipes"):
        try:
            data = world.recipe(name).data
        except ConfigError as error:
            wrong.append(error)
            continue
        # A version may be a template that each variant fills: here it is this machine's.
        version = ", ".join(dict.fromkeys(versions.get(name, ()))) or None
        written = data.get("variants")
        count = len(written) if isinstance(written, dict) else 0
        origin = world.resources.origin(world.locate("recipes", name))
        rows.append({
            "name": name, "version": version, "variants": count, "from": origin,
            "summary": data.get("summary"),
        })  # fmt: skip
    if as_json:
        body = {"recipes": rows, "errors": list(dict.fromkeys(map(str, wrong)))}
        output.emit("recipes", {**body, "hidden": found_files.hidden(world.resources, "recipes")})
    else:
        keys = ["name", "version", "variants", "from", "summary"]
        if all(row["from"] == found_files.SHIPPED for row in rows):
            keys.remove("from")
        cells = [["-" if row[key] is None else row[key] for key in keys] for row in rows]
        head = ["version here" if key == "version" else key for key in keys]
        output.say(output.table(cells, head=head))
        found_files.say_hidden(world.resources, "recipes")
    wrong_files.raise_all(wrong)


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A recipe's name or its file.",
            autocompletion=completion.recipes,
        ),
    ],
    site: options.Site = "local",
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    path: options.FilePath = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show one recipe as resolved for a site; with -v each value's origin."""
    from dlcontainer.cli.context import here
    from dlcontainer.sites.site import SiteTarget

    if path:
        output.say_path(here().locate("recipes", name).parent, as_json=as_json)
        return
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    settled = here().plan(name, site, None, meant, variant, cpu=cpu)
    if as_json:
        output.emit(
            "recipe",
            {
                "recipe": settled.recipe.model_dump(mode="json", by_alias=True),
                "site": settled.site.name,
                "origins": {key: str(origin) for key, _, origin in settled.origins},
            },
        )
        return
    output.say(output.values(settled.origins, every=verbose))


@app.command("schema")
def schema_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Print the JSON Schema of recipes, for editors."""
    import json

    from dlcontainer.schemas import files

    schema = files.recipe()
    if as_json:
        output.emit("recipe-schema", {"json_schema": schema})
        return
    output.write(f"{output.without_secrets(json.dumps(schema, indent=1))}\n")

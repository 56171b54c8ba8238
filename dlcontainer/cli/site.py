"""`dlcontainer site`: known sites; one, resolved; the schema for editors."""

from typing import Annotated

import typer

from dlcontainer.cli import options, output

app = typer.Typer(
    help="Site configs: where images run.", rich_markup_mode=None, no_args_is_help=True
)


@app.command("list")
def list_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """List the known sites."""
    from dlcontainer.cli.world import here

    world = here()
    rows = []
    for name in world.resources.names("site-configs"):
        site = world.site(name).value
        rows.append(
            {
                "name": site.name,
                "arch": site.arch,
                "accelerator": site.accelerator.model if site.accelerator else "none",
                "scheduler": site.scheduler.kind,
                "engine": site.engine.kind,
                "status": site.status,
                "summary": site.summary,
            }
        )
    if as_json:
        output.emit("sites", {"sites": rows})
        return
    head = ("name", "arch", "accelerator", "scheduler", "engine", "status", "summary")
    output.say(output.table([[row[key] for key in head] for row in rows], head=head))


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A site's name or its file.")],
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show one site as resolved, each value with its origin."""
    from dlcontainer import document
    from dlcontainer.cli.world import here
    from dlcontainer.siteconfig import Target

    loaded = here().site(name, Target(node_type=node_type, epoch=epoch))
    values = document.flatten(loaded.document)
    if as_json:
        output.emit(
            "site",
            {
                "site": loaded.value.model_dump(mode="json", by_alias=True),
                "origins": {key: str(origin) for key, _, origin in values},
            },
        )
        return
    rows = [(key, output.shown(value), origin) for key, value, origin in values]
    output.say(output.table(rows, head=("key", "value", "origin")))


@app.command("schema")
def schema_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Print the JSON Schema of site configs, for editors."""
    import json

    from dlcontainer.siteconfig import Site

    schema = Site.model_json_schema()
    if as_json:
        output.emit("site-schema", {"json_schema": schema})
        return
    output.say(json.dumps(schema, indent=1))

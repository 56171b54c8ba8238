"""`dlcontainer site`: known sites; one, resolved; two, compared; the schema for editors."""

from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import completion, found_files, options, output, wrong_files
from dlcontainer.cli.app import App, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.sites.loading import FileReader
    from dlcontainer.sites.site import Site

# Of a target that the columns of all groups are set by.
_LONGEST = 40

app = App(help="Site configs: the machines that images run on.")

Name = Annotated[
    str,
    typer.Argument(metavar="SITE", help=options.SITE_HELP, autocompletion=completion.sites),
]


@app.command("list")
def list_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """List the known sites, with a line for each epoch and node type; with -v more columns.

    Those in use come first, archived ones last.
    """
    from dlcontainer import config
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ConfigError
    from dlcontainer.sites.site import STATUSES

    world, rows = here(), []
    # Read once: of each epoch and node type, and of each site that extends it.
    read = cache(config.load)
    wrong: list[ConfigError] = []
    for name in world.resources.names("site-configs"):
        try:
            rows += list(_rows(world, name, read))
        except ConfigError as error:
            wrong.append(error)
    rows.sort(key=lambda row: STATUSES.index(row["status"]))
    if as_json:
        body = {"sites": rows, "errors": [str(error) for error in wrong]}
        output.emit(
            "sites", {**body, "hidden": found_files.hidden(world.resources, "site-configs")}
        )
    else:
        _say(rows, every=verbose)
        found_files.say_hidden(world.resources, "site-configs")
    wrong_files.raise_all(wrong)


def _say(rows: "Sequence[Mapping[str, str]]", *, every: bool) -> None:
    """Print the targets, those of one status together."""
    head = ["target", "accelerator or CPU", "scheduler"]
    if every:
        head = ["target", "arch", "cpu", "accelerator", "scheduler", "engine", "from", "summary"]
    elif any(row["from"] != found_files.SHIPPED for row in rows):
        head = [*head, "from"]
    # One that is very long stands alone, and pushes no other column aside.
    lengths = [len(row["target"]) for row in rows]
    widest = max((length for length in lengths if length <= _LONGEST), default=0)
    for number, (status, group) in enumerate(groupby(rows, key=lambda row: row["status"])):
        output.title(f"\n{status}" if number else status)
        cells = [{**row, "target": row["target"].ljust(widest)} for row in group]
        output.say(output.table([[row[key] for key in head] for row in cells], head=head))


def _rows(world: "CliContext", name: str, read: "FileReader") -> "Iterator[dict[str, str]]":
    from dlcontainer.sites.site import targets

    origin = world.resources.origin(world.locate("site-configs", name))
    for target in targets(world.site(name, read=read).value):
        site = world.site(name, target, read=read).value
        yield {
            "name": site.name, "target": target.named(site.name), **_row(site), "from": origin,
        }  # fmt: skip


def _row(site: "Site") -> dict[str, str]:
    gpu = site.accelerator
    cpu = (site.cpu.target or site.cpu.model) if site.cpu else "unknown"
    return {
        "arch": site.arch,
        "cpu": cpu,
        "accelerator": f"{gpu.per_node} x {gpu.model}" if gpu else "none",
        "accelerator or CPU": f"{gpu.per_node} x {gpu.model}" if gpu else cpu,
        "scheduler": site.scheduler.kind,
        "engine": site.engine.runtime,
        "status": site.status,
        "summary": site.summary,
    }


@app.command("show")
def show(
    name: Name,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    proofs: options.Proofs = None,
    path: options.FilePath = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show one site as resolved: values, sources, unknown facts; with -v each value's origin."""
    from dlcontainer import config
    from dlcontainer.cli.context import here
    from dlcontainer.sites.site import SiteTarget, read_target

    if path:
        output.say_path(here().locate("site-configs", read_target(name)[0]), as_json=as_json)
        return
    loaded = here().site(name, SiteTarget(node_type=node_type, epoch=epoch))
    plain = loaded.document
    for key in ("sources", "unknown", "epochs", "node_types"):
        plain = config.without(plain, key)
    values = config.flatten(plain)
    site = loaded.value
    found_files.say_hidden(here().resources, "site-configs", only=read_target(name)[0])
    reached = _reached(site, proofs or [])
    if as_json:
        output.emit(
            "site",
            {
                "site": site.model_dump(mode="json", by_alias=True),
                "origins": {key: str(origin) for key, _, origin in values},
                "remembered": list(_remembered(site)),
                "never_run": site.never_run,
                "reached": reached,
            },
        )
        return
    output.say(output.values(values, every=verbose))
    for title, lines in (
        ("epochs", [f"{key}: {epoch.summary}" for key, epoch in site.epochs.items()]),
        (
            "node types",
            [f"{key}: {node_type.summary}" for key, node_type in site.node_types.items()],
        ),
        ("sources", [f"{key}: {text}" for key, text in site.sources.items()]),
        ("from memory, not checked", list(_remembered(site))),
        ("not known", list(site.unknown)),
        ("never run by this project, only rendered", list(site.never_run)),
        ("how far it got, by the files given", reached),
    ):
        if lines:
            output.title(f"\n{title}")
            output.listed(lines)


def _reached(site: "Site", proofs: list[Path]) -> list[str]:
    from dlcontainer.proof import reach

    if not proofs:
        return []
    return reach.lines(reach.read(proofs, site.engine.builders), site)


def _remembered(site: "Site") -> "Iterator[str]":
    from dlcontainer.config import dotted

    for path, group in site.groups():
        for key in group.remembered:
            yield dotted((*path, key))


@app.command("diff")
def diff(
    first: Name, second: Name, as_json: options.Json = False, verbose: options.Verbose = False
) -> None:
    """Compare two sites, or two epochs or node types of one site; show only the differences."""
    from dlcontainer import config
    from dlcontainer.cli.context import here

    world = here()
    sides = []
    for name in (first, second):
        resolved = config.from_data(
            world.site(name).value.model_dump(
                mode="json", exclude={"sources", "unknown", "epochs", "node_types"}
            ),
            layer="site",
        )
        sides.append({key: value for key, value, _ in config.flatten(resolved)})
    before, right = sides
    keys = [*before, *(key for key in right if key not in before)]
    rows = [(key, before.get(key), right.get(key)) for key in keys]
    rows = [row for row in rows if row[1] != row[2] and ".sources[" not in row[0]]
    if as_json:
        body = [{"key": key, "first": first, "second": second} for key, first, second in rows]
        output.emit("site-diff", {"first": first, "second": second, "differences": body})
        return
    shown = [(key, *(_cell(value) for value in values)) for key, *values in rows]
    output.say(output.table(shown, head=("key", first, second)))


def _cell(value: object) -> str:
    return "-" if value is None else output.shown(value)


@app.command("schema")
def schema_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Print the JSON Schema of site configs, for editors."""
    import json

    from dlcontainer.schemas import files

    schema = files.site_config()
    if as_json:
        output.emit("site-schema", {"json_schema": schema})
        return
    output.write(f"{output.without_secrets(json.dumps(schema, indent=1))}\n")


app.add(
    at(
        "site_detect:detect",
        "detect",
        "Show what this node is, from processor to scheduler, each fact with how it was read.",
    )
)
app.add(
    at(
        "site_new:new",
        "new",
        "Write a first site file of this machine, each value with how it was read.",
    )
)
app.add(
    at(
        "site_drift:drift",
        "drift",
        "Show what moved since a site's file was written, and the published images it concerns.",
    )
)
app.add(
    at(
        "site_environment:environment",
        "environment",
        "Show which variables of this shell enter an image, and which stay outside.",
    )
)
app.add(
    at(
        "site_outdated:outdated",
        "outdated",
        "Show how old a site's sources are, and what changed in them since, by clones you give.",
    )
)

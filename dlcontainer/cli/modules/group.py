"""`dlcontainer modules`: the commands of a published tree, and those that only look."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.app import App
from dlcontainer.cli.modules import catalogue, changing, collecting, finding, tree_options
from dlcontainer.cli.modules.tree_options import Root
from dlcontainer.cli.signing import signed_releases, trust_options

if TYPE_CHECKING:
    from dlcontainer.publish.tree.audit_users import Loader
    from dlcontainer.publish.tree.changes import LiveModule

_LOOK, _CHANGE, _KEEP = "Look", "Change", "Keep in order"
app = App(help="The published tree: list, audit, roll back, promote and clean up modules.")


@app.command("list", rich_help_panel=_LOOK)
def list_(
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """List the live modules: release, default, aliases, size, date, checks; with -v folders."""
    from dlcontainer.publish.catalogue import files
    from dlcontainer.publish.tree import changes

    where = tree_options.chosen(root, site)
    listed = changes.listing(where.root)
    if as_json:
        output.emit(
            "modules", {"root": str(where.root), "modules": [_body(module) for module in listed]}
        )
        return
    if not listed:
        output.copied(str(where.root), before="nothing is published in ")
        return
    head = ["module", "release", "marks", "image", "checked", "checks"]
    head += ["folder"] if verbose else []
    pages = files.briefly(where.root, [(module.entry, module.release.digest) for module in listed])
    rows = [
        (
            module.module,
            str(module.release.number),
            module.marks or "-",
            page.size,
            page.day,
            page.checks,
            str(module.folder),
        )
        for page, module in zip(pages, listed, strict=True)
    ]
    output.say(output.table([row[: len(head)] for row in rows], head=head))


def _body(listed: "LiveModule") -> dict[str, object]:
    entry, is_newest = listed.entry, listed.is_newest
    return {
        "module": listed.module,
        "default": entry.default and is_newest,
        "aliases": list(entry.aliases) if is_newest else [],
        "deprecated": asdict(entry.deprecated) if entry.deprecated else None,
        "digest": listed.release.digest,
        "folder": str(listed.folder),
        "number": listed.release.number,
        "newest": is_newest,
        "until": listed.release.until,
    }


@app.command("history", rich_help_panel=_LOOK)
def history(
    root: Root = None, site: options.OptionalSite = None, as_json: options.Json = False
) -> None:
    """List all changes of the tree, oldest first: generation, time, user, change."""
    from dlcontainer.publish.tree import changes

    where = tree_options.chosen(root, site)
    lines = changes.history(where.root)
    if as_json:
        body = [
            {
                "generation": line.entered,
                "left": line.left or None,
                "time": line.time,
                "who": line.who,
                "what": line.what,
            }
            for line in lines
        ]
        output.emit("modules-history", {"root": str(where.root), "switches": body})
        return
    rows = [(line.entered, line.time, line.who, line.what) for line in lines]
    output.say(output.table(rows, head=("generation", "time", "who", "what")))


@app.command("audit", rich_help_panel=_LOOK)
def audit(
    root: Root = None,
    site: options.OptionalSite = None,
    engine: Annotated[
        Path | None,
        typer.Option(
            "--engine", metavar="FILE", help="Also check whether users can run this engine."
        ),
    ] = None,
    load: Annotated[
        bool,
        typer.Option("--load", help="Also load each module with this shell's module system."),
    ] = False,
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    pgp: trust_options.Keyrings = None,
    require_signed: trust_options.RequireSigned = False,
    require_evidence: trust_options.RequireEvidence = None,
    as_json: options.Json = False,
) -> None:
    """Read every byte of the live modules and compare it with the published version."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.publish.tree import audit as auditing

    where = tree_options.chosen(root, site)
    faults = auditing.audit(where.root, engine, _loader(where) if load else None)
    trust = trust_options.trust_of(where.site, keys=key, roots=certificate_roots, keyrings=pgp)
    demand = trust_options.demand_of(where.site, require_evidence, signed=require_signed)
    demanded = trust_options.asking(trust, demand, here(), where.console)
    if demanded is not None:
        faults = [*faults, *signed_releases.faults(where.root, demanded)]
    if as_json:
        body = [asdict(fault) for fault in faults]
        output.emit("modules-audit", {"root": str(where.root), "ok": not faults, "faults": body})
        raise typer.Exit(1 if faults else 0)
    for fault in faults:
        output.finding("FAILED", auditing.line(where.root, fault))
    if faults:
        raise ChecksFailedError(
            f"{where.root} is not as it was published; faults: {len(faults)}",
            next_step=auditing.next_step(where.root, faults),
        )
    output.copied(str(where.root), before="as it was published: ")


app.command("catalogue", rich_help_panel=_LOOK)(catalogue.catalogue)
app.command("find", rich_help_panel=_LOOK)(finding.find)


def _loader(where: tree_options.TreeSelection) -> "Loader":
    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.publish.tree import audit_users

    environ = here().environ
    by = audit_users.loader(environ, where.console.runner(environ))
    if by is None:
        raise UsageError(
            "--load: this shell has no module system",
            why="neither LMOD_CMD nor MODULES_CMD is set",
            next_step="run it in a user's login shell, or leave --load out",
        )
    if not audit_users.is_seen(where.root, by.kind, environ):
        where.console.note(
            f"MODULEPATH does not name the modules of {where.root}: they are "
            "loaded without those of other trees"
        )
    return by


for name, command in changing.COMMANDS.items():
    app.command(name, rich_help_panel=_CHANGE)(command)
for name, command in collecting.COMMANDS.items():
    app.command(name, rich_help_panel=_KEEP)(command)

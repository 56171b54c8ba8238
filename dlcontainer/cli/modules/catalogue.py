"""`dlcontainer modules catalogue`: all that is published, for people and for programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Root
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.publish.catalogue.page import Catalogue
    from dlcontainer.publish.tree.generation import Generation
    from dlcontainer.publish.tree.layout import PublishedTree


def catalogue(
    target: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Folder to write the page and its JSON to."
        ),
    ] = None,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Make a new generation, so that the catalogue has the newest evidence."
        ),
    ] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """List the published modules with sizes, checks and verdicts; each change updates the page."""
    from dlcontainer.cli.context import here
    from dlcontainer.publish.catalogue import files, page

    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    if renew:
        if target is not None:
            raise UsageError("--renew takes no -o", next_step="give one of the two")
        _renew(where, as_json=as_json)
        return
    shown = files.live(where.root)
    templates = here().resources.template_folders()
    written = files.write(shown, target.absolute(), templates) if target else ()
    if as_json:
        paths = {"written": list(map(str, written)), "current": files.is_current(shown)}
        output.emit("catalogue", {**page.body(shown), **paths})
        return
    _show(shown, written)


def _renew(where: tree_options.TreeSelection, *, as_json: bool) -> None:
    from dlcontainer.publish.tree import transaction

    def again(tree: "PublishedTree") -> "Generation":
        return transaction.commit(tree, transaction.live(tree), "renew the catalogue", again=True)

    tree_options.change(where, again, as_json=as_json)


def _show(shown: "Catalogue", written: tuple[Path, ...]) -> None:
    from dlcontainer.publish.catalogue import files, page
    from dlcontainer.publish.tree import layout

    rows = [
        (module.entry.module, module.entry.marks or "-", module.size, module.checks, module.reached)
        for module in shown.modules
    ]
    output.say(output.table(rows, head=("module", "marks", "image", "checks", "at this site")))
    for path in written:
        output.copied(str(path), before="wrote ")
    if not written:
        output.say(f"page: {shown.root / layout.CURRENT / page.HTML}")
        if not files.is_current(shown):
            renew = layout.typed(shown.root, "catalogue", "--renew")
            output.say(f"evidence changed since the page was written; next: {renew}")

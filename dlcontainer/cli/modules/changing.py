"""The commands that change what is live; each makes one generation, or switches to one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import options
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Module, Root
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import UsageError


def rollback(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="N", min=1, help="Generation number. Default: the one before the live one."
        ),
    ] = None,
    root: Root = None,
    site: options.OptionalSite = None,
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    pgp: trust_options.Keyrings = None,
    require_signed: trust_options.RequireSigned = False,
    require_evidence: trust_options.RequireEvidence = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make an earlier generation live again, in one step."""
    from dlcontainer.publish.tree import changes

    signers = trust_options.Signers(
        keys=key,
        roots=certificate_roots,
        keyrings=pgp,
        signed=require_signed,
        evidence=require_evidence,
    )
    where = tree_options.chosen(root, site, signers=signers, as_json=as_json, verbose=verbose)
    tree_options.change(where, lambda tree: changes.rollback(tree, number), as_json=as_json)


def unpublish(
    module: Module,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Withdraw a module, or one release of it (NAME/VERSION-N).

    Shells and jobs that loaded it go on until `gc` removes its files.
    """
    from dlcontainer.publish.tree import changes

    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    tree_options.change(where, lambda tree: changes.unpublish(tree, module), as_json=as_json)


def promote(
    module: Module,
    source: Annotated[
        Path, typer.Option("--from", metavar="DIR", help="Published tree where the module is live.")
    ],
    from_owner: Annotated[
        list[str] | None,
        typer.Option(
            "--from-owner",
            metavar="USER",
            help="Also accept files of this user, who is not a publisher here.",
        ),
    ] = None,
    release: Annotated[
        bool,
        typer.Option("--release", help="Let it take the place of another image of the version."),
    ] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    pgp: trust_options.Keyrings = None,
    require_signed: trust_options.RequireSigned = False,
    require_evidence: trust_options.RequireEvidence = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Publish a module of another tree here, byte for byte: from the test tree to production."""
    from dlcontainer.publish.tree import promotion
    from dlcontainer.publish.tree.numbers import Succession

    signers = trust_options.Signers(
        keys=key,
        roots=certificate_roots,
        keyrings=pgp,
        signed=require_signed,
        evidence=require_evidence,
    )
    where = tree_options.chosen(root, site, signers=signers, as_json=as_json, verbose=verbose)
    days = where.site.modules.release_days if where.site else None
    succession = Succession(days=days) if release else None
    tree_options.change(
        where,
        lambda tree: promotion.promote(
            tree, source.absolute(), module, from_owner or (), succession
        ),
        as_json=as_json,
        is_new=True,
    )


def default(
    module: Module,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make `module load NAME` load this version."""
    from dlcontainer.publish.tree import changes

    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    tree_options.change(where, lambda tree: changes.set_default(tree, module), as_json=as_json)


def alias(
    module: Annotated[
        str, typer.Argument(metavar="NAME/VERSION", help="A module; with --remove, NAME/ALIAS.")
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="ALIAS", help="Additional name for the version.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias.")] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make `module load NAME/ALIAS` load this version."""
    from dlcontainer.publish.tree import changes

    if remove == (name is not None):
        raise UsageError(
            "an alias is missing" if name is None else "--remove takes NAME/ALIAS alone",
            next_step="dlcontainer modules alias NAME/VERSION ALIAS, or alias NAME/ALIAS --remove",
        )
    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    of_name, _, old = module.partition("/")
    if name is None:
        tree_options.change(
            where, lambda tree: changes.remove_alias(tree, of_name, old), as_json=as_json
        )
    else:
        tree_options.change(
            where, lambda tree: changes.set_alias(tree, module, name), as_json=as_json
        )


def deprecate(
    module: Module,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="Text that users see on load, such as what to use instead.",
        ),
    ] = None,
    removal: Annotated[
        str | None,
        typer.Option("--removal", metavar="DATE", help="Planned date of removal: YYYY-MM-DD."),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the warning.")] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Warn users who load a module; the --removal date removes nothing by itself."""
    from dlcontainer.publish.tree import changes
    from dlcontainer.publish.tree.generation import Deprecation

    if undo == (message is not None) or (undo and removal):
        raise UsageError(
            "--undo takes no other option" if undo else "Missing option '--message'.",
            next_step="dlcontainer modules deprecate NAME/VERSION --message TEXT",
        )
    warning = Deprecation(message=message, removal=removal) if message is not None else None
    where = tree_options.chosen(root, site, as_json=as_json, verbose=verbose)
    tree_options.change(
        where, lambda tree: changes.deprecate(tree, module, warning), as_json=as_json
    )


COMMANDS: Mapping[str, Callable[..., None]] = {
    "rollback": rollback,
    "unpublish": unpublish,
    "promote": promote,
    "default": default,
    "alias": alias,
    "deprecate": deprecate,
}

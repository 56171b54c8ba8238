"""What the commands of a published tree share: which tree, and how a change is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import output
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlcontainer.publish.open_folder import Folder
    from dlcontainer.publish.tree.generation import Generation
    from dlcontainer.publish.tree.layout import Admit, PublishedTree
    from dlcontainer.publish.tree.transaction import Publisher
    from dlcontainer.sites.site import Site

Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="The published tree. Default: the site's."),
]
Module = Annotated[str, typer.Argument(metavar="NAME/VERSION", help="A published module.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeSelection:
    """A tree, the site if one was named, and the console of this run."""

    root: Path
    site: "Site | None"
    console: output.Console
    signers: trust_options.Signers | None = None

    def hand(self) -> "Publisher":
        """Return the publisher's hand, with the group that the site names."""
        from dlcontainer.cli.context import here
        from dlcontainer.publish.tree.site_commands import SiteCommands
        from dlcontainer.publish.tree.transaction import Publisher

        return Publisher(
            admit=self._admit(),
            runner=self.console.runner(here().environ),
            note=self.console.note,
            line=self.console.phase,
            group=self.site.modules.group if self.site else None,
            commands=SiteCommands.of(self.site) if self.site else SiteCommands(),
            templates=tuple(here().resources.template_folders()),
        )

    def _admit(self) -> "Admit":
        """Return what each release is held against before it becomes live; keys are read then."""
        from dlcontainer.cli.context import here
        from dlcontainer.publish.tree.layout import admit_any

        signers = self.signers
        demand = trust_options.demand_of(
            self.site,
            signers.evidence if signers else None,
            signed=bool(signers and signers.signed),
        )
        if signers is not None:
            trust_options.note_unasked(demand, self.console, signers)
        if demand.is_empty:
            return admit_any

        def admit(release: "Folder", module: str) -> None:
            self.console.step(f"verify {module}: signature and evidence")
            trust = trust_options.trust_of(
                self.site,
                keys=signers.keys if signers else None,
                roots=signers.roots if signers else None,
                keyrings=signers.keyrings if signers else None,
            )
            demanded = trust_options.asking(trust, demand, here(), self.console)
            if demanded is not None:
                demanded.admit(release, module)

        return admit


def chosen(
    root: Path | None,
    site: str | None,
    *,
    signers: trust_options.Signers | None = None,
    as_json: bool = False,
    verbose: bool = False,
) -> TreeSelection:
    """Find the tree that is meant; raises UsageError where neither option names one."""
    from dlcontainer.cli.context import here

    loaded = here().site(site).value if site else None
    path = root or (Path(loaded.modules.root) if loaded and loaded.modules.root else None)
    if path is None:
        raise UsageError(
            "no published tree is named",
            why=f"the site {loaded.name} has no modules.root" if loaded else None,
            next_step="give --root DIR, or --site SITE whose file has modules.root",
        )
    console = output.Console(verbose=verbose, quiet=as_json)
    return TreeSelection(root=path.absolute(), site=loaded, console=console, signers=signers)


def change(
    where: TreeSelection,
    act: "Callable[[PublishedTree], Generation]",
    *,
    as_json: bool,
    is_new: bool = False,
) -> None:
    """Change a tree and say what is live then; `is_new`: the tree may be empty."""
    from dlcontainer.publish.tree import changes, layout, transaction

    if not is_new:
        changes.require_published(where.root)
    with transaction.opened(where.root, where.hand()) as tree:
        previous = layout.current(tree.top)
        current = act(tree)
    tell(where, previous, current, as_json=as_json)


def tell(
    where: TreeSelection, previous: int | None, current: "Generation", *, as_json: bool
) -> None:
    """Say which generation is live, and whether that is new."""
    changed = current.number != previous
    if changed and where.site is None:
        where.console.note(
            "no --site: the site's command after a change (modules.after_publish) was not run, and "
            "its signatures were not checked"
        )
    if as_json:
        body = {
            "root": str(where.root),
            "generation": current.number,
            "left": previous,
            "new": changed,
        }
        modules = [entry.module for entry in current.entries]
        output.emit("modules-changed", {**body, "what": current.what, "modules": modules})
    elif changed and previous is not None and current.number < previous:
        from dlcontainer.publish.tree import layout

        forward = layout.typed(where.root, "rollback", str(previous))
        output.say(f"generation {current.number} is live again, as after: {current.what}")
        output.say(f"forward again: {forward}")
    elif changed:
        output.say(f"generation {current.number} is live: {current.what}")
    else:
        output.say(f"nothing to change: generation {current.number} is live already")

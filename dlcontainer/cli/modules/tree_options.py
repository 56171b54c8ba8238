"""What the commands of a published tree share: which tree, and how a change is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlcontainer.publish.open_folder import Folder
    from dlcontainer.publish.tree.generation import Generation
    from dlcontainer.publish.tree.layout import Admit, Tree
    from dlcontainer.publish.tree.transaction import Hand
    from dlcontainer.sites.site import Site

Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="The published tree. Default: the site's."),
]
Module = Annotated[str, typer.Argument(metavar="NAME/VERSION", help="A published module.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signers:
    """Whose signatures count, and what is demanded, as the command line says."""

    keys: list[str] | None
    roots: Path | None
    keyrings: list[Path] | None
    signed: bool
    evidence: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A tree, the site if one was named, and the console of this run."""

    root: Path
    site: "Site | None"
    console: output.Console
    signers: Signers | None = None

    def hand(self) -> "Hand":
        """Give the publisher's hand, with the group that the site names."""
        from dlcontainer.cli.context import here
        from dlcontainer.publish.tree.site_commands import SiteCommands
        from dlcontainer.publish.tree.transaction import Hand

        return Hand(
            admit=self._admit(),
            runner=self.console.runner(here().environ),
            note=self.console.note,
            line=self.console.phase,
            group=self.site.modules.group if self.site else None,
            commands=SiteCommands.of(self.site) if self.site else SiteCommands(),
            templates=tuple(here().resources.template_folders()),
        )

    def _admit(self) -> "Admit":
        """Give what each release is held against before it becomes live; keys are read then."""
        from dlcontainer.cli.context import here
        from dlcontainer.cli.signing import trust_options
        from dlcontainer.publish.tree.layout import admit_any

        given = self.signers
        demand = trust_options.demand_of(
            self.site, given.evidence if given else None, signed=bool(given and given.signed)
        )
        if given is not None:
            named = (given.keys, given.roots, given.keyrings)
            trust_options.note_unasked(demand, self.console, *named)
        if demand.is_empty:
            return admit_any

        def admit(release: "Folder", module: str) -> None:
            self.console.step(f"verify {module}: signature and evidence")
            trust = trust_options.trust_of(
                self.site,
                keys=given.keys if given else None,
                roots=given.roots if given else None,
                keyrings=given.keyrings if given else None,
            )
            asked = trust_options.asking(trust, demand, here(), self.console)
            if asked is not None:
                asked.admit(release, module)

        return admit


def chosen(
    root: Path | None,
    site: str | None,
    *,
    signers: Signers | None = None,
    as_json: bool = False,
    verbose: bool = False,
) -> Chosen:
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
    return Chosen(root=path.absolute(), site=loaded, console=console, signers=signers)


def change(
    where: Chosen, act: "Callable[[Tree], Generation]", *, as_json: bool, is_new: bool = False
) -> None:
    """Change a tree and say what is live then; `is_new`: the tree may be empty."""
    from dlcontainer.publish.tree import changes, layout, transaction

    if not is_new:
        changes.require_published(where.root)
    with transaction.opened(where.root, where.hand()) as tree:
        left = layout.current(tree.top)
        made = act(tree)
    tell(where, left, made, as_json=as_json)


def tell(where: Chosen, left: int | None, made: "Generation", *, as_json: bool) -> None:
    """Say which generation is live, and whether that is new."""
    changed = made.number != left
    if changed and where.site is None:
        where.console.note(
            "without --site no modules.after_publish is run after the switch, and the site's trust "
            "demands nothing"
        )
    if as_json:
        body = {"root": str(where.root), "generation": made.number, "left": left, "new": changed}
        modules = [entry.module for entry in made.entries]
        output.emit("modules-changed", {**body, "what": made.what, "modules": modules})
    elif changed:
        output.say(f"generation {made.number} is live: {made.what}")
    else:
        output.say(f"nothing to change: generation {made.number} is live already")

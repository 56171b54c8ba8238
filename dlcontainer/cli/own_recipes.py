"""Recipes of a user's own file: what the commands hand to authoring, and what they say of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import completion, output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.authoring.author import AuthoredRecipe, Workshop
    from dlcontainer.authoring.foreign.image_words import ImageWords
    from dlcontainer.authoring.module_names import WheelModules
    from dlcontainer.cli.context import CliContext, PlanWords
    from dlcontainer.packages.resolve.index_access import IndexAccess
    from dlcontainer.packages.resolve.resolution import Resolution, ResolveRequest
    from dlcontainer.packages.resolve.resolve import Asker
    from dlcontainer.packages.resolve.wishes import WishList
    from dlcontainer.planning.plan import Plan
    from dlcontainer.recipes.extends import WrittenRecipe

# The group of a help page.
FILE = "Your own packages"

Extends = Annotated[
    str | None,
    typer.Option(
        "--extends",
        metavar="RECIPE",
        help="Recipe to put the packages on. Default: the one of the framework that they name or "
        "need; else plain Python.",
        autocompletion=completion.recipes,
        rich_help_panel=FILE,
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME",
        help="Dependency group of a pyproject.toml; repeatable.",
        rich_help_panel=FILE,
    ),
]
Extra = Annotated[
    list[str] | None,
    typer.Option(
        "--extra",
        metavar="NAME",
        help="Extra of a pyproject.toml; repeatable.",
        rich_help_panel=FILE,
    ),
]
AllowChange = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-change",
        metavar="PACKAGE",
        help="Let this package of RECIPE change, although its verify imports it; repeatable.",
        rich_help_panel=FILE,
    ),
]
KeepShell = Annotated[
    bool,
    typer.Option(
        "--keep-shell",
        help="Keep the other commands of a Dockerfile or definition file, as a shell step.",
        rich_help_panel=FILE,
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageOptions:
    """What was typed of a file's packages, by the options of FILE."""

    extends: str | None = None
    groups: Sequence[str] = ()
    extras: Sequence[str] = ()
    may_change: Sequence[str] = ()
    keeps_shell: bool = False

    @property
    def typed(self) -> str | None:
        """Name the first option that was typed; None where none was."""
        options = (
            ("--extends", self.extends),
            ("--group", self.groups),
            ("--extra", self.extras),
            ("--allow-change", self.may_change),
            ("--keep-shell", self.keeps_shell),
        )
        return next((option for option, value in options if value), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileOptions:
    """A file of packages, and what its recipe is called and made for."""

    file: Path
    name: str
    version: str | None
    sites: Sequence[str]
    packages: PackageOptions


def make(
    world: "CliContext", options: FileOptions, words: "PlanWords", console: output.Console
) -> "AuthoredRecipe":
    """Make a recipe of a file of packages; nothing is written but into the cache.

    Raises as `authoring.author` does, and UsageError for a name that is taken or is none.
    """
    from packaging.utils import canonicalize_name

    from dlcontainer.authoring import author
    from dlcontainer.system.workspace import workspace

    require_name(options.name)
    packages = options.packages
    wishes, image = _read(options.file, packages)
    runner = console.runner(world.environ)
    with workspace(world.scratch, runner, console.note) as work, console.beating():
        request = author.AuthorRequest(
            name=options.name,
            version=options.version,
            wishes=wishes,
            sites=options.sites,
            below=packages.extends and reference(packages.extends),
            may_change=frozenset(map(canonicalize_name, packages.may_change)),
            image=image,
        )
        desk = _Desk(world=world, console=console, work=work, words=words)
        return author.author(request, desk.workshop())


def _read(file: Path, options: PackageOptions) -> "tuple[WishList, ImageWords | None]":
    """Read a file of packages, or of a foreign image."""
    from dlcontainer.authoring.foreign import image_names
    from dlcontainer.authoring.readers import wish_file

    format_ = image_names.format_of(file)
    if format_ is None:
        if options.keeps_shell:
            raise UsageError(
                "--keep-shell belongs to a Dockerfile or a definition file",
                next_step="remove the option",
            )
        return wish_file.read(file, groups=options.groups, extras=options.extras), None
    if options.groups or options.extras:
        raise UsageError(
            f"a {format_} has no groups and no extras: {file}", next_step="leave them out"
        )
    from dlcontainer.authoring.foreign import image_file

    image = image_file.read(
        file, format_, keep_shell=options.keeps_shell, has_below=options.extends is not None
    )
    return image.wishes, image


def reference(recipe: str) -> str:
    """Return a recipe as another one names it: a path as an absolute one, of the folder."""
    if "/" not in recipe and not recipe.endswith((".yaml", ".yml")):
        return recipe
    path = Path(recipe).absolute()
    return str(path.parent if path.name == "recipe.yaml" else path)


def require_name(name: str) -> None:
    """Refuse a name that is none of a recipe; raises UsageError."""
    from dlcontainer.config import resources

    if not resources.NAME.fullmatch(name) or len(name) > 63:
        raise UsageError(
            f"not a recipe's name: {name!r}", next_step="use a-z, 0-9, '.', '_' and '-', up to 63"
        )


def require_unused(world: "CliContext", name: str) -> None:
    """Refuse the name of a recipe that is known: the new one would stand before it."""
    if name in world.resources.names("recipes"):
        raise UsageError(
            f"there is a recipe named {name!r} already",
            why=f"it is {world.locate('recipes', name).parent}",
            next_step="choose another name, or another folder with -o",
        )


def access_of(plan: "Plan", world: "CliContext") -> "IndexAccess":
    """Return how a plan's site reaches indexes; each of the recipe's own is tried."""
    from dlcontainer.packages.resolve import index_access

    upstreams = [str(upstream.url) for upstream in plan.recipe.upstreams.values()]
    return index_access.access_of(plan.site.routing, world.host, upstreams)


def asker_of(
    access: "IndexAccess", world: "CliContext", console: output.Console, folder: Path
) -> "Asker":
    """Return who asks indexes; `folder` is private."""
    from dlcontainer.packages.resolve import resolve

    return resolve.Asker(
        access=access,
        host=world.host,
        runner=console.runner(world.environ),
        folder=folder,
        cache=world.cache,
        note=console.note,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Desk:
    """One run's way to recipes, sites and indexes; `work` is private."""

    world: "CliContext"
    console: output.Console
    work: Path
    words: "PlanWords"

    def workshop(self) -> "Workshop":
        from dlcontainer.authoring import author

        return author.Workshop(
            recipes=self.world.resources.names("recipes"),
            scratch=self.work,
            read=self.world.written_recipe,
            settle=self._settle,
            settle_for_cpus=self._settle_for_cpus,
            resolve=self._resolve,
            look=self._look,
            progress=self.console,
        )

    def _settle(self, site: str, written: "WrittenRecipe") -> "Plan":
        return self.world.plan_written(written, site, self.words)

    def _settle_for_cpus(self, site: str, written: "WrittenRecipe") -> "Plan":
        return self.world.plan_written(written, site, replace(self.words, cpu=True))

    def _resolve(self, request: "ResolveRequest", plan: "Plan") -> "Resolution":
        from dlcontainer.packages.resolve import resolve

        return resolve.resolve(
            request, asker_of(access_of(plan, self.world), self.world, self.console, self.work)
        )

    def _look(
        self, packages: Sequence[str], upstream: str | None, plan: "Plan"
    ) -> "Sequence[WheelModules]":
        from dlcontainer.authoring import module_names, wheels

        folder = self.work / "wheels"
        folder.mkdir(exist_ok=True)
        fetcher = wheels.fetcher_of(
            plan, self.world.host, self.console.runner(self.world.environ), self.world.cache
        )
        files = wheels.fetch(packages, upstream, plan, fetcher, folder)
        return [module_names.read(file) for file in files]


def say_notes(recipe: "AuthoredRecipe", console: output.Console) -> None:
    """Say what a user should know of the packages: changed pins, what was left out."""
    for site in recipe.sites:
        for change in site.resolution.changes:
            console.note(
                f"{site.at.site}: {change.name} {change.before} -> {change.after} ({change.origin})"
            )
    for note in recipe.notes:
        console.note(note)
    for untaken in recipe.image.untaken if recipe.image else ():
        console.note(str(untaken))


def summary(recipe: "AuthoredRecipe") -> str:
    """Say in a line what a recipe holds: packages on what, for which variants."""
    count = len({pin.name for site in recipe.sites for pin in site.resolution.pins})
    places = [site.at.variant or site.at.site for site in recipe.sites]
    noun = "package" if count == 1 else "packages"
    line = (
        f"{count} {noun} on {recipe.below or 'plain Python'} ({', '.join(dict.fromkeys(places))})"
    )
    untaken_lines = (
        [untaken for untaken in recipe.image.untaken if not untaken.kept] if recipe.image else []
    )
    return f"{line}; {len(untaken_lines)} not taken of the file" if untaken_lines else line


def facts(recipe: "AuthoredRecipe") -> dict[str, object]:
    """Return what a recipe was made of, as JSON has it."""
    return {
        "name": recipe.name,
        "extends": recipe.below,
        "modules": list(recipe.modules),
        "refused": dict(recipe.refused),
        "notes": list(recipe.notes),
        "image": _image_facts(recipe),
        "sites": [
            {
                "site": site.at.site,
                "variant": site.at.variant,
                "arch": site.at.plan.site.arch,
                "resolver": site.resolution.resolver,
                "pins": [f"{pin.name}=={pin.version}" for pin in site.resolution.pins],
                "changed": [
                    {"name": c.name, "before": c.before, "after": c.after, "origin": c.origin}
                    for c in site.resolution.changes
                ],
            }
            for site in recipe.sites
        ],
    }


def _image_facts(recipe: "AuthoredRecipe") -> dict[str, object] | None:
    """Return what a foreign file asked for beside Python packages; None for another file."""
    image = recipe.image
    if image is None:
        return None
    return {
        "format": image.format,
        "base": image.base.image,
        "in_place": recipe.in_place,
        "os_packages": list(image.os_packages),
        "environment": dict(image.environment),
        "lines": [
            {"line": line.line, "text": line.text, "why": line.why, "kept": line.kept}
            for line in image.untaken
        ],
    }

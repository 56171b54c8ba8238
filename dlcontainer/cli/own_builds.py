"""`dlcontainer build FILE`: the recipe of a file of packages, made on the way to its image."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import output
from dlcontainer.cli.own_recipes import PackageOptions
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext, PlanWords


@dataclass(frozen=True, kw_only=True, slots=True)
class FileWords:
    """What was typed of a file of packages; `keep` is the image's folder, None to keep nothing."""

    name: str | None
    packages: PackageOptions
    keep: Path | None

    def refuse(self) -> None:
        """Refuse these words beside a recipe; raises UsageError."""
        option = "--name" if self.name else self.packages.typed
        if option is not None:
            raise UsageError(
                f"{option} belongs to a file of packages",
                next_step="give a FILE such as requirements.txt in place of RECIPE, or remove "
                "the option",
            )


@contextlib.contextmanager
def recipe_of(
    world: "CliContext",
    recipe: str | None,
    site: str,
    words: "PlanWords",
    file_words: FileWords,
    console: output.Console,
) -> Iterator[str | None]:
    """Yield the recipe to build: as typed, or the path of the one that is made from a file.

    That one lies beside the image, or only as long as it is used. Raises as `own_recipes.make`.
    """
    from dlcontainer.authoring import wish_files

    if recipe is None or not wish_files.is_meant(recipe):
        file_words.refuse()
        yield recipe
        return
    from dlcontainer.authoring import recipe_folder
    from dlcontainer.cli import adopt, own_recipes
    from dlcontainer.system.workspace import workspace

    file = Path(recipe)
    name, version = adopt.names(file_words.name)
    file_options = own_recipes.FileOptions(
        file=file,
        name=name or wish_files.recipe_name(file),
        version=version,
        sites=(site,),
        packages=file_words.packages,
    )
    authored = own_recipes.make(world, file_options, words, console)
    own_recipes.say_notes(authored, console)
    runner = console.runner(world.environ)
    if file_words.keep is None:
        with workspace(world.scratch, runner, console.note) as work:
            recipe_folder.write_new(work / authored.name, authored.files, runner, console.note)
            yield str(work / authored.name)
        return
    folder = file_words.keep / f"{authored.name}-{authored.sites[0].at.plan.site.target}.recipe"
    recipe_folder.write_over(folder, authored.files, runner, console.note)
    console.note(f"recipe: {folder}: {own_recipes.summary(authored)}")
    yield str(folder)

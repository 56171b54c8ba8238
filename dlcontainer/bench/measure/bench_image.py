"""The image that is measured: what its record says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.samples.vocabulary import FRAMEWORKS, Framework
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import record, sif


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image, with what a launch needs to know."""

    image: Path
    recipe: str
    sha256: str
    digest: str
    prefix: str
    modules: tuple[str, ...]
    environment: Mapping[str, str]
    variant: str | None = None

    @property
    def python(self) -> str:
        """Path of the image's Python."""
        return f"{self.prefix}/bin/python"

    def trained(self) -> Framework:
        """Name the framework that the train probe uses: the first of the recipe's imports it knows.

        Raises ChecksFailedError where it knows none of them.
        """
        found = [name for name in FRAMEWORKS if name in self.modules]
        if not found:
            raise ChecksFailedError(
                f"nothing to train with in {self.image.name}",
                why=f"the probe trains with {', '.join(FRAMEWORKS)}; the recipe {self.recipe} "
                f"verifies {', '.join(self.modules) or 'no module'}",
                next_step="name the framework in the recipe's verify.imports and build again, or "
                "measure `bench import`",
            )
        return min(found, key=self.modules.index)


def read(image: Path, arch: str) -> Subject:
    """Read an image's record; raises ChecksFailedError for what can't be measured here."""
    found = sif.arch(image)
    if found != arch:
        raise ChecksFailedError(
            f"{image} is for {found}, this machine is {arch}",
            why="emulated times say nothing about a container's cost",
            next_step=f"measure on a machine with {found}",
        )
    path = record.beside(image)
    written = record.read(path)
    if written is None:
        raise ChecksFailedError(
            f"no record {path.name} beside the image",
            why="it says what is in the image, and what a native twin must hold",
            next_step="measure an image that `dlcontainer build` made",
        )
    content, recipe = written.content, written.content.recipe
    return Subject(
        image=image,
        recipe=recipe.name,
        sha256=written.image.sha256,
        digest=written.digest,
        prefix=recipe.prefix,
        modules=tuple(recipe.verify.imports),
        environment=content.environment,
        variant=recipe.variant,
    )

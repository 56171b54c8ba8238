"""The image that is measured: what its record says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.probes.base import Contents
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import record, sif


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchImage:
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

    @property
    def contents(self) -> Contents:
        """What a probe's parameters may depend on."""
        return Contents(image=self.image.name, recipe=self.recipe, modules=self.modules)


def read(image: Path, arch: str) -> BenchImage:
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
    return BenchImage(
        image=image,
        recipe=recipe.name,
        sha256=written.image.sha256,
        digest=written.digest,
        prefix=recipe.prefix,
        modules=tuple(recipe.verify.imports),
        environment=content.environment,
        variant=recipe.variant,
    )

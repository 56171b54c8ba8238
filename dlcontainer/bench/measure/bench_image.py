"""The image that is measured: what its record says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.probes.probe import ProbeSubject
from dlcontainer.errors import BenchDataError, ChecksFailedError, UsageError
from dlcontainer.image import record, sif
from dlcontainer.system.guarded_files import MINE, Owners


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchImage:
    """An image, with what a launch needs to know."""

    image: Path
    recipe: str
    sha256: str
    digest: str
    prefix: str
    python: str
    modules: tuple[str, ...]
    environment: Mapping[str, str]
    # Variables of its record that are the image's alone: the native side is not given them.
    own_environment: tuple[str, ...] = ()
    uses_mpi: bool = False
    variant: str | None = None
    # Its recipe is unknown: there is nothing to make a native twin of.
    is_adopted: bool = False
    # It runs without the host's network, as long as nobody trusted it.
    is_contained: bool = False
    came: str = "was adopted"

    @property
    def contents(self) -> ProbeSubject:
        """What a probe's parameters may depend on."""
        return ProbeSubject(image=self.image.name, recipe=self.recipe, modules=self.modules)

    @property
    def first_module(self) -> str:
        """The module to import where none is named; raises UsageError where there is none."""
        if not self.modules:
            raise UsageError(
                f"the record of {self.image.name} names no module to import",
                next_step="name a module: --module NAME",
            )
        return self.modules[0]


def read(image: Path, arch: str, owners: Owners = MINE) -> BenchImage:
    """Read an image's record; raises ChecksFailedError for what can't be measured here."""
    arch_read = sif.arch(image)
    if arch_read != arch:
        raise ChecksFailedError(
            f"{image} is for {arch_read}, this machine is {arch}",
            why="emulated times say nothing about a container's cost",
            next_step=f"measure on a machine with {arch_read}",
        )
    path = record.beside(image)
    written = record.read(path, owners)
    if written is None:
        raise ChecksFailedError(
            f"no record {path.name} beside the image",
            why="the record lists the content of the image, which a native twin must match",
            next_step=record.copy_too(path),
        )
    content, offer = written.content, written.content.offer
    recipe, survey = content.recipe, content.adopted or content.extended
    return BenchImage(
        image=image,
        recipe=offer.name,
        sha256=written.image.sha256,
        digest=written.digest,
        python=survey.python if survey else f"{offer.prefix}/bin/python",
        prefix=offer.prefix,
        modules=tuple(offer.verify.imports),
        environment=content.environment,
        uses_mpi=offer.stack.mpi is not None,
        variant=recipe.variant if recipe else None,
        is_adopted=survey is not None,
        is_contained=written.is_contained,
        came=written.came,
    )


def declared(image: BenchImage, environment: Mapping[str, str]) -> BenchImage:
    """Return an image with those of its record's variables that the recipe, as it is here, sets
    too.

    They reach the native side, which is a program on this host, and a record comes with an image,
    from anybody: LD_PRELOAD or NCCL_NET_PLUGIN would run a file of their choice. The image itself
    sets its own, whatever its record says.
    """
    settings = {
        name: value for name, value in image.environment.items() if environment.get(name) == value
    }
    undeclared = tuple(sorted(image.environment.keys() - settings.keys()))
    return replace(image, environment=settings, own_environment=undeclared)


def require_trust(image: BenchImage, site: str) -> None:
    """Refuse to run ranks of an image that nobody trusted; raises BenchDataError."""
    if image.is_contained:
        raise BenchDataError(
            f"{image.image.name} {image.came}, and is not trusted yet",
            why="ranks need access to this host's network and memory",
            next_step=f"read docs/image/adopt.md; then: dlcontainer adopt {image.image.name} "
            f"--site {site} --trust",
        )

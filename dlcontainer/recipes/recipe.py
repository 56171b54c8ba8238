"""The recipe: what is in an image, step by step, and how to prove that it works."""

from dataclasses import replace
from pathlib import Path, PurePath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.config.field_types import (
    AbsolutePath,
    Arch,
    Command,
    Digest,
    EnvName,
    Fabric,
    Identifier,
    ImagePath,
    Line,
    MpiFamily,
    MpiMode,
    Name,
    RelativePath,
    Strict,
    Url,
    Vendor,
    Version,
)
from dlcontainer.config.image_names import FORM, Reference, parse_image
from dlcontainer.errors import ConfigError
from dlcontainer.recipes.distributions import DISTRIBUTIONS, MANAGERS, Manager, manager_of
from dlcontainer.recipes.slim import Choices
from dlcontainer.recipes.steps import Step, Upstream

# What a site, the user's overrides and --set may change of a recipe, and nothing else.
OVERRIDABLE = ("base", "environment", "image", "mount_points", "slim", "variant", "versions")


def _image(value: str) -> str:
    parse_image(value)
    return value


Image = Annotated[str, AfterValidator(_image), Field(description=FORM)]


class System(Strict):
    """What a base holds, which nobody can look up while planning; stated with its source."""

    distribution: Name
    release: Name
    glibc: Version | None = None
    python: Version | None = Field(default=None, description="of /usr/bin/python3, MAJOR.MINOR")
    source: Line = Field(description="the page, or the command, that says so")


class Base(Strict):
    """What the image starts from: a distribution's minimal root tree, or an image of a registry.

    An image is pinned by its digest, here or in `image`; one that is not can't be built.
    """

    # No part of the content: what lies below it says it too.
    kind: Literal["tree", "oci"] | None = Field(
        default=None,
        exclude=True,
        description="oci: the distribution's own image of a registry; without it a root tree that "
        "the build host makes",
    )
    distribution: Name | None = None
    release: Name | None = None
    image: Image | None = None
    digest: Digest | None = Field(default=None, description="of the image: sha256:…")
    system: System | None = Field(default=None, description="what the image holds")
    source: Line | None = Field(default=None, description="where the image's digest was read")

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.image:
            if self.kind == "tree":
                raise ValueError("'kind' is tree, and 'image' is of a registry: give one of them")
            if self.distribution or self.release:
                raise ValueError("give 'image', or 'distribution' and 'release', not both")
            return self._one_digest()
        for key in ("digest", "system"):
            if getattr(self, key):
                raise ValueError(f"'{key}' belongs to 'image'")
        if not (self.distribution and self.release):
            raise ValueError("needs 'distribution' and 'release', or 'image'")
        if (self.distribution, self.release) not in DISTRIBUTIONS:
            known = ", ".join(f"{name} {release}" for name, release in sorted(DISTRIBUTIONS))
            raise ValueError(
                f"no facts about {self.distribution} {self.release}; known: {known} "
                "(a further one is a line in dlcontainer/recipes/distributions.py)"
            )
        return self

    def _one_digest(self) -> Self:
        written = parse_image(str(self.image)).digest
        if written and self.digest and written != self.digest:
            raise ValueError(f"two digests: 'image' has {written}, 'digest' is {self.digest}")
        return self

    @property
    def reference(self) -> Reference | None:
        """The image, with its digest where it has one; None for a distribution."""
        if self.image is None:
            return None
        written = parse_image(self.image)
        return replace(written, digest=self.digest or written.digest)

    @property
    def facts(self) -> System | None:
        """What is known of the system in the base; None for an image that does not state it."""
        if self.image or not self.distribution or not self.release:
            return self.system
        known = DISTRIBUTIONS[(self.distribution, self.release)]
        return System(
            distribution=known.name,
            release=known.release,
            glibc=known.glibc,
            python=known.python,
            source="dlcontainer/recipes/distributions.py",
        )

    @property
    def title(self) -> str:
        """The base in words, for texts and tables."""
        image = self.reference
        if image is None:
            return f"{self.distribution} {self.release}, minimal root tree"
        if image.digest is None:
            return f"{image}, not pinned"
        return f"{image} (tag {image.tag})" if image.tag else str(image)

    @property
    def manager(self) -> Manager | None:
        """The package manager of the base; None where its distribution is not known."""
        facts = self.facts
        if facts is None or facts.distribution not in MANAGERS:
            return None
        return manager_of(facts.distribution, facts.release)


class Verify(Strict):
    """How the image proves that it works: a script, and modules that import with a version."""

    script: RelativePath
    imports: dict[Line, Version] = Field(default_factory=dict)


class StackMpi(Strict):
    """The MPI that the image's programs are linked to."""

    family: MpiFamily
    name: Line = Field(description="with its version: Open MPI 4.1.4")
    fabrics: tuple[Fabric, ...] = Field(
        default=(), description="networks it was built for; empty: sockets, or not known"
    )


class Stack(Strict):
    """What the framework's build is made for; checked against the facts of a site."""

    # The keys that say that there is device code in the build.
    DEVICE_KEYS: ClassVar = ("cuda", "rocm", "oneapi", "gpu_targets")

    cuda: Version | None = None
    rocm: Version | None = None
    oneapi: Version | None = None
    gpu_targets: tuple[Line, ...] = Field(
        default=(),
        description="GPU code in the framework's build: sm_70, sm_90+PTX, compute_90, gfx90a …",
    )
    cpu_target: Name | None = Field(
        default=None, description="the least processor it runs on, as GCC names it"
    )
    gcc: Version | None = Field(default=None, description="compiles in the image")
    llvm: Version | None = Field(default=None, description="compiles in the image")
    mpi: StackMpi | None = None

    @property
    def has_device_code(self) -> bool:
        """Whether the build has code for accelerators."""
        return any(getattr(self, key) for key in self.DEVICE_KEYS)


class Needs(Strict):
    """What a variant needs of a site; an empty list asks for nothing."""

    arch: tuple[Arch, ...] = ()
    accelerator: tuple[Literal[Vendor, "none"], ...] = ()
    cpu: tuple[Name, ...] = Field(default=(), description="cpu.target is one of these")
    gpu: tuple[Line, ...] = Field(
        default=(),
        description="accelerator.target runs code for one of these; "
        "not needed beside stack.gpu_targets",
    )
    toolkit: Version | None = Field(
        default=None, description="the site's CUDA, ROCm or oneAPI is this or newer"
    )
    mpi: tuple[MpiFamily, ...] = Field(default=(), description="the family of the site's MPI")
    mpi_mode: tuple[MpiMode, ...] = ()


class Variant(Strict):
    """One way to make the recipe: `vendor` as a centre would publish it, `distro` anywhere."""

    kind: Literal["vendor", "distro"]
    summary: Line
    status: Literal["built", "never built"] | None = Field(
        default=None, description="never built: rendered only; a plan's notes say so"
    )
    lock: Literal["by the site"] | None = Field(
        default=None,
        description="by the site: what it needs could not be reached from here, so its digest or "
        "its packages are pinned where it is built",
    )
    pythons: tuple[Version, ...] = Field(
        default=(),
        description="Pythons that its packages were built and tried with; a machine's own base "
        "with another one leaves the recipe's in place. Empty: any",
    )
    needs: Needs = Needs()
    changes: dict[str, object] = Field(min_length=1, description="what differs in the recipe")


class ImageSettings(Strict):
    """How the image itself is made, whatever is in it."""

    pack: bool | Literal["training"] | None = Field(
        default=None,
        description="a module pack, docs/importing.md; training: with the modules of a first "
        "training step too; without it: where verify.imports names any",
    )
    compression: Literal["zstd", "lz4", "raw-libraries"] = Field(
        default="zstd",
        description="of the image's file; quicker to read and larger: lz4; raw-libraries, zstd "
        "with the shared libraries that the pack's imports open as they are",
    )


class Recipe(Strict):
    """What goes into an image, and how it proves that it works."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    version: Version
    summary: Line
    homepage: Url | None = None
    license: Line | None = Field(default=None, description="SPDX expression of what is packed")
    variant: Name | None = Field(default=None, description="the one of variants that is meant")
    stack: Stack = Stack()
    space_mb: int = Field(default=2000, gt=0, description="disk space a build needs, MB")
    upstreams: dict[Identifier, Upstream] = Field(default_factory=dict)
    base: Base
    prefix: ImagePath = Field(description="the image's Python environment stands here")
    interpreter: ImagePath = Field(
        default="/usr/bin/python3",
        description="makes the environment at prefix, unless the base or a step put one there",
    )
    versions: dict[Identifier, Version] = Field(default_factory=dict)
    steps: tuple[Step, ...] = Field(min_length=1)
    environment: dict[EnvName, Line] = Field(default_factory=dict)
    mount_points: tuple[AbsolutePath, ...] = ()
    image: ImageSettings = ImageSettings()
    slim: Choices = Field(
        default=(), description="what is removed from the Python packages: docs/add-a-recipe.md"
    )
    exposes: tuple[Command, ...] = Field(min_length=1)
    verify: Verify

    @property
    def has_pack(self) -> bool:
        """Whether the image has a module pack."""
        return bool(self.verify.imports if self.image.pack is None else self.image.pack)

    @property
    def packs_training(self) -> bool:
        """Whether the pack has the modules that a first training step loads."""
        return self.image.pack == "training"

    @property
    def native_packages(self) -> list[str]:
        """OS packages that the native twin needs, without versions."""
        named = [step for step in self.steps if not step.image_only]
        names = [name for step in named for name in step.os_packages]
        names += [name for step in self.steps if step.native for name in step.build_packages]
        return sorted({name.split("=")[0].split(":")[0] for name in names})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [step.name for step in self.steps]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two steps are named {name!r}")
        if self.slim and "slim" in names:
            raise ValueError("a step is named 'slim', as the one that 'slim' makes: rename it")
        for step in self.steps:
            for upstream in step.upstreams:
                if upstream not in self.upstreams:
                    raise ValueError(
                        f"step {step.name!r} takes from {upstream!r}, which is not in 'upstreams'"
                    )
            tool = step.conda_packages.tool if step.conda_packages else None
            if tool and not self.upstreams[tool].sha256:
                raise ValueError(f"upstreams.{tool}: a program that runs needs its sha256")
        return self

    @model_validator(mode="after")
    def _image_fits(self) -> Self:
        if self.image.pack and not self.verify.imports:
            raise ValueError("image.pack: nothing to pack: verify.imports names no module")
        if self.image.compression == "raw-libraries" and not self.has_pack:
            raise ValueError(
                "image.compression: raw-libraries are those that a module pack's imports open, "
                "and there is no pack: name modules in verify.imports, or take lz4"
            )
        if self.has_pack and "pack" in [step.name for step in self.steps]:
            raise ValueError(
                "a step is named 'pack', as the one that 'image.pack' makes: rename it, or set "
                "image.pack: false"
            )
        return self


def read(path: Path, *, display: str) -> Document:
    """Read a recipe file as written, with the variants that stand in files of their own.

    Raises ConfigError with the place of what is not YAML, or not there.
    """
    written = config.load(path, layer="recipe", display=display)
    entries = config.subtree(written, ("variants",))
    for name in entries.data if entries else ():
        entry = config.subtree(written, ("variants", name))
        if entry and "file" in entry.data:
            variant = _variant_file(path, display, name, entry)
            written = config.replaced(written, ("variants", name), variant)
    return written


def require_named(written: Document, folder: str) -> None:
    """Refuse a recipe that is found by its folder's name and calls itself another.

    Its image and module would be taken for the other's. Raises ConfigError with the place.
    """
    name = written.data.get("name")
    if isinstance(name, str) and name != folder:
        raise ConfigError(
            f"name: {name!r}, but the recipe's folder is {folder!r}",
            where=written.origin(("name",)).where,
            why="images and modules have the recipe's name, and commands find it by its folder",
            next_step=f"write `name: {folder}`, or rename the folder",
        )


def _variant_file(path: Path, display: str, name: str, entry: Document) -> Document:
    file, where = str(entry.data["file"]), entry.origin(("file",)).where
    if len(entry.data) > 1:
        raise ConfigError(
            f"variants.{name}.file: stands alone: what else there is to say is in that file",
            where=where,
        )
    place = (path.parent / file).resolve()
    if not place.is_relative_to(path.parent.resolve()) or not place.is_file():
        raise ConfigError(f"variants.{name}.file: no file {file!r} beside the recipe", where=where)
    return config.load(place, layer="recipe", display=str(PurePath(display).parent / file))

"""The recipe: what is in an image, step by step, and how to prove that it works."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dlcontainer import document
from dlcontainer.distributions import DISTRIBUTIONS
from dlcontainer.document import Document
from dlcontainer.fields import (
    AbsolutePath,
    Arch,
    Command,
    EnvName,
    Identifier,
    ImagePath,
    Line,
    Name,
    OsPackage,
    PythonPackage,
    RelativePath,
    Strict,
    Url,
    Version,
)
from dlcontainer.sitefacts import Fabric, MpiFamily, MpiMode, Vendor

# What a site, the user's overrides and --set may change of a recipe, and nothing else.
OVERRIDABLE = ("base", "environment", "mount_points", "variant", "versions")

Image = Annotated[
    str,
    Field(
        pattern=r"^docker://[a-z0-9][a-z0-9./_:-]*@sha256:[0-9a-f]{64}$",
        description="docker://REGISTRY/NAME@sha256:DIGEST",
    ),
]


class Base(Strict):
    """What the image starts from: a distribution's minimal root tree, or an image by digest."""

    distribution: Name | None = None
    release: Name | None = None
    image: Image | None = None
    source: Line | None = Field(default=None, description="where the image's digest was read")

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.image:
            if self.distribution or self.release:
                raise ValueError("give 'image', or 'distribution' and 'release', not both")
            return self
        if not (self.distribution and self.release):
            raise ValueError("needs 'distribution' and 'release', or 'image'")
        if (self.distribution, self.release) not in DISTRIBUTIONS:
            known = ", ".join(f"{name} {release}" for name, release in sorted(DISTRIBUTIONS))
            raise ValueError(
                f"no facts about {self.distribution} {self.release}; known: {known} "
                "(a further one is a line in dlcontainer/distributions.py)"
            )
        return self


class Upstream(Strict):
    """A public place that the recipe's packages come from; a site can route it elsewhere."""

    url: Url
    source: Line = Field(description="the page that documents it")


class PythonPackages(Strict):
    """Pinned wheels for the image's Python; pip resolves nothing: the list is the closure."""

    packages: tuple[PythonPackage, ...] = Field(min_length=1)
    upstream: Identifier | None = Field(default=None, description="an extra index, from upstreams")


class Step(Strict):
    """One named step; exactly one of the four kinds of work, or environment beside it."""

    name: Name
    when: Line | None = Field(
        default=None, description="a Jinja expression on site, base, versions"
    )
    os_packages: tuple[OsPackage, ...] = ()
    python_packages: PythonPackages | None = None
    files: dict[RelativePath, ImagePath] = Field(default_factory=dict)
    shell: str | None = None
    native: bool = Field(default=False, description="a shell step the native twin runs too")
    build_packages: tuple[OsPackage, ...] = Field(
        default=(), description="OS packages there while the snippet runs, and not in the image"
    )
    environment: dict[EnvName, Line] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        work = [
            key
            for key in ("os_packages", "python_packages", "files", "shell")
            if getattr(self, key)
        ]
        if len(work) > 1:
            raise ValueError(
                f"one kind of work a step: {' and '.join(work)} want steps of their own"
            )
        if not work and not self.environment:
            raise ValueError(
                "does nothing: give os_packages, python_packages, files, shell or environment"
            )
        if self.native and not self.shell:
            raise ValueError("'native' belongs to a shell step")
        if self.build_packages and not self.shell:
            raise ValueError("'build_packages' belongs to a shell step; others: os_packages")
        return self

    @field_validator("shell")
    @classmethod
    def _plain_shell(cls, value: str | None) -> str | None:
        if value is not None and any(not (c.isprintable() or c in "\n\t") for c in value):
            raise ValueError("control characters in the snippet")
        return value


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

    cuda: Version | None = None
    rocm: Version | None = None
    oneapi: Version | None = None
    gpu_targets: tuple[Line, ...] = Field(
        default=(), description="GPU code in the framework's build: sm_70, gfx90a …"
    )
    cpu_target: Name | None = Field(
        default=None, description="the least processor it runs on, as GCC names it"
    )
    gcc: Version | None = Field(default=None, description="compiles in the image")
    llvm: Version | None = Field(default=None, description="compiles in the image")
    mpi: StackMpi | None = None


class Needs(Strict):
    """What a variant needs of a site; an empty list asks for nothing."""

    arch: tuple[Arch, ...] = ()
    accelerator: tuple[Literal[Vendor, "none"], ...] = ()
    cpu: tuple[Name, ...] = Field(default=(), description="cpu.target is one of these")
    mpi: tuple[MpiFamily, ...] = Field(default=(), description="the family of the site's MPI")
    mpi_mode: tuple[MpiMode, ...] = ()


class Variant(Strict):
    """One way to make the recipe: `vendor` as a centre would publish it, `distro` anywhere."""

    kind: Literal["vendor", "distro"]
    summary: Line
    needs: Needs = Needs()
    changes: dict[str, object] = Field(min_length=1, description="what differs in the recipe")


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
    versions: dict[Identifier, Version] = Field(default_factory=dict)
    steps: tuple[Step, ...] = Field(min_length=1)
    environment: dict[EnvName, Line] = Field(default_factory=dict)
    mount_points: tuple[AbsolutePath, ...] = ()
    exposes: tuple[Command, ...] = Field(min_length=1)
    verify: Verify

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [step.name for step in self.steps]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two steps are named {name!r}")
        for step in self.steps:
            upstream = step.python_packages.upstream if step.python_packages else None
            if upstream and upstream not in self.upstreams:
                raise ValueError(
                    f"step {step.name!r} takes from {upstream!r}, which is not in 'upstreams'"
                )
        return self


def read(path: Path, *, display: str) -> Document:
    """Read a recipe file as written; raises ConfigError with the place of what is not YAML."""
    return document.load(path, layer="recipe", display=display)

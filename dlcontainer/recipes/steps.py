"""The steps of a recipe: what each does, and where its packages come from."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from dlcontainer.config.field_types import (
    CondaPackage,
    EnvName,
    Identifier,
    ImagePath,
    Line,
    Name,
    OsPackage,
    PythonPackage,
    RelativePath,
    Sha256,
    Strict,
    Url,
)


class Upstream(Strict):
    """A public place that the recipe's packages come from; a site can route it elsewhere."""

    url: Url
    source: Line = Field(description="the page that documents it")
    sha256: Sha256 | None = Field(default=None, description="where url is one file")


class PythonPackages(Strict):
    """Pinned wheels for the image's Python; pip resolves nothing: the list is the closure."""

    packages: tuple[PythonPackage, ...] = Field(min_length=1)
    upstream: Identifier | None = Field(default=None, description="an extra index, from upstreams")


class CondaPackages(Strict):
    """Conda packages, pinned; conda finds what they need, in these channels and no others."""

    channels: tuple[Identifier, ...] = Field(
        min_length=1, description="from upstreams; the first that has a package wins"
    )
    packages: tuple[CondaPackage, ...] = Field(min_length=1)
    tool: Identifier = Field(
        description="of upstreams: micromamba's own conda package (.tar.bz2), with its sha256"
    )


class Step(Strict):
    """One named step; exactly one of the five kinds of work, or environment beside it."""

    name: Name
    when: Line | None = Field(
        default=None, description="a Jinja expression on site, base, versions"
    )
    os_packages: tuple[OsPackage, ...] = ()
    python_packages: PythonPackages | None = None
    conda_packages: CondaPackages | None = None
    files: dict[RelativePath, ImagePath] = Field(default_factory=dict)
    shell: str | None = None
    native: bool = Field(default=False, description="a shell step the native twin runs too")
    image_only: bool = Field(
        default=False, description="OS packages that the native twin does without"
    )
    build_packages: tuple[OsPackage, ...] = Field(
        default=(), description="OS packages there while the snippet runs, and not in the image"
    )
    environment: dict[EnvName, Line] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        work = [
            key
            for key in ("os_packages", "python_packages", "conda_packages", "files", "shell")
            if getattr(self, key)
        ]
        if len(work) > 1:
            raise ValueError(
                f"a step does one kind of work: put {' and '.join(work)} into separate steps"
            )
        if not work and not self.environment:
            raise ValueError(
                "empty step: set one of os_packages, python_packages, conda_packages, files, shell "
                "or environment"
            )
        if self.native and not self.shell:
            raise ValueError("only a shell step can have 'native'")
        if self.image_only and not self.os_packages:
            raise ValueError("only a step of os_packages can have 'image_only'")
        if self.build_packages and not self.shell:
            raise ValueError(
                "only a shell step can have 'build_packages'; elsewhere use os_packages"
            )
        return self

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Name the upstreams that the step's packages come from."""
        if self.conda_packages:
            return (*self.conda_packages.channels, self.conda_packages.tool)
        named = self.python_packages.upstream if self.python_packages else None
        return (named,) if named else ()

    @field_validator("shell")
    @classmethod
    def _plain_shell(cls, value: str | None) -> str | None:
        if value is not None and any(not (c.isprintable() or c in "\n\t") for c in value):
            raise ValueError("the shell text contains control characters")
        return value

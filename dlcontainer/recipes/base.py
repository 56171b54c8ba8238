"""What an image starts from, and what is known of the system in it."""

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dlcontainer.config.field_types import Digest, Line, Name, Strict, Version
from dlcontainer.config.image_names import FORM, ImageReference, parse_image
from dlcontainer.recipes.distributions import DISTRIBUTIONS, MANAGERS, Manager, manager_of


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
                raise ValueError("'kind: tree' and 'image' exclude each other: give one of them")
            if self.distribution or self.release:
                raise ValueError("give 'image', or 'distribution' and 'release', not both")
            return self._one_digest()
        for key in ("digest", "system"):
            if getattr(self, key):
                raise ValueError(f"'{key}' needs 'image'")
        if not (self.distribution and self.release):
            raise ValueError("needs 'distribution' and 'release', or 'image'")
        if (self.distribution, self.release) not in DISTRIBUTIONS:
            releases = ", ".join(f"{name} {release}" for name, release in sorted(DISTRIBUTIONS))
            raise ValueError(
                f"unknown release {self.distribution} {self.release}; known: {releases} (to "
                "add one, edit dlcontainer/recipes/distributions.py)"
            )
        return self

    def _one_digest(self) -> Self:
        written = parse_image(str(self.image)).digest
        if written and self.digest and written != self.digest:
            raise ValueError(
                f"two different digests: 'image' has {written}, 'digest' is {self.digest}"
            )
        return self

    @property
    def reference(self) -> ImageReference | None:
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
        distribution = DISTRIBUTIONS[(self.distribution, self.release)]
        # Of values that we wrote: it needs no validator.
        return System.model_construct(
            distribution=distribution.name,
            release=distribution.release,
            glibc=distribution.glibc,
            python=distribution.python,
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

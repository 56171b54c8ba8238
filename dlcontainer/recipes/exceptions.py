"""What a recipe that extends another says itself, among it exceptions for single variants."""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from dlcontainer.config.field_types import Line, Name, RelativePath, Strict, Version


class StepException(Strict):
    """Other pins of one own step, where a variant needs them."""

    replace: tuple[Line, ...] = Field(default=(), description="NAME==VERSION of listed packages")
    add: tuple[Line, ...] = Field(default=(), description="NAME==VERSION of further packages")
    remove: tuple[Line, ...] = Field(default=(), description="names of listed packages")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.replace or self.add or self.remove):
            raise ValueError("empty exception: set replace, add or remove")
        return self


class VariantException(Strict):
    """What differs in one variant of the parent recipe, or why it is not available."""

    refused: Line | None = Field(default=None, description="why this variant is not available")
    steps: dict[Name, StepException] = Field(default_factory=dict)
    imports: dict[Line, Version] = Field(
        default_factory=dict, description="other versions than those of verify.imports"
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.refused is not None and (self.steps or self.imports):
            raise ValueError("'refused' excludes steps and imports")
        if self.refused is None and not (self.steps or self.imports):
            raise ValueError("empty exception: set refused, steps or imports")
        return self


class OwnVerify(Strict):
    """The proof of what a recipe adds: the proofs below run too."""

    script: RelativePath | None = None
    imports: dict[Line, Line] = Field(default_factory=dict)


class OwnParts(Strict):
    """The keys with rules of their own where one recipe is laid over another."""

    # All other keys are those of a recipe, which is validated as a whole.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    extends: Line
    steps: tuple[dict[str, object], ...] = ()
    verify: OwnVerify = OwnVerify()
    variants: dict[Name, VariantException] = Field(default_factory=dict)
    changed_pins: tuple[Line, ...] = ()

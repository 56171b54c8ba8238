"""The recipe: what is in an image, step by step, and how to prove that it works."""

from pathlib import Path, PurePath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dlcontainer import config
from dlcontainer.config import Document, KeyPath
from dlcontainer.config.field_types import (
    AbsolutePath,
    Command,
    EnvName,
    Identifier,
    ImagePath,
    Line,
    Name,
    RelativePath,
    Strict,
    Url,
    Version,
)
from dlcontainer.errors import ConfigError
from dlcontainer.image import layout
from dlcontainer.recipes import bump_journal, pin_words
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.slim import Choices
from dlcontainer.recipes.stack import Stack
from dlcontainer.recipes.steps import Step, Upstream

# What a site, the user's overrides and --set may change of a recipe, and nothing else.
OVERRIDABLE = ("base", "environment", "image", "mount_points", "slim", "variant", "versions")
# What no variant may change.
WHOLE_RECIPE = ("schema", "name", "extends", "wishes", "changed_pins", "variant", "variants")


def _wish(value: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(value)
    except InvalidRequirement:
        raise ValueError(f"not a requirement (NAME, NAME>=VERSION …): {value!r}") from None
    if requirement.url:
        raise ValueError(f"a requirement with an address: {value!r}; name the package alone")
    return value


def _is_meant(name: str, package: str) -> bool:
    if name.endswith("*"):
        return pin_words.name(package).startswith(name.removesuffix("*"))
    return pin_words.name(package) == pin_words.name(name)


Wish = Annotated[Line, AfterValidator(_wish)]


class EarlierProof(Strict):
    """The script of a parent recipe; it runs before the recipe's own."""

    recipe: Name
    script: RelativePath


class Verify(Strict):
    """How the image proves that it works: a script, and modules that import with a version."""

    script: RelativePath
    imports: dict[Line, Version] = Field(default_factory=dict)
    before: tuple[EarlierProof, ...] = Field(
        default=(), description="scripts that run first: those of the recipes that it extends"
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [proof.recipe for proof in self.before]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"before: two scripts of a recipe {name!r}")
            if self.script == layout.proof_name(name):
                raise ValueError(f"script: {self.script!r} is the name of a script in before")
        return self


class ImageSettings(Strict):
    """How the image itself is made, whatever is in it."""

    pack: bool | Literal["training"] | None = Field(
        default=None,
        description="a module pack, docs/use/importing.md; training: with the modules of a first "
        "training step too; without it: where verify.imports names any",
    )
    compression: Literal["zstd", "lz4", "raw-libraries"] = Field(
        default="zstd",
        description="of the image's file; quicker to read and larger: lz4; raw-libraries, zstd "
        "with the shared libraries that the pack's imports open as they are",
    )


class JobSettings(Strict):
    """What a job of the image does beside its ranks."""

    form: Literal["ray"] = Field(
        description="the usual form of its jobs; ray: a head on the first node, a worker on each "
        "other, and the command on the head (docs/use/jobs.md, Ray)"
    )


class Recipe(Strict):
    """What goes into an image, and how it proves that it works."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    extends: Line | None = Field(
        default=None,
        description="the parent recipe: its name, or its path (docs/image/add-a-recipe.md)",
    )
    wishes: tuple[Wish, ...] = Field(
        default=(), description="requirements that the pins were made from; they decide nothing"
    )
    changed_pins: tuple[Line, ...] = Field(
        default=(), description="packages of which own steps change the version pinned below"
    )
    version: Version
    summary: Line
    homepage: Url | None = None
    license: Line | None = Field(default=None, description="SPDX expression of what is packed")
    variant: Name | None = Field(default=None, description="the one of variants that is meant")
    stack: Stack = Stack.model_construct()
    space_mb: int = Field(default=2000, gt=0, description="disk space a build needs, MB")
    upstreams: dict[Identifier, Upstream] = Field(default_factory=dict)
    base: Base
    prefix: ImagePath = Field(description="the image's Python environment stands here")
    interpreter: ImagePath = Field(
        default="/usr/bin/python3",
        description="makes the environment at prefix, unless the base or a step put one there",
    )
    versions: dict[Identifier, Version] = Field(default_factory=dict)
    held: dict[Line, Line] = Field(
        default_factory=dict,
        description="pinned packages that `recipe outdated` leaves as they are (`nvidia-*`: all "
        "that begin so), each with why",
    )
    steps: tuple[Step, ...] = Field(min_length=1)
    environment: dict[EnvName, Line] = Field(default_factory=dict)
    mount_points: tuple[AbsolutePath, ...] = ()
    image: ImageSettings = ImageSettings.model_construct()
    slim: Choices = Field(
        default=(),
        description="what is removed from the Python packages: docs/image/add-a-recipe.md",
    )
    exposes: tuple[Command, ...] = Field(min_length=1)
    job: JobSettings | None = None
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
            raise ValueError("the key 'slim' adds a step of this name: rename your step 'slim'")
        for step in self.steps:
            for upstream in step.upstreams:
                if upstream not in self.upstreams:
                    raise ValueError(
                        f"step {step.name!r} uses {upstream!r}, which is not in 'upstreams'"
                    )
            tool = step.conda_packages.tool if step.conda_packages else None
            if tool and not self.upstreams[tool].sha256:
                raise ValueError(
                    f"upstreams.{tool}: sha256 is required, because builds run this program"
                )
        return self

    @model_validator(mode="after")
    def _holds_pins(self) -> Self:
        listed = [step.python_packages.packages for step in self.steps if step.python_packages]
        pinned = {pin_words.name(pin) for pins in listed for pin in pins}
        for name in self.held:
            if not any(_is_meant(name, package) for package in pinned):
                raise ValueError(f"held: no step pins {name!r}")
        return self

    def why_held(self, package: str) -> str | None:
        """Return why a package's pin stays as it is, None where it may move."""
        return next((why for name, why in self.held.items() if _is_meant(name, package)), None)

    @model_validator(mode="after")
    def _has_program(self) -> Self:
        if self.job is not None and self.job.form not in self.exposes:
            raise ValueError(f"job.form: 'exposes' does not list {self.job.form!r}")
        return self

    @model_validator(mode="after")
    def _image_fits(self) -> Self:
        if self.image.pack and not self.verify.imports:
            raise ValueError(
                "image.pack: there is nothing to pack, because verify.imports is empty"
            )
        if self.image.compression == "raw-libraries" and not self.has_pack:
            raise ValueError(
                "image.compression: raw-libraries needs a module pack: name modules in "
                "verify.imports, or use lz4"
            )
        if self.has_pack and "pack" in [step.name for step in self.steps]:
            raise ValueError(
                "image.pack adds a step 'pack': rename your step of this name, or set "
                "image.pack: false"
            )
        return self


def read(path: Path, *, display: str, layer: str = "recipe") -> Document:
    """Read a recipe file as written, with the variants that stand in files of their own.

    What it extends is not looked at: `extends.read`. Raises ConfigError with the place of what is
    not YAML, or not there.
    """
    bump_journal.require_none(path.parent, display)
    written = config.load(path, layer=layer, display=display)
    entries, variants = config.subtree(written, ("variants",)), dict[KeyPath, Document]()
    for name in entries.data if entries else ():
        entry = config.subtree(written, ("variants", name))
        if entry and "file" in entry.data:
            variants["variants", name] = _variant_file(path, display, name, entry, layer)
    return config.replaced(written, variants)


def require_named(written: Document, folder: str) -> None:
    """Refuse a recipe that is found by its folder's name and calls itself another.

    Its image and module would be taken for the other's. Raises ConfigError with the place.
    """
    name = written.data.get("name")
    if isinstance(name, str) and name != folder:
        raise ConfigError(
            f"name: {name!r}, but the recipe's folder is {folder!r}",
            where=written.origin(("name",)).where,
            why="images and modules use the recipe's name, and commands find the recipe by "
            "its folder",
            next_step=f"write `name: {folder}`, or rename the folder",
        )


def _variant_file(path: Path, display: str, name: str, entry: Document, layer: str) -> Document:
    file, where = str(entry.data["file"]), entry.origin(("file",)).where
    if len(entry.data) > 1:
        raise ConfigError(
            f"variants.{name}.file: no other key is allowed beside it; write the variant's "
            "other keys in that file",
            where=where,
        )
    place = (path.parent / file).resolve()
    if not place.is_relative_to(path.parent.resolve()) or not place.is_file():
        raise ConfigError(f"variants.{name}.file: no file {file!r} beside the recipe", where=where)
    return config.load(place, layer=layer, display=str(PurePath(display).parent / file))

"""The record of a build, beside its image: what was built, from what. JSON.

One model and one reader: whatever of a record becomes a path, a name or a command has the type that
says so. A record says more than the model holds: the rest is for people, and for `inspect`.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from dlcontainer.config.field_types import (
    Command,
    Digest,
    EnvName,
    ImagePath,
    Line,
    MpiFamily,
    Name,
    Sha256,
    Strict,
    Url,
    Version,
)
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files
from dlcontainer.system.guarded_files import Owners

SCHEMA = "dlcontainer/record/1"
MOST_BYTES = 16_000_000


class _RecordPart(Strict):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class ImageIdentity(_RecordPart):
    """The image's SHA-256 and size in bytes; of one in an engine's store its id and layers."""

    sha256: Sha256
    size: int = Field(ge=0, lt=1 << 63)


class BaseProvenance(_RecordPart):
    """The base: a root tree, and when it was made; or an image of a registry, by its digest.

    Of an image that was extended: the SHA-256 of its file, and the path that it had.
    """

    sha256: Line | None = None
    path: Line | None = None
    made: Line | None = None
    image: Line | None = None
    digest: Line | None = None


class CacheProvenance(_RecordPart):
    """A step's result that a build took from a cache, and when it was made."""

    made: Line


class StepProvenance(_RecordPart):
    """A step of the recipe's."""

    name: Line
    kept: CacheProvenance | None = None


class RefreshProvenance(_RecordPart):
    """When the mirrors were last asked for newer packages (UTC, ISO 8601), of which kind.

    `mirror` has the state of each suite; `steps` the SHA-256 of the packages that a step came to.
    """

    asked_at: Line
    kind: Line
    mirror: tuple[Line, ...] = ()
    steps: dict[Name, Sha256] = Field(default_factory=dict)


class EngineProvenance(_RecordPart):
    """Which engine ran the steps; mksquashfs's settings, and the trace that orders the files."""

    builder: Line = "apptainer"
    squash: tuple[str, ...] | None = None
    order: Line | None = None


class Provenance(_RecordPart):
    """The moment that the image was built for, s since 1970, if one was given."""

    source_date_epoch: int | None = None


class EarlierVerify(_RecordPart):
    """The proof of a parent recipe of the image's own, by the recipe's name."""

    recipe: Name


class VerifyModules(_RecordPart):
    """The modules that prove the image, each with its version, and proofs before its own."""

    imports: dict[Line, Line] = Field(default_factory=dict)
    before: tuple[EarlierVerify, ...] = ()


class ImageMpi(_RecordPart):
    """The image's MPI; of an adopted image its family alone is known."""

    family: MpiFamily
    name: Line | None = None


class StackProvenance(_RecordPart):
    """The image's libraries whose counterparts a host may have, and its code for accelerators."""

    mpi: ImageMpi | None = None
    cuda: Line | None = None
    rocm: Line | None = None
    oneapi: Line | None = None
    gpu_targets: tuple[Line, ...] = ()

    @property
    def has_device_code(self) -> bool:
        """Whether the recipe says of the build that it has code for accelerators."""
        return any((self.cuda, self.rocm, self.oneapi, self.gpu_targets))


class ImageMetadata(_RecordPart):
    """The part of a record that a module and a measurement are made of."""

    # Names and never paths: folders and modules are called so, and the recipe of that name is read.
    name: Name
    version: Version
    summary: Line
    homepage: Url | None = None
    license: Line | None = None
    prefix: ImagePath
    exposes: tuple[Command, ...]
    verify: VerifyModules = VerifyModules.model_construct()
    stack: StackProvenance = StackProvenance.model_construct()


class RecipeProvenance(ImageMetadata):
    """The recipe as it was settled."""

    variant: Name | None = None


class AdoptionRecord(ImageMetadata):
    """An image of somebody else's, its recipe unknown; all of it was read from its files.

    `digest` is that of the manifest in a registry or an archive, or of the SIF file.
    """

    source: Line
    digest: Digest
    python: ImagePath
    glibc: Line | None = None


class ExtensionBase(_RecordPart):
    """The image below a layer: the SHA-256 of its file and of its system partition.

    `digest` is that of its own content, where a record of ours vouched for it.
    """

    name: Name
    version: Version
    sha256: Sha256
    tree_sha256: Sha256
    digest: Sha256 | None = None


class ExtensionRecord(ImageMetadata):
    """An image with a layer of packages over it that is no recipe's."""

    python: ImagePath
    glibc: Line | None = None
    base: ExtensionBase


class ImageContent(_RecordPart):
    """All that makes the image: a recipe's plan, an image that was adopted, or one extended."""

    site: Name
    epoch: Name | None = None
    node_type: Name | None = None
    recipe: RecipeProvenance | None = None
    adopted: AdoptionRecord | None = None
    extended: ExtensionRecord | None = None
    environment: dict[EnvName, Line] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_origin(self) -> "ImageContent":
        if sum(part is not None for part in (self.recipe, self.adopted, self.extended)) != 1:
            raise ValueError("exactly one of 'recipe', 'adopted' and 'extended' is required")
        return self

    @property
    def offer(self) -> ImageMetadata:
        """What the image offers, whoever made it."""
        offer = self.recipe or self.adopted or self.extended
        assert offer is not None  # noqa: S101 - the model holds no fourth case
        return offer

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else made the image, or the one below its layer: no recipe is known."""
        if self.extended is not None:
            return self.extended.base.digest is None
        return self.adopted is not None

    @property
    def may_have_device_code(self) -> bool:
        """Whether programs in the image may use accelerators; of a foreign one nobody knows."""
        return self.is_foreign or self.offer.stack.has_device_code


class TrustRecord(_RecordPart):
    """Who trusted an adopted image, by its SHA-256, and when."""

    by: Line
    sha256: Sha256
    at: Line


class UnverifiedSource(_RecordPart):
    """The place in a registry that an image came from while nobody's signature was asked for."""

    source: Line
    at: Line


class Record(_RecordPart):
    """What a record says of its image: `digest` is the plan's, `lock` that of the lock file."""

    schema_version: Literal["dlcontainer/record/1"] = Field(alias="schema")
    image: ImageIdentity
    digest: Sha256
    content: ImageContent
    base: BaseProvenance | None = None
    lock: Line | None = None
    engine: EngineProvenance = EngineProvenance.model_construct()
    provenance: Provenance = Provenance.model_construct()
    finished: Line | None = None
    work: tuple[StepProvenance, ...] = ()
    refresh: RefreshProvenance | None = None
    trust: TrustRecord | None = None
    unverified: UnverifiedSource | None = None
    # Who owns the file, where that is neither this user nor anybody known: whatever it says itself.
    stranger: str | None = Field(default=None, exclude=True)

    @property
    def needs_trust(self) -> bool:
        """Return whether the image is somebody else's by its own record, and trusted by nobody."""
        trusted = self.trust is not None and self.trust.sha256 == self.image.sha256
        return not trusted and (self.content.is_foreign or self.unverified is not None)

    @property
    def is_contained(self) -> bool:
        """Return whether the image runs apart from this host: what vouches for it is a
        stranger's.
        """
        return self.stranger is not None or self.needs_trust

    @property
    def came(self) -> str:
        """Return how an image came here that nobody here built."""
        if self.content.adopted is not None:
            return "was adopted"
        if self.content.is_foreign:
            return "was made on an image of others"
        if self.unverified is not None:
            return "was pulled unverified"
        return f"has a record that belongs to {self.stranger}" if self.stranger else "was built"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFile:
    """A record as it was read: its bytes, all that they say, and the model of it."""

    data: bytes
    body: Mapping[str, Any]
    record: Record


def unverified(data: bytes, source: str) -> bytes:
    """Mark a record that a stranger may have written: nobody trusts its image until one says so."""
    mark = {"source": source, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    body = {**foreign_files.loads(data), "trust": None, "unverified": mark}
    return (json.dumps(body, indent=1) + "\n").encode()


def is_same(first: bytes, second: bytes) -> bool:
    """Return whether two records say the same, but for the mark of one that was pulled
    unverified.
    """
    if first == second:
        return True
    try:
        bodies = [foreign_files.loads(data) for data in (first, second)]
    except ValueError:
        return False
    if not all(isinstance(body, dict) for body in bodies) or "unverified" not in bodies[0]:
        return False
    mine, theirs = bodies
    return {**mine, "unverified": None, "trust": None} == {
        **theirs,
        "unverified": None,
        "trust": None,
    }


def beside(image: Path) -> Path:
    """Name the record that belongs to an image; of a link, to the image that it leads to."""
    return (image.resolve() if image.is_symlink() else image).with_suffix(".json")


def copy_too(path: Path) -> str:
    """Return what to do where an image came without its record."""
    return (
        f"save its record beside it as {path.name}: who built the image has it; of a published "
        "module it is record.json in the release's folder (`module help` shows it)"
    )


def read(path: Path, owners: Owners | None = None) -> Record | None:
    """Read what a record says of its image; None where there is none.

    With `owners` a record of anybody else is told apart. Raises ChecksFailedError for one that is
    cut, or of another version.
    """
    file = opened(path, owners)
    return file.record if file else None


def opened(path: Path, owners: Owners | None = None) -> RecordFile | None:
    """Read a record; None where there is none, ChecksFailedError for what is not one."""
    try:
        with foreign_files.opened(path) as file:
            return of_file(file, path, owners)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ChecksFailedError(f"can't read {path}: {error.strerror}") from None


def of_file(file: BinaryIO, path: Path, owners: Owners | None = None) -> RecordFile:
    """Read a record from an open file; raises OSError, and ChecksFailedError for what is none."""
    data = foreign_files.content(file, MOST_BYTES)
    try:
        body = foreign_files.loads(data)
    except UnicodeDecodeError:
        raise ChecksFailedError(f"can't read {path}: it is not UTF-8") from None
    except ValueError as error:
        raise _unfit(path, f"invalid record: incomplete JSON: {error}") from None
    if not isinstance(body, dict):
        raise _unfit(path, "invalid record: not a JSON object")
    if body.get("schema", SCHEMA) != SCHEMA:
        raise ChecksFailedError(
            f"{path} has version {_shown(body['schema'])}, but this dlcontainer reads {SCHEMA}",
            next_step="build the image again, or use the dlcontainer that made it",
        )
    try:
        record = Record.model_validate_json(data)
    except ValidationError as error:
        raise _unfit(path, _unusable(error)) from None
    stranger = owners.stranger(os.fstat(file.fileno()).st_uid) if owners is not None else None
    return RecordFile(data=data, body=body, record=record.model_copy(update={"stranger": stranger}))


def _unusable(error: ValidationError) -> str:
    """Return one line that says what of a record is missing or wrong."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"incomplete record: {key!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    return f"invalid record: {key}: {message[:200]}"


def _shown(value: object) -> str:
    """Show a value of a record in a message: short, and nothing that a terminal would obey."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unfit(path: Path, why: str) -> ChecksFailedError:
    return ChecksFailedError(
        f"{path}: {why}",
        next_step="copy it again from the folder of the build; if it is damaged there too, build "
        "again",
    )

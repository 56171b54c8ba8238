"""The lock: which packages a plan comes to, exactly, with checksums; a file that diffs well."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote

from pydantic import Field, ValidationError, field_validator, model_validator

from dlcontainer.config.field_types import Arch, Identifier, Line, Name, Strict, is_apt_mark
from dlcontainer.errors import ConfigError
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, foreign_files

SCHEMA = "dlcontainer/lock/1"
MOST_BYTES = 64_000_000

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# They become names of files: nothing that leads elsewhere.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+:~_-]*$")]
_SEPARATORS = re.compile(r"[-_.]+")
WheelFile = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl$")]


class OsPin(Strict):
    """An OS package; `arch` as the distribution names it, size in bytes."""

    name: Word
    version: Word
    arch: Word
    sha256: Sha256
    size: int = Field(ge=0, lt=1 << 63)

    @field_validator("name")
    @classmethod
    def _no_removal(cls, name: str) -> str:
        # A '+' may be a name's own (ncbi-blast+): here its version always stands beside it.
        if name.endswith("-"):
            raise ValueError(f"apt reads a '-' at the end as 'remove this package': {name!r}")
        return name

    @property
    def file(self) -> str:
        """Name of its file, as apt names it: the epoch's colon is quoted."""
        return f"{self.name}_{quote(self.version, safe='+~.-')}_{self.arch}.deb".replace(
            "%3A", "%3a"
        )


class WheelPin(Strict):
    """A Python package: the wheel that is taken for the image's Python and architecture."""

    name: Word
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]*$")]
    file: WheelFile
    sha256: Sha256

    @model_validator(mode="after")
    def _file_is_of_that_name(self) -> Self:
        # A wheel's file begins with its name, whose '-', '_' and '.' are one (binary distribution
        # format: "Escaping and Unicode").
        first = self.file.partition("-")[0]
        if _SEPARATORS.sub("-", first).lower() != _SEPARATORS.sub("-", self.name).lower():
            raise ValueError(f"{self.file} is not a wheel of {self.name}")
        return self


class SourcePin(Strict):
    """An archive that a recipe names as an upstream, with its checksum."""

    name: Identifier
    sha256: Sha256


class MirrorRelease(Strict):
    """A release file of a mirror: which state of the distribution it was."""

    suite: Line
    origin: Line | None = None
    version: Line | None = None
    date: Line | None = Field(default=None, description="as the mirror writes it")
    snapshot: Line | None = Field(default=None, description="time stamp of a snapshot's mirror")


class LockedBase(Strict):
    """What the image starts from: an image's address by digest, or packages of a distribution."""

    image: Line | None = None
    distribution: Name | None = None
    release: Name | None = None
    mirror: tuple[MirrorRelease, ...] = ()
    packages: tuple[OsPin, ...] = ()

    @field_validator("packages")
    @classmethod
    def _no_mark(cls, packages: tuple[OsPin, ...]) -> tuple[OsPin, ...]:
        # The base's packages are given to apt without their versions.
        for pin in packages:
            if is_apt_mark(pin.name):
                raise ValueError(
                    f"apt reads a '+' at the end as 'install this package': {pin.name!r}"
                )
        return packages


class LockedStep(Strict):
    """What a step installs; OS packages with all that they bring along."""

    name: Name
    os_packages: tuple[OsPin, ...] = ()
    python_packages: tuple[WheelPin, ...] = ()

    @property
    def key(self) -> str:
        """SHA-256 of all that the step installs."""
        return _digest(self.model_dump(mode="json"))


class HostParts(Strict):
    """What the image expects of the host it runs on."""

    mpi: Line | None = Field(
        default=None, description="soname of the MPI library that takes the image's place"
    )
    nvidia_driver: Line | None = Field(default=None, description="the least that runs its CUDA")


class Lock(Strict):
    """One plan, one architecture, exactly."""

    schema_: Literal["dlcontainer/lock/1"] = Field(alias="schema")
    name: Line
    plan: Sha256
    recipe: Line
    site: Line
    variant: Line | None = None
    arch: Arch
    python: Line | None = None
    dlcontainer: Line
    made: Line
    base: LockedBase
    steps: tuple[LockedStep, ...] = ()
    sources: tuple[SourcePin, ...] = ()
    host: HostParts = HostParts.model_construct()

    @model_validator(mode="after")
    def _one_file_one_sum(self) -> Self:
        sums: dict[str, str] = {}
        named = [(pin.file, pin.sha256) for pin in self.os_pins]
        named += [(pin.file, pin.sha256) for pin in self.wheels]
        for file, sha256 in named:
            if sums.setdefault(file, sha256) != sha256:
                raise ValueError(f"two checksums for {file}")
        return self

    @property
    def os_pins(self) -> tuple[OsPin, ...]:
        """All OS packages: the base's, then each step's."""
        steps = [pin for step in self.steps for pin in step.os_packages]
        return (*self.base.packages, *steps)

    @property
    def wheels(self) -> tuple[WheelPin, ...]:
        """All Python packages."""
        return tuple(pin for step in self.steps for pin in step.python_packages)

    @property
    def base_key(self) -> str:
        """Name the base that this lock defines: SHA-256 of its packages."""
        return _digest([self.arch, self.base.model_dump(mode="json", exclude={"mirror"})])

    @property
    def digest(self) -> str:
        """SHA-256 of all that is locked; when, by which version, from which mirror is no part."""
        body = self.model_dump(
            mode="json", exclude={"made": True, "dlcontainer": True, "base": {"mirror"}}
        )
        return _digest(body)

    def step_keys(self) -> Mapping[str, str]:
        """Name what each step takes from this lock, for the steps' keys; those that take some."""
        return {
            step.name: step.key for step in self.steps if step.os_packages or step.python_packages
        }

    def require(self, plan: Plan, display: str) -> None:
        """Refuse a plan that this lock is not of; raises ConfigError."""
        next_step = "write a new lock: dlcontainer lock"
        if plan.site.arch != self.arch:
            raise ConfigError(
                f"{display} is for {self.arch}, but site {plan.site.target} is {plan.site.arch}",
                next_step=next_step,
            )
        if plan.digest != self.plan:
            raise ConfigError(
                f"{display} belongs to another plan than {plan.name}",
                why=f"it locks {self.name} with plan {self.plan[:12]}…; this plan is "
                f"{plan.digest[:12]}…",
                next_step=next_step,
            )
        if _image_of(plan) != self.base.image:
            raise ConfigError(
                f"{display} was changed: its base is {self.base.image or 'packages'}",
                why=f"the base of {plan.name} is {_image_of(plan) or 'packages'}",
                next_step=next_step,
            )


def _image_of(plan: Plan) -> str | None:
    reference = plan.recipe.base.reference
    return str(reference) if reference else None


def read(path: Path) -> Lock:
    """Read a lock file; raises ConfigError for one that is cut, edited or of another version."""
    try:
        text = foreign_files.read(path, MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"can't read {path}: {reason}", next_step="write a lock: dlcontainer lock -o FILE"
        ) from None
    return parse(text, str(path))


def parse(text: str, display: str) -> Lock:
    """Read a lock's text; raises ConfigError."""
    next_step = "copy the lock file again, or write a new one: dlcontainer lock"
    try:
        body = foreign_files.loads(text)
    except ValueError as error:
        raise ConfigError(
            "incomplete or damaged lock file", where=display, why=str(error), next_step=next_step
        ) from None
    schema = body.get("schema") if isinstance(body, dict) else None
    if schema != SCHEMA:
        raise ConfigError(
            f"format version {schema!r}; this dlcontainer reads {SCHEMA}",
            where=display,
            next_step=next_step,
        )
    try:
        return Lock.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        where = f"{display}{_line_of(text, first.get('input'))}"
        raise ConfigError(
            f"{key}: {first['msg']}" if key else first["msg"], where=where, next_step=next_step
        ) from None


def _line_of(text: str, value: object) -> str:
    """Return ":LINE" of the first line that holds a text value; nothing for any other value."""
    quoted = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else None
    place = text.find(quoted) if quoted else -1
    return f":{text.count(chr(10), 0, place) + 1}" if place >= 0 else ""


def write(path: Path, lock: Lock) -> None:
    """Write a lock file, whole or not at all; raises ConfigError where it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, as_text(lock))
    except OSError as error:
        raise ConfigError(
            f"can't write {path}: {error.strerror}", next_step="name another path with -o"
        ) from None


def rewrite(path: Path, lock: Lock, before: Lock) -> None:
    """Write a lock in the place of the one that it was made from.

    Raises ConfigError where another command wrote it since: its changes would be lost.
    """
    if read(path).digest != before.digest:
        raise ConfigError(
            "another command wrote the lock in the meantime",
            where=str(path),
            why="its changes would be lost",
            next_step="type the line again: it goes on from there",
        )
    write(path, lock)


def as_text(lock: Lock) -> str:
    """Return a lock as JSON, one package a line: a changed package is a changed line."""
    body = lock.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _set(body, 0) + "\n"


def _set(value: object, depth: int) -> str:
    pad, end = " " * (depth + 1), " " * depth
    if isinstance(value, dict) and (depth == 0 or any(_is_nested(v) for v in value.values())):
        lines = [
            f"{pad}{json.dumps(key)}: {_set(member, depth + 1)}" for key, member in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{end}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(pad + _set(member, depth + 1) for member in value) + f"\n{end}]"
    return json.dumps(value, ensure_ascii=False)


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _digest(value: Sequence[object] | Mapping[str, object]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

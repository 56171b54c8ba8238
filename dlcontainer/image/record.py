"""The build record: what was built, from what, how long it took. JSON beside the image."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ConfigDict, ValidationError

from dlcontainer import __version__
from dlcontainer.build.backends.oci_export import Delivered
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.run_steps import Done
from dlcontainer.config.field_types import Line, Strict
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.base import Outcome
from dlcontainer.engines.capabilities import Trial
from dlcontainer.errors import ChecksFailedError
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.system import foreign_files
from dlcontainer.system.machine import Host

SCHEMA = "dlcontainer/record/1"
MOST_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All that a record is made of; times in s."""

    plan: Plan
    host: Host
    trial: Trial
    image: Path
    base: BaseTree | BaseImage
    text: str
    provenance: Mapping[str, object]
    packages: tuple[Mapping[str, str], ...]
    # the recipe's steps, and what each phase of the build took
    done: tuple[Done, ...]
    steps: tuple[tuple[str, float], ...]
    seconds: float
    # digest of the lock that it was built from
    lock: str | None = None
    # mksquashfs's settings
    squash: tuple[str, ...] = SQUASH
    # digest of the trace that its files are ordered by
    order: str | None = None
    # what was made, and where it went if Docker or Podman built it
    outcome: Outcome = "sif"
    delivered: Delivered | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a record says of its image: SHA-256, size in bytes, the plan's digest, the base's.

    Of an image in an engine's store they are its id and the bytes of its layers. `moment` is the
    SOURCE_DATE_EPOCH that it was built with, `builder` the engine that ran its steps, `packing`
    mksquashfs's settings and the digest of the trace that its files are ordered by.
    """

    sha256: str
    size: int
    digest: str
    base: str | None = None
    lock: str | None = None
    moment: int | None = None
    builder: str = "apptainer"
    packing: tuple[tuple[str, ...], str | None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record as it was read: its bytes, all that it says, and what it says of its image."""

    data: bytes
    body: Mapping[str, Any]
    written: Written


class _Loose(Strict):
    """What is read of a record; it says more than that."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Image(_Loose):
    sha256: Line
    size: int


class _Base(_Loose):
    sha256: Line | None = None


class _Engine(_Loose):
    builder: Line = "apptainer"
    squash: list[str] | None = None
    order: Line | None = None


class _Provenance(_Loose):
    source_date_epoch: int | None = None


class _Body(_Loose):
    image: _Image
    digest: Line
    base: _Base | None = None
    lock: Line | None = None
    engine: _Engine | None = None
    provenance: _Provenance = _Provenance()


def write(path: Path, facts: Facts) -> Written:
    """Write the record of a finished image."""
    plan, base = facts.plan, facts.base
    sha256, size = _measured(facts)
    builder = facts.delivered.engine.partition(" ")[0] if facts.delivered else "apptainer"
    body = {
        "schema": SCHEMA,
        "dlcontainer": __version__,
        "image": {"file": file_name(plan, facts.outcome), "sha256": sha256, "size": size},
        "oci": asdict(facts.delivered) if facts.delivered else None,
        "digest": plan.digest,
        "content": plan.content,
        "text_sha256": hashlib.sha256(facts.text.encode()).hexdigest(),
        "lock": facts.lock,
        "base": _base(base),
        "engine": {"builder": builder, **_engine(facts)},
        "built_on": {
            "arch": facts.host.arch,
            "distribution": facts.host.distribution,
            "release": facts.host.release,
            "kernel": facts.host.kernel,
        },
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(facts.seconds, 1),
        "steps": [{"name": name, "seconds": seconds} for name, seconds in facts.steps],
        "work": [_step(one) for one in facts.done],
        # The plan stands above already.
        "provenance": {key: value for key, value in facts.provenance.items() if key != "plan"},
        "python_packages": list(facts.packages),
    }
    path.write_text(json.dumps(body, indent=1) + "\n")
    return Written(
        sha256=sha256,
        size=size,
        digest=plan.digest,
        base=base.sha256 if isinstance(base, BaseTree) else None,
        lock=facts.lock,
        builder=builder,
        packing=(facts.squash, facts.order),
    )


def _engine(facts: Facts) -> dict[str, object]:
    trial = facts.trial
    return {
        "version": trial.version,
        "mode": trial.build_mode,
        "squash": list(facts.squash),
        "order": facts.order,
    }


def file_name(plan: Plan, outcome: Outcome) -> str | None:
    """Name an image's file; None for what stays in an engine's store."""
    names = {"sif": f"{plan.name}.sif", "docker-archive": f"{plan.name}.docker-archive.tar"}
    return names.get(outcome)


def _measured(facts: Facts) -> tuple[str, int]:
    if facts.outcome == "image" and facts.delivered:
        return facts.delivered.id.removeprefix("sha256:"), facts.delivered.size
    with facts.image.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return sha256, facts.image.stat().st_size


def _step(done: Done) -> dict[str, object]:
    kept = done.kept
    return {
        "name": done.step.name,
        "key": done.step.key,
        "seconds": done.seconds,
        "kept": {"maker": kept.maker, "made": kept.made} if kept else None,
    }


def _base(base: BaseTree | BaseImage) -> dict[str, str | None]:
    if isinstance(base, BaseTree):
        return {"sha256": base.sha256, "made": base.made}
    return {
        "image": base.name,
        "tag": base.tag,
        "digest": base.digest,
        "platform_digest": base.platform_digest,
    }


def beside(image: Path) -> Path:
    """Name the record that belongs to an image; of a link, to the image that it leads to."""
    return (image.resolve() if image.is_symlink() else image).with_suffix(".json")


def read(path: Path) -> Written | None:
    """Read what a record says of its image; None where there is none.

    Raises ChecksFailedError for one that is cut, or of another version.
    """
    there = opened(path)
    return there.written if there else None


def opened(path: Path) -> Record | None:
    """Read a record; None where there is none, ChecksFailedError for what is not one."""
    try:
        with foreign_files.opened(path) as file:
            return of_file(file, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ChecksFailedError(f"can't read {path}: {error.strerror}") from None


def of_file(file: BinaryIO, path: Path) -> Record:
    """Read a record from an open file; raises OSError, and ChecksFailedError for what is none."""
    data = foreign_files.content(file, MOST_BYTES)
    try:
        body = foreign_files.loads(data)
    except UnicodeDecodeError:
        raise ChecksFailedError(f"can't read {path}: it is not UTF-8") from None
    except ValueError as error:
        raise _unfit(path, f"invalid record: not whole JSON: {error}") from None
    if not isinstance(body, dict):
        raise _unfit(path, "invalid record: not a JSON object")
    if body.get("schema", SCHEMA) != SCHEMA:
        raise ChecksFailedError(
            f"{path} is of the version {shown(body['schema'])}, this dlcontainer reads {SCHEMA}",
            next_step="build the image again, or use the dlcontainer that made it",
        )
    if "schema" not in body:
        raise _unfit(path, "incomplete record: 'schema' is missing")
    try:
        said = _Body.model_validate(body)
    except ValidationError as error:
        raise _unfit(path, unusable(error)) from None
    return Record(data=data, body=body, written=_written(said))


def _written(said: _Body) -> Written:
    engine = said.engine or _Engine()
    return Written(
        sha256=said.image.sha256,
        size=said.image.size,
        digest=said.digest,
        base=said.base.sha256 if said.base else None,
        lock=said.lock,
        moment=said.provenance.source_date_epoch,
        builder=engine.builder,
        packing=(tuple(engine.squash or ()), engine.order),
    )


def unusable(error: ValidationError) -> str:
    """Say in one line what of a record is missing or wrong."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"incomplete record: {key!r} is missing"
    said = first["msg"].removeprefix("Value error, ")
    return f"invalid record: {key}: {said[:200]}"


def shown(value: object) -> str:
    """Show a value of a record in a message: short, and nothing that a terminal would obey."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unfit(path: Path, why: str) -> ChecksFailedError:
    return ChecksFailedError(f"{path}: {why}", next_step="build the image again")

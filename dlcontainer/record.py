"""The build record: what was built, from what, how long it took. JSON beside the image."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dlcontainer import __version__
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.base import Outcome
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import ChecksFailedError
from dlcontainer.growing import Done
from dlcontainer.machine import Host
from dlcontainer.ociroutes import Delivered
from dlcontainer.plan import Plan
from dlcontainer.registry.check import BaseImage
from dlcontainer.rootfs import BaseTree

SCHEMA = "dlcontainer/record/1"


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


def _packing(engine: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    order = engine.get("order")
    return tuple(map(str, engine.get("squash") or ())), None if order is None else str(order)


def beside(image: Path) -> Path:
    """Name the record that belongs to an image."""
    return image.with_suffix(".json")


def read(path: Path) -> Written | None:
    """Read a record; None where there is none.

    Raises ChecksFailedError for one that is cut, or of another version.
    """
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ChecksFailedError(f"can't read {path}: {error}") from None
    try:
        body = json.loads(text)
        if body["schema"] != SCHEMA:
            raise ChecksFailedError(
                f"{path} is of the version {body['schema']!r}, this dlcontainer reads {SCHEMA}",
                next_step="build the image again, or use the dlcontainer that made it",
            )
        return Written(
            sha256=body["image"]["sha256"],
            size=body["image"]["size"],
            digest=body["digest"],
            base=(body.get("base") or {}).get("sha256"),
            lock=body.get("lock"),
            moment=body.get("provenance", {}).get("source_date_epoch"),
            builder=(body.get("engine") or {}).get("builder", "apptainer"),
            packing=_packing(body.get("engine") or {}),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ChecksFailedError(
            f"{path} is no whole record: {error}", next_step="build the image again"
        ) from None

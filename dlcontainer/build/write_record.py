"""Write the record of a build: what was built, from what, how long it took."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.build.backends.oci_export import ExportedImage
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.run_steps import StepResult
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import Outcome
from dlcontainer.image.record import SCHEMA, Record, RefreshProvenance
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.system import digests
from dlcontainer.system.machine import HostMachine


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFacts:
    """All that a record is made of; times in s."""

    plan: Plan
    host: HostMachine
    trial: EngineCapabilities
    image: Path
    base: BaseTree | BaseImage
    text: str
    provenance: Mapping[str, object]
    packages: tuple[Mapping[str, str], ...]
    # the recipe's steps, and what each phase of the build took
    done: tuple[StepResult, ...]
    steps: tuple[tuple[str, float], ...]
    seconds: float
    # digest of the lock that it was built from
    lock: str | None = None
    refreshed: RefreshProvenance | None = None
    # mksquashfs's settings
    squash: tuple[str, ...] = SQUASH
    # digest of the trace that its files are ordered by
    order: str | None = None
    # what was made, and where it went if Docker or Podman built it
    outcome: Outcome = "sif"
    delivered: ExportedImage | None = None


def write(path: Path, facts: BuildFacts) -> Record:
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
        "refresh": facts.refreshed.model_dump(mode="json") if facts.refreshed else None,
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
        "work": [_step(step) for step in facts.done],
        # The plan stands above already.
        "provenance": {key: value for key, value in facts.provenance.items() if key != "plan"},
        "python_packages": list(facts.packages),
    }
    text = json.dumps(body, indent=1) + "\n"
    path.write_text(text)
    return Record.model_validate_json(text)


def _engine(facts: BuildFacts) -> dict[str, object]:
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


def _measured(facts: BuildFacts) -> tuple[str, int]:
    if facts.outcome == "image" and facts.delivered:
        return facts.delivered.id.removeprefix("sha256:"), facts.delivered.size
    return digests.of_file(facts.image), facts.image.stat().st_size


def _step(done: StepResult) -> dict[str, object]:
    kept = done.kept
    return {
        "name": done.step.name,
        "key": done.step.key,
        "seconds": done.seconds,
        "kept": {"maker": kept.maker, "made": kept.made_at} if kept else None,
    }


def _base(base: BaseTree | BaseImage) -> dict[str, str | None]:
    if isinstance(base, BaseTree):
        return {"sha256": base.sha256, "made": base.made_at}
    return {
        "image": base.name,
        "tag": base.tag,
        "digest": base.digest,
        "platform_digest": base.platform_digest,
    }

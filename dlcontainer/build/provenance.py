"""Provenance: of what an image was made, with what; no secret, no path of this host, no clock."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import find_program, source_date
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
)

SCHEMA = "dlcontainer/provenance/1"
# Facts of a site that say what an image was made for. Not its paths, modules, binds or routing.
_SITE = ("arch", "os", "cpu", "memory", "accelerator", "network")
_MPI = ("family", "mode", "name", "version", "soname")
# Beside the engine; each prints its version in the first line.
_TOOLS = {"mmdebstrap": "--version", "mksquashfs": "-version"}
_TIMEOUT_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSources:
    """What a plan alone does not tell: `base` and `lock` are SHA-256, `engine` is its version."""

    text: str
    base: str | None
    engine: str
    lock: str | None
    runner: Runner
    environ: Mapping[str, str]


def gather(plan: Plan, sources: BuildSources) -> dict[str, object]:
    """Return the materials and the tools that an image is made of and with."""
    return {
        "schema": SCHEMA,
        "plan": {"digest": plan.digest, "content": plan.content},
        "site": _site(plan),
        "recipe": {"name": plan.recipe.name, "git": checkout(plan.folder, sources)},
        "base": {"sha256": sources.base, "image": plan.recipe.base.image},
        "lock": {"sha256": sources.lock} if sources.lock else None,
        "text": {
            "sha256": hashlib.sha256(sources.text.encode()).hexdigest(),
            "rendered": sources.text,
        },
        "tools": {"dlcontainer": __version__, "engine": sources.engine, **_tools(sources)},
        "source_date_epoch": source_date(sources.environ),
    }


def render(body: Mapping[str, object]) -> str:
    """Write it as JSON: the same facts, the same bytes."""
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


def checkout(folder: Path, sources: BuildSources) -> dict[str, object] | None:
    """Return the last git commit that changed a folder; `dirty`: something in it
    differs from that.

    Not the checkout's HEAD: a commit elsewhere makes no other image. None where no commit holds
    the folder, or git can't tell.
    """
    program = find_program("git", sources.environ)
    if program is None:
        return None
    # No lock is taken and no program that the checkout's own configuration names is started.
    head = [str(program), "-c", "core.fsmonitor=false", "--no-optional-locks", "-C", str(folder)]
    commit = _said([*head, "log", "-1", "--format=%H", "--", "."], sources)
    status = _said([*head, "status", "--porcelain", "--ignored", "--", "."], sources)
    if not commit or not commit.strip() or status is None:
        return None
    return {"commit": commit.strip(), "dirty": bool(status.strip())}


def _site(plan: Plan) -> dict[str, object]:
    site = plan.site.model_dump(mode="json", exclude_none=True, include=set(_SITE))
    for facts in site.values():
        if isinstance(facts, dict):
            facts.pop("sources", None)
            facts.pop("remembered", None)
    if plan.site.mpi is not None:
        site["mpi"] = plan.site.mpi.model_dump(mode="json", exclude_none=True, include=set(_MPI))
    return {
        "name": plan.site.name,
        "epoch": plan.site.epoch,
        "node_type": plan.site.node_type,
        **site,
    }


def _tools(sources: BuildSources) -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name, option in _TOOLS.items():
        program = find_program(name, sources.environ)
        version = _said([str(program), option], sources, check=False) if program else None
        versions[name] = version.strip().partition("\n")[0] if version else None
    return versions


def _said(argv: list[str], sources: BuildSources, *, check: bool = True) -> str | None:
    kept = {name: sources.environ[name] for name in ("HOME", "PATH") if name in sources.environ}
    env = {"PATH": os.defpath, **kept, "LC_ALL": "C"}
    try:
        # mksquashfs ends with 1 after it has said its version.
        return sources.runner(argv, env=env, check=check, timeout=_TIMEOUT_S).stdout
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        return None

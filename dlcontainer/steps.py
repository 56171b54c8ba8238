"""The steps of a plan as work: what each runs and takes, and the key of its result. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.formats import commands, labels
from dlcontainer.plan import IMAGE_FOLDER, PROBE_FOLDER, Plan

VERIFY = f"{IMAGE_FOLDER}/verify.py"

# Raise it when the same work comes to another result: what caches hold is then not used.
_MAKER = 1

# What every script begins with: the umask of the files that it makes, no questions, the way out.
HEAD = (
    "set -eu\n"
    "umask 022\n"
    "export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root\n"
    f"if [ -r {commands.ROUTING_SCRIPT} ]; then . {commands.ROUTING_SCRIPT}; fi\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepWork:
    """One step: files that go in first, then a script for `/bin/sh`, run as the image's root.

    `key` names the result: the same key, the same tree. It comes of the script, the content of
    the files, and the parent's key, down to the base, the architecture and the engine.
    """

    name: str
    number: int
    total: int
    script: str
    # (file or folder of the host, path in the image)
    files: tuple[tuple[Path, str], ...]
    key: str


def root_key(base: str, arch: str, engine: str) -> str:
    """Name what the first step starts from: the base's digest, the architecture, the engine."""
    return _digest({"maker": _MAKER, "base": base, "arch": arch, "engine": engine})


def work(plan: Plan, staged: Path, root: str) -> list[StepWork]:
    """List the steps of a plan in their order; `root` is the key of what the first starts from.

    `staged` is the folder that `formats.context.stage` filled. The last step puts in what
    describes the image to itself: it changes with every plan, and is quick.
    """
    blocks = {block.name: block for block in commands.image_blocks(plan)}
    digests = _digests(plan)
    own = dict(labels.image_files(plan))
    later = {labels.MANIFEST: "manifest.json"} | {
        target: name for name, target in own.items() if target in (VERIFY, PROBE_FOLDER)
    }
    names = {target: name for name, target in own.items() if target not in later}
    parts: list[tuple[str, str, Mapping[str, str]]] = []
    for step in plan.recipe.steps:
        block = blocks.pop(step.name, None)
        files = {target: names[target] for target in sorted(step.files.values())}
        if block or files:
            parts.append((step.name, _script(block), files))
    clean = blocks.pop("clean")
    parts += [(name, _script(block), {}) for name, block in blocks.items()]
    parts.append(("image", _script(clean), dict(sorted(later.items()))))
    steps: list[StepWork] = []
    key = root
    for number, (name, script, taken) in enumerate(parts, start=1):
        inputs = {target: digests[target] for target in taken}
        key = _digest({"parent": key, "script": script, "files": inputs})
        steps.append(
            StepWork(
                name=name,
                number=number,
                total=len(parts),
                script=script,
                files=tuple((staged / "files" / source, to) for to, source in taken.items()),
                key=key,
            )
        )
    return steps


def _script(block: commands.Block | None) -> str:
    return HEAD + "\n".join(block.commands if block else ()) + "\n"


def _digests(plan: Plan) -> dict[str, str]:
    manifest = hashlib.sha256(labels.manifest(plan).encode()).hexdigest()
    probe = _digest({entry.target: entry.sha256 for entry in plan.probe})
    files = {entry.target: entry.sha256 for entry in plan.files}
    return {**files, labels.MANIFEST: manifest, PROBE_FOLDER: probe}


def _digest(value: Mapping[str, object]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

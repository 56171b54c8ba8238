"""The steps of a plan as work: what each runs and takes, and the key of its result."""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.config.templating import quote
from dlcontainer.formats import labels, pack_commands, step_commands, step_environment
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.system.progress import phase_line

# Raise it when the same work comes to another result: what caches hold is then not used.
_MAKER = 1

# In the routing's folder, while a step runs.
_SCRIPT = "step.sh"
_FILES = "step-files"

# Commands that take a while -> what a reader sees meanwhile. They come from `formats`: the first
# that fits counts; a snippet of a recipe has whatever words it likes.
_PHASES = tuple(
    (re.compile(pattern), phase)
    for pattern, phase in (
        (r"<<'SLIM'\n", "remove what is not needed"),
        (r"\n", "the recipe's own commands"),
        (r"^\S+ -m pip install ", "pip looks for the packages"),
        (r"^\S+ -m pip check$", "pip checks what fits what"),
        (r"^\S+ (-m compileall|-c 'import sys; from compileall) ", "compile byte code"),
        (r" -m venv ", "make the Python environment"),
        (r"^(apt-get update|zypper .*refresh)$", "read the package lists"),
        (r"^(apt-get|dnf|yum|zypper) (\S+ )?install ", "install OS packages"),
        (r"apt-get purge ", "remove the packages that only the step needed"),
        (r"micromamba", "install conda packages"),
        (rf"/{pack_commands.WRITER} ", "pack the modules"),
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """One step: files that go in first, then a script for `/bin/sh`, run as the image's root.

    `key` names the result: the same key, the same tree. It is made of the commands, the variables
    that it sets, the content of the files, and the parent's key, down to the base, the
    architecture and the engine.
    """

    name: str
    number: int
    total: int
    script: str
    # (file or folder of the host, path in the image)
    files: tuple[tuple[Path, str], ...]
    # what the key is made of beside the parent's: the SHA-256 of the script, of the variables that
    # its first lines set, and of each file
    inputs: Mapping[str, str]
    key: str


def root(base: str, arch: str, engine: str) -> dict[str, str]:
    """Name what the first step starts from: the base's digest, the architecture, the engine."""
    return {"base": base, "architecture": arch, "engine": engine, "maker of steps": str(_MAKER)}


def work(
    plan: Plan,
    staged: Path,
    root: Mapping[str, str],
    pins: Mapping[str, Mapping[str, str]] | None = None,
) -> list[BuildStep]:
    """List the steps of a plan in their order; `root` is what the first starts from.

    `pins` names the packages that a lock or a refresh gives each step (`BuildContext.pins`).
    `staged` is the folder that `formats.context.stage` filled. The last step puts in what
    describes the image to itself: it changes with every plan, and is quick.
    """
    blocks = {block.name: block for block in step_commands.image_blocks(plan)}
    digests = _digests(plan)
    variables = dict(labels.image_files(plan))
    later = {layout.MANIFEST: "manifest.json"} | {
        target: name
        for name, target in variables.items()
        if target in (layout.VERIFY, layout.PROBE, *plan.earlier_proofs)
    }
    names = {target: name for name, target in variables.items() if target not in later}
    parts: list[tuple[str, step_commands.CommandBlock | None, Mapping[str, str]]] = []
    for step in plan.recipe.steps:
        block = blocks.pop(step.name, None)
        files = {target: names[target] for target in sorted(step.files.values())}
        if block or files:
            parts.append((step.name, block, files))
    clean = blocks.pop("clean")
    # The probe writes the pack: it goes in with that step, and not with the last one.
    probe = {layout.PROBE: later.pop(layout.PROBE)} if pack_commands.STEP in blocks else {}
    parts += [
        (name, block, probe if name == pack_commands.STEP else {}) for name, block in blocks.items()
    ]
    parts.append(("image", clean, dict(sorted(later.items()))))
    steps: list[BuildStep] = []
    key, head = _digest(root), step_environment.script_head(plan)
    for number, (name, block, taken) in enumerate(parts, start=1):
        lines = block.commands if block else ()
        commands = "\n".join(lines) + "\n"
        inputs = {"script": _sha256(commands), "environment": _sha256(head)}
        inputs |= {target: digests[target] for target in taken}
        inputs |= pins.get(name, {}) if pins else {}
        key = _digest({"parent": key, **inputs})
        steps.append(
            BuildStep(
                name=name,
                number=number,
                total=len(parts),
                script=head + _announced(lines),
                files=tuple((staged / "files" / source, to) for to, source in taken.items()),
                inputs=inputs,
                key=key,
            )
        )
    return steps


@contextlib.contextmanager
def laid_out(step: BuildStep, folder: Path) -> Iterator[str]:
    """Lay a step's files and script out in a folder that is bound at the routing's place.

    Gives the script's path in the image. The files are copied inside the image, where a link of
    the tree leads nowhere else.
    """
    script, files = folder / _SCRIPT, folder / _FILES
    files.mkdir()
    lines = []
    for number, (source, target) in enumerate(step.files):
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, files / str(number))
        inside = f"{layout.ROUTING_FOLDER}/{_FILES}/{number}"
        lines.append(f"mkdir -p {quote(target.rpartition('/')[0] or '/')}")
        lines.append(f"rm -rf {quote(target)}")
        lines.append(f"cp -R {inside} {quote(target)}")
    # What has no key is no step of the plan, and no news.
    news = f"==> step {step.number}/{step.total} {step.name}"
    head = [f"echo {quote(news)}"] if step.key else []
    script.write_text("\n".join(["set -eu", "umask 022", *head, *lines, step.script]))
    try:
        yield f"{layout.ROUTING_FOLDER}/{_SCRIPT}"
    finally:
        script.unlink(missing_ok=True)
        shutil.rmtree(files, ignore_errors=True)


def _phase(command: str) -> str | None:
    """Name what a command of `formats.step_commands` does, if it takes a while."""
    return next((phase for pattern, phase in _PHASES if pattern.search(command)), None)


def _announced(commands: Sequence[str]) -> str:
    """Join a step's commands, each that takes a while behind a line that says its phase."""
    lines = []
    for command in commands:
        phase = _phase(command)
        if phase is not None:
            lines.append(f"echo {quote(phase_line(phase))}")
        lines.append(command)
    return "\n".join(lines) + "\n"


def _digests(plan: Plan) -> dict[str, str]:
    manifest = _sha256(labels.manifest(plan))
    probe = _digest({entry.target: entry.sha256 for entry in plan.probe})
    files = {entry.target: entry.sha256 for entry in plan.files}
    return {**files, layout.MANIFEST: manifest, layout.PROBE: probe}


def _digest(value: Mapping[str, object]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _sha256(text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""The native twin: the recipe's versions installed on this host, made once and kept."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.errors import BuildError
from dlcontainer.formats import build_context, texts
from dlcontainer.image import layout
from dlcontainer.packages import routing
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files, file_locks, foreign_files, guarded_files
from dlcontainer.system.process import CommandFailedError

# Of this process's environment, what the script gets beside the routing.
_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER")
_LAST_LINES = 12


# Of a package that a step makes: its folder, what pip noted, libraries that came with it; and its
# programs, by pip's list of its files.
_TAKE = """\
cd "$1"/lib/python3*/site-packages && mkdir -p /mnt/packages /mnt/bin || exit 1
for own in "$2" "$2"-*.dist-info "$2".libs; do
    if [ -e "$own" ]; then cp -R "$own" /mnt/packages/ || exit 1; fi
done
for list in "$2"-*.dist-info/RECORD; do
    [ -r "$list" ] || continue
    sed -n 's|^[.][.]/[.][.]/[.][.]/bin/\\([^/,]*\\),.*|\\1|p' "$list" |
        while IFS= read -r own; do cp "$1/bin/$own" /mnt/bin/ || exit 1; done || exit 1
done
test -e "/mnt/packages/$2"
"""
_BUILDS = "DLC_IMAGE_BUILDS"
# A program names its Python in its first line.
_GIVEN = """\
image={image}
site=$("$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cp -R "${variable}"/packages/. "$site"/
for own in "${variable}"/bin/*; do
    [ -e "$own" ] || continue
    sed "1s|^#!/.*/python[0-9.]*$|#!$prefix/bin/python|" "$own" > "$prefix/bin/${{own##*/}}"
    chmod 755 "$prefix/bin/${{own##*/}}"
done
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBuilds:
    """What steps of a recipe compile, taken from an image: a twin's own build has other bits."""

    names: tuple[str, ...]
    subject: BenchImage

    def plan(self, plan: Plan) -> Plan:
        """Return a plan whose twin makes none of them itself."""
        path = _GIVEN.format(image=self.subject.sha256, variable=_BUILDS)
        steps = tuple(
            step.model_copy(update={"shell": path, "build_packages": ()})
            if step.name in self.names
            else step
            for step in plan.recipe.steps
        )
        return replace(plan, recipe=plan.recipe.model_copy(update={"steps": steps}))

    def take(self, context: BenchContext, folder: Path) -> None:
        """Copy them out of the image; raises BuildError."""
        execution, folder = context.execution, folder.resolve()
        folder.mkdir(mode=0o700)
        for name in self.names:
            spec = RunSpec(
                image=self.subject.image,
                argv=("/bin/sh", "-c", _TAKE, "sh", self.subject.prefix, name),
                mode=execution.run_mode,
                binds=((folder, "/mnt"),),
            )
            try:
                execution.runner(
                    execution.engine.run_argv(spec),
                    env=apptainer.environment(execution.host.environ, tmpdir=context.work),
                )
            except CommandFailedError as error:
                raise BuildError(
                    f"the build of {name} can't be copied out of {self.subject.image.name}",
                    why=" ".join(error.completed.stderr.split())[-400:] or str(error),
                    next_step="use --arms unpacked,container",
                ) from None


def prepare(plan: Plan, context: BenchContext, builds: ImageBuilds | None = None) -> Path:
    """Return the prefix of a plan's native twin: the kept one, or a new one.

    With `builds` it has the image's own builds of these. Raises BuildError with the script's last
    lines.
    """
    plan = builds.plan(plan) if builds else plan
    text = texts.text(plan, "native", list(context.templates))
    digest = _digest(text, plan)
    execution, recipe = context.execution, plan.recipe
    folder = execution.cache / "twins" / f"{recipe.name}-{recipe.version}-{digest[:12]}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tree, note = folder / "tree", folder / "ready.json"
    waiting = "another session is making this twin: waiting for it"
    with file_locks.in_turn(folder, execution.progress.note, waiting):
        if _is_ready(note, digest) and (tree / "bin/python").exists():
            execution.progress.note(f"native twin {digest[:12]}… taken from the cache")
            return tree
        # A virtual environment can't be moved: it is made in its place, and the note comes last.
        note.unlink(missing_ok=True)
        shutil.rmtree(tree, ignore_errors=True)
        _make(plan, context, text, tree, builds)
        stamp = {"digest": digest, "plan": plan.digest}
        atomic_files.write(note, json.dumps(stamp) + "\n", mode=0o600)
    return tree


def _digest(text: str, plan: Plan) -> str:
    # Comments name the plan, which changes with what no twin holds.
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    proofs = (layout.VERIFY, *plan.earlier_proofs)
    sums = [entry.sha256 for entry in plan.files if entry.target in proofs]
    body = "\n".join([*lines, *sums])
    return hashlib.sha256(body.encode()).hexdigest()


def _is_ready(note: Path, digest: str) -> bool:
    try:
        return bool(foreign_files.loads(guarded_files.read_own(note))["digest"] == digest)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(
    plan: Plan, context: BenchContext, text: str, tree: Path, builds: ImageBuilds | None
) -> None:
    execution = context.execution
    execution.progress.step("make the native twin (once; kept in the cache)")
    work = Path(tempfile.mkdtemp(prefix="twin-", dir=context.work))
    routed = work / "routing"
    routed.mkdir(mode=0o700)
    variables, notes = routing.for_host(plan, execution.host, routed)
    for note in notes:
        execution.progress.note(note)
    script = build_context.write(plan, "native", text, f"{work / 'script'}/")
    environment = {}
    if builds:
        builds.take(context, work / "builds")
        environment = {_BUILDS: str(work / "builds")}
    kept = {name: execution.host.environ[name] for name in _KEPT if name in execution.host.environ}
    log = tree.with_name("twin.log")
    log.unlink(missing_ok=True)
    try:
        execution.runner(
            ["/bin/sh", str(script), str(tree)],
            env=kept | variables | environment,
            on_line=execution.progress.line,
            log=log,
        )
    except CommandFailedError as error:
        last = [line for line in error.completed.stdout.splitlines() if line.strip()]
        raise BuildError(
            f"the native twin of {plan.name} could not be made",
            why="\n" + "\n".join(f"    {line[:200]}" for line in last[-_LAST_LINES:]),
            next_step=f"read {log}, or give your own native installation: --native FOLDER",
        ) from None

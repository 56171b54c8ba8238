"""The scripts of a job session: the site's own job script for each arm, and the frame around it.

Both arms are the script that `render --format job` writes. Where the container's starts the engine,
the native one puts the native tree's `bin` first on PATH. In both a clock stands before that on
each rank, so that the engine's own start is inside of what is measured.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.job_records import Side, StepDeclaration
from dlcontainer.bench.job.stamps import BEGAN, ENDED
from dlcontainer.bench.job.step_events import EVENTS, HOOK, HOOK_FILES
from dlcontainer.bench.job.trace_hook import TraceSchedule
from dlcontainer.config.templating import Text, quote, render_template
from dlcontainer.errors import UsageError
from dlcontainer.formats import host_variables, job, job_forms, job_head
from dlcontainer.formats.runtimes import RuntimeStart
from dlcontainer.planning.launch import refused_variables, surroundings
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS, directives, launcher
from dlcontainer.sites.launching import Resources, Staging
from dlcontainer.sites.site import Site
from dlcontainer.system import atomic_files

CLOCK = Path(__file__).with_name("rank_clock.py")
# Isolated and without site: it starts in a few ms, and nothing of the user's is in it.
_PYTHON = ("python3", "-I", "-S")
# A job's own folder in an arm's text, which is the same for all jobs of a session.
FOLDER = "@DLC_JOB_FOLDER@"
MARK = "dlcontainer bench job: the command begins"
_RUNTIMES = ("apptainer", "singularity")
# The first process of the command itself: it says so, and becomes it. Python's output comes by
# line where lines are looked for, and has the hook of the steps where these are counted by it.
_BEGIN = (
    'echo "$1"; [ -z "$2" ] || export PYTHONUNBUFFERED=1; if [ -n "$3" ]; then '
    f"DLCONTAINER_EVENTS=$3/{EVENTS}; PYTHONPATH=$3/{HOOK}${{PYTHONPATH:+:$PYTHONPATH}}; "
    f'export DLCONTAINER_EVENTS PYTHONPATH; {trace_hook.PRELOAD}fi; shift 3; exec "$@"'
)
_ON_PATH = 'PATH=$1/bin:$PATH; export PATH; shift; exec "$@"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Placing:
    """Where ranks are to be; None is the site's own business."""

    nodes: int | None
    tasks_per_node: int | None
    form: str | None


def placed(site: Site, placing: Placing) -> Site:
    """Return the site with as many ranks a node as were asked for; raises UsageError."""
    scheduler, count = site.scheduler, placing.tasks_per_node
    batch = SCHEDULERS[scheduler.kind]
    if scheduler.kind == "none":
        if placing.nodes not in (None, 1):
            raise UsageError(
                f"--nodes {placing.nodes}: site {site.name} has no scheduler",
                next_step="leave out --nodes: the command runs on this node",
            )
        # There is nobody to ask for an account, a partition or a time.
        scheduler = scheduler.model_copy(update={"resources": Resources()})
    if count is None:
        # Without words of counts a launcher takes them from its allocation.
        return site.model_copy(update={"scheduler": scheduler})
    if scheduler.forms:
        forms = {
            name: form.model_copy(update={"ranks_per_node": count})
            for name, form in scheduler.forms.items()
        }
        form = forms.get(placing.form or next(iter(forms)))
        lines = scheduler.directives
        if form is not None and not form.inside:
            # A launcher without words of counts takes those of the lines.
            lines = directives.with_tasks(batch, lines, count)
        update = {"forms": forms, "directives": lines}
        return site.model_copy(update={"scheduler": scheduler.model_copy(update=update)})
    nodes = placing.nodes or 1
    words = scheduler.launcher or (("mpirun",) if count > 1 else ())
    program = launcher(words[0], scheduler.kind) if words else None
    counts = (*program.counts, *(program.across_nodes if nodes > 1 else ())) if program else ()
    numbers = {"nodes": nodes, "ranks": nodes * count, "ranks_per_node": count}
    filled = tuple(word.format(**numbers) for word in counts)
    head = scheduler.directives
    if batch.queue is not None and batch.queue.per_node:
        head = (*head, f"{batch.directive} {batch.queue.per_node.format(count=count)}")
    update = {"launcher": (*words, *filled), "directives": head}
    return site.model_copy(update={"scheduler": scheduler.model_copy(update=update)})


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSearch:
    """What is looked for in each rank: the line that ends its start-up, its steps, its trace."""

    first_step: str | None = None
    steps: StepDeclaration | None = None
    trace: TraceSchedule | None = None

    @property
    def in_output(self) -> bool:
        """Whether lines of the output are looked at, so that they must come one by one."""
        return self.first_step is not None or bool(self.step_mark)

    @property
    def hooked(self) -> bool:
        """Whether PyTorch's optimizers are."""
        by_hook = self.steps is not None and self.steps.source == "optimizer"
        return by_hook or self.trace is not None

    @property
    def step_mark(self) -> str:
        """The pattern of lines that end a step; empty without one."""
        return (self.steps.mark or "") if self.steps else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeSide:
    """The folder whose `bin` comes first on PATH, and the variables that the image sets too."""

    prefix: Path
    environment: Mapping[str, str]


def arms(
    plan: Plan,
    native: NativeSide | None,
    search: RankSearch,
    placing: Placing,
    templates: Sequence[Path],
) -> dict[Side, str]:
    """Return each arm's job script, the container's alone where there is no native side.

    Raises UsageError where the site's runtime takes no file.
    """
    if plan.site.engine.runtime not in _RUNTIMES:
        raise UsageError(
            f"site {plan.site.name} starts images with {plan.site.engine.runtime}",
            why="bench job measures image files, with a clock that starts before the engine",
            next_step=f"measure at a site that starts images with {' or '.join(_RUNTIMES)}",
        )
    plan = job_forms.of_ranks(plan)
    site = placed(plan.site, placing)
    plain = site.model_copy(
        update={
            "jobs": site.jobs.model_copy(update={"staging": Staging(how="none")}),
            "modules": site.modules.model_copy(update={"keep_mounted": None}),
        }
    )
    applied = surroundings.of_plan(replace(plan, site=site))

    def rendered(of: Site, start: RuntimeStart | None) -> str:
        variables = job.values(_clocked(replace(plan, site=of), search), placing.form, start)
        return render_template(list(templates), job.TEMPLATE, variables)

    inside = _with_folder(site) if search.hooked else site
    container: dict[Side, str] = {"container": rendered(inside, None)}
    if native is None:
        return container
    return {"native": rendered(plain, _without_engine(native, applied.inside)), **container}


def _with_folder(site: Site) -> Site:
    """Show the job's own folder in the image: the hook is read there, and writes there."""
    jobs = site.jobs.model_copy(update={"binds": (*site.jobs.binds, FOLDER)})
    return site.model_copy(update={"jobs": jobs})


def _without_engine(native: NativeSide, inside: Mapping[str, str]) -> RuntimeStart:
    """Return words that start a command with the native tree first on PATH.

    Where the user's value of a variable wins over the image's, it does so on this side too.
    """
    rules = refused_variables.rules(native.environment)
    users = {
        name: value
        for name, value in native.environment.items()
        if not rules.refusal(name) and name not in inside
    }
    before = [
        Text(f'[ -n "${{{name}+x}}" ] || export {name}={quote(value)}')
        for name, value in users.items()
    ]
    # An image's value is text; in the site's the host fills in variables.
    rest = {name: quote(value) for name, value in native.environment.items() if name not in users}
    rest |= {name: host_variables.shell(value) for name, value in inside.items()}
    values = [Text(f"{name}={value}") for name, value in rest.items()]
    return RuntimeStart(
        words=(
            *((Text("env"), *values) if values else ()),
            *map(Text, ("/bin/sh", "-c", quote(_ON_PATH), "dlc-native", quote(native.prefix))),
        ),
        before=tuple(before),
        image=Text("none"),
        is_file=False,
        hint="",
    )


def _clocked(plan: Plan, search: RankSearch) -> Plan:
    """Put the clock before all that starts a rank's command."""
    patterns = (search.first_step or "", search.step_mark)
    verb = "rank" if search.trace is None else "traced"
    clock = (*_PYTHON, f"{FOLDER}/../{CLOCK.name}", verb, FOLDER, MARK, *patterns, "--")
    jobs = plan.site.jobs
    jobs = jobs.model_copy(update={"prefix": (*clock, *jobs.prefix)})
    return replace(plan, site=plan.site.model_copy(update={"jobs": jobs}))


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFrame:
    """What a job's frame holds beside its arm's script: the user's command, folder and image."""

    command: tuple[str, ...]
    search: RankSearch
    cwd: Path
    # None where only the native side runs.
    image: Path | None
    head: tuple[str, ...]


def head(plan: Plan, placing: Placing) -> tuple[str, ...]:
    """Return the lines that the site's scheduler reads, with the values that were asked for."""
    site = placed(plan.site, placing)
    if site.scheduler.kind == "none":
        return ()
    usual = job_forms.usual(job_forms.of_ranks(replace(plan, site=site)), placing.form)
    return job_head.lines(site, usual)


def write(folder: Path, side: Side, arm: str, framing: JobFrame) -> Path:
    """Write a job's script and the frame that stamps its begin and its end; return the frame."""
    script, frame = folder / "arm.sh", folder / "job.sh"
    if framing.search.steps is not None or framing.search.hooked:
        (folder / EVENTS).mkdir()
    if framing.search.hooked:
        (folder / HOOK).mkdir()
        for name, source in HOOK_FILES.items():
            atomic_files.write(folder / HOOK / name, source.read_text())
    if framing.search.trace is not None:
        trace_hook.write(folder, framing.search.trace)
    atomic_files.write(script, arm.replace(FOLDER, quote(str(folder))))
    clock = shlex.join([*_PYTHON, str(folder.parent / CLOCK.name), "mark"])
    search = framing.search
    hooked = str(folder) if search.hooked else ""
    begin = ["/bin/sh", "-c", _BEGIN, "dlc-begin", MARK, "1" if search.in_output else "", hooked]
    image = f"export DLCONTAINER_IMAGE={quote(str(framing.image or ''))}"
    lines = [
        "#!/bin/bash",
        *framing.head,
        f"cd {quote(str(framing.cwd))} || exit 3",
        "unset DLCONTAINER_FORM DLCONTAINER_IMAGE RANK WORLD_SIZE PET_NODE_RANK",
        *([image] if side == "container" else []),
        f"{clock} {quote(str(folder / BEGAN))} || exit 3",
        f"bash {shlex.join([str(script), *begin, *framing.command])}",
        "code=$?",
        f'{clock} {quote(str(folder / ENDED))} "$code"',
        # Grid Engine runs a job again that exits with 99, and other queues may have such codes.
        "exit $((code != 0))",
    ]
    atomic_files.write(frame, "\n".join(lines) + "\n")
    return frame

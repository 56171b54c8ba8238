"""Run the sessions of a scaling study: here one after another, or each as a job of its own."""

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dlcontainer.cli import options as common
from dlcontainer.cli import output
from dlcontainer.cli.bench import bench_context, session_options
from dlcontainer.cli.bench.scaling_options import StudyOptions
from dlcontainer.errors import BenchDataError, DlcontainerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dlcontainer.bench.job.submit import Submitter
    from dlcontainer.bench.study.study_cost import NodeShape
    from dlcontainer.bench.study.study_plan import OmittedPoint
    from dlcontainer.bench.study.study_points import StudySession
    from dlcontainer.bench.study.study_records import StudyPlan
    from dlcontainer.cli.context import CliContext

Outcome = Literal["measured", "was whole", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledStudy:
    """A study that is settled: its declaration, its sessions, what was left out."""

    plan: "StudyPlan"
    sessions: "Sequence[StudySession]"
    omitted: "Sequence[OmittedPoint]"
    shape: "NodeShape"
    in_jobs: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """What became of a session of the study."""

    session: str
    outcome: Outcome
    file: Path
    seconds: float = 0.0
    why: str = ""

    @property
    def in_short(self) -> str:
        """The first line of what went wrong."""
        first, _, rest = self.why.partition("\n")
        return f"{first} …" if rest else first

    def as_json(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "session": self.session,
            "outcome": self.outcome,
            "file": str(self.file),
            "seconds": round(self.seconds, 1),
            "why": self.why,
        }


def require_nodes(
    study: SettledStudy, options: StudyOptions, world: "CliContext", console: output.Console
) -> None:
    """Refuse a study that needs more nodes than there are; raises UsageError with the numbers."""
    from dlcontainer import schedulers

    allocation = schedulers.allocation(world.environ)
    if study.in_jobs:
        if allocation is not None:
            raise UsageError(
                f"this runs inside the job {allocation}, and each point would be a job of its own",
                next_step="add --one-allocation to measure in this allocation, or run the command "
                "outside of it",
            )
        return
    if options.one_allocation and allocation is None:
        raise UsageError(
            "--one-allocation: not in a batch job",
            next_step="submit a job that runs this command, or leave --one-allocation out",
        )
    nodes = _nodes(allocation, world, console)
    widest = max(study.sessions, key=lambda session: session.nodes)
    if nodes is not None and widest.nodes > nodes:
        raise UsageError(
            f"--ranks {options.ranks}: {widest.ranks} ranks at {widest.ranks_per_node} a node take "
            f"{widest.nodes} nodes, and there {'is' if nodes == 1 else 'are'} {nodes}",
            why=f"the allocation {allocation} has no more" if allocation else "no batch job here",
            next_step="leave out the larger numbers of --ranks, or ask for more nodes",
        )


def _nodes(allocation: str | None, world: "CliContext", console: output.Console) -> int | None:
    """Count the nodes that ranks can have here; None where nobody tells."""
    from dlcontainer.schedulers import SCHEDULERS

    if allocation is None:
        return 1
    hosts = world.environ.get("DLC_HOSTS")
    if hosts:
        return len(hosts.split())
    for batch in SCHEDULERS.values():
        if batch.job and batch.job.of(world.environ):
            words = ["bash", "-c", f'echo "{batch.node_count}"']
            counted = console.runner(world.of_user, of_user=True)(words).stdout.strip()
            return int(counted) if counted.isdecimal() else None
    return None


def run(
    study: SettledStudy, options: StudyOptions, world: "CliContext", console: output.Console
) -> list[SessionResult]:
    """Measure what is left of each session; one that fails keeps no other from being measured."""
    task = _StudyRun(study=study, options=options, world=world, console=console)
    count = len(study.sessions)
    return [
        task.result(session, f"{number} of {count}")
        for number, session in enumerate(study.sessions, 1)
    ]


@dataclass(kw_only=True, slots=True)
class _StudyRun:
    """A study under way."""

    study: SettledStudy
    options: StudyOptions
    world: "CliContext"
    console: output.Console
    submitter: "Submitter | None" = None

    def result(self, session: "StudySession", place: str) -> SessionResult:
        """Measure what is left of a session; a failure is a result."""
        from dlcontainer import schedulers
        from dlcontainer.bench.study import study_folder
        from dlcontainer.errors import InterruptedByUserError

        path = self.options.folder.absolute() / session.file
        began = time.monotonic()
        try:
            allocation = schedulers.allocation(self.world.environ)
            state = study_folder.state(path, session, self.study.plan, allocation)
            # A job has nodes of its own, where nothing that was begun elsewhere goes on.
            if state == "cut" and self.study.in_jobs:
                state = "again"
            remark = {"whole": ": complete already", "cut": ": resumed"}.get(state, "")
            self.console.step(f"{session.title}, {place}{remark}")
            if state == "whole":
                return SessionResult(session=session.title, outcome="was whole", file=path)
            if state == "again":
                aside = study_folder.set_aside(path)
                self.console.note(
                    f"interrupted where it can't go on, so it is measured again; its file is now "
                    f"{aside.name}"
                )
            measure: Callable[..., None] = self._submitted if self.study.in_jobs else self._here
            measure(session, path, goes_on=state == "cut")
        except InterruptedByUserError:
            raise
        except DlcontainerError as error:
            why = f"{error.what} ({error.why})" if error.why else error.what
            why += f"; {error.where}" if error.where and self.study.in_jobs else ""
            self.console.note(f"failed: {why}")
            return SessionResult(session=session.title, outcome="failed", file=path, why=why)
        seconds = time.monotonic() - began
        return SessionResult(session=session.title, outcome="measured", file=path, seconds=seconds)

    def _here(self, session: "StudySession", path: Path, *, goes_on: bool) -> None:
        from dlcontainer.bench.probes import PROBES
        from dlcontainer.cli.bench import sessions

        typed = self._typed(session, path, goes_on=goes_on)
        typed.check()
        ready = sessions.settled(PROBES[session.probe], typed, self.world, self.console)
        sessions.run(ready, self.world, self.console)

    def _typed(
        self, session: "StudySession", path: Path, *, goes_on: bool
    ) -> session_options.SessionOptions:
        """Return a session's options as if they were typed."""
        from dlcontainer.bench.probes import PROBES

        options, probe = self.options, PROBES[session.probe]
        several = len(session.looks) > 1
        looks: dict[str, Any] = {}
        if not goes_on:  # A session that goes on has its looks.
            looks = {
                "looks": ",".join(map(str, session.looks)) if several else None,
                "pairs": None if several else session.looks[0],
                "controls": None if session.controls is None else str(session.controls),
                "margin": options.margin if session.controls is None else None,
            }
        return session_options.SessionOptions(
            site=options.site,
            image=common.image_file(options.image),
            native=options.native.absolute() if options.native else None,
            threads=options.threads,
            timeout=options.timeout,
            ranks=session.ranks,
            per_node=session.ranks_per_node,
            nodes=session.nodes,
            launcher=options.launcher,
            form=options.form,
            recipe=options.recipe,
            settings=options.settings,
            verbose=options.verbose,
            values={**{option.name: None for option in probe.options}, **session.values},
            target=None if goes_on else path,
            resume=path if goes_on else None,
            **looks,
        )

    def _submitted(self, session: "StudySession", path: Path, *, goes_on: bool) -> None:
        """Run a session as a job of its own size, to its end; an interruption leaves no job."""
        from dlcontainer.bench.probes import PROBES
        from dlcontainer.bench.samples import reader
        from dlcontainer.bench.samples.vocabulary import counted
        from dlcontainer.bench.study import study_jobs
        from dlcontainer.cli.bench import session_words

        if self.submitter is None:
            self._prepare()
            self.submitter = self._queue()
        typed = self._typed(session, path, goes_on=goes_on)
        files = study_jobs.paths(path.parent, session.title)
        command = study_jobs.JobCommand(
            words=(
                *study_jobs.program(sys.executable, Path(__file__).parents[3]),
                *session_words.words(PROBES[session.probe], typed),
            ),
            cwd=Path.cwd(),
            environ=self.world.of_user,
        )
        script = study_jobs.write(files.script, self._head(session), command)
        self.console.note(f"a job on {counted(session.nodes, 'node')}; its log: {files.log}")
        ending = self.submitter.run(script, files.log)
        _require_good(ending.state, path, files.log, good=ending.good)
        if not reader.read(path).complete:
            raise BenchDataError("the job ended well, but its session did not", where=str(path))

    def _queue(self) -> "Submitter":
        from dlcontainer.bench.job.queued import QueueSubmitter
        from dlcontainer.schedulers import SCHEDULERS

        kind = self.world.site(self.options.site).value.scheduler.kind
        queue = SCHEDULERS[kind].queue
        if queue is None:
            names = ", ".join(name for name, batch in SCHEDULERS.items() if batch.queue)
            raise UsageError(
                f"site {self.options.site}: bench scaling can't track a job of {kind}",
                why=f"it can submit to {names}",
                next_step="run it inside a job of your own, with --one-allocation",
            )
        runner = self.console.runner(self.world.of_user, of_user=True)
        return QueueSubmitter(runner=runner, queue=queue)

    def _head(self, session: "StudySession") -> tuple[str, ...]:
        from dlcontainer.bench.job import scripts
        from dlcontainer.bench.measure import bench_image
        from dlcontainer.cli.bench import defaults

        options, world = self.options, self.world
        resources = common.resources(
            account=options.account,
            partition=options.partition,
            time=options.time,
            nodes=session.nodes,
        )
        typed = self._typed(session, options.folder / session.file, goes_on=False)
        typed = replace(typed, settings=[*(options.settings or []), *resources])
        owners = world.site(options.site).value.owners
        image = bench_image.read(typed.image, world.host.arch, owners)
        plan = defaults.plan(typed, image, world)
        placing = scripts.Placing(
            nodes=session.nodes, tasks_per_node=session.ranks_per_node, form=options.form
        )
        return scripts.head(plan, placing)

    def _prepare(self) -> None:
        """Make the native side here, once: nodes of a job may reach no package index."""
        from dlcontainer.bench.measure import reference_arm
        from dlcontainer.bench.probes import PROBES
        from dlcontainer.cli.bench import sessions

        first = self.study.sessions[0]
        typed = self._typed(first, self.options.folder / first.file, goes_on=False)
        typed = replace(typed, ranks=1, per_node=1, nodes=1)
        ready = sessions.settled(PROBES[first.probe], typed, self.world, self.console)
        with bench_context.opened(
            self.world, self.console, ready.plan, None, ready.image
        ) as context:
            reference_arm.choose(ready.settings, ready.plan, ready.image, context)


def _require_good(state: str, path: Path, log: Path, *, good: bool) -> None:
    """Refuse a job that ended otherwise than well, with the last lines of what it said."""
    if good:
        return
    from dlcontainer.bench.job import stamps

    lines = stamps.tail(log, 4)
    raise BenchDataError(
        f"the job of {path.stem} ended as {state}",
        where=str(log) if log.exists() else str(path),
        why=" / ".join(lines) or "it has no log",
        next_step=f"read {log}; then run the same command again",
    )

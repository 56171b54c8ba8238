"""How a job hears of its end, and begins again: lines of its head, and parts of its script."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer import schedulers
from dlcontainer.config.templating import Text
from dlcontainer.planning.launch import surroundings
from dlcontainer.schedulers import SCHEDULERS, time_limits
from dlcontainer.sites.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class WarningCommands:
    """The signal of a job's end, as shell: what templates/job/signals.sh.j2 shows.

    `tells_ranks` signals all ranks of the scheduler's `own_launchers`, a pattern of `case`; others
    get the signal themselves. `again` requeues the job, where it may be. `torchrun`: a form starts
    it, and it does not hand the signal on by itself.
    """

    signal: Text
    tells_ranks: Text
    own_launchers: Text
    again: Text
    torchrun: bool


def lines(site: Site) -> tuple[str, ...]:
    """Return the lines of a job's head that ask for the warning, and for a requeue or none."""
    batch, jobs = SCHEDULERS[site.scheduler.kind], site.jobs
    words: list[str] = []
    if jobs.warning is not None and batch.warning is not None:
        seconds = jobs.warning.seconds or 0
        words.append(
            batch.warning.words.format(
                signal=jobs.warning.signal, seconds=seconds, minutes=time_limits.minutes(seconds)
            )
        )
    if jobs.requeue is not None and batch.requeue is not None:
        words += batch.requeue.allowed if jobs.requeue else batch.requeue.forbidden
    return tuple(f"{batch.directive} {option}" for option in words)


def warning(site: Site) -> WarningCommands | None:
    """Return what a job does at the signal; None where it gets none."""
    batch, jobs = SCHEDULERS[site.scheduler.kind], site.jobs
    if jobs.warning is None or batch.warning is None:
        return None
    return WarningCommands(
        signal=Text(jobs.warning.signal),
        tells_ranks=Text(batch.warning.tells_ranks.format(signal=jobs.warning.signal)),
        own_launchers=Text(" | ".join(batch.launchers)),
        torchrun=any(form.inside == "torchrun" for form in site.scheduler.forms.values()),
        again=Text(batch.requeue.again if batch.requeue and jobs.requeue is not False else ""),
    )


def notes(site: Site) -> Iterator[str]:
    """Name the launchers, and the runtime, of which nobody wrote that they hand the signal on."""
    batch, jobs = SCHEDULERS[site.scheduler.kind], site.jobs
    if jobs.warning is None or batch.warning is None:
        return
    first = [form.launcher[0] for form in site.scheduler.forms.values()]
    programs = (word.rpartition("/")[2] for word in first or site.scheduler.launcher[:1])
    for program in dict.fromkeys(programs):
        traits = schedulers.launcher(program)
        by_scheduler = batch.warning.tells_ranks and program in batch.launchers
        if not by_scheduler and jobs.warning.signal not in (traits.hands_on if traits else ()):
            yield f"whether {program} hands {jobs.warning.signal} on to its ranks is not known"
    # Source: apptainer/apptainer@05a391e internal/pkg/runtime/engine/apptainer/monitor_linux.go;
    # run by us.
    if not surroundings.is_apptainer(site):
        runtime = site.engine.runtime
        yield f"whether {runtime} hands {jobs.warning.signal} on to the command is not known"

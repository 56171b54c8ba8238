"""A site file speaks the words of one scheduler: another's are a mistake, named at both places."""

import re
from collections.abc import Iterator

from dlcontainer import config
from dlcontainer.config import SelectedDocument
from dlcontainer.errors import ConfigError
from dlcontainer.schedulers import SCHEDULERS, mpi_launchers, time_limits
from dlcontainer.sites.site import Site

# No job of a site is as short as this many seconds.
_FEW_S = 600


def require_one_scheduler(site: SelectedDocument[Site]) -> None:
    """Raise ConfigError for a directive or a launcher of another scheduler than the site's."""
    scheduler = site.value.scheduler
    for index, line in enumerate(scheduler.directives):
        for kind, batch in SCHEDULERS.items():
            if kind != scheduler.kind and batch.directive and line.startswith(batch.directive):
                raise _other(site, ("scheduler", "directives", index), f"{line!r}", kind)
    launchers: dict[config.KeyPath, tuple[str, ...]] = {
        ("scheduler", "launcher"): scheduler.launcher,
    }
    for name, form in scheduler.forms.items():
        launchers["scheduler", "forms", name, "launcher"] = form.launcher
    for path, words in launchers.items():
        if words and words[0] not in mpi_launchers.LAUNCHERS:
            kinds = [kind for kind, batch in SCHEDULERS.items() if words[0] in batch.launchers]
            if kinds and scheduler.kind not in kinds:
                raise _other(site, path, words[0], kinds[0])
    _require_askable(site)
    _require_time(site)
    _require_gpus(site)
    _require_end(site)
    _require_once(site)
    _require_ports(site)


def _require_end(site: SelectedDocument[Site]) -> None:
    """Refuse a warning, or a requeue, that the site's scheduler has not."""
    scheduler = site.value.scheduler
    for key, text, next_step in _end_faults(site.value):
        kind = site.document.origin(("scheduler", "kind"))
        raise ConfigError(
            f"jobs.{'.'.join(key)}: {text}",
            where=site.document.origin(("jobs", *key)).where,
            why=f"scheduler.kind is {scheduler.kind} ({kind.where})",
            next_step=next_step,
        )


def _require_once(site: SelectedDocument[Site]) -> None:
    """Refuse a line that says what a key of `jobs` says too."""
    jobs, scheduler = site.value.jobs, site.value.scheduler
    batch = SCHEDULERS[scheduler.kind]
    written = {}
    if jobs.warning is not None and batch.warning is not None:
        written["warning"] = batch.warning.written
    if jobs.requeue is not None and batch.requeue is not None:
        written["requeue"] = batch.requeue.written
    for key, pattern in written.items():
        for index, line in enumerate(scheduler.directives):
            if line.startswith(f"{batch.directive} ") and re.search(pattern, line):
                stated = site.document.origin(("scheduler", "directives", index)).where
                raise ConfigError(
                    f"jobs.{key}: {line!r} says it too",
                    where=site.document.origin(("jobs", key)).where,
                    why=f"it stands in {stated}",
                    next_step="remove one of them",
                )


def _end_faults(site: Site) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield the key in `jobs`, what is wrong with it and the next step."""
    jobs, kind = site.jobs, site.scheduler.kind
    batch = SCHEDULERS[kind]
    if jobs.requeue is not None and batch.requeue is None:
        text = f"no option of {kind} is known by which a job begins again"
        yield ("requeue",), text, "remove jobs.requeue"
    warning, words = jobs.warning, batch.warning
    if warning is None:
        return
    if words is None:
        text = f"no option of {kind} is known that tells a job before its time limit"
        yield ("warning",), text, "remove jobs.warning"
        return
    if warning.signal not in words.signals:
        signals = " or ".join(words.signals)
        yield ("warning", "signal"), f"{kind} does not send {warning.signal}", f"write {signals}"
    if words.timed and warning.seconds is None:
        text = f"seconds is missing: how long before the limit {kind} sends the signal"
        yield ("warning",), text, "write jobs.warning.seconds: 300"
    if not words.timed and warning.seconds is not None:
        text = f"the queues of {kind} say how long before the limit it sends the signal"
        yield ("warning", "seconds"), text, "remove jobs.warning.seconds"


def _require_ports(site: SelectedDocument[Site]) -> None:
    """Refuse fewer ports than the ranks of a node and the place where all meet can need."""
    ports = site.value.jobs.rendezvous.between
    if ports is None:
        return
    for name, form in site.value.scheduler.forms.items():
        if form.inside is None and len(ports) <= form.ranks_per_node:
            raise ConfigError(
                f"jobs.rendezvous.ports: {len(ports)} ports, but form {name} starts "
                f"{form.ranks_per_node} ranks on a node",
                where=site.document.origin(("jobs", "rendezvous", "ports")).where,
                why="ranks of TensorFlow have a port each, and all meet at another",
                next_step=f"give at least {form.ranks_per_node + 1} ports",
            )


def _require_askable(site: SelectedDocument[Site]) -> None:
    scheduler = site.value.scheduler
    batch = SCHEDULERS[scheduler.kind]
    resources = [name for name, asked in scheduler.resources if asked is not None]
    environment = scheduler.parallel_environment
    if environment is not None and not batch.parallel:
        raise ConfigError(
            f"scheduler.parallel_environment: {scheduler.kind} jobs request nodes, not slots",
            where=site.document.origin(("scheduler", "parallel_environment")).where,
            why=f"scheduler.kind is {scheduler.kind} "
            f"({site.document.origin(('scheduler', 'kind')).where})",
            next_step="remove the key, or write scheduler.kind: gridengine",
        )
    for name in resources:
        if name == "nodes" and environment is not None:
            continue
        if name not in batch.resources:
            kind = site.document.origin(("scheduler", "kind"))
            raise ConfigError(
                f"scheduler.resources.{name}: jobs of this site cannot request {name}",
                where=site.document.origin(("scheduler", "resources", name)).where,
                why=f"scheduler.kind is {scheduler.kind} ({kind.where})",
                next_step="remove the key, or correct scheduler.kind",
            )


def _require_time(site: SelectedDocument[Site]) -> None:
    """Refuse a time limit that the site's scheduler does not read, or that may be two."""
    limit, kind = site.value.scheduler.resources.time, site.value.scheduler.kind
    if limit is None:
        return
    try:
        _require_minutes(limit, SCHEDULERS[kind].read_time(limit))
    except ValueError as error:
        raise ConfigError(
            f"scheduler.resources.time: {error}",
            where=site.document.origin(("scheduler", "resources", "time")).where,
            why=f"scheduler.kind is {kind} ({site.document.origin(('scheduler', 'kind')).where})",
            next_step="write hours, minutes and seconds, which every scheduler reads alike: "
            "0:30:00",
        ) from None


def _require_minutes(limit: str, seconds: int) -> None:
    """Refuse few plain seconds: they were minutes here before 0.9, as they are for others."""
    if limit == str(seconds) and seconds < _FEW_S:
        meant, minutes = (time_limits.shown(duration) for duration in (seconds, 60 * seconds))
        raise ValueError(
            f"this scheduler reads {limit} as seconds ({meant}): write {meant}, or {minutes} "
            "for minutes"
        )


def _require_gpus(site: SelectedDocument[Site]) -> None:
    """Refuse a form that asks a node for more accelerators than it has."""
    gpu = site.value.accelerator
    for name, form in site.value.scheduler.forms.items():
        started = 1 if form.inside else form.ranks_per_node
        for word in form.launcher:
            match = re.fullmatch(r"--gpus-per-(task|node)=(\d+)", word)
            gpus = int(match[2]) * (started if match[1] == "task" else 1) if match else 0
            if gpu is not None and gpus > gpu.per_node:
                has = site.document.origin(("accelerator", "per_node")).where
                raise ConfigError(
                    f"form {name}: {word} requests {gpus} accelerators per node, which has "
                    f"{gpu.per_node}",
                    where=site.document.origin(("scheduler", "forms", name, "launcher")).where,
                    why=f"accelerator.per_node is {gpu.per_node} ({has})",
                    next_step="change the launcher, ranks_per_node, or accelerator.per_node",
                )


def _other(
    site: SelectedDocument[Site], path: config.KeyPath, words: str, kind: str
) -> ConfigError:
    scheduler_kind = site.value.scheduler.kind
    stated = site.document.origin(("scheduler", "kind")).where
    return ConfigError(
        f"{words} is an option of {kind}, but this site's scheduler is {scheduler_kind}",
        where=site.document.origin(path).where,
        why=f"scheduler.kind is {scheduler_kind} ({stated})",
        next_step=f"write the option of {scheduler_kind}, or change scheduler.kind to {kind}",
    )

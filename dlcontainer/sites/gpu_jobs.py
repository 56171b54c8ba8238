"""What a site's jobs ask for so that ranks get its accelerators: said by the site, else derived.

As the engine's flag is (`gpu_flags`): from `accelerator`, unless the site's own lines say it.
"""

import re
from collections.abc import Iterable, Iterator

from dlcontainer.schedulers import SCHEDULERS, launcher
from dlcontainer.schedulers.scheduler import BatchSystem, Launcher
from dlcontainer.sites.facts import Accelerator, LaunchForm, Scheduler
from dlcontainer.sites.site import Site

FORM = "gpu"
_SUMMARY = "A rank for each GPU, as `accelerator` says how many a node has"


def settle(site: Site) -> Site:
    """Return the site with the request for its accelerators, and a rank for each, where neither is
    written and both are known.
    """
    gpu, scheduler = site.accelerator, site.scheduler
    if gpu is None:
        return site
    batch, lines = SCHEDULERS[scheduler.kind], list(scheduler.directives)
    update: dict[str, object] = {}
    if _can_ask(gpu, scheduler):
        lines.append(f"{batch.directive} {batch.gpu_request.format(count=gpu.per_node)}")
    if _can_place(scheduler):
        cpus = _cpus(site, gpu)
        words = (*_counts(scheduler), *(batch.cpu_request.format(count=n) for n in cpus))
        form = LaunchForm(
            summary=_SUMMARY,
            launcher=(*scheduler.launcher, *words),
            ranks_per_node=gpu.per_node,
            # Else a launcher gives cores in their order.
            cpu_bind="near" if gpu.near != tuple(sorted(gpu.near)) else None,
        )
        update["forms"] = {FORM: form}
        requests = [batch.rank_request.format(count=gpu.per_node)]
        requests += [batch.cpu_request.format(count=n) for n in cpus]
        lines += [f"{batch.directive} {line}" for line in requests]
    if tuple(lines) == scheduler.directives:
        return site
    changed = scheduler.model_copy(update={**update, "directives": tuple(lines)})
    return site.model_copy(update={"scheduler": changed})


def notes(site: Site) -> list[str]:
    """Say, of a settled site, what was derived and what could not be."""
    gpu, scheduler = site.accelerator, site.scheduler
    if gpu is None or scheduler.kind == "none":
        return []
    why = site.engine.without_gpu_flag
    unflagged = [f"images start without the runtime's flag for GPUs: {why}"] if why else []
    return [*unflagged, *_notes(gpu, scheduler, SCHEDULERS[scheduler.kind])]


def _notes(gpu: Accelerator, scheduler: Scheduler, batch: BatchSystem) -> Iterator[str]:
    derived = scheduler.forms.get(FORM)
    if derived is not None and derived.summary == _SUMMARY:
        request_text = "" if scheduler.whole_nodes else f"{gpu.per_node} GPUs a node and "
        yield f"jobs ask for {request_text}a rank for each GPU, as `accelerator` says"
        if not _has(batch.cpu_words, scheduler.directives):
            yield "CPUs of a rank: the scheduler's default, as `cpu.cores` is not written"
    if not _asks(scheduler):
        words = batch.gpu_example.format(count=gpu.per_node)
        example = f", as {words}" if words else ""
        yield (
            f"jobs ask for no GPU: {scheduler.kind} is told by a line of the site's own "
            f"(scheduler.directives{example}); or say scheduler.whole_nodes: true"
        )
    if not scheduler.forms and not _counts_ranks(scheduler) and gpu.per_node > 1:
        started = scheduler.launcher[0] if scheduler.launcher else "no launcher"
        yield (
            f"jobs start no rank for each of a node's {gpu.per_node} GPUs: {started} is told by "
            "scheduler.forms how many"
        )


def _can_ask(gpu: Accelerator, scheduler: Scheduler) -> bool:
    # Intel's tiles are parts of what a scheduler counts.
    can_request = SCHEDULERS[scheduler.kind].gpu_request and gpu.vendor != "intel"
    return bool(can_request) and not _asks(scheduler)


def _asks(scheduler: Scheduler) -> bool:
    """Return whether a line or a launcher asks for accelerators, or none needs to."""
    batch = SCHEDULERS[scheduler.kind]
    forms = scheduler.forms.values()
    launched = [scheduler.launcher, *(form.launcher for form in forms)]
    texts = [*scheduler.directives, *map(" ".join, launched)]
    patterns = [
        batch.gpu_words,
        *(launcher.devices for words in launched if (launcher := _known(words, scheduler.kind))),
    ]
    return scheduler.whole_nodes or any(_has(pattern, texts) for pattern in patterns)


def _can_place(scheduler: Scheduler) -> bool:
    batch, launcher = SCHEDULERS[scheduler.kind], _known(scheduler.launcher, scheduler.kind)
    if scheduler.forms or not batch.rank_request or _counts_ranks(scheduler):
        return False
    return launcher is not None and any("{ranks_per_node}" in word for word in launcher.counts)


def _counts_ranks(scheduler: Scheduler) -> bool:
    """Return whether the site's own lines say how many ranks there are."""
    texts = [*scheduler.directives, " ".join(scheduler.launcher)]
    return _has(SCHEDULERS[scheduler.kind].rank_words, texts)


def _has(pattern: str, texts: Iterable[str]) -> bool:
    word = re.compile(rf"(?<!\S)(?:{pattern})")
    return bool(pattern) and any(map(word.search, texts))


def _counts(scheduler: Scheduler) -> tuple[str, ...]:
    launcher = _known(scheduler.launcher, scheduler.kind)
    return launcher.counts if launcher else ()


def _cpus(site: Site, gpu: Accelerator) -> tuple[int, ...]:
    """Return a rank's share of the cores; none where it is not known, or said by the site's
    lines.
    """
    says_cpus = _has(SCHEDULERS[site.scheduler.kind].cpu_words, site.scheduler.directives)
    share = site.cpu.cores // gpu.per_node if site.cpu and not says_cpus else 0
    return (share,) if share else ()


def _known(words: tuple[str, ...], kind: str) -> Launcher | None:
    return launcher(words[0], kind) if words else None

"""`bench train`: the time of training steps of a network, alone or by ranks together."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from dlcontainer.bench.probes.inputs import training, waiting
from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage, lends_nothing
from dlcontainer.bench.probes.networks import choices, gradient_check, parallel, utilisation
from dlcontainer.bench.probes.probe import (
    DEVICES,
    GROUP,
    MARGIN,
    MEMORY,
    STEPS,
    UNIT,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    ProbeSubject,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import TRAINING, Metric, ProbeTable
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.analysis.resident_groups import GroupSeconds
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.series import Series

# Frameworks the probe can train with, by their modules' names.
Framework = Literal["torch", "tensorflow", "mxnet"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
# Ways to train on several ranks, the usual one first; the probe's own list.
WAYS: dict[Framework, tuple[str, ...]] = {
    "torch": ("ddp", "horovod"),
    "tensorflow": ("tensorflow", "horovod"),
}
# The one of them that is a package of its own: usual where the recipe has it.
HOROVOD = "horovod"

_WARMUP_STEPS = 5
_P95_MARGIN = 0.05
# Same bits, same seed, same device: what differs is the order of sums in threads.
_LOSS_TOLERANCE = 0.01
# Data and weights are the same in every launch of every session.
_SEED = 20190617

_DEVICE = Option(
    name="device",
    choices=("auto", *DEVICES),
    default="auto",
    help="Device to train on: cpu, cuda (NVIDIA, AMD), xpu (Intel), xla (TPU); auto: an "
    "accelerator if there is one. Default: auto.",
    elsewhere="ignored",
)
_DISTRIBUTED = Option(
    name="distributed",
    metavar="WAY",
    help="How ranks train together: ddp (PyTorch), tensorflow or horovod; none: each trains on "
    "its own. Default: horovod where the recipe has it, else the framework's own way.",
)


def framework(contents: ProbeSubject) -> Framework:
    """Name the framework to train with: the first of the recipe's imports that the probe knows.

    Raises ChecksFailedError where it knows none of them.
    """
    frameworks = [name for name in FRAMEWORKS if name in contents.modules]
    if not frameworks:
        raise ChecksFailedError(
            f"{contents.image} has no framework to train with",
            why=f"the probe trains with {', '.join(FRAMEWORKS)}; the recipe {contents.recipe} "
            f"verifies {', '.join(contents.modules) or 'no module'}",
            next_step="add the framework to the recipe's verify.imports and rebuild the image, or "
            "run `bench import` instead",
        )
    return min(frameworks, key=contents.modules.index)


def way(choice: str | None, setting: ParameterContext) -> str:
    """Name the way to train on several ranks; raises UsageError where the image has no such way."""
    name, begun = framework(setting.contents), setting.begun
    transports = WAYS.get(name)
    if not transports:
        raise UsageError(
            f"--ranks: the probe trains {name} in one process only",
            next_step=f"leave out --ranks, or measure an image with one of {', '.join(WAYS)}",
        )
    usable = [
        transport
        for transport in transports
        if transport != HOROVOD or HOROVOD in setting.contents.modules
    ]
    usual = HOROVOD if HOROVOD in usable else usable[0]
    before = begun and begun.workload.get(_DISTRIBUTED.name)
    if before == parallel.WAY:
        before = None
    chosen = choice or (before and str(before)) or usual
    if chosen == parallel.APART_WAY:
        return chosen
    if chosen not in usable:
        raise UsageError(
            f"--distributed {chosen}: not available with this image",
            why=f"the probe trains {name} with {', '.join(transports)}; horovod must be in the "
            "recipe's verify.imports",
            next_step=f"choose from: {', '.join(usable)}",
        )
    return chosen


def _settled(typed: Values, setting: ParameterContext) -> Values:
    choice = cast("str | None", typed.get(_DISTRIBUTED.name))
    if choice is not None and not setting.is_ranked:
        raise UsageError(
            "--distributed requires --ranks", next_step="set the number of ranks: --ranks R"
        )
    values = {
        **given_or_default(TRAIN.options, typed, setting),
        "framework": framework(setting.contents),
        _DISTRIBUTED.name: way(choice, setting) if setting.is_ranked else "",
    }
    strategy = parallel.strategy(typed, setting)
    if strategy:
        usual, name = str(values[_DISTRIBUTED.name]), str(values["framework"])
        values[_DISTRIBUTED.name] = parallel.way(strategy, choice, usual, name)
    values |= choices.settled(values, setting)
    values |= training.settled(values, setting)
    return {**values, **parallel.settled(strategy, values, setting)}


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    values = cell.values
    options: dict[str, Any] = {
        "steps": cell.steps or None,
        "warmup": _WARMUP_STEPS,
        "seed": _SEED,
        "threads": cell.threads,
        "device": values[_DEVICE.name],
        **choices.arguments(values),
        **training.arguments(values),
    }
    if values["framework"] != FRAMEWORKS[0]:  # the only one that probes of older images know
        options["framework"] = values["framework"]
    options["distributed"] = values.get(_DISTRIBUTED.name) or None
    return as_options({**options, **parallel.arguments(values, is_warmup=cell.is_warmup)})


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {
        "framework": cell.values["framework"],
        "device": cell.values[_DEVICE.name],
        "warmup_steps": _WARMUP_STEPS,
        "seed": _SEED,
        **choices.declared(cell.values),
        **training.declared(cell.values),
        **parallel.declared(cell.values),
    }


def _lent(values: Values, lending: SharedStorage) -> AbstractContextManager[Sequence[SharedFolder]]:
    lends = training.lent if values.get(training.INPUT.name) else lends_nothing
    return lends(values, lending)


def _phases(stamps: Mapping[str, Any]) -> tuple[str, ...]:
    order = ("import", "device", "process_group", "input", "gate", "step_1", "steady")
    if (stamps.get("process_group") or math.inf) < (stamps.get("device") or 0):
        # Some ways find the other ranks first, then make data and weights.
        order = ("import", "process_group", "device", "input", "gate", "step_1", "steady")
    return order


def _named(declared: "SessionDeclaration") -> str:
    work = declared.workload
    return choices.named(work) + training.named(work) + parallel.named(work)


def _subject(declared: "SessionDeclaration") -> str:
    plan, named = declared.groups, _named(declared)
    if plan is None:
        return f"Training{named}"
    # What was measured, and no more: not a whole node, nor a whole job.
    cores = counted(len(plan.cpus), "quiet core")
    return f"Training{named} in {counted(len(plan.cpus), 'thread')} on {cores} of this node"


def _unsaid(declared: "SessionDeclaration") -> str:
    if declared.groups is None:
        return ""
    return ", other nodes, threads across sockets, data loaders or a whole job"


def _section(series: "Series") -> ProbeTable | None:
    section: ProbeTable | None = None
    # The last one first: each lies beside what follows it.
    for table in (waiting.section(series), utilisation.section(series), _groups(series)):
        section = replace(table, companion=section) if table else section
    return section


def _groups(series: "Series") -> ProbeTable | None:
    from dlcontainer.bench.analysis import resident_groups

    groups, plan = resident_groups.of(series), series.session.declared.groups
    if groups is None or plan is None:
        return None
    rows = tuple(
        (
            part.arm, str(part.processes), f"{1000 * part.step_s:.3f}", f"{100 * part.between:.2f}",
            f"{100 * part.turns:.2f}", f"{100 * part.farthest:.2f}", str(part.lost),
        )
        for part in (groups.reference, groups.candidate)
    )  # fmt: skip
    lengths = ", ".join(
        f"{length.ratio:.4f} ({counted(length.steps, 'step')})" for length in groups.lengths
    )
    return ProbeTable(
        title="Processes of the groups",
        head=(
            "arm",
            "processes",
            "step, ms",
            "between processes, %",
            "between turns, %",
            "farthest process, %",
            "groups lost",
        ),
        rows=rows,
        note=f"Standard deviations of the time of a step. Processes of one arm ran the same bits: "
        f"what lies between them is chance, and why groups are counted. {plan.per_arm} of each arm "
        f"took turns of {counted(plan.turn_steps, 'step')} in {counted(plan.rounds, 'round')}, on "
        f"processor {', '.join(map(str, plan.cpus))}. The ratio without the most extreme rounds is "
        f"{groups.trimmed:.4f}, that of processor time {groups.cpu:.4f}; by the first steps of "
        "each "
        f"turn alone: {lengths}. {_seconds(groups.spent)}",
    )


def _seconds(spent: "GroupSeconds") -> str:
    return (
        f"A group took {spent.whole_s:.1f} s: {spent.start_s:.1f} until all processes had "
        f"imported, {spent.first_s:.1f} until the first turn, {spent.turns_s:.1f} of turns, "
        f"{spent.between_s:.1f} between them, {spent.end_s:.1f} to end."
    )


def _task(declared: "SessionDeclaration") -> str:
    return f"training{_named(declared)}"


TRAIN = Probe(
    name="train",
    summary="Time of training steps: native against container.",
    metrics=(
        Metric(name="wall_s", unit="s", margin=MARGIN),
        Metric(name="step_p95_s", unit="s", statistic="p95", margin=_P95_MARGIN),
        MEMORY,
        Metric(name="step_p50_s", unit="s", statistic="median"),
        Metric(
            name="cpu_s_per_step",
            unit="s",
            statistic="mean",
            margin=MARGIN,
            endpoint="processor time per step",
            blind="it says nothing of waiting: for files, other ranks or a free core",
        ),
        Metric(name="counts.samples_per_s", unit="1/s", better="more", statistic="rate"),
    ),
    options=(
        *(STEPS, UNIT, GROUP, _DEVICE, _DISTRIBUTED),
        *(*choices.OPTIONS, *training.OPTIONS, *parallel.OPTIONS),
    ),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    lends=_lent,
    phases=_phases,
    gate=gradient_check.problem,
    loss_tolerance=_LOSS_TOLERANCE,
    subject=_subject,
    task=_task,
    question=TRAINING,
    unsaid_of=_unsaid,
    section=_section,
    earlier_file="training.py",
)

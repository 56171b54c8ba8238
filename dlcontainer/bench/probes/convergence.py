"""`bench convergence`: steps and seconds until a small network knows digits, and how well."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.bench.probes import kernels
from dlcontainer.bench.probes.learning import charts, outcomes
from dlcontainer.bench.probes.learning.outcomes import ACCURACY_MARGIN, STEPS_MARGIN, TARGET
from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.bench.probes.probe import (
    DEVICES,
    ROWS_METRICS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    SuiteOptions,
    Value,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import DerivedFigure
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan

# Made by tools/make_digits.py; digits.txt beside it has source and licence.
DATA = Path(__file__).with_name("digits.npz")
SHA256 = "f938830add2948857f91f6431b72ed48e42a0ed1fe983eda28321813e7d0dba3"
# Of 1,797 images every fifth is for testing.
TRAINING, TESTING = 1437, 360
# Where a container sees the data; every tree has an empty /mnt.
_INSIDE = "/mnt"

# As the probe's Rule: rate (batch / 32)^exponent (1 - step / steps)^decay; trust 0 is SGD.
# docs/measurements/probes.md has what else was tried.
_COMMON = {"batch": 32, "exponent": 0.5, "momentum": 0.9, "weight_decay": 0.0001}
RULES: Mapping[str, Mapping[str, float]] = {
    "sgd": {**_COMMON, "rate": 0.12, "decay": 0, "trust": 0},
    "lars": {**_COMMON, "rate": 0.3, "decay": 2, "trust": 0.02},
}
_FULL = "full"
_BATCHES = (32, 128, 512, 1024, TRAINING)
_FEWEST_SEEDS = 8
_SEED = 20261124
_MOST_STEPS, _POINTS = 500, 25

_OPTIMIZERS = Option(
    name="optimizers",
    metavar="NAME,...",
    help=f"Optimizers to train with: {', '.join(RULES)}. Default: all.",
)
_BY_BATCH = Option(
    name="batches",
    metavar="N,...",
    help=f"Batch sizes in samples, up to {TRAINING} ({_FULL}). Default: 32,128,512,1024,{_FULL}.",
)
_SEEDS = Option(
    name="seeds",
    kind=int,
    metavar="N",
    default=_FEWEST_SEEDS,
    least=_FEWEST_SEEDS,
    help=f"Number of trainings for each optimizer and batch size, {_FEWEST_SEEDS} or more. "
    "Default: 8.",
)
_STEPS = Option(
    name="most_steps",
    kind=int,
    metavar="K",
    default=_MOST_STEPS,
    least=_POINTS,
    help=f"Number of steps in each training, {_POINTS} or more. Default: {_MOST_STEPS}.",
)
_TARGET = Option(
    name=TARGET,
    kind=float,
    metavar="PERCENT",
    default=97.0,
    least=20,
    help="Target accuracy on the test images, percent. Default: 97.",
)
_DEVICE = Option(
    name="device",
    choices=DEVICES,
    default="cpu",
    help="Device to train on: cpu, cuda (NVIDIA, AMD), xpu (Intel) or xla (TPU). Default: cpu.",
    elsewhere="ignored",
)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    kernels.require(setting)
    values = given_or_default(CONVERGENCE.options, typed, setting)
    target = values[_TARGET.name]
    if not isinstance(target, int | float) or not target <= 100:
        raise UsageError(
            f"{_TARGET.flag} {target}: must be a percentage from 20 to 100",
            next_step=f"give a percentage, e.g. {_TARGET.flag} 97",
        )
    return {
        **values,
        _OPTIMIZERS.name: ",".join(_named(values[_OPTIMIZERS.name])),
        _BY_BATCH.name: ",".join(map(str, _batches(values[_BY_BATCH.name]))),
        _TARGET.name: float(target),
    }


def _named(text: Value) -> tuple[str, ...]:
    words = [word.strip() for word in str(text).split(",")] if text is not None else list(RULES)
    for word in words:
        if word not in RULES:
            raise UsageError(
                f"{_OPTIMIZERS.flag} {text}: unknown optimizer '{word}'",
                next_step=f"choose from: {', '.join(RULES)}",
            )
    return tuple(name for name in RULES if name in words)


def _batches(choice: Value) -> tuple[int, ...]:
    if choice is None:
        return _BATCHES
    words = [word.strip().replace(_FULL, str(TRAINING)) for word in str(choice).split(",")]
    if not all(word.isdecimal() and 1 <= int(word[:9]) <= TRAINING for word in words):
        raise UsageError(
            f"{_BY_BATCH.flag} {choice}: must be numbers of samples from 1 to {TRAINING}, or "
            f"{_FULL}, separated by commas",
            why=f"the training set has {TRAINING} images",
            next_step=f"give batch sizes, e.g. {_BY_BATCH.flag} 32,512,{_FULL}",
        )
    return tuple(sorted({int(word) for word in words}))


def _rules(cell: ProbeCell) -> dict[str, Mapping[str, float]]:
    return {name: RULES[name] for name in str(cell.values[_OPTIMIZERS.name]).split(",")}


def _every(cell: ProbeCell) -> int:
    """Return the steps from one point of a curve to the next."""
    return max(1, int(cell.values[_STEPS.name] or 1) // _POINTS)


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    import json

    values = cell.values
    arguments = {name: values[name] for name in ("optimizers", "batches", "seeds", "device")}
    rules = json.dumps(_rules(cell), separators=(",", ":"))
    return as_options(
        {
            **arguments,
            "steps": values[_STEPS.name],
            "target": values[_TARGET.name],
            "every": _every(cell),
            "rules": rules,
            "seed": _SEED,
            "sha256": SHA256,
            "threads": cell.threads,
            "framework": kernels.FRAMEWORK,
        }
    )


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {
        **cell.values,
        "every": _every(cell),
        "rules": {name: dict(rule) for name, rule in _rules(cell).items()},
        "seed": _SEED,
        "data": SHA256,
        "framework": kernels.FRAMEWORK,
        ACCURACY_MARGIN: 1.0,
        STEPS_MARGIN: 0.25,
    }


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    optimizers, batches = (
        str(cell.values[name]).split(",") for name in (_OPTIMIZERS.name, _BY_BATCH.name)
    )
    rows: tuple[Mapping[str, str | int], ...] = tuple(
        {"optimizer": optimizer, "batch": int(batch), "seed": seed}
        for optimizer in optimizers
        for batch in batches
        for seed in range(1, int(cell.values[_SEEDS.name] or 1) + 1)
    )
    return RowPlan(rows=rows, rounds=1)


@contextmanager
def _lent(_values: Values, lending: SharedStorage) -> Iterator[tuple[SharedFolder, ...]]:
    # A copy: the package may lie where no container can see it.
    folder = lending.work / "digits"
    folder.mkdir(mode=0o755)
    shutil.copyfile(DATA, folder / DATA.name)
    yield (SharedFolder(option="data", source=folder, inside=_INSIDE),)


def _derived(declared: "SessionDeclaration") -> tuple[DerivedFigure, ...]:
    steps = declared.workload.get(_STEPS.name)

    def rate(row: Mapping[str, str | int], seconds: float) -> float | None:
        batch = row.get("batch")
        if not isinstance(steps, int) or not isinstance(batch, int):
            return None
        return batch * steps / seconds

    return (DerivedFigure(name="samples", unit="1/s", better="more", of=rate),)


CONVERGENCE = Probe(
    name="convergence",
    summary="Steps and seconds to a declared accuracy: native against container.",
    metrics=ROWS_METRICS,
    options=(_OPTIMIZERS, _BY_BATCH, _SEEDS, _STEPS, _TARGET, _DEVICE),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    lends=_lent,
    rows=_rows,
    derived=_derived,
    phases=lambda _stamps: ("import", "data", "checked", "rows"),
    subject=lambda _declared: "Training on digits",
    task=lambda _declared: "training a small network on digits",
    unsaid=", other networks, data or optimizers, several ranks",
    section=outcomes.section,
    charts=charts.of,
    in_suite=SuiteOptions(quick=False),
    alone=kernels.ALONE,
    # Its operations are so small that threads only wait for each other.
    threads=1,
)

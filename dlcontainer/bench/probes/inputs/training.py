"""What `bench train` reads in place of noise: samples in a format, made once for both sides."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes.inputs import options, place
from dlcontainer.bench.probes.inputs.options import FORMATS, STREAMED
from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.probes.probe import Option, ParameterContext, Value, Values
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json

SHUFFLES = ("full", "window")
# Those of `bench input`: samples of one size are the same bytes in both.
SEED = 20261123
SHARDS = 16
# Where the framework's files know how to decode.
_FRAMEWORKS = ("torch",)
# The small network's images, on either device: CIFAR-10's.
SIDE = 32
_MOST, _FEWEST, _USUAL_BYTES = 1024, 64, 256_000_000
# Where a container sees the data set; every tree has an empty /mnt.
_INSIDE = "/mnt"

INPUT = Option(
    name="input",
    metavar="FORMAT",
    help=f"Format of the samples that each step reads: {', '.join(FORMATS)} (PyTorch). "
    "Default: noise, made in memory before the first step.",
)
SHUFFLE = Option(
    name="shuffle",
    choices=SHUFFLES,
    help="With --input: full reads each sample alone; window reads shards from end to end. "
    "Default: full where the format supports it.",
)
SAMPLES = Option(
    name="samples",
    kind=int,
    metavar="N",
    least=2,
    help=f"With --input: number of samples of all ranks together. Default: {_MOST}; fewer if "
    "samples are large.",
)
OPTIONS = (INPUT, SHUFFLE, SAMPLES)
_GIVEN = ("sample_bytes", "shards", "window", "input_seed")


def settled(values: Values, setting: ParameterContext) -> Values:
    """Settle the samples that are read; `values` have framework, network, device and batch.

    Raises UsageError or ChecksFailedError for what can't be read here.
    """
    name = values.get(INPUT.name)
    if name is None:
        for option in (SHUFFLE, SAMPLES):
            if values.get(option.name) is not None:
                raise UsageError(
                    f"{option.flag} requires {INPUT.flag}",
                    next_step=f"name a format: {INPUT.flag} tar",
                )
        return dict.fromkeys((INPUT.name, SHUFFLE.name, SAMPLES.name))
    framework = str(name)
    _require_framework(framework, str(values["framework"]))
    options.require_known(INPUT, framework, (framework,))
    options.require_modules(INPUT, framework, (framework,), setting.contents)
    size = sample_bytes(str(values[choices.WORKLOAD.name]), str(values["device"]))
    samples = int(values.get(SAMPLES.name) or 0) or usual_samples(size)
    per_shard = -(-samples // SHARDS)
    settled: dict[str, Value] = {
        INPUT.name: framework,
        SHUFFLE.name: _shuffle(framework, values.get(SHUFFLE.name)),
        SAMPLES.name: samples,
        "sample_bytes": size,
        "shards": -(-samples // per_shard),
        "window": per_shard,
        "input_seed": SEED,
    }
    _require_share(settled, values, setting.ranks)
    return settled


def _require_framework(choice: str, framework: str) -> None:
    if framework not in _FRAMEWORKS:
        raise UsageError(
            f"{INPUT.flag} {choice}: {framework} can only train on noise",
            why=f"the probe decodes samples with {', '.join(_FRAMEWORKS)} only",
            next_step=f"leave out {INPUT.flag}, or measure an image with {', '.join(_FRAMEWORKS)}",
        )


def _shuffle(order: str, choice: object) -> str:
    if order in STREAMED and choice == SHUFFLES[0]:
        raise UsageError(
            f"{INPUT.flag} {order} {SHUFFLE.flag} {choice}: {order} cannot be read one sample "
            "at a time",
            next_step=f"use {SHUFFLE.flag} {SHUFFLES[1]}",
        )
    return str(choice or (SHUFFLES[1] if order in STREAMED else SHUFFLES[0]))


def _require_share(settled: Values, values: Values, ranks: int) -> None:
    """Refuse samples of which a rank would never have a whole batch, as far as that is known."""
    samples, together = int(settled[SAMPLES.name] or 0), max(1, ranks)
    batch = int(values.get(choices.BATCH.name) or 1)
    if samples < batch * together:
        raise UsageError(
            f"{SAMPLES.flag} {samples}: too few for a batch of {batch} on each of {together} ranks",
            next_step=f"use {SAMPLES.flag} {batch * together} or more",
        )
    shards = int(settled["shards"] or 0)
    if settled[SHUFFLE.name] == SHUFFLES[1] and shards < together:
        raise UsageError(
            f"{SHUFFLE.flag} {SHUFFLES[1]}: only {shards} shards for {together} ranks",
            why="each rank needs shards of its own",
            next_step=f"use {SHUFFLE.flag} {SHUFFLES[0]}, or fewer ranks",
        )


def usual_samples(size: int) -> int:
    """Return how many samples of so many bytes are made where their number was not given."""
    return min(_MOST, max(_FEWEST, _USUAL_BYTES // size))


def sample_bytes(workload: str, device: str) -> int:
    """Count the bytes of a network's sample, as the probe does: labels, then a byte a value.

    Raises UsageError where the device decides, and is found inside.
    """
    network = NETWORKS.get(workload)
    if network is None:
        return 2 + 3 * SIDE * SIDE
    shapes = {network.shapes[name] for name in network.devices(device)}
    if len(shapes) > 1:
        raise UsageError(
            f"{INPUT.flag}: the size of a sample of {network.title} depends on the device",
            next_step="choose the device: --device cpu or --device cuda",
        )
    sides = [int(side) for side in shapes.pop().split("x")]
    if network.kind == "text":
        return 2 * (sides[0] + 1)
    whole, pixels = sides[0], 1
    for side in sides[1:]:
        whole, pixels = whole * side, pixels * side
    return whole + (pixels if network.kind == "pixels" else 2)


def arguments(values: Values) -> dict[str, Any]:
    """Return what a launch is called with; nothing where noise is trained on."""
    if not values.get(INPUT.name):
        return {}
    names = (INPUT.name, SHUFFLE.name, SAMPLES.name, *_GIVEN)
    small = values.get(choices.WORKLOAD.name) not in NETWORKS
    return {name: values[name] for name in names} | ({"size": SIDE} if small else {})


def declared(values: Values) -> "Mapping[str, Json]":
    """Return what is declared; nothing where noise is trained on, as before there was a choice."""
    if not values.get(INPUT.name):
        return {}
    names = (INPUT.name, SHUFFLE.name, SAMPLES.name, *_GIVEN)
    return {
        **{name: values[name] for name in names},
        # When every sample is held against its sum, and in whose time a batch is read.
        "input_checked": "before the first step",
        "input_read": "in the step",
    }


@contextmanager
def lent(values: Values, lending: SharedStorage) -> Iterator[tuple[SharedFolder, ...]]:
    """Hand all launches the folder of the data set, which the first of them writes.

    Raises ChecksFailedError where the disk has no room for it.
    """
    folder = lending.work / "input"
    folder.mkdir(mode=0o700)
    needed = place.bytes_of({**values, "formats": values[INPUT.name], "total": None})
    place.require_room(folder, needed, "TMPDIR", f"use fewer {SAMPLES.flag}, or another TMPDIR")
    yield (SharedFolder(option="at", source=folder, inside=_INSIDE),)


def named(workload: "Mapping[str, Json]") -> str:
    """Return of what is trained that it is read: " on samples in tar"; or nothing."""
    name = workload.get(INPUT.name)
    return f" on samples in {name}" if name else ""

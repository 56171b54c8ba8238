"""Which network is trained, in which precision, with which optimizer: options and refusals."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.probes.probe import Option, ParameterContext, Values
from dlcontainer.errors import BenchDataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlcontainer.bench.samples.records import Json

# The probe's own lists, which a test holds against these. The first of each is the usual one.
RESIDUAL = "residual"
PRECISIONS = ("fp32", "bf16", "fp16")
OPTIMIZERS = ("sgd", "lars", "larc")
# What a process takes where --batch is not given, by network and device.
BATCHES: "Mapping[str, Mapping[str, int]]" = {
    RESIDUAL: {"cpu": 16, "cuda": 256},
    "convnet": {"cpu": 64, "cuda": 1024},
    "caffenet": {"cpu": 4, "cuda": 256},
    "alexnet": {"cpu": 4, "cuda": 256},
    "googlenet": {"cpu": 4, "cuda": 128},
    "resnet50": {"cpu": 2, "cuda": 128},
    "tiramisu": {"cpu": 1, "cuda": 1},
    "deeplabv3plus": {"cpu": 1, "cuda": 2},
    "transformer": {"cpu": 2, "cuda": 64},
}
# Frameworks that have more than the usual one of each.
_FRAMEWORKS = ("torch",)
# Its gradients are averaged inside the optimizer's step: nobody can look for an overflow before.
_WITHOUT_SCALING = "horovod"
_MOST_TERA = 1e6
# What the declaration holds of the peak.
PEAK, PEAK_OF = "peak_tflops", "peak_of"

WORKLOAD = Option(
    name="workload",
    metavar="NAME",
    help=f"Network to train: {', '.join(NETWORKS)} (PyTorch). Default: {RESIDUAL}, a small network "
    "that every framework has.",
)
PRECISION = Option(
    name="precision",
    choices=PRECISIONS,
    help="Precision: fp32; bf16 or fp16 with autocast, fp16 with loss scaling (PyTorch). Default: "
    "fp32.",
)
OPTIMIZER = Option(
    name="optimizer",
    choices=OPTIMIZERS,
    help="Optimizer: sgd with momentum; lars or larc with a learning rate for each layer "
    "(PyTorch). Default: sgd.",
)
BATCH = Option(
    name="batch",
    kind=int,
    metavar="N",
    least=1,
    help="Batch size of one process, samples. Default: set by network and device.",
)
PEAK_OPTION = Option(
    name="peak",
    metavar="TFLOPS|FILE",
    help="Peak rate of one process's device in this precision, TFLOP/s, or a file written by "
    "`bench kernels`. Without --peak the report shows FLOP/s but no MFU.",
)
OPTIONS = (WORKLOAD, PRECISION, OPTIMIZER, BATCH, PEAK_OPTION)
_USUAL: Values = {
    WORKLOAD.name: RESIDUAL,
    PRECISION.name: PRECISIONS[0],
    OPTIMIZER.name: OPTIMIZERS[0],
    BATCH.name: None,
}


def settled(values: Values, setting: ParameterContext) -> Values:
    """Settle what was asked for; `values` have the framework, the device and the way of ranks.

    Raises UsageError for what the framework, the processor or the way has not.
    """
    choices = {name: values.get(name) or usual for name, usual in _USUAL.items()}
    name, precision = choices[WORKLOAD.name], str(choices[PRECISION.name])
    networks = (RESIDUAL, *NETWORKS)
    if name not in networks:
        raise UsageError(
            f"{WORKLOAD.flag} {name}: unknown network",
            next_step=f"choose from: {', '.join(networks)}",
        )
    _require_framework(choices, str(values["framework"]))
    _require_precision(precision, values)
    return {**choices, **_peak(choices, values.get(PEAK_OPTION.name), setting)}


def _require_framework(choices: Values, framework: str) -> None:
    if framework in _FRAMEWORKS:
        return
    for option in (WORKLOAD, PRECISION, OPTIMIZER):
        usual = _USUAL[option.name]
        if choices[option.name] != usual:
            raise UsageError(
                f"{option.flag} {choices[option.name]}: only {usual} is available with {framework}",
                why=f"the other values need {', '.join(_FRAMEWORKS)}",
                next_step=f"leave out {option.flag}, or measure an image with "
                f"{', '.join(_FRAMEWORKS)}",
            )


def _require_precision(precision: str, values: Values) -> None:
    if precision == PRECISIONS[0]:
        return
    if precision == "fp16" and values.get("distributed") == _WITHOUT_SCALING:
        raise UsageError(
            f"{PRECISION.flag} fp16: the probe has no loss scaling for {_WITHOUT_SCALING}",
            next_step="use --distributed ddp, or --precision bf16",
        )
    # Of a GPU only the probe can say it, and it does; so it does where the device is found inside.
    if values.get("device") != "cpu":
        return
    from dlcontainer.bench.probes import processor

    supported = [name for name in PRECISIONS if name in processor.precisions()]
    if precision not in supported:
        raise UsageError(
            f"{PRECISION.flag} {precision}: this processor has no {precision} arithmetic",
            why="PyTorch would convert each number, and the times would not be those of the device",
            next_step=f"choose from: {', '.join(supported)}",
        )


def _peak(choices: Values, peak: object, setting: ParameterContext) -> Values:
    begun = setting.begun
    if peak is None:
        before: Mapping[str, Any] = begun.workload if begun else {}
        return {PEAK: before.get(PEAK), PEAK_OF: before.get(PEAK_OF)}
    if choices[WORKLOAD.name] == RESIDUAL:
        raise UsageError(
            f"{PEAK_OPTION.flag}: the small network has no published number of operations",
            next_step=f"choose another network, e.g. {WORKLOAD.flag} {next(iter(NETWORKS))}",
        )
    text, precision = str(peak), str(choices[PRECISION.name])
    try:
        number = float(text)
    except ValueError:
        return _measured(Path(text), precision)
    if not 0 < number <= _MOST_TERA:
        raise UsageError(
            f"{PEAK_OPTION.flag} {text}: must be TFLOP/s of one device, above 0 and at most "
            f"{_MOST_TERA:g}",
            next_step="give a rate, e.g. --peak 15.7, or a file written by `bench kernels`",
        )
    return {PEAK: number, PEAK_OF: "as given"}


def _measured(path: Path, precision: str) -> Values:
    """Take the quickest product of matrices that a session measured, on whichever side."""
    from dlcontainer.bench.analysis import rows
    from dlcontainer.bench.probes import kernel_shapes
    from dlcontainer.bench.samples import reader

    if not path.is_file():
        raise UsageError(
            f"{PEAK_OPTION.flag} {path}: neither a number nor a file",
            next_step="give a rate, e.g. --peak 15.7, or a file written by `bench kernels`",
        )
    series = reader.read(path)
    products = [
        ((kernel_shapes.operations(mean.parameters) or 0.0) / mean.seconds, mean.parameters)
        for arm in series.session.declared.arms
        for mean in rows.means(series, arm)
        if (mean.parameters.get("kernel"), mean.parameters.get("precision")) == ("gemm", precision)
    ]
    if not products:
        raise BenchDataError(
            f"this session measured no matrix product in {precision}",
            where=str(path),
            next_step=f"run `bench kernels --kernels gemm --precisions {precision}`, or give "
            "TFLOP/s",
        )
    best, parameters = max(products, key=lambda product: product[0])
    shape, threads = parameters.get("shape"), parameters.get("threads")
    return {PEAK: best / 1e12, PEAK_OF: f"gemm {precision} {shape}, {threads} threads, {path.name}"}


def arguments(values: Values) -> dict[str, Any]:
    """Return what a launch is called with; nothing where all is as usual: older images know
    none.
    """
    return {name: values.get(name) for name in _USUAL if values.get(name) != _USUAL[name]}


def declared(values: Values) -> "Mapping[str, Json]":
    """Return what is declared: nothing where all is as usual, as before there was a choice."""
    workload: dict[str, Json] = {**arguments(values)}
    network = NETWORKS.get(str(values.get(WORKLOAD.name)))
    if network:
        of = network.devices(str(values.get("device")))
        counts = sorted({network.multiply_adds[name] for name in of})
        workload |= {
            PRECISION.name: values[PRECISION.name],
            OPTIMIZER.name: values[OPTIMIZER.name],
            "parameters": network.parameters,
            # One number, or one for each device that it may turn out to be.
            "multiply_adds": counts[0] if len(counts) == 1 else list(counts),
        }
    if values.get(PEAK):
        workload |= {PEAK: values[PEAK], PEAK_OF: values[PEAK_OF]}
    return workload


def named(workload: "Mapping[str, Json]") -> str:
    """Return what is trained otherwise than as usual: " ResNet-50 in bf16 with LARS"; or
    nothing.
    """
    words = ""
    for option, before in ((WORKLOAD, " "), (PRECISION, " in "), (OPTIMIZER, " with ")):
        value = workload.get(option.name)
        if value and value != _USUAL[option.name]:
            words += f"{before}{_in_words(option, str(value))}"
    return words


def _in_words(option: Option, value: str) -> str:
    if option is OPTIMIZER:
        return value.upper()
    # Files come from anybody, and from later programs.
    return NETWORKS[value].title if option is WORKLOAD and value in NETWORKS else value

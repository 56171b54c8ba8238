"""The train probe's command line: what can be trained, with what. Python >= 3.6."""

import argparse

import accelerator

FRAMEWORKS = ("torch", "tensorflow", "mxnet")
# framework -> ways to train on several ranks, the first is the usual one
WAYS = {"torch": ("ddp", "horovod"), "tensorflow": ("tensorflow", "horovod")}
# Ranks that train side by side, and never talk.
APART = "none"
# The Trainer of ranks that share a training by a strategy.
STRATEGY = "parallel"
# The small network that every framework has; the others are those of workloads_NAME.py.
RESIDUAL = "residual"
WORKLOADS = {
    "torch": (
        "convnet", "caffenet", "alexnet", "googlenet", "resnet50", "tiramisu", "deeplabv3plus",
        "transformer",
    )
}  # fmt: skip
PRECISIONS = ("fp32", "bf16", "fp16")
OPTIMIZERS = ("sgd", "lars", "larc")
# What is said of samples from files, and of nothing else.
INPUT = ("input", "shuffle", "samples", "sample_bytes", "shards", "window", "input_seed")


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe train")
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    parser.add_argument("--workload", metavar="NAME", default=RESIDUAL, help="a network's name")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0])
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default=OPTIMIZERS[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    for name in ("--batch", "--size", "--width"):
        parser.add_argument(name, type=int, default=0, help="0: the device's usual one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=("auto",) + accelerator.DEVICES, default="auto")
    parser.add_argument("--distributed", metavar="WAY", help="ranks train together, e.g. ddp")
    parser.add_argument("--baton", metavar="FOLDER", help="where the pipes lie: see baton.py")
    parser.add_argument("--process", metavar="NAME", default="", help="this process's pipes")
    parser.add_argument("--cpus", default="", help="the processors that it is bound to, e.g. 0,2")
    _of_input(parser)
    _of_strategy(parser)
    wanted = parser.parse_args(arguments)
    problem = _strategy_problem(wanted) or _problem(wanted) or _input_problem(wanted)
    if problem:
        parser.error(problem)
    return wanted


def _of_strategy(parser):
    parser.add_argument("--parallel", metavar="NAME", help="how ranks share, e.g. dp2xtp2")
    parser.add_argument("--micro-batches", type=int, default=0, help="of a batch; 0: 2 a stage")
    parser.add_argument("--apart", type=int, default=0, help="steps of each rank alone, at the end")
    parser.add_argument("--gate", action="store_true", help="hold it against one process first")
    parser.add_argument("--script", metavar="FILE:build", help="a network of one's own")
    parser.add_argument("--script-at", metavar="FOLDER", default="", help="where its FILE lies")


def _strategy_problem(wanted):
    """Say what is wrong with the strategy that was asked for; reads it where nothing is."""
    wanted.axes = None
    if min(wanted.micro_batches, wanted.apart) < 0:
        return "--micro-batches, --apart: 0 or more"
    if wanted.script and wanted.framework not in WORKLOADS:
        return "--script: {} trains networks of this file only".format(wanted.framework)
    if wanted.script and wanted.workload != RESIDUAL:
        return "--script: it is the network, so leave out --workload"
    if wanted.parallel is None:
        return "--gate, --micro-batches: of --parallel" * bool(wanted.gate or wanted.micro_batches)
    if wanted.framework not in WORKLOADS or wanted.distributed not in (None, "ddp", STRATEGY):
        return "--parallel {}: {} has data parallelism only".format(
            wanted.parallel, wanted.distributed or wanted.framework
        )
    import parallel_axes

    try:
        wanted.axes = parallel_axes.Axes(wanted.parallel)
    except parallel_axes.AxesError as problem:
        return str(problem)
    wanted.distributed = STRATEGY
    return _cut_problem(wanted)


def _cut_problem(wanted):
    axes, name = wanted.axes, "--parallel {}".format(wanted.parallel)
    if axes["pp"] == 1 and wanted.micro_batches > 1:
        return "--micro-batches {}: {} has no pipeline".format(wanted.micro_batches, name)
    if axes.is_plain:
        return ""
    if wanted.precision == "fp16":
        return "--precision fp16: its scaled losses are not written for {}; take bf16".format(name)
    if wanted.optimizer != OPTIMIZERS[0] and max(axes["tp"], axes["fsdp"]) > 1:
        return "--optimizer {}: its ratios are of whole layers, and ranks of {} hold parts".format(
            wanted.optimizer, name
        )
    if wanted.input and axes.shares > 1:
        return "--input {}: ranks of {} share samples; take dp or fsdp".format(wanted.input, name)
    return ""


def _of_input(parser):
    parser.add_argument("--input", metavar="FORMAT", help="of samples in files, in place of noise")
    parser.add_argument("--at", help="the folder of their data set")
    parser.add_argument("--shuffle", choices=("full", "window"), default="full")
    for name in ("samples", "sample-bytes", "shards", "window", "input-seed"):
        parser.add_argument("--" + name, type=int, default=0)


def _input_problem(wanted):
    """Say what is wrong with the samples that were asked for; empty where nothing is."""
    if not wanted.input:
        return ""
    if wanted.framework not in WORKLOADS:
        return "--input {}: {} trains on noise only".format(wanted.input, wanted.framework)
    import input_libraries  # nothing of it is loaded where noise is trained on

    known = input_libraries.known()
    if wanted.input not in known:
        return "--input {}: there is {}".format(wanted.input, ", ".join(known))
    if not wanted.at:
        return "--input {} takes --at, the folder of the data set".format(wanted.input)
    if wanted.shuffle == "full" and not input_libraries.chosen(wanted.input).alone:
        return "--input {}: no sample of it is read alone; take --shuffle window".format(
            wanted.input
        )
    if min(wanted.samples, wanted.sample_bytes, wanted.shards, wanted.window) < 1:
        return "--input takes --samples, --sample-bytes, --shards and --window"
    return ""


def _problem(wanted):
    """Say which options are incompatible; empty where none are."""
    name, ways = wanted.framework, WAYS.get(wanted.framework, ())
    if wanted.distributed and wanted.distributed not in ways + (APART, STRATEGY):
        return "--distributed {}: for {} there is {}".format(
            wanted.distributed, name, ways or "none"
        )
    if name != "torch" and wanted.device not in ("auto",) + accelerator.TABLED:
        return "--device {}: {} takes {}".format(wanted.device, name, " or ".join(accelerator.TABLED))
    known = (RESIDUAL,) + WORKLOADS.get(name, ())
    if wanted.workload not in known:
        return "--workload {}: for {} there is {}".format(wanted.workload, name, ", ".join(known))
    if wanted.workload != RESIDUAL and (wanted.size or wanted.width):
        return "--size, --width: those of {} are published".format(wanted.workload)
    plain = (wanted.precision, wanted.optimizer) == (PRECISIONS[0], OPTIMIZERS[0])
    if name not in WORKLOADS and not plain:
        return "--precision {}, --optimizer {}: for {} there is {} and {}".format(
            wanted.precision, wanted.optimizer, name, PRECISIONS[0], OPTIMIZERS[0]
        )
    if wanted.precision == "fp16" and wanted.distributed == "horovod":
        # Its gradients are averaged inside the optimizer's step, behind the look for overflow.
        return "--precision fp16: its scaled losses are not written for horovod; take ddp"
    return ""


def unsaid(wanted):
    """Name what a report leaves out, as those of probes without workloads do: the usual ones."""
    usual = {"workload": RESIDUAL, "optimizer": OPTIMIZERS[0]}
    left = [name for name, value in usual.items() if getattr(wanted, name) == value]
    # Of strategies, and of nothing else.
    left += [name for name in ("parallel", "micro_batches", "apart") if not getattr(wanted, name)]
    # Where a folder lies is each side's own; the gate is of one launch.
    left += ["at", "script", "script_at", "gate", "axes"]
    return left + ([] if wanted.input else list(INPUT))
